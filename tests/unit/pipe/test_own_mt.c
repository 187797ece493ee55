/* Schedules from files in the pipeline: random executable ones (support/free_sched.h) have the bits of
 * one worker; where the memory keeps another order of sums, those of a plain loop in that order.
 * Asynchronous files against the plain loop of versions. On threads and over ranks
 * (tests/e2e/own_ranks_release.sh). */
#include "interop/torch_csv.h"
#include "lower/lower.h"
#include "pipe/check.h"
#include "sched/order.h"
#include "schedules/given.h"
#include "support/async_loop.h"
#include "support/free_sched.h"
#include "support/pipe_models.h"
#include "support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { SEED = 240024, SCHEDULES = 300, MEMORY_KINDS = 3 };

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

struct own {
    struct pipe_case model;
    struct sl_train_config config;
    struct sl_arena arena;
    struct free_sched sched;
    const struct sl_schedule *row;
    const struct sl_plan *plan; /* with the memory of the case */
    bool restored;              /* sums in ascending order */
    const char *what;
};

/* The stages of the model as a graph; file and plan agree on its workers. */
static void take_graph(const struct own *o, int micros, struct free_graph *g) {
    const struct sl_plan *plan = o->model.plan;
    *g = (struct free_graph){.stages = plan->stage_count,
                             .edges = plan->edge_count,
                             .workers = plan->worker_count,
                             .micros = micros};
    assert_true(g->stages <= FREE_STAGES && g->edges <= FREE_EDGES);
    for (int e = 0; e < g->edges; e++) {
        g->edge[e][0] = plan->edges[e].from;
        g->edge[e][1] = plan->edges[e].to;
    }
    for (int s = 0; s < g->stages; s++)
        g->worker_of[s] = plan->stages[s].workers[0];
}

static bool is_chain(const struct free_graph *g) {
    for (int e = 0; e < g->edges; e++)
        if (g->edge[e][1] != g->edge[e][0] + 1)
            return false;
    return g->edges == g->stages - 1;
}

/* Through a file, as text or, of a chain, as CSV. */
static void read_file(struct own *o, bool csv) {
    struct sl_text text = {0};
    struct sl_sched *file;
    if (csv) {
        free_sched_csv(&o->sched, &text);
        must(sl_interop_torch_csv_read(&o->arena, "free.csv", text.at, text.length, &file));
    } else {
        free_sched_text(&o->sched, &text);
        must(sl_sched_read(&o->arena, "free.sched", text.at, text.length, &file));
    }
    must(sl_schedules_given_row(&o->arena, file, &o->row));
    o->what = sl_arena_dup(&o->arena, text.at, text.length);
    sl_text_free(&text);
}

static void limit(struct own *o, const int64_t *memory) {
    struct sl_plan draft = *o->model.plan;
    draft.memory_bytes = memory;
    must(sl_plan_build(&o->arena, &draft, &o->plan));
}

/* Only as much memory as the order of the file needs: nothing can be kept for late gradients. */
static void limit_to_given_order(struct own *o) {
    const struct sl_plan *plan = o->model.plan;
    int64_t *memory = SL_NEW(&o->arena, int64_t, plan->worker_count);
    struct sl_schedule_opts opts = {.row = o->row, .batch = o->config.batch};
    struct sl_sched *passes, *lowered;
    for (int w = 0; w < plan->worker_count; w++)
        memory[w] = 1;
    limit(o, memory);
    must(sl_schedules_generate(&o->arena, o->plan, &opts, &passes));
    must(sl_lower_passes(&o->arena, passes, &lowered));
    int64_t *enough = SL_NEW(&o->arena, int64_t, plan->worker_count);
    for (int w = 0; w < plan->worker_count; w++)
        enough[w] = sl_sched_worker_bytes(lowered, w);
    limit(o, enough);
}

static bool draw(struct own *o, uint64_t stream) {
    static const char *const models[] = {pipe_model_gpt, pipe_model_image, pipe_model_branches,
                                         pipe_model_diamond};
    struct dice dice = {.seed = SEED, .stream = stream};
    int m = (int)dice_below(&dice, SL_COUNT(models)), workers = 1 + (int)dice_below(&dice, 4);
    int micros = 1 + (int)dice_below(&dice, 6),
        stages = m < 2 ? 1 + (int)dice_below(&dice, 4) : 2 + m;
    int worker_of[FREE_STAGES];
    *o = (struct own){0};
    workers = ranks_comm() ? 4 : workers;
    stages = stages < workers ? workers : stages;
    for (int s = 0; s < stages; s++)
        worker_of[s] = s < workers ? s : (int)dice_below(&dice, workers);
    pipe_case_open(&o->model, models[m]);
    o->model.split = true;
    int64_t size = 1 + dice_below(&dice, 3), less = size > 1 ? dice_below(&dice, 2) : 0;
    o->config = pipe_case_config(&o->model, dice_below(&dice, 2) ? "adamw" : "momentum",
                                 micros * size - less, micros, LOOP_STEPS);
    if (m < 2 && !pipe_case_try_cut(&o->model, &o->config, stages, worker_of)) {
        pipe_case_close(&o->model);
        return false;
    }
    if (m >= 2)
        pipe_case_cut_by_name(&o->model, &o->config, stages, worker_of);
    struct free_graph graph;
    take_graph(o, micros, &graph);
    free_sched_draw(&dice, &graph, &o->sched);
    o->sched.iters = 1;
    read_file(o, is_chain(&graph) && dice_below(&dice, 2));
    o->plan = o->model.plan;
    if (stream % MEMORY_KINDS)
        limit_to_given_order(o);
    return true;
}

static void drop(struct own *o) {
    pipe_case_close(&o->model);
    sl_arena_free(&o->arena);
}

static struct sl_pipe_config pipe_of(const struct own *o) {
    return (struct sl_pipe_config){.train = &o->config,
                                   .plan = o->plan,
                                   .stage_of = o->model.stage_of,
                                   .schedule = "file",
                                   .row = o->row,
                                   .comm = ranks_comm(),
                                   .stall_ns = ranks_stall_ns};
}

/* Does the schedule that runs add in ascending order? Running statistics add up in forwards. */
static bool is_ordered(struct own *o) {
    struct sl_schedule_opts opts = {.row = o->row, .batch = o->config.batch, .iters = LOOP_STEPS};
    const struct sl_sched *sched;
    must(sl_schedules_build(&o->arena, o->plan, &opts, &sched));
    struct sl_sched_order order = sl_sched_order_of(sched);
    o->restored = order.gradients;
    return order.gradients && (order.forwards || o->model.graph->states.count == 0);
}

/* The bits of one worker; else of the stages in one thread, which is also compared. */
static void check_reference(struct own *o, bool ordered) {
    struct sl_check_config check = {.pipe = pipe_of(o)};
    struct sl_check_report report;
    must(sl_pipe_check(&check, &report));
    if (report.kind != SL_CHECK_SAME || report.ordered != ordered)
        fail_msg("differs in '%s' (ordered %d)\n%s", report.tensor ? report.tensor : "", ordered,
                 o->what);
}

/* The plain loop in the order that the file states. */
static void check_loop(struct own *o) {
    int heights[FREE_STAGES], order[2][FREE_STAGES][FREE_MICROS];
    const int *orders[2][FREE_STAGES];
    struct loop l = {.config = &o->config,
                     .stage_of = o->model.stage_of,
                     .stages = o->plan->stage_count,
                     .height = heights,
                     .slots = o->sched.graph.micros,
                     .global_step = true};
    struct sl_pipe_config pc = pipe_of(o);
    struct sl_step_report reports[LOOP_STEPS];
    struct sl_pipe *pipe;
    for (int s = 0; s < l.stages; s++) {
        heights[s] = o->plan->stages[s].height;
        for (int sums = 0; sums < 2; sums++) {
            free_sched_order(&o->sched, s, sums, order[sums][s]);
            orders[sums][s] = order[sums][s];
        }
        for (int k = 0; o->restored && k < l.slots; k++)
            order[1][s][k] = k;
    }
    loop_open(&l);
    loop_run_ordered(&l, orders[0], orders[1], LOOP_STEPS);
    must(sl_pipe_open(&pc, &pipe));
    must(sl_pipe_run(pipe, LOOP_STEPS, reports));
    for (int s = 0; s < l.stages; s++) {
        const char *name = sl_pipe_worker(pipe, s) ? loop_difference(&l, pipe, s) : NULL;
        if (name)
            fail_msg("%s differs on stage %d\n%s", name, s, o->what);
    }
    for (int i = 0; i < LOOP_STEPS; i++)
        if (reports[i].loss != l.loss[i])
            fail_msg("loss of step %d is %.17g, not %.17g\n%s", i + 1, reports[i].loss, l.loss[i],
                     o->what);
    sl_pipe_close(pipe);
    loop_close(&l);
}

static void test_random(void **state) {
    int64_t all = test_count(SCHEDULES), canonical = 0, other = 0;
    all = all < SCHEDULES ? 4 * all : all;
    (void)state;
    for (uint64_t stream = 0; canonical + other < all; stream++) {
        struct own o;
        if (!draw(&o, stream))
            continue;
        bool ordered = is_ordered(&o);
        check_reference(&o, ordered);
        if (!ordered)
            check_loop(&o);
        canonical += ordered;
        other += !ordered;
        drop(&o);
        ranks_renew();
    }
    assert_true(canonical > 0 && other > 0);
    printf("count: %d random schedules from files: %d have the bits of one worker, %d those of a "
           "loop in their order%s\n",
           (int)all, (int)canonical, (int)other, ranks_text());
}

/* ---- asynchronous files ---- */

/* `more` NULL: the windows of the rows. Else any that can run: a stage has at least as many
 * micro-batches in flight as the next one. */
static void draw_windows(struct dice *more, const char *rule, int stages, int micros, int *window) {
    for (int s = stages - 1; s >= 0; s--) {
        window[s] = stages - s;
        if (more)
            window[s] = s + 1 < stages ? window[s + 1] + (int)dice_below(more, 3)
                                       : 1 + (int)dice_below(more, 3);
        if (strcmp(rule, "twobw") == 0 && window[s] > micros + 1)
            window[s] = micros + 1;
    }
}

/* The reference of `sluice check`, which has the versions of the loop by another way. */
static void check_versions(const struct sl_pipe_config *pipe, const char *file) {
    struct sl_check_config check = {.pipe = *pipe};
    struct sl_check_report report;
    check.pipe.comm = ranks_comm();
    must(sl_pipe_check(&check, &report));
    if (report.kind != SL_CHECK_SAME || !report.stale)
        fail_msg("the check says that '%s' differs\n%s", report.tensor ? report.tensor : "", file);
}

static void check_stream(const struct pipe_case *c, const struct sl_train_config *config,
                         const char *rule, const char *schedule, struct dice *more) {
    int stages = c->plan->stage_count, micros = (int)config->micros, heights[FREE_STAGES],
        window[FREE_STAGES];
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_sched *file;
    const struct sl_schedule *row;
    struct sl_step_report reports[LOOP_STEPS];
    struct sl_pipe *pipe;
    draw_windows(more, rule, stages, micros, window);
    for (int s = 0; s < stages; s++)
        heights[s] = stages - 1 - s;
    free_stream_text(rule, stages, micros, window, &text);
    must(sl_sched_read(&arena, "stream.sched", text.at, text.length, &file));
    must(sl_schedules_given_row(&arena, file, &row));
    struct loop l = {
        .config = config, .stage_of = c->stage_of, .stages = stages, .height = heights};
    if (more)
        l.flight = window;
    struct sl_pipe_config pc = {.train = config,
                                .plan = c->plan,
                                .stage_of = c->stage_of,
                                .schedule = "file",
                                .row = row,
                                .comm = ranks_comm(),
                                .stall_ns = ranks_stall_ns};
    loop_open(&l);
    loop_run(&l, loop_rule_find(schedule), 0, LOOP_STEPS);
    must(sl_pipe_open(&pc, &pipe));
    must(sl_pipe_run(pipe, LOOP_STEPS, reports));
    for (int s = 0; s < stages; s++) {
        const char *name = sl_pipe_worker(pipe, s) ? loop_difference(&l, pipe, s) : NULL;
        if (name)
            fail_msg("%s: %s differs on stage %d of %d, m = %d\n%s", rule, name, s, stages, micros,
                     text.at);
    }
    sl_pipe_close(pipe);
    loop_close(&l);
    ranks_renew();
    check_versions(&pc, text.at);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static void test_streams(void **state) {
    static const char *const rules[][2] = {
        {"stash", "stash"}, {"twobw", "2bw"}, {"newest", "async"}, {"vsync", "vsync"}};
    struct pipe_case c;
    int count = 0;
    (void)state;
    pipe_case_open(&c, pipe_model_gpt);
    for (int stages = 2; stages <= 4; stages++)
        for (int micros = 1; micros <= 4; micros++) {
            if (!ranks_fit(stages) || (ranks_short() && micros != 2))
                continue;
            struct sl_train_config config =
                pipe_case_config(&c, "adam", 2 * micros, micros, LOOP_STEPS);
            pipe_case_cut(&c, &config, stages, NULL);
            for (int r = 0; r < SL_COUNT(rules); r++, count += 2) {
                struct dice more = {SEED, (uint64_t)count, 0};
                check_stream(&c, &config, rules[r][0], rules[r][1], NULL);
                ranks_renew();
                check_stream(&c, &config, rules[r][0], rules[r][1], &more);
                ranks_renew();
            }
        }
    pipe_case_close(&c);
    printf("count: %d asynchronous files (half with windows of their own) are the formulas, bit "
           "for bit%s\n",
           count, ranks_text());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_streams),
    };
    ranks_open();
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
