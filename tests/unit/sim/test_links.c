/* Receives are posted early enough: up to a latency of the shortest pass, a step takes no longer
 * than the order of passes requires. With receives posted from the start, as in a run, this holds
 * for any latency.
 *
 * The oracle is the longest path through the passes, with the latency on every edge between two
 * workers. It ignores sends, receives and buffers, so it is a lower bound for any lowering; the
 * simulation of the lowered program must equal it to the nanosecond. */
#include "base/text.h"
#include "schedules/schedule.h"
#include "sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { F_NS = 100, I_NS = 110, W_NS = 90, STAGES = 16, MICROS = 32 };

static int64_t end_of[2][STAGES][MICROS]; /* [F, B or I]; 0: not yet */

/* Arrival of the inputs of a pass; -1: not yet known. */
static int64_t ready_at(const struct sl_plan *plan, const struct sl_action *a, int64_t latency) {
    bool grad = a->kind != SL_FORWARD;
    int other = a->stage + (grad ? 1 : -1);
    if (a->kind == SL_BACKWARD_WEIGHT || other < 0 || other >= plan->stage_count)
        return 0;
    int64_t ready = end_of[grad][other][a->micro];
    if (!ready)
        return -1;
    bool same = plan->stages[other].workers[0] == plan->stages[a->stage].workers[0];
    return ready + (same ? 0 : latency);
}

static int64_t longest_path(const struct sl_sched *sched, int64_t latency) {
    int64_t at[STAGES] = {0}, now[STAGES] = {0}, max = 0;
    memset(end_of, 0, sizeof end_of);
    for (bool moved = true; moved;) {
        moved = false;
        for (int w = 0; w < sched->plan->worker_count; w++)
            for (; at[w] < sched->lists[SL_PERIOD][w].count; at[w]++) {
                const struct sl_action *a = &sched->lists[SL_PERIOD][w].at[at[w]];
                if (a->kind > SL_BACKWARD_WEIGHT)
                    continue;
                int64_t ready = ready_at(sched->plan, a, latency);
                if (ready < 0)
                    break;
                now[w] = (ready > now[w] ? ready : now[w]) + sched->dur_ns[a->stage][a->kind];
                if (a->kind != SL_BACKWARD_WEIGHT)
                    end_of[a->kind != SL_FORWARD][a->stage][a->micro] = now[w];
                max = now[w] > max ? now[w] : max;
                moved = true;
            }
    }
    return max;
}

static int64_t cases;

static void meet(const char *name, int workers, int64_t micros, int64_t latency, bool early) {
    struct sl_arena arena = {0};
    const struct sl_schedule *row = sl_schedules_row_find(name);
    int stages = row->layout == SL_LAYOUT_V || row->layout_chunks ? 2 * workers : workers;
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    int64_t dur[STAGES][SL_KIND_COUNT] = {{0}};
    struct sl_sim_links links = {.latency_ns = latency, .early = early};
    for (int i = 0; i < stages; i++) {
        dur[i][SL_FORWARD] = F_NS;
        dur[i][SL_BACKWARD_INPUT] = I_NS;
        dur[i][SL_BACKWARD_WEIGHT] = W_NS;
        dur[i][SL_BACKWARD] = I_NS + W_NS;
    }
    struct sl_schedule_opts opts = {
        .schedule = name, .micros = micros, .dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur};
    assert_int_equal(sl_plan_chain(&arena, stages, workers, row->layout, &plan), SL_OK);
    assert_int_equal(sl_schedules_build(&arena, plan, &opts, &sched), SL_OK);
    struct sl_sim_opts how = {.net = sl_sim_uniform(&links)};
    assert_int_equal(sl_sim_run(&arena, sched, &how, &sim), SL_OK);
    int64_t bound = longest_path(sched, latency);
    if (sim->end_ns != bound)
        fail_msg("%s on %d workers, m=%lld, latency %lld: %lld ns, the passes alone %lld", name,
                 workers, (long long)micros, (long long)latency, (long long)sim->end_ns,
                 (long long)bound);
    cases++;
    sl_arena_free(&arena);
}

static void meet_all(const int64_t *latencies, int count, bool early) {
    static const char *const names[] = {"1f1b",        "gpipe", "zb-h1",
                                        "interleaved", "zb-v",  "dualpipe-v"};
    for (int n = 0; n < SL_COUNT(names); n++)
        for (int p = 2; p <= 8; p++)
            for (int64_t m = p; m <= MICROS; m += p)
                for (int l = 0; l < count; l++)
                    if (m >= 2 * p || n != 5)
                        meet(names[n], p, m, latencies[l], early);
}

static void test_early_enough(void **state) {
    static const int64_t latencies[] = {0, 1, W_NS / 5, W_NS / 2, W_NS};
    (void)state;
    meet_all(latencies, SL_COUNT(latencies), false);
    printf("count: slow links, as fast as the passes alone %lld\n", (long long)cases);
}

static void test_from_the_start(void **state) {
    static const int64_t latencies[] = {0, W_NS, 2 * W_NS + 1, 1009, 20011};
    (void)state;
    cases = 0;
    meet_all(latencies, SL_COUNT(latencies), true);
    printf("count: receives posted from the start, any latency, likewise %lld\n", (long long)cases);
}

/* A long asynchronous run becomes periodic and the rest is skipped, with and without shared ports.
 * Stages of one replica never reduce; that must not prevent the detection. The random cases compare
 * the extrapolated totals with every action. */
static void test_repeats(void **state) {
    (void)state;
    for (int p = 2; p <= 8; p++)
        for (int how = 0; how < 4; how++) {
            struct sl_arena arena = {0};
            const struct sl_plan *plan;
            const struct sl_sched *sched;
            const struct sl_sim *sim;
            int64_t dur[STAGES][SL_KIND_COUNT];
            for (int i = 0; i < p; i++)
                for (int k = 0; k < SL_KIND_COUNT; k++)
                    dur[i][k] = k == SL_BACKWARD ? I_NS + W_NS + i : F_NS + i;
            struct sl_schedule_opts opts = {.schedule = "2bw",
                                            .micros = 16,
                                            .iters = 1000,
                                            .slack = 1,
                                            .dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur};
            struct sl_sim_links links = {.latency_ns = 7,
                                         .bytes_per_s = 40000000, /* 25 ns a message */
                                         .early = how & 1,
                                         .sharing = how & 2 ? SL_SHARE_WORKER : SL_SHARE_NONE};
            struct sl_sim_opts play = {.net = sl_sim_uniform(&links)};
            assert_int_equal(sl_plan_chain(&arena, p, p, SL_LAYOUT_LOOP, &plan), SL_OK);
            assert_int_equal(sl_schedules_build(&arena, plan, &opts, &sched), SL_OK);
            assert_int_equal(sl_sim_run(&arena, sched, &play, &sim), SL_OK);
            if (sim->played_reps > 60)
                fail_msg("%d workers, %s ports, receives %s: %d repetitions are played", p,
                         how & 2 ? "shared" : "own", how & 1 ? "early" : "posted",
                         sim->played_reps);
            sl_arena_free(&arena);
        }
}

static int64_t step_with(const struct sl_plan *plan, struct sl_schedule_opts opts, int64_t slack) {
    struct sl_arena arena = {0};
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    struct sl_sim_links links = {.latency_ns = W_NS / 2, .early = true};
    struct sl_sim_opts play = {.net = sl_sim_uniform(&links)};
    opts.slack = slack;
    assert_int_equal(sl_schedules_build(&arena, plan, &opts, &sched), SL_OK);
    assert_int_equal(sl_sim_run(&arena, sched, &play, &sim), SL_OK);
    int64_t step_ns = sim->step_ns;
    sl_arena_free(&arena);
    return step_ns;
}

/* The default slack of 2bw never makes it slower, and sometimes faster. */
static void test_own_slack(void **state) {
    (void)state;
    int faster = 0;
    for (int p = 2; p <= 8; p++)
        for (int64_t m = p; m <= 2 * p + 2; m++) {
            struct sl_arena arena = {0};
            const struct sl_plan *plan;
            int64_t dur[STAGES][SL_KIND_COUNT] = {{0}};
            for (int i = 0; i < p; i++) {
                dur[i][SL_FORWARD] = F_NS;
                dur[i][SL_BACKWARD] = I_NS + W_NS;
            }
            struct sl_schedule_opts opts = {.schedule = "2bw",
                                            .micros = m,
                                            .iters = 32,
                                            .dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur};
            assert_int_equal(sl_plan_chain(&arena, p, p, SL_LAYOUT_LOOP, &plan), SL_OK);
            int64_t own = step_with(plan, opts, sl_schedules_row_slack(plan, &opts));
            int64_t none = step_with(plan, opts, 0);
            if (own > none)
                fail_msg("%d workers, m=%lld: %lld ns a step, without slack %lld", p, (long long)m,
                         (long long)own, (long long)none);
            faster += own < none;
            sl_arena_free(&arena);
        }
    assert_true(faster > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_early_enough), cmocka_unit_test(test_from_the_start),
        cmocka_unit_test(test_repeats), cmocka_unit_test(test_own_slack)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
