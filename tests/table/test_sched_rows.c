/* Every schedule of the registry on random stage graphs: it verifies, the independent judge agrees,
 * and the claims of its row hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/deps.h"
#include "support/sched_cases.h"
#include "support/symbolic.h"

#include <stdio.h>
#include <string.h>

enum { SEED = 20240917, SIZE = 7 };

struct measured {
    int64_t live, delay;
    bool split, whole;
};

/* Most micro-batches between F and B or I on a seat, over prologue, one or two periods, epilogue.
 */
static struct measured measure(const struct sl_sched *sched, int seat) {
    struct measured m = {0};
    int64_t live = 0;
    int worker = sched->plan->seats[seat].worker, stage = sched->plan->seats[seat].stage;
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        for (int r = 0; r < (s == SL_PERIOD ? (sched->reps > 2 ? 2 : sched->reps) : 1); r++)
            for (int64_t i = 0; i < sched->lists[s][worker].count; i++) {
                const struct sl_action *a = &sched->lists[s][worker].at[i];
                if (a->stage != stage || a->kind > SL_BACKWARD_WEIGHT)
                    continue;
                live += (a->kind == SL_FORWARD) -
                        (a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_INPUT);
                m.live = live > m.live ? live : m.live;
                live -= sched->rule == SL_RULE_FORWARD;
                m.split |= a->kind == SL_BACKWARD_INPUT;
                m.whole |= a->kind == SL_BACKWARD;
                int64_t behind = a->micro / sched->micros[stage] - a->version;
                if (a->kind == SL_FORWARD && behind > m.delay)
                    m.delay = behind;
            }
    return m;
}

/* For width 1, equal sizes and one stage per worker the window rows are exact, and so is chimera.
 */
static bool is_exact(const struct sched_case *c, const struct sl_schedule *row, int seat) {
    const struct sl_plan *plan = c->plan;
    if (row->layout_chunks || c->opts.last_batch)
        return false;
    if (row->layout == SL_LAYOUT_CROSS)
        return true;
    for (int i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].width > 1 || plan->stages[i].micro_size != plan->stages[0].micro_size)
            return false;
    (void)seat;
    return strcmp(row->name, "zb-graph") != 0 && c->opts.group <= 1;
}

static void check_claims(struct sl_arena *arena, const struct sched_case *c,
                         const struct sl_schedule *row, const struct sl_sched *sched) {
    for (int i = 0; i < c->plan->seat_count; i++) {
        struct sl_claim claim;
        struct measured m = measure(sched, i);
        assert_int_equal(sl_sched_row_claim(arena, c->plan, &c->opts, i, &claim), SL_OK);
        int64_t versions = sched->pools[i][SL_POOL_WEIGHT].count;
        if (m.live > claim.live || versions > claim.versions || m.delay > claim.delay ||
            (is_exact(c, row, i) && m.live != claim.live))
            fail_msg("%s seat %d: live %lld (claim %lld), versions %lld (%lld), delay %lld (%lld)",
                     row->name, i, (long long)m.live, (long long)claim.live, (long long)versions,
                     (long long)claim.versions, (long long)m.delay, (long long)claim.delay);
        if (m.split)
            assert_string_equal(claim.passes, "F I W");
        if (m.whole && strcmp(row->name, "dualpipe-v") != 0 && !c->opts.last_batch)
            assert_string_equal(claim.passes, "F B");
    }
}

static void test_rows(void **state) {
    int rows;
    const struct sl_schedule *const *registry = sl_sched_row_registry(&rows);
    int64_t count = test_count(10000), actions = 0;
    (void)state;
    for (int r = 0; r < rows; r++) {
        for (int64_t i = 0; i < count; i++) {
            struct sl_arena arena = {0};
            struct dice dice = {SEED, (uint64_t)r, (uint64_t)i << 20};
            struct sched_case c = sched_case_draw(&arena, &dice, registry[r], SIZE);
            const struct sl_sched *sched;
            sl_err err = sl_sched_build(&arena, c.plan, &c.opts, &sched);
            if (err != SL_OK)
                fail_msg("%s, seed %d, case %lld: %s", registry[r]->name, SEED, (long long)i,
                         sl_err_message());
            const char *why = symbolic_judge(sched);
            if (why)
                fail_msg("%s, seed %d, case %lld: verified, but the judge says: %s",
                         registry[r]->name, SEED, (long long)i, why);
            check_claims(&arena, &c, registry[r], sched);
            actions += sl_sched_action_count(sched);
            sl_arena_free(&arena);
        }
        printf("schedule %-12s %lld random plans verified, claims met\n", registry[r]->name,
               (long long)count);
    }
    printf("seed %d, %lld actions in all\n", SEED, (long long)actions);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
