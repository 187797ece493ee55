/* The simulator against the slow one on random plans, schedules, costs, networks and modes: every
 * start and end of every action and transfer, the peaks, and that the critical path has no gap. */
#include "report/critical.h"
#include "sched/deps.h"
#include "sched/slots.h"
#include "sim/sim.h"
#include "support/sched_cases.h"
#include "support/slow_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t played, shared_wires, skipped, skipped_shared, peaks, global_step, cold, tempo;

static void draw_costs(struct dice *dice, int stages, int64_t (*dur)[SL_KIND_COUNT]) {
    static const int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43};
    bool alike = dice_below(dice, 3) == 0;
    for (int i = 0; i < stages; i++)
        for (int k = 0; k < SL_KIND_COUNT; k++)
            dur[i][k] = alike && i ? dur[0][k] : primes[dice_below(dice, SL_COUNT(primes))];
}

static void draw_net(struct dice *dice, struct sl_sim_links *links, struct sl_sim_opts *opts) {
    if (dice_below(dice, 4) == 0)
        return;
    *links = (struct sl_sim_links){.latency_ns = 1 + dice_below(dice, 9),
                                   .bytes_per_s = dice_below(dice, 5) ? 1000000000 : 0,
                                   .half_duplex = dice_below(dice, 2),
                                   .sharing = (enum sl_sim_sharing)dice_below(dice, 3),
                                   .early = dice_below(dice, 3) == 0};
    if (links->bytes_per_s)
        links->bytes_per_s += dice_below(dice, 2000000000);
    opts->net = sl_sim_uniform(links);
}

static void draw_cold(struct dice *dice, struct sl_sim_opts *opts) {
    if (dice_below(dice, 3))
        return;
    opts->cold = (struct sl_cold){.f_ns = dice_below(dice, 12),
                                  .b_ns = dice_below(dice, 12),
                                  .after_ns = dice_below(dice, 15)};
}

static void draw_tempo(struct dice *dice, struct sl_arena *arena, struct sl_sim_opts *opts) {
    if (dice_below(dice, 5))
        return;
    opts->tempo.workers = 1 + (int)dice_below(dice, 5);
    opts->tempo.passes = 1 + (int)dice_below(dice, 7);
    int count = opts->tempo.workers * opts->tempo.passes;
    int32_t *at = SL_NEW(arena, int32_t, count);
    for (int i = 0; i < count; i++)
        at[i] = 500000 + (int32_t)dice_below(dice, 1500000);
    opts->tempo.millionths = at;
    opts->first_pass = dice_below(dice, 9);
}

static void fail_case(const struct sched_case *c, uint64_t at, const char *what) {
    fail_msg("case %llu: schedule %s, %d stages, %d workers: %s differs", (unsigned long long)at,
             c->opts.schedule, c->plan->stage_count, c->plan->worker_count, what);
}

static void compare(const struct sched_case *c, uint64_t at, const struct sl_sim *sim,
                    const struct slow_sim *slow) {
    for (int w = 0; w < c->plan->worker_count; w++) {
        const struct sl_lane *lane = &sim->timeline->lanes[w];
        assert_int_equal(lane->count, slow->workers[w].count);
        for (int64_t i = 0; i < lane->count; i++) {
            const struct slow_action *x = &slow->workers[w].at[i];
            if (lane->at[i].start_ns != x->start || lane->at[i].end_ns != x->end) {
                print_error("worker %d action %lld %s s%d %d: %lld..%lld, slow %lld..%lld\n", w,
                            (long long)i, sl_sched_kind_name(x->a.kind), x->a.stage, x->a.micro,
                            (long long)lane->at[i].start_ns, (long long)lane->at[i].end_ns,
                            (long long)x->start, (long long)x->end);
                fail_case(c, at, "a time");
            }
        }
        peaks += slow->workers[w].peak_bytes >= 0;
        if (slow->workers[w].peak_bytes >= 0 &&
            sim->workers[w].peak_bytes != slow->workers[w].peak_bytes) {
            print_error("worker %d: %lld, slow %lld\n", w, (long long)sim->workers[w].peak_bytes,
                        (long long)slow->workers[w].peak_bytes);
            fail_case(c, at, "a peak");
        }
    }
    if (sim->end_ns != slow->end_ns)
        fail_case(c, at, "the end");
}

static void check_critical(const struct sched_case *c, uint64_t at, const struct sl_sim *sim) {
    struct sl_arena arena = {0};
    struct sl_critical path;
    sl_report_timeline_critical(&arena, sim->timeline, &path);
    if (path.gap_ns) {
        print_error("gap %lld of %lld\n", (long long)path.gap_ns, (long long)sim->end_ns);
        fail_case(c, at, "the critical path");
    }
    sl_arena_free(&arena);
}

static void check_totals(const struct sched_case *c, uint64_t at, const struct sl_sched *sched,
                         struct sl_sim_opts opts, const struct sl_sim *full, bool shared) {
    struct sl_arena arena = {0};
    const struct sl_sim *sim;
    opts.timeline = false;
    assert_int_equal(sl_sim_run(&arena, sched, &opts, &sim), SL_OK);
    bool same = sim->end_ns == full->end_ns && sim->step_ns == full->step_ns &&
                sim->actions == full->actions && sim->transfers == full->transfers &&
                sim->moved_bytes == full->moved_bytes;
    for (int w = 0; w < c->plan->worker_count; w++)
        same &= memcmp(&sim->workers[w], &full->workers[w], sizeof *sim->workers) == 0;
    for (int i = 0; i < c->plan->seat_count; i++)
        same &= memcmp(&sim->seats[i], &full->seats[i], sizeof *sim->seats) == 0;
    skipped += sim->played_reps < sched->reps;
    skipped_shared += sim->played_reps < sched->reps && shared;
    if (!same)
        fail_case(c, at, "a total without timeline");
    for (int w = 0; w < c->plan->worker_count; w++)
        assert_true(sim->workers[w].peak_bytes <= sl_sched_worker_bytes(sched, w));
    sl_arena_free(&arena);
}

/* The unrolled program: no two micro-batches use the same slot at the same time. */
static void check_slots(const struct sched_case *c, uint64_t at, const struct sl_sched *sched,
                        const struct slow_sim *slow) {
    for (int seat = 0; seat < c->plan->seat_count; seat++) {
        int stage = c->plan->seats[seat].stage;
        const struct slow_worker *w = &slow->workers[c->plan->seats[seat].worker];
        int32_t slots = sl_sched_slots(sched, seat), *held;
        held = calloc((size_t)slots + 1, sizeof *held); /* 0: free */
        for (int64_t i = 0; i < w->count; i++) {
            const struct sl_action *a = &w->at[i].a;
            if (a->stage != stage || a->kind > SL_BACKWARD_WEIGHT || a->kind == SL_BACKWARD_INPUT)
                continue;
            int32_t *slot = &held[sl_sched_deps_ordinal(sched, stage, a->micro) % slots];
            if (*slot != (a->kind == SL_FORWARD ? 0 : a->micro + 1))
                fail_case(c, at, "what is in a slot");
            *slot = a->kind == SL_FORWARD && sched->rule != SL_RULE_FORWARD ? a->micro + 1 : 0;
        }
        free(held);
    }
}

static void one(uint64_t at) {
    struct dice dice = {.seed = 4, .stream = at};
    struct sl_arena arena = {0};
    int rows;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    struct sched_case c = sched_case_draw(&arena, &dice, registry[dice_below(&dice, rows)], 5);
    int64_t(*dur)[SL_KIND_COUNT] =
        sl_arena_alloc(&arena, c.plan->stage_count * (int64_t)sizeof(int64_t[SL_KIND_COUNT]));
    draw_costs(&dice, c.plan->stage_count, dur);
    if (dice_below(&dice, 2))
        c.opts.dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    const struct sl_sched *sched;
    if (sl_schedules_build(&arena, c.plan, &c.opts, &sched) != SL_OK) {
        sl_arena_free(&arena);
        return;
    }
    struct sl_sim_links links;
    struct sl_sim_opts opts = {.dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur,
                               .send = (enum sl_sim_send)dice_below(&dice, 3),
                               .timeline = true};
    draw_net(&dice, &links, &opts);
    draw_cold(&dice, &opts);
    draw_tempo(&dice, &arena, &opts);
    const struct sl_sim *sim;
    if (sl_sim_run(&arena, sched, &opts, &sim) != SL_OK)
        fail_msg("case %llu %s: %s", (unsigned long long)at, c.opts.schedule, sl_err_message());
    struct slow_sim slow;
    slow_sim_run(&arena, sched, &opts, &slow);
    compare(&c, at, sim, &slow);
    check_slots(&c, at, sched, &slow);
    check_critical(&c, at, sim);
    bool shared = opts.net.route && links.bytes_per_s &&
                  (links.half_duplex || links.sharing != SL_SHARE_NONE);
    check_totals(&c, at, sched, opts, sim, shared);
    shared_wires += shared;
    global_step += sched->global_step;
    cold += opts.cold.after_ns && sim->end_ns;
    tempo += opts.tempo.passes && sim->end_ns;
    played++;
    sl_arena_free(&arena);
}

static void random_schedules(void **state) {
    (void)state;
    const char *only = getenv("CASE");
    int64_t count = test_count(20000);
    for (int64_t i = only ? atoi(only) : 0; i < (only ? atoi(only) + 1 : count); i++)
        one((uint64_t)i);
    printf("count: simulated against the slow simulator %lld (%lld with shared wires, %lld with "
           "repetitions left out, %lld of these with shared wires, %lld peaks, %lld stepping "
           "together, %lld with cold passes, %lld with a tempo)\n",
           (long long)played, (long long)shared_wires, (long long)skipped,
           (long long)skipped_shared, (long long)peaks, (long long)global_step, (long long)cold,
           (long long)tempo);
    assert_true(only || global_step * 20 > played);
    assert_true(only || skipped_shared * 50 > played);
    assert_true(only || cold * 5 > played);
    assert_true(only || tempo * 10 > played);
    assert_true(only || played * 10 > count * 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_schedules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
