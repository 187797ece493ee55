/* Sums over replicas overlap with backward passes: in the measured timeline every sum begins within
 * the pass that completes the gradient, before that pass ends, and in several parts if the gradient
 * is large. The bits are those of the same stages in one thread. */
#include "pipe/check.h"
#include "pipe/state.h"
#include "sched/deps.h"
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

enum { STEPS = 3, STAGES = 2, WIDTH = 2 };

/* Four layers of 25,600 weights: a stage of two has enough for several parts. */
static const char model[] =
    "model broad\nsize C = 160\ninput x : float[B, C]\ninput label : int[B] < 5\n"
    "repeat i in 0..4 as h {\nparam w[C, C] ~ normal(0.1)\nx = relu(matmul(x, w, tb = 1))\n}\n"
    "param last[5, C] ~ normal(0.1)\nloss cross_entropy(matmul(x, last, tb = 1), label)\n";

static const int widths[STAGES] = {WIDTH, WIDTH};
static const int apart[STAGES][WIDTH] = {{0, 1}, {2, 3}},
                 crossing[STAGES][WIDTH] = {{0, 1}, {1, 0}};
static const int *const workers_apart[] = {apart[0], apart[1]};
static const int *const workers_crossing[] = {crossing[0], crossing[1]};

static const struct row {
    const char *schedule;
    int workers;
    const int *const *workers_of;
} rows[] = {
    {"gpipe", 4, workers_apart}, {"1f1b", 4, workers_apart},       {"zb-h1", 4, workers_apart},
    {"2bw", 4, workers_apart},   {"chimera", 2, workers_crossing},
};

/* The last B or W on this lane of the iteration that makes the version; NULL: the lane has none. */
static const struct sl_span *completing(const struct sl_timeline *t, int lane,
                                        const struct sl_action *reduce) {
    const struct sl_span *last = NULL;
    for (int64_t i = 0; i < t->lanes[lane].count; i++) {
        const struct sl_action *a = &t->lanes[lane].at[i].action;
        if ((a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_WEIGHT) &&
            a->stage == reduce->stage &&
            a->micro / t->sched->micros[a->stage] == reduce->version - 1)
            last = &t->lanes[lane].at[i];
    }
    return last;
}

/* End of the worker's action before this span. */
static int64_t end_before(const struct sl_timeline *t, int lane, const struct sl_span *span) {
    int64_t end_ns = 0;
    for (int64_t i = 0; i < t->lanes[lane].count; i++) {
        const struct sl_span *other = &t->lanes[lane].at[i];
        if (other != span && other->end_ns <= span->start_ns && other->end_ns > end_ns)
            end_ns = other->end_ns;
    }
    return end_ns;
}

/* The sums begin in the completing pass: after the end of the previous action and before the end of
 * the pass. (Not after its drawn start: the timeline leaves out the time that the pass waits for
 * its result's slot.) */
static int check_timeline(const struct sl_timeline *t, const char *what) {
    int count = 0;
    for (int lane = 0; lane < t->lane_count; lane++)
        for (int64_t i = 0; i < t->lanes[lane].count; i++) {
            const struct sl_span *reduce = &t->lanes[lane].at[i];
            if (reduce->action.kind != SL_REDUCE)
                continue;
            const struct sl_span *pass = completing(t, lane, &reduce->action);
            assert_non_null(pass);
            int64_t before_ns = end_before(t, lane, pass);
            assert_true(sl_sched_deps_completes(t->sched, pass->action.stage, pass->action.micro));
            if (reduce->since_ns < before_ns || reduce->since_ns >= pass->end_ns ||
                reduce->since_ns > reduce->start_ns || pass->end_ns > reduce->end_ns)
                fail_msg("%s, worker %d: sums from %lld to %lld, the pass from %lld, behind %lld, "
                         "to %lld",
                         what, lane, (long long)reduce->since_ns, (long long)reduce->end_ns,
                         (long long)pass->start_ns, (long long)before_ns, (long long)pass->end_ns);
            count++;
        }
    return count;
}

static void lay_out(struct pipe_case *c, const struct sl_train_config *config,
                    const struct row *row) {
    struct pipe_layout layout = {.stages = STAGES,
                                 .workers = row->workers,
                                 .width_of = widths,
                                 .workers_of = row->workers_of};
    pipe_case_cut(c, config, STAGES, NULL);
    pipe_case_lay_out(c, config, &layout);
}

static void test_overlap(void **state) {
    (void)state;
    struct pipe_case c;
    int sums = 0;
    pipe_case_open(&c, model);
    for (int i = 0; i < SL_COUNT(rows); i++) {
        struct sl_train_config config = pipe_case_config(&c, "adamw", 11, 4, STEPS);
        struct sl_step_report reports[STEPS];
        struct sl_pipe *pipe;
        lay_out(&c, &config, &rows[i]);
        struct sl_pipe_config pc = {.train = &config,
                                    .plan = c.plan,
                                    .stage_of = c.stage_of,
                                    .schedule = rows[i].schedule,
                                    .trace = true};
        if (sl_pipe_open(&pc, &pipe) != SL_OK || sl_pipe_run(pipe, STEPS, reports) != SL_OK)
            fail_msg("%s: %s", rows[i].schedule, sl_err_message());
        for (int s = 0; s < STAGES * WIDTH; s++) {
            const struct sl_pipe_parts *parts = &pipe->seat_at[s]->parts;
            assert_int_equal(parts->count, 4); /* of 51,200 floats, and some more */
            assert_true(parts->ready[0][3] < parts->ready[0][0]); /* the last layer comes first */
            assert_int_equal(parts->begun, 0);
        }
        int found = check_timeline(sl_pipe_timeline(pipe), rows[i].schedule);
        assert_int_equal(found, STAGES * WIDTH * STEPS);
        sums += found;
        sl_pipe_close(pipe);
    }
    pipe_case_close(&c);
    printf("count: %d sums of replicas began within the pass that completed them\n", sums);
}

static void test_bits(void **state) {
    (void)state;
    struct pipe_case c;
    pipe_case_open(&c, model);
    for (int i = 0; i < SL_COUNT(rows); i++) {
        struct sl_train_config config = pipe_case_config(&c, "adamw", 11, 4, STEPS);
        struct sl_check_report report;
        lay_out(&c, &config, &rows[i]);
        struct sl_check_config check = {.pipe = {.train = &config,
                                                 .plan = c.plan,
                                                 .stage_of = c.stage_of,
                                                 .schedule = rows[i].schedule}};
        sl_err err = sl_pipe_check(&check, &report);
        if (err == SL_ERR_REFUSED) /* asynchronous */
            continue;
        assert_int_equal(err, SL_OK);
        if (report.kind != SL_CHECK_SAME)
            fail_msg("%s: %s differs after step %lld on stage %d", rows[i].schedule, report.tensor,
                     (long long)report.step, report.stage);
    }
    pipe_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_overlap), cmocka_unit_test(test_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
