/* Tensor-parallel pipelines against the graph of all shards (shard/shard.h), which one worker runs without
 * any collective, or a pipeline of whole stages where replicas or versions matter: equal bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "plan/model.h"
#include "sched/shards.h"
#include "schedules/schedule.h"
#include "shard/shard.h"
#include "support/pipe_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3 };

static const struct {
    const char *name, *sets;
} models[] = {
    {"gpt2", "V=39,T=5,P=5,L=2,C=24,H=12,drop=0.1"},
    {"gpt2", "V=39,T=5,P=5,L=3,C=24,H=6,tied=0"},
    {"llama", "V=41,T=6,L=2,C=24,H=12,K=6,F=36"},
    {"llama", "V=41,T=6,L=2,C=24,H=12,K=2,F=36,tied=1"}, /* fewer key heads than 3 or 4 shards */
    {"bert-base", "V=37,T=7,P=7,L=2,C=24,H=12"},
    {"transformer-classifier", "V=43,T=5,L=2,C=24,H=12,F=36"},
    {"clip", "G=3,S=8,patch=4,VC=24,VL=1,VH=12,V=31,T=5,TC=12,TL=1,TH=6,E=7"},
    {"moe", "V=29,T=4,L=2,C=24,H=12,K=12,F=6,E=4,A=2"},
    {"vlm", "S=8,patch=4,VC=24,VL=1,VH=12,V=33,T=4,L=1,C=24,H=12,K=12,F=36"},
    {"mlp", "N=11,W=24,L=3,classes=5"},
};

/* ---- one random case ---- */

struct trial {
    uint64_t seed, draws;
    struct sl_arena arena;
    struct pipe_case whole;
    struct sl_shard_layouts layouts;
    struct sl_graph *together, *apart;
    struct sl_shard_node *together_nodes, *apart_nodes;
    int shards, stages, width, workers;
    const char *schedule;
    struct sl_train_config config;
};

static int draw(struct trial *t, int below) {
    return (int)sl_rng_below(t->seed, 27, t->draws++, below);
}

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static int *stages_of(struct trial *t, const struct sl_graph *graph,
                      const struct sl_shard_node *nodes, int parts) {
    int *out = SL_NEW(&t->arena, int, graph->forward_count + 1);
    for (int n = 0; n < graph->forward_count; n++)
        out[n] = t->whole.stage_of[nodes[n].node] * parts + (parts > 1 ? nodes[n].shard : 0);
    return out;
}

static const struct sl_plan *lay_out(struct trial *t, const struct sl_graph *graph,
                                     const int *stage_of, int parts) {
    int count = t->stages * parts;
    int *widths = SL_NEW(&t->arena, int, count);
    const int **workers = SL_NEW(&t->arena, const int *, count);
    const struct sl_plan *plan;
    const struct sl_schedule *row = sl_schedules_row_find(t->schedule);
    for (int s = 0; s < count; s++) {
        int *at = SL_NEW(&t->arena, int, t->width);
        for (int r = 0; r < t->width; r++)
            at[r] = (t->width > 1 ? s / parts * t->width + r : s / parts % t->workers) * parts +
                    s % parts;
        widths[s] = t->width;
        workers[s] = at;
    }
    struct sl_model_plan_spec spec = {
        .graph = graph,
        .stage_of = stage_of,
        .stage_count = count,
        .parts = parts,
        .micro_size = sl_run_train_full_samples(t->config.batch, t->config.micros),
        .split = row->splits_backward,
        .recompute = t->config.recompute,
        .optim = &t->config.optim,
        .policy = &t->config.policy,
        .worker_count = t->workers * parts,
        .width_of = widths,
        .workers_of = workers,
        .has_kernel = t->config.device->has_kernel,
        .threads = 1,
    };
    must(sl_plan_from_model(&t->arena, &spec, &plan));
    return plan;
}

/* NULL: the schedule refuses the graph of stages. */
static struct sl_pipe *open_pipe(struct trial *t, struct sl_train_config *config,
                                 const struct sl_graph *graph, const int *stage_of, int parts) {
    struct sl_pipe *pipe;
    config->graph = graph;
    struct sl_pipe_config c = {
        .train = config,
        .plan = lay_out(t, graph, stage_of, parts),
        .stage_of = stage_of,
        .schedule = t->schedule,
        .global_step =
            sl_schedules_row_is_global(sl_schedules_row_find(t->schedule)) || t->config.seed % 2,
    };
    sl_err err = sl_pipe_open(&c, &pipe);
    if (err == SL_ERR_REFUSED && strstr(sl_err_message(), "chain of stages"))
        return NULL;
    must(err);
    return pipe;
}

/* ---- comparing ---- */

/* The parameter of the other graph with the same values: echoes stand for the whole tensor. */
static const struct sl_program_param *find(const struct sl_worker *w, const char *name) {
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    for (int i = 0; i < p->param_count; i++)
        if (strcmp(w->graph->params.at[p->params[i].param].name, name) == 0)
            return &p->params[i];
    return NULL;
}

static void compare_workers(const struct sl_worker *apart, int newest,
                            const struct sl_worker *whole, int whole_newest) {
    const struct sl_program *p = apart->programs[SL_WORKER_FULL];
    for (int i = 0; i < p->param_count; i++) {
        const struct sl_param *param = &apart->graph->params.at[p->params[i].param];
        const struct sl_program_param *other =
            find(whole, param->echo ? param->part_of->name : param->name);
        assert_non_null(other);
        assert_int_equal(other->numel, p->params[i].numel);
        if (memcmp((char *)apart->param[newest] + p->params[i].offset,
                   (char *)whole->param[whole_newest] + other->offset,
                   (size_t)other->numel * sizeof(float)) != 0)
            fail_msg("%s differs", param->name);
    }
}

static void compare_reports(const struct sl_step_report *a, const struct sl_step_report *b) {
    for (int i = 0; i < STEPS; i++) {
        assert_true(a[i].loss == b[i].loss);
        assert_true(a[i].norm == b[i].norm || (a[i].norm != a[i].norm && b[i].norm != b[i].norm));
    }
}

static bool compare(struct trial *t) {
    struct sl_step_report reports[STEPS], wholes[STEPS];
    struct sl_train_config apart_config = t->config, config = t->config;
    int *apart_stages = stages_of(t, t->apart, t->apart_nodes, t->shards);
    struct sl_pipe *apart = open_pipe(t, &apart_config, t->apart, apart_stages, t->shards);
    bool sync = sl_schedules_row_find(t->schedule)->rule == SL_RULE_SYNC;
    if (!apart)
        return false;
    must(sl_pipe_run(apart, STEPS, reports));
    config.graph = t->together;
    if (t->width == 1 && sync) {
        struct sl_train *one;
        must(sl_run_train_open(&config, &one));
        for (int i = 0; i < STEPS; i++)
            must(sl_run_train_step(one, &wholes[i]));
        for (int s = 0; s < t->stages * t->shards; s++)
            compare_workers(sl_pipe_worker(apart, s), sl_pipe_newest(apart, s), one->worker, 0);
        sl_run_train_close(one);
    } else {
        int *stage_of = stages_of(t, t->together, t->together_nodes, 1);
        struct sl_pipe *pipe = open_pipe(t, &config, t->together, stage_of, 1);
        must(sl_pipe_run(pipe, STEPS, wholes));
        for (int s = 0; s < t->stages * t->shards; s++)
            for (int r = 0; r < t->width; r++)
                compare_workers(sl_pipe_replica(apart, s, r), sl_pipe_replica_newest(apart, s, r),
                                sl_pipe_replica(pipe, s / t->shards, r),
                                sl_pipe_replica_newest(pipe, s / t->shards, r));
        sl_pipe_close(pipe);
    }
    compare_reports(reports, wholes);
    sl_pipe_close(apart);
    return true;
}

/* ---- drawing ---- */

static bool open_trial(struct trial *t, uint64_t seed) {
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "interleaved", "zb-graph",
                                            "2bw",  "stash", "async", "vsync",       "paci"};
    static const char *const optimizers[] = {"adamw", "momentum", "lion", "muon"};
    *t = (struct trial){.seed = seed};
    int m = draw(t, SL_COUNT(models)), micros = 2 + draw(t, 3);
    pipe_case_open_zoo(&t->whole, models[m].name, models[m].sets);
    t->shards = 2 + draw(t, 3);
    t->schedule = schedules[draw(t, SL_COUNT(schedules))];
    t->stages = 1 + draw(t, 3);
    t->width = draw(t, 4) == 0 ? 2 : 1;
    if (strcmp(t->schedule, "interleaved") == 0) {
        t->stages = 4;
        t->width = 1;
        micros = 4;
    }
    t->workers = t->width > 1 ? t->stages * t->width : t->stages > 3 ? 2 : t->stages;
    t->config = pipe_case_config(&t->whole, optimizers[draw(t, SL_COUNT(optimizers))], 2 * micros,
                                 micros, STEPS);
    t->config.seed = 1 + seed;
    t->config.clip = draw(t, 2) ? 0.5 : 0;
    t->config.recompute = draw(t, 4) == 0;
    t->whole.split = sl_schedules_row_find(t->schedule)->splits_backward;
    must(sl_shard_choose(&t->arena, t->whole.graph, t->shards, &t->layouts));
    printf("# seed %llu: %s %s, t=%d p=%d d=%d on %d, %s, %d regions\n", (unsigned long long)seed,
           models[m].name, models[m].sets, t->shards, t->stages, t->width, t->workers, t->schedule,
           t->layouts.regions);
    if (!t->layouts.regions || !pipe_case_try_cut(&t->whole, &t->config, t->stages, NULL))
        return false;
    must(sl_shard_rewrite(t->whole.graph, &t->layouts, SL_SHARD_TOGETHER, &t->together,
                          &t->together_nodes));
    must(sl_shard_rewrite(t->whole.graph, &t->layouts, SL_SHARD_APART, &t->apart, &t->apart_nodes));
    must(sl_graph_autodiff(t->together));
    must(sl_graph_autodiff(t->apart));
    return true;
}

static void close_trial(struct trial *t) {
    sl_graph_close(t->together);
    sl_graph_close(t->apart);
    pipe_case_close(&t->whole);
    sl_arena_free(&t->arena);
}

static void test_random(void **state) {
    const char *full = getenv("SL_TEST_FULL");
    int count = full && strcmp(full, "1") == 0 ? 2000 : 40, ran = 0;
    (void)state;
    for (int i = 0; i < count; i++) {
        struct trial t;
        ran += open_trial(&t, (uint64_t)i) && compare(&t);
        close_trial(&t);
    }
    printf("count: %d of %d random tensor-parallel layouts equal one worker\n", ran, count);
    assert_true(ran > count / 2);
}

/* ---- sabotage: programs that do not meet in the collectives of the plan ---- */

static void refuse_collectives(struct trial *t, const int *stage_of, const struct sl_plan *plan,
                               const struct sl_collective *list, int count) {
    struct sl_plan draft = *plan;
    struct sl_stage *stages = SL_NEW(&t->arena, struct sl_stage, plan->stage_count);
    struct sl_pipe *pipe = NULL;
    struct sl_train_config config = t->config;
    memcpy(stages, plan->stages, sizeof *stages * (size_t)plan->stage_count);
    for (int k = 0; k < t->shards;
         k++) { /* of all parts: the checker of plans sees no difference */
        stages[k].collectives = list;
        stages[k].collective_count = count;
    }
    draft.stages = stages;
    config.graph = t->apart;
    struct sl_pipe_config c = {.train = &config, .stage_of = stage_of, .schedule = t->schedule};
    must(sl_plan_build(&t->arena, &draft, &c.plan));
    assert_int_equal(sl_pipe_open(&c, &pipe), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "collective"));
}

static void test_programs(void **state) {
    struct trial t = {.shards = 2, .stages = 1, .width = 1, .workers = 1, .schedule = "1f1b"};
    (void)state;
    pipe_case_open_zoo(&t.whole, "gpt2", "V=39,T=5,P=5,L=2,C=24,H=6");
    t.config = pipe_case_config(&t.whole, "adamw", 4, 2, STEPS);
    pipe_case_cut(&t.whole, &t.config, 1, NULL);
    must(sl_shard_choose(&t.arena, t.whole.graph, 2, &t.layouts));
    must(sl_shard_rewrite(t.whole.graph, &t.layouts, SL_SHARD_APART, &t.apart, &t.apart_nodes));
    must(sl_graph_autodiff(t.apart));
    int *stage_of = stages_of(&t, t.apart, t.apart_nodes, 2);
    const struct sl_plan *plan = lay_out(&t, t.apart, stage_of, 2);
    const struct sl_stage *stage = &plan->stages[0];
    assert_int_equal(stage->collective_count, 2); /* 4 forward, 4 backward */
    for (int i = 0; i < stage->collective_count; i++)
        for (int how = 0; how < 5; how++) {
            struct sl_collective list[3] = {stage->collectives[0], stage->collectives[1]};
            list[i].count += how == 0 ? -1 : how == 1 ? 1 : 0;
            list[i].sample_bytes += how == 2 ? 4 : 0;
            list[i].kind = how == 3 ? SL_COLLECTIVE_GATHER : list[i].kind;
            if (how == 4) { /* reordered: another size first */
                list[2] = list[1];
                list[1] = list[i];
                list[i == 0 ? 0 : 2].sample_bytes += 8;
                list[i == 0 ? 0 : 2].count = 1;
                list[1].count--;
            }
            refuse_collectives(&t, stage_of, plan, list, how == 4 ? 3 : 2);
        }
    refuse_collectives(&t, stage_of, plan, stage->collectives, 1);
    refuse_collectives(&t, stage_of, plan, NULL, 0);
    close_trial(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
