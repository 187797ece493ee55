/* Pipelines of models with frozen parameters: random freeze patterns, cuts, replicas and schedules.
 * Synchronous ones give the bits of one worker, asynchronous ones those of the plain loop
 * (support/async_loop.h). Frozen parts have no passes, messages, sums, gradients or states. */
#include "base/rng.h"
#include "graph/model.h"
#include "optim/policy.h"
#include "pipe/check.h"
#include "schedules/schedule.h"
#include "support/async_loop.h"
#include "support/model_text.h"
#include "support/pipe_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = LOOP_STEPS, MAX_STAGES = 4, MAX_WIDTH = 2 };

static const char *const models[] = {pipe_model_gpt, pipe_model_image, pipe_model_branches,
                                     pipe_model_diamond, pipe_model_bare};

static int below(uint64_t seed, uint64_t *drawn, int count) {
    return (int)sl_rng_below(seed, 29, (*drawn)++, count);
}

/* ---- models ---- */

/* The flat text of the model with some parameters frozen: all up to a random one, all but the last,
 * or any. At least one is not. */
static void freeze(struct sl_graph *graph, uint64_t seed, uint64_t *drawn, struct sl_text *out) {
    int count = (int)graph->params.count, kind = below(seed, drawn, 3);
    int until = below(seed, drawn, count), spared = below(seed, drawn, count);
    for (int i = 0; i < count; i++) {
        bool frozen = kind == 0   ? i < until
                      : kind == 1 ? i != spared
                                  : i != spared && below(seed, drawn, 2);
        graph->params.at[i].frozen = frozen;
    }
    sl_graph_model_write(graph, out);
}

static void open_frozen(struct pipe_case *c, int model, uint64_t seed, uint64_t *drawn) {
    struct sl_text text = {0};
    struct sl_graph *whole = model_of_text(models[model]);
    freeze(whole, seed, drawn, &text);
    sl_graph_close(whole);
    pipe_case_open(c, text.at);
    struct sl_text again = {0};
    sl_graph_model_write(c->graph, &again);
    assert_string_equal(strchr(text.at, '\n'), strchr(again.at, '\n'));
    sl_text_free(&text);
    sl_text_free(&again);
}

/* ---- facts ---- */

static bool is_frozen(const struct sl_graph *graph) {
    bool any = false;
    for (int64_t i = 0; i < graph->params.count; i++)
        any |= graph->params.at[i].frozen;
    return any;
}

/* Nothing is left of what frozen parts do not need. */
static void check_facts(const struct pipe_case *c, const struct sl_sched *sched) {
    const struct sl_plan *plan = sched->plan;
    for (int g = 0; g < SL_SEGMENT_COUNT; g++)
        for (int w = 0; w < plan->worker_count; w++)
            for (int64_t i = 0; i < sched->lists[g][w].count; i++) {
                const struct sl_action *a = &sched->lists[g][w].at[i];
                const struct sl_stage *stage = &plan->stages[a->stage];
                if (a->kind == SL_BACKWARD_WEIGHT || a->kind == SL_BACKWARD_INPUT)
                    assert_int_equal(stage->passes, SL_STAGE_TRAINS);
                if (a->kind == SL_BACKWARD || a->kind == SL_RECOMPUTE)
                    assert_int_not_equal(stage->passes, SL_STAGE_FORWARD);
                if (a->kind == SL_SEND || a->kind == SL_RECV)
                    assert_true(!(a->flags & SL_GRAD) || plan->edges[a->edge].grads);
            }
    for (int s = 0; is_frozen(c->graph) && s < plan->stage_count; s++) {
        const struct sl_stage *stage = &plan->stages[s];
        bool trains = false;
        for (int64_t g = 0; g < c->graph->grads.count; g++)
            trains |= c->stage_of[c->graph->grads.at[g].node] == s;
        assert_int_equal(trains, stage->passes == SL_STAGE_TRAINS);
        if (!trains) {
            assert_int_equal(stage->bytes.params, 0);
            assert_int_equal(stage->bytes.grads, 0);
        }
    }
}

static sl_err build_sched(struct sl_arena *arena, const struct sl_pipe_config *pc,
                          const struct sl_sched **out) {
    struct sl_schedule_opts opts = {.schedule = pc->schedule,
                                    .batch = pc->train->batch,
                                    .iters = STEPS,
                                    .policy = &pc->train->policy,
                                    .global_step = pc->global_step};
    return sl_schedules_build(arena, pc->plan, &opts, out);
}

/* ---- synchronous ---- */

struct draw {
    int stages, workers, width;
    int64_t micros, batch;
    const char *schedule;
};

static const char *const sync[] = {"1f1b",  "gpipe", "graph",       "kfkb", "zb-graph",
                                   "zb-h1", "zb-h2", "interleaved", "zb-v", "dualpipe-v"};

static struct draw draw_case(uint64_t seed, uint64_t *drawn) {
    struct draw d = {.schedule = sync[below(seed, drawn, SL_COUNT(sync))]};
    const struct sl_schedule *row = sl_schedules_row_find(d.schedule);
    d.workers = 2 + below(seed, drawn, row->layout_chunks ? 1 : MAX_STAGES - 1);
    d.stages = row->layout_chunks ? 2 * d.workers : d.workers;
    d.width = !row->layout_chunks && below(seed, drawn, 3) == 0 ? MAX_WIDTH : 1;
    d.micros = 2 * (1 + below(seed, drawn, 4));
    d.batch = 2 * d.micros - (below(seed, drawn, 3) == 0 && d.width == 1);
    return d;
}

static void lay_out(struct pipe_case *c, const struct sl_train_config *config,
                    const struct draw *d) {
    static int at[MAX_STAGES][MAX_WIDTH];
    const int *workers_of[MAX_STAGES];
    int width_of[MAX_STAGES], worker_of[MAX_STAGES];
    bool v = sl_schedules_row_find(d->schedule)->layout == SL_LAYOUT_V;
    for (int s = 0; s < d->stages; s++) {
        worker_of[s] = v && s >= d->workers ? 2 * d->workers - 1 - s : s % d->workers;
        width_of[s] = d->width;
        workers_of[s] = at[s];
        for (int r = 0; r < d->width; r++)
            at[s][r] = s * d->width + r;
    }
    c->split = sl_schedules_row_find(d->schedule)->splits_backward;
    if (d->width == 1) {
        pipe_case_plan(c, config, d->stages, worker_of);
        return;
    }
    struct pipe_layout layout = {.stages = d->stages,
                                 .workers = d->stages * d->width,
                                 .width_of = width_of,
                                 .workers_of = workers_of,
                                 .recompute = config->recompute};
    pipe_case_lay_out(c, config, &layout);
}

static bool check_sync(uint64_t seed) {
    uint64_t drawn = 0;
    struct pipe_case c;
    int model = below(seed, &drawn, SL_COUNT(models));
    struct draw d = draw_case(seed, &drawn);
    struct sl_arena arena = {0};
    const struct sl_sched *sched;
    struct sl_check_report report;
    open_frozen(&c, model, seed, &drawn);
    struct sl_train_config config = pipe_case_config(&c, "adamw", d.batch, d.micros, 3);
    config.clip = below(seed, &drawn, 2) ? 0.4 : 0;
    config.recompute = below(seed, &drawn, 4) == 0 && c.graph->states.count == 0;
    bool fits = pipe_case_cut_random(&c, &config, d.stages, NULL, seed);
    if (fits)
        lay_out(&c, &config, &d);
    struct sl_check_config check = {
        .pipe = {.train = &config, .stage_of = c.stage_of, .schedule = d.schedule, .plan = c.plan}};
    fits = fits && build_sched(&arena, &check.pipe, &sched) == SL_OK;
    if (fits) {
        check_facts(&c, sched);
        if (sl_pipe_check(&check, &report) != SL_OK)
            fail_msg("seed %llu, model %d, %s: %s", (unsigned long long)seed, model, d.schedule,
                     sl_err_message());
        if (report.kind != SL_CHECK_SAME)
            fail_msg("seed %llu, model %d, %s, %d stages x %d: %s differs on stage %d in step %lld",
                     (unsigned long long)seed, model, d.schedule, d.stages, d.width, report.tensor,
                     report.stage, (long long)report.step);
    }
    sl_arena_free(&arena);
    pipe_case_close(&c);
    return fits;
}

static void test_synchronous(void **state) {
    (void)state;
    int all = getenv("SL_TEST_FULL") ? 3000 : 60, same = 0;
    for (int i = 0; i < all; i++)
        same += check_sync((uint64_t)i + 1);
    printf("count: %d synchronous pipelines with frozen parameters have the bits of one worker\n",
           same);
    assert_true(same > all / 3);
}

/* ---- asynchronous ---- */

static void run_pipe(const struct sl_pipe_config *pc, struct sl_pipe **out) {
    struct sl_step_report reports[STEPS];
    if (sl_pipe_open(pc, out) != SL_OK || sl_pipe_run(*out, STEPS, reports) != SL_OK)
        fail_msg("%s", sl_err_message());
}

static void compare_loop(uint64_t seed, struct pipe_case *c, const struct sl_pipe_config *pc,
                         int stages) {
    int height[MAX_STAGES];
    struct sl_pipe *pipe;
    for (int s = 0; s < stages; s++)
        height[s] = c->plan->stages[s].height;
    struct loop loop = {.config = pc->train,
                        .global_step = pc->global_step,
                        .stage_of = c->stage_of,
                        .stages = stages,
                        .height = height};
    run_pipe(pc, &pipe);
    loop_open(&loop);
    loop_run(&loop, loop_rule_find(pc->schedule), 0, STEPS);
    for (int s = 0; s < stages; s++) {
        const char *difference = loop_difference(&loop, pipe, s);
        if (difference)
            fail_msg("seed %llu, %s, policy %s: stage %d of %d: %s", (unsigned long long)seed,
                     pc->schedule, pc->train->policy.row ? pc->train->policy.row->name : "none", s,
                     stages, difference);
    }
    loop_close(&loop);
    sl_pipe_close(pipe);
}

static bool check_async(uint64_t seed) {
    static const char *const policies[] = {"none", "none", "spectrain", "lr-rescale"};
    static const int chains[] = {0, 2, 3}; /* without running statistics */
    uint64_t drawn = 0;
    struct pipe_case c;
    struct sl_arena arena = {0};
    const struct sl_sched *sched;
    int model = chains[below(seed, &drawn, SL_COUNT(chains))];
    int stages = 2 + below(seed, &drawn, MAX_STAGES - 1);
    int rule = below(seed, &drawn, loop_rule_count);
    open_frozen(&c, model, seed, &drawn);
    int64_t micros = stages + below(seed, &drawn, 3);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 2 * micros, micros, STEPS);
    assert_int_equal(
        sl_optim_policy_parse(policies[below(seed, &drawn, SL_COUNT(policies))], &config.policy),
        SL_OK);
    config.clip = below(seed, &drawn, 2) ? 0.4 : 0;
    bool fits = model == 0 ? pipe_case_try_cut(&c, &config, stages, NULL)
                           : pipe_case_cut_random(&c, &config, stages, NULL, seed);
    struct sl_pipe_config pc = {.train = &config,
                                .stage_of = c.stage_of,
                                .schedule = loop_rules[rule].schedule,
                                .plan = c.plan,
                                .global_step = below(seed, &drawn, 2)};
    fits = fits && build_sched(&arena, &pc, &sched) == SL_OK;
    if (fits) {
        check_facts(&c, sched);
        compare_loop(seed, &c, &pc, stages);
    }
    sl_arena_free(&arena);
    pipe_case_close(&c);
    return fits;
}

static void test_asynchronous(void **state) {
    (void)state;
    int all = getenv("SL_TEST_FULL") ? 2000 : 40, same = 0;
    for (int i = 0; i < all; i++)
        same += check_async((uint64_t)i + 1);
    printf(
        "count: %d asynchronous pipelines with frozen parameters have the bits of the plain loop\n",
        same);
    assert_true(same > all / 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synchronous),
        cmocka_unit_test(test_asynchronous),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
