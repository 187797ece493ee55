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

static bool has_groups(const struct sched_case *c) {
    bool groups = c->opts.group > 1;
    for (int i = 0; i < c->plan->stage_count; i++)
        groups |= c->plan->stages[i].group > 1;
    return groups;
}

/* For width 1, equal sizes and one stage per worker the window rows are exact, and so is chimera.
 */
static bool is_exact(const struct sched_case *c, const struct sl_schedule *row) {
    const struct sl_plan *plan = c->plan;
    if (row->layout_chunks || c->opts.last_batch)
        return false;
    if (row->layout == SL_LAYOUT_CROSS)
        return true;
    for (int i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].width > 1 || plan->stages[i].micro_size != plan->stages[0].micro_size)
            return false;
    return !has_groups(c);
}

static void check_claims(struct sl_arena *arena, const struct sched_case *c,
                         const struct sl_schedule *row, const struct sl_sched *sched) {
    for (int i = 0; i < c->plan->seat_count; i++) {
        struct sl_claim claim;
        struct measured m = measure(sched, i);
        assert_int_equal(sl_schedules_row_claim(arena, c->plan, &c->opts, i, &claim), SL_OK);
        int64_t versions = sched->pools[i][SL_POOL_WEIGHT].count;
        if (m.live > claim.live || versions > claim.versions || m.delay > claim.delay ||
            (is_exact(c, row) && !claim.live_bound && m.live != claim.live))
            fail_msg("%s seat %d: live %lld (claim %lld), versions %lld (%lld), delay %lld (%lld)",
                     row->name, i, (long long)m.live, (long long)claim.live, (long long)versions,
                     (long long)claim.versions, (long long)m.delay, (long long)claim.delay);
    }
}

/* ---- the facts of a row ---- */

/* What all generated schedules of a row have shown so far. */
struct seen {
    bool split, whole;
    bool not_all; /* a stage had fewer micro-batches in flight than an iteration has */
    int64_t versions;
};

static void check_window(const struct sched_case *c, const struct sl_sched *sched, int seat,
                         int64_t live) {
    int stage = c->plan->seats[seat].stage;
    int64_t m = sched->micros[stage], window = c->plan->stages[stage].height + 1;
    if (live < (m < window ? m : window) || live > window)
        fail_msg("%s is windowed, but seat %d has %lld micro-batches in flight, window %lld",
                 c->opts.schedule, seat, (long long)live, (long long)window);
}

static bool same_actions(const struct sl_sched *a, const struct sl_sched *b) {
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        for (int w = 0; w < a->plan->worker_count; w++) {
            const struct sl_actions *x = &a->lists[s][w], *y = &b->lists[s][w];
            if (x->count != y->count ||
                (x->count && memcmp(x->at, y->at, sizeof *x->at * (size_t)x->count) != 0))
                return false;
        }
    return true;
}

static bool has_one_size(const struct sl_plan *plan) {
    for (int i = 1; i < plan->stage_count; i++)
        if (plan->stages[i].micro_size != plan->stages[0].micro_size)
            return false;
    return true;
}

static void check_mixed(struct sl_arena *arena, const struct sched_case *c,
                        const struct sl_schedule *row, const struct sl_sched *sched) {
    struct sl_schedule_opts opts = c->opts;
    const struct sl_sched *other;
    opts.schedule = row->mixed->name;
    assert_true(row->mixed->any_micro_size);
    assert_int_equal(sl_schedules_build(arena, c->plan, &opts, &other), SL_OK);
    if (!same_actions(sched, other))
        fail_msg("%s says that %s gives the same schedule for one micro-batch size", row->name,
                 row->mixed->name);
}

static void check_case(struct sl_arena *arena, const struct sched_case *c,
                       const struct sl_schedule *row, const struct sl_sched *sched,
                       struct seen *seen) {
    bool split = false, exact = is_exact(c, row) && !c->opts.slack;
    if (c->opts.last_batch) /* the last iteration may be plain 1F1B */
        return;
    for (int i = 0; i < c->plan->seat_count; i++) {
        struct measured m = measure(sched, i);
        int stage = c->plan->seats[i].stage;
        split |= m.split;
        seen->whole |= m.whole;
        seen->not_all |=
            m.live < sl_sched_deps_share(sched->micros[stage], c->plan->stages[stage].width,
                                         c->plan->seats[i].replica);
        int64_t versions = sched->pools[i][SL_POOL_WEIGHT].count;
        if (!c->opts.policy && versions > seen->versions)
            seen->versions = versions;
        if (exact && row->windowed)
            check_window(c, sched, i, m.live);
    }
    if (split != row->splits_backward)
        fail_msg("%s: splits_backward is %d, the generator says %d", row->name,
                 row->splits_backward, split);
    seen->split |= split;
    if (row->mixed && has_one_size(c->plan) && !has_groups(c))
        check_mixed(arena, c, row, sched);
}

static void check_seen(const struct sl_schedule *row, const struct seen *seen) {
    static const int64_t versions_min[] = {[SL_MEMORY_WINDOW] = 1,
                                           [SL_MEMORY_ONE] = 1,
                                           [SL_MEMORY_ALL] = 1,
                                           [SL_MEMORY_TWO_VERSIONS] = 2,
                                           [SL_MEMORY_STASHED] = 3};
    int64_t least = versions_min[row->memory];
    bool versions =
        row->memory == SL_MEMORY_STASHED ? seen->versions >= least : seen->versions == least;
    if (row->mixes_backward != (seen->split && seen->whole))
        fail_msg("%s: mixes_backward is %d", row->name, row->mixes_backward);
    if (!versions || (row->memory == SL_MEMORY_ALL) == seen->not_all)
        fail_msg("%s: memory rule %d, but up to %lld weight versions, %s", row->name, row->memory,
                 (long long)seen->versions,
                 seen->not_all ? "not all micro-batches in flight" : "all micro-batches in flight");
}

/* A chain of stages on two workers as the row wants it; stage 0 has micro-batches of `size`. */
static const struct sl_plan *chain_of(struct sl_arena *arena, const struct sl_schedule *row,
                                      int64_t size) {
    const struct sl_plan *plan;
    assert_int_equal(sl_plan_chain(arena, row->layout_chunks ? 4 : 2, 2, row->layout, &plan),
                     SL_OK);
    struct sl_stage *stages = SL_NEW(arena, struct sl_stage, plan->stage_count);
    memcpy(stages, plan->stages, sizeof *stages * (size_t)plan->stage_count);
    stages[0].micro_size = size;
    struct sl_plan draft = *plan;
    draft.stages = stages;
    assert_int_equal(sl_plan_build(arena, &draft, &plan), SL_OK);
    return plan;
}

/* Which micro-batch sizes, counts and groups a row takes. */
static void test_domain(void **state) {
    int rows;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    (void)state;
    for (int r = 0; r < rows; r++) {
        const struct sl_schedule *row = registry[r];
        struct sl_arena arena = {0};
        const struct sl_sched *sched, *grouped;
        struct sl_schedule_opts opts = {.schedule = row->name, .batch = 8};
        const struct sl_plan *mixed = chain_of(&arena, row, 2), *equal = chain_of(&arena, row, 1);
        if ((sl_schedules_build(&arena, mixed, &opts, &sched) == SL_OK) != row->any_micro_size)
            fail_msg("%s: any_micro_size is %d", row->name, row->any_micro_size);
        opts.batch = 5;
        if ((sl_schedules_build(&arena, equal, &opts, &sched) == SL_OK) == row->micros_divide)
            fail_msg("%s: micros_divide is %d", row->name, row->micros_divide);
        for (opts.batch = 1; opts.batch <= 4; opts.batch++)
            if (opts.batch % 2 == 0 || !row->micros_divide)
                if ((sl_schedules_build(&arena, equal, &opts, &sched) == SL_OK) !=
                    (opts.batch >= 2 * row->micros_per_worker))
                    fail_msg("%s: micros_per_worker is %d", row->name, row->micros_per_worker);
        opts.batch = 8;
        assert_int_equal(sl_schedules_build(&arena, equal, &opts, &sched), SL_OK);
        opts.group = 2;
        if (row->groups && (sl_schedules_build(&arena, equal, &opts, &grouped) != SL_OK ||
                            same_actions(sched, grouped)))
            fail_msg("%s: --group changes nothing", row->name);
        sl_arena_free(&arena);
    }
}

/* Names in torch: a class is "Schedule" and the name that torchtitan looks it up by. */
static void test_names(void **state) {
    int rows, mixed = 0;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    (void)state;
    for (int r = 0; r < rows; r++) {
        const struct sl_schedule *row = registry[r];
        char class_name[64];
        mixed += row->searched == SL_SEARCHED_MIXED;
        assert_true(row->searched == SL_SEARCHED_NAMED || row->rule == SL_RULE_SYNC);
        assert_true(row->searched != SL_SEARCHED_MIXED || row->any_micro_size);
        assert_int_equal(!row->torch_name, !row->torchtitan_name);
        if (!row->torch_name)
            continue;
        snprintf(class_name, sizeof class_name, "Schedule%s", row->torchtitan_name);
        assert_string_equal(row->torch_name, class_name);
        assert_int_equal(row->rule, SL_RULE_SYNC);
    }
    assert_int_equal(mixed, 1);
}

static void test_rows(void **state) {
    int rows;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    int64_t count = test_count(10000), actions = 0;
    (void)state;
    for (int r = 0; r < rows; r++) {
        struct seen seen = {0};
        for (int64_t i = 0; i < count; i++) {
            struct sl_arena arena = {0};
            struct dice dice = {SEED, (uint64_t)r, (uint64_t)i << 20};
            struct sched_case c = sched_case_draw(&arena, &dice, registry[r], SIZE);
            const struct sl_sched *sched;
            sl_err err = sl_schedules_build(&arena, c.plan, &c.opts, &sched);
            if (err != SL_OK)
                fail_msg("%s, seed %d, case %lld: %s", registry[r]->name, SEED, (long long)i,
                         sl_err_message());
            const char *why = symbolic_judge(sched);
            if (why)
                fail_msg("%s, seed %d, case %lld: verified, but the judge says: %s",
                         registry[r]->name, SEED, (long long)i, why);
            check_claims(&arena, &c, registry[r], sched);
            check_case(&arena, &c, registry[r], sched, &seen);
            actions += sl_sched_action_count(sched);
            sl_arena_free(&arena);
        }
        check_seen(registry[r], &seen);
        printf("schedule %-12s %lld random plans verified, claims met\n", registry[r]->name,
               (long long)count);
    }
    printf("seed %d, %lld actions in all\n", SEED, (long long)actions);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_domain),
                                       cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
