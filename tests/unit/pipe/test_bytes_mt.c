/* Memory of pipeline workers: allocations are at most the verifier's count, and within 3 % of it.
 * Cases: whole and split backward passes, recomputation, slack, two weight versions. 2bw holds
 * exactly two copies of the weights. Several stages on a worker share one work area. Frozen weights are
 * counted once, with no gradient, state or stash. */
#include "graph/stats.h"
#include "pipe/state.h"
#include "plan/bytes.h"
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { STAGES = 4, STEPS = 6 };

static const struct row {
    const char *schedule;
    bool split, recompute;
    int slack, versions;
} rows[] = {
    {"gpipe", false, false, 0, 1}, {"1f1b", false, false, 0, 1}, {"1f1b", false, true, 0, 1},
    {"1f1b", false, false, 2, 1},  {"zb-h1", true, false, 0, 1}, {"zb-h2", true, false, 0, 1},
    {"2bw", false, false, 0, 2},   {"2bw", false, true, 1, 2},
};

/* The verifier also counts the objects that describe a stage; they are large only relative to tiny
 * tensors. */
static int64_t host_bytes(const struct sl_worker *worker, const struct sl_optim *optim) {
    const struct sl_program *p = worker->programs[SL_WORKER_FULL];
    return p->arena.used_bytes + sl_graph_bytes(p->graph) + sl_plan_staging_bytes(p) +
           sl_plan_optim_scratch(p, optim);
}

/* `least` of the proved bytes are allocated. */
static int64_t check_rows(const char *sizes, const char *freeze, double least) {
    struct pipe_case c;
    int64_t all = 0;
    pipe_case_open_frozen(&c, "gpt-nano", sizes, freeze);
    for (int i = 0; i < SL_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        struct sl_train_config config = pipe_case_config(&c, "adamw", 24, 12, STEPS);
        config.device = sl_device_find("reference"); /* its kernels need no scratch */
        config.recompute = row->recompute;
        c.split = row->split;
        pipe_case_cut(&c, &config, STAGES, NULL);
        struct sl_pipe_config pc = {.train = &config,
                                    .plan = c.plan,
                                    .stage_of = c.stage_of,
                                    .schedule = row->schedule,
                                    .slack = row->slack};
        struct sl_pipe *pipe;
        if (sl_pipe_open(&pc, &pipe) != SL_OK)
            fail_msg("%s: %s", row->schedule, sl_err_message());
        const int64_t *bytes = sl_pipe_bytes(pipe);
        for (int w = 0; w < STAGES; w++) {
            int64_t proved = sl_sched_worker_bytes(pipe->sched, w);
            int64_t host = host_bytes(sl_pipe_worker(pipe, w), &config.optim);
            if (bytes[w] > proved - host || (double)bytes[w] < least * (double)(proved - host))
                fail_msg("%s, recompute %d, slack %d, worker %d: %lld allocated, %lld proved",
                         row->schedule, row->recompute, row->slack, w, (long long)bytes[w],
                         (long long)(proved - host));
            all += bytes[w];
            assert_int_equal(sl_pipe_worker(pipe, w)->versions, row->versions);
            assert_int_equal(pipe->sched->pools[w][SL_POOL_WEIGHT].count, row->versions);
        }
        sl_pipe_close(pipe);
    }
    pipe_case_close(&c);
    return all;
}

static void test_bytes(void **state) {
    (void)state;
    static const char sizes[] = "V=64,T=16,P=16,L=6,C=64,H=4,tied=0";
    (void)check_rows("V=64,T=16,P=16,L=6,C=32,H=4", "", 0.97);
    /* with fewer bytes, those of messages weigh more */
    int64_t whole = check_rows(sizes, "", 0.95),
            half = check_rows(sizes, "h.0,h.1,h.2,wte,wpe", 0.95),
            upper = check_rows(sizes, "h.3,h.4,h.5", 0.95),
            head = check_rows(sizes, "*,!lm_head", 0.9);
    printf("bytes: %lld; frozen below %lld, above %lld, all but the head %lld\n", (long long)whole,
           (long long)half, (long long)upper, (long long)head);
    assert_true(head < half && half < whole && upper < whole && head < upper);
}

/* Two stages on each of two workers; the stages of a worker share memory that lasts one action. */
static void test_shared(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "interleaved", "graph"};
    static const int worker_of[STAGES] = {0, 1, 0, 1};
    struct pipe_case c;
    pipe_case_open_zoo(&c, "gpt-nano", "V=64,T=64,P=64,L=6,C=32,H=4");
    for (int i = 0; i < SL_COUNT(schedules); i++) {
        struct sl_train_config config = pipe_case_config(&c, "muon", 24, 4, STEPS);
        struct sl_step_report reports[STEPS];
        struct sl_pipe *pipe;
        config.device = sl_device_find("reference");
        config.recompute = true; /* makes the work area the largest part */
        pipe_case_cut(&c, &config, STAGES, worker_of);
        struct sl_pipe_config pc = {
            .train = &config, .plan = c.plan, .stage_of = c.stage_of, .schedule = schedules[i]};
        if (sl_pipe_open(&pc, &pipe) != SL_OK || sl_pipe_run(pipe, 1, reports) != SL_OK)
            fail_msg("%s: %s", schedules[i], sl_err_message());
        for (int w = 0; w < 2; w++) {
            const struct sl_pipe_seat *a = pipe->seat_at[w], *b = pipe->seat_at[w + 2];
            const struct sl_worker *one = a->train.worker, *two = b->train.worker;
            assert_ptr_equal(one->work, two->work);
            assert_ptr_equal(one->staging, two->staging);
            assert_ptr_equal(a->train.opt_scratch, b->train.opt_scratch);
            int64_t least = one->work_bytes < two->work_bytes ? one->work_bytes : two->work_bytes;
            int64_t proved = sl_sched_worker_bytes(pipe->sched, w), bytes = sl_pipe_bytes(pipe)[w];
            /* there is no room for a second work area */
            assert_true(bytes <= proved && bytes + least > proved);
        }
        sl_pipe_close(pipe);
    }
    pipe_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_shared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
