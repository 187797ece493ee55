/* Pipelines of t shards, d replicas and p stages, with and without divided optimizer state (zero1), against
 * the graph of all shards (shard/shard.h), which one worker runs without any collective; or, where
 * replicas or versions matter, a pipeline of whole stages with whole state: equal bits. On threads and
 * over ranks (tests/e2e/shards_ranks_release.sh, mpi_models_release.sh). */
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
#include "support/ranks.h"

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
    {"resnet18", "cifar=1,S=9,W=2,N1=1,N2=1,N3=0,N4=0,classes=3"}, /* t = 1 only */
};

/* ---- one random case ---- */

struct trial {
    uint64_t seed, draws;
    struct sl_arena arena;
    struct pipe_case whole;
    struct sl_shard_layouts layouts;
    struct sl_graph *together, *apart; /* one shard: NULL, the graph of the model */
    struct sl_shard_node *together_nodes, *apart_nodes;
    int shards, stages, width, workers; /* workers: of each shard */
    bool zero1;
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
        out[n] = nodes ? t->whole.stage_of[nodes[n].node] * parts + (parts > 1 ? nodes[n].shard : 0)
                       : t->whole.stage_of[n];
    return out;
}

static const struct sl_plan *lay_out(struct trial *t, const struct sl_graph *graph,
                                     const int *stage_of, int parts, bool zero1) {
    int count = t->stages * parts, columns = t->workers / t->width;
    bool *zero1_of = SL_NEW(&t->arena, bool, count);
    int *widths = SL_NEW(&t->arena, int, count);
    const int **workers = SL_NEW(&t->arena, const int *, count);
    const struct sl_plan *plan;
    const struct sl_schedule *row = sl_schedules_row_find(t->schedule);
    for (int s = 0; s < count; s++) {
        int *at = SL_NEW(&t->arena, int, t->width);
        for (int r = 0; r < t->width; r++)
            at[r] = (s / parts % columns * t->width + r) * parts + s % parts;
        widths[s] = t->width;
        zero1_of[s] = zero1;
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
        .zero1_of = zero1_of,
        .has_kernel = t->config.device->has_kernel,
        .threads = 1,
    };
    must(sl_plan_from_model(&t->arena, &spec, &plan));
    return plan;
}

/* What no layout of the case has: the schedule does not run it, or says why it cannot with zero1. */
static bool is_refused(sl_err err) {
    static const char *const why[] = {"chain of stages", "micro-batches in multiples",
                                      "(zero1) step together", "need equal numbers"};
    bool known = false;
    for (int i = 0; i < SL_COUNT(why); i++)
        known |= strstr(sl_err_message(), why[i]) != NULL;
    return err == SL_ERR_REFUSED && known;
}

struct layout {
    const struct sl_graph *graph;
    const struct sl_shard_node *nodes;
    int parts;
    bool zero1;
    struct sl_comm *comm;
};

/* NULL: refused. */
static struct sl_pipe *open_pipe(struct trial *t, struct sl_train_config *config,
                                 const struct layout *of) {
    const int *stage_of = stages_of(t, of->graph, of->nodes, of->parts);
    struct sl_pipe *pipe;
    config->graph = of->graph;
    struct sl_pipe_config c = {
        .train = config,
        .plan = lay_out(t, of->graph, stage_of, of->parts, of->zero1),
        .stage_of = stage_of,
        .schedule = t->schedule,
        .global_step =
            sl_schedules_row_is_global(sl_schedules_row_find(t->schedule)) || t->config.seed % 2,
        .comm = of->comm,
    };
    sl_err err = sl_pipe_open(&c, &pipe);
    if (is_refused(err))
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

/* Replicas that divide the state have equal parts of it, up to lines and whole matrices. */
static int64_t state_bytes(const struct sl_worker *w) { return w->own.count * 4 * w->state_count; }

static void compare_bytes(const struct trial *t, struct sl_pipe *pipe, int stage) {
    int64_t all = 0, whole = 0;
    for (int r = 0; r < t->width; r++) {
        const struct sl_worker *w = sl_pipe_replica(pipe, stage, r);
        if (!w)
            return;
        all += state_bytes(w);
        whole = w->programs[SL_WORKER_FULL]->param_bytes * w->state_count;
        if (t->zero1 && t->width > 1 && !t->config.optim.row->whole_matrix)
            assert_true(state_bytes(w) <= whole / t->width + 64 * w->state_count);
    }
    assert_int_equal(all, t->zero1 && t->width > 1 ? whole : whole * t->width);
}

static void compare_replicas(struct trial *t, struct sl_pipe *apart, struct sl_pipe *whole) {
    for (int s = 0; s < t->stages * t->shards; s++) {
        compare_bytes(t, apart, s);
        for (int r = 0; r < t->width; r++)
            if (sl_pipe_replica(apart, s, r))
                compare_workers(sl_pipe_replica(apart, s, r), sl_pipe_replica_newest(apart, s, r),
                                sl_pipe_replica(whole, s / t->shards, r),
                                sl_pipe_replica_newest(whole, s / t->shards, r));
    }
}

static void compare_one(struct trial *t, struct sl_pipe *apart, struct sl_train_config *config,
                        struct sl_step_report *reports) {
    struct sl_train *one;
    must(sl_run_train_open(config, &one));
    for (int i = 0; i < STEPS; i++)
        must(sl_run_train_step(one, &reports[i]));
    for (int s = 0; s < t->stages * t->shards; s++)
        if (sl_pipe_worker(apart, s))
            compare_workers(sl_pipe_worker(apart, s), sl_pipe_newest(apart, s), one->worker, 0);
    sl_run_train_close(one);
}

static bool compare(struct trial *t) {
    struct sl_step_report reports[STEPS], wholes[STEPS];
    struct sl_train_config apart_config = t->config, config = t->config;
    struct layout of = {t->apart, t->apart_nodes, t->shards, t->zero1, ranks_comm()};
    struct layout whole = {t->together, t->together_nodes, 1, false, NULL};
    bool sync = sl_schedules_row_find(t->schedule)->rule == SL_RULE_SYNC;
    of.graph = t->apart ? t->apart : t->whole.graph;
    whole.graph = config.graph = t->together ? t->together : t->whole.graph;
    struct sl_pipe *apart = open_pipe(t, &apart_config, &of);
    if (!apart)
        return false;
    must(sl_pipe_run(apart, STEPS, reports));
    if (t->width == 1 && sync) {
        compare_one(t, apart, &config, wholes);
    } else {
        struct sl_pipe *pipe = open_pipe(t, &config, &whole);
        assert_non_null(pipe);
        must(sl_pipe_run(pipe, STEPS, wholes));
        compare_replicas(t, apart, pipe);
        sl_pipe_close(pipe);
    }
    compare_reports(reports, wholes);
    sl_pipe_close(apart);
    return true;
}

/* ---- drawing ---- */

/* false: nothing to divide. */
static bool open_shards(struct trial *t) {
    must(sl_shard_choose(&t->arena, t->whole.graph, t->shards, &t->layouts));
    if (!t->layouts.regions)
        return false;
    must(sl_shard_rewrite(t->whole.graph, &t->layouts, SL_SHARD_TOGETHER, &t->together,
                          &t->together_nodes));
    must(sl_shard_rewrite(t->whole.graph, &t->layouts, SL_SHARD_APART, &t->apart, &t->apart_nodes));
    must(sl_graph_autodiff(t->together));
    must(sl_graph_autodiff(t->apart));
    return true;
}

static bool open_trial(struct trial *t, uint64_t seed) {
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "interleaved", "zb-graph",
                                            "2bw",  "stash", "async", "vsync",       "paci"};
    static const char *const optimizers[] = {"adamw", "momentum", "lion", "muon"};
    *t = (struct trial){.seed = seed};
    int m = draw(t, SL_COUNT(models)), micros = 2 + draw(t, 3);
    pipe_case_open_zoo(&t->whole, models[m].name, models[m].sets);
    t->shards = m == SL_COUNT(models) - 1 ? 1 : 1 + draw(t, 4);
    t->schedule = schedules[draw(t, SL_COUNT(schedules))];
    t->stages = 1 + draw(t, 3);
    t->width = draw(t, 2) == 0 ? 1 : 2 + draw(t, 2);
    t->zero1 = t->width > 1 && draw(t, 3) > 0;
    t->workers = t->stages * t->width;
    if (strcmp(t->schedule, "interleaved") == 0) { /* two virtual stages on each worker */
        t->stages = 4;
        t->width = t->width > 1 ? 2 : 1;
        t->workers = 2 * t->width;
        micros = 4;
    }
    t->config = pipe_case_config(&t->whole, optimizers[draw(t, SL_COUNT(optimizers))], 2 * micros,
                                 micros, STEPS);
    t->config.seed = 1 + seed;
    t->config.clip = draw(t, 2) ? 0.5 : 0;
    t->config.recompute = draw(t, 4) == 0;
    t->whole.split = sl_schedules_row_find(t->schedule)->splits_backward;
    printf("# seed %llu: %s %s, t=%d p=%d d=%d%s on %d, %s\n", (unsigned long long)seed,
           models[m].name, models[m].sets, t->shards, t->stages, t->width, t->zero1 ? " zero1" : "",
           t->workers, t->schedule);
    if (!ranks_fit(t->workers * t->shards) ||
        !pipe_case_try_cut(&t->whole, &t->config, t->stages, NULL))
        return false;
    return t->shards == 1 || open_shards(t);
}

static void close_trial(struct trial *t) {
    sl_graph_close(t->together);
    sl_graph_close(t->apart);
    pipe_case_close(&t->whole);
    sl_arena_free(&t->arena);
}

static void test_random(void **state) {
    const char *full = getenv("SL_TEST_FULL");
    int count = full && strcmp(full, "1") == 0 ? 2000 : ranks_comm() ? 20 : 40, ran = 0;
    (void)state;
    for (int i = 0; i < count; i++) {
        struct trial t;
        ran += open_trial(&t, (uint64_t)i) && compare(&t);
        close_trial(&t);
        ranks_renew();
    }
    printf("count: %d of %d random layouts (t, d, p, zero1) equal one worker%s\n", ran, count,
           ranks_text());
    assert_true(ran > count / 3);
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
    const struct sl_plan *plan = lay_out(&t, t.apart, stage_of, 2, false);
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
    ranks_open();
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
