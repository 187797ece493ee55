/* Sabotage: mutants of lowered schedules. The verifier and the independent judge must agree on
 * every one, both ways; the counts of each kind are printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/sched_cases.h"
#include "support/symbolic.h"

#include <stdio.h>
#include <string.h>

enum { SEED = 314159, SIZE = 5, MUTANTS_PER_PLAN = 12 };

/* A mutation changes one list; false: it does not apply to this list or changes nothing. */
struct mutation {
    const char *name;
    bool (*apply)(struct dice *dice, const struct sl_sched *sched, struct sl_actions *list);
};

static bool swap_neighbours(struct dice *dice, const struct sl_sched *sched,
                            struct sl_actions *list) {
    (void)sched;
    if (list->count < 2)
        return false;
    int64_t i = dice_below(dice, list->count - 1);
    struct sl_action a = list->at[i];
    list->at[i] = list->at[i + 1];
    list->at[i + 1] = a;
    return true;
}

static bool swap_any(struct dice *dice, const struct sl_sched *sched, struct sl_actions *list) {
    (void)sched;
    if (list->count < 2)
        return false;
    int64_t i = dice_below(dice, list->count), j = dice_below(dice, list->count);
    struct sl_action a = list->at[i];
    list->at[i] = list->at[j];
    list->at[j] = a;
    return i != j;
}

static bool move(struct dice *dice, const struct sl_sched *sched, struct sl_actions *list) {
    (void)sched;
    if (list->count < 2)
        return false;
    int64_t i = dice_below(dice, list->count), j = dice_below(dice, list->count);
    struct sl_action a = list->at[i];
    for (; i < j; i++)
        list->at[i] = list->at[i + 1];
    for (; i > j; i--)
        list->at[i] = list->at[i - 1];
    list->at[j] = a;
    return true;
}

static bool drop(struct dice *dice, const struct sl_sched *sched, struct sl_actions *list) {
    (void)sched;
    if (!list->count)
        return false;
    int64_t i = dice_below(dice, list->count);
    memmove(&list->at[i], &list->at[i + 1], sizeof *list->at * (size_t)(list->count - i - 1));
    list->count--;
    return true;
}

static bool duplicate(struct dice *dice, const struct sl_sched *sched, struct sl_actions *list) {
    (void)sched;
    if (!list->count)
        return false;
    int64_t i = dice_below(dice, list->count), j = dice_below(dice, list->count + 1);
    struct sl_action a = list->at[i];
    memmove(&list->at[j + 1], &list->at[j], sizeof *list->at * (size_t)(list->count - j));
    list->at[j] = a;
    list->count++;
    return true;
}

static struct sl_action *pick(struct dice *dice, struct sl_actions *list, bool messages) {
    for (int tries = 0; tries < 20 && list->count; tries++) {
        struct sl_action *a = &list->at[dice_below(dice, list->count)];
        if ((a->kind == SL_SEND || a->kind == SL_RECV) == messages)
            return a;
    }
    return NULL;
}

static bool reversion(struct dice *dice, const struct sl_sched *sched, struct sl_actions *list) {
    struct sl_action *a = pick(dice, list, false);
    (void)sched;
    if (!a)
        return false;
    a->version += dice_below(dice, 2) ? 1 : -1;
    return true;
}

/* Any slot of any action; mutants of unread slots are harmless. */
static bool reslot(struct dice *dice, const struct sl_sched *sched, struct sl_actions *list) {
    struct sl_action *a = pick(dice, list, dice_below(dice, 2));
    int32_t by = dice_below(dice, 2) ? 1 : -1;
    (void)sched;
    if (!a)
        return false;
    bool message = a->kind == SL_SEND || a->kind == SL_RECV;
    switch (message ? 0 : dice_below(dice, 4)) {
    case 0: a->slot += by; break;
    case 1: a->slot2 += by; break;
    case 2: a->weight_slot = (uint16_t)(a->weight_slot + by); break;
    default: a->grad_slot = (uint8_t)(a->grad_slot + by); break;
    }
    return true;
}

/* Reads, or makes, weights predicted another distance ahead. */
static bool foresee(struct dice *dice, const struct sl_sched *sched, struct sl_actions *list) {
    struct sl_action *a = pick(dice, list, false);
    (void)sched;
    if (!a || a->kind == SL_REDUCE || a->kind == SL_STEP)
        return false;
    a->ahead = (uint8_t)(a->ahead + (dice_below(dice, 2) ? 1 : -1));
    return true;
}

static bool repeer(struct dice *dice, const struct sl_sched *sched, struct sl_actions *list) {
    struct sl_action *a = pick(dice, list, true);
    if (!a || sched->plan->worker_count < 2)
        return false;
    uint16_t was = a->peer;
    a->peer = (uint16_t)dice_below(dice, sched->plan->worker_count);
    return a->peer != was;
}

static bool relabel(struct dice *dice, const struct sl_sched *sched, struct sl_actions *list) {
    struct sl_action *a = pick(dice, list, dice_below(dice, 2));
    if (!a)
        return false;
    bool message = a->kind == SL_SEND || a->kind == SL_RECV;
    int64_t what = dice_below(dice, message ? 5 : 3);
    int32_t by = dice_below(dice, 2) ? 1 : -1;
    if (what == 0 && a->kind <= SL_RECV)
        a->micro += by;
    else if (what == 1)
        a->stage = (uint16_t)dice_below(dice, sched->plan->stage_count);
    else if (what == 2 && a->kind < SL_KIND_COUNT)
        a->kind =
            (uint8_t)(a->kind <= SL_BACKWARD_WEIGHT ? dice_below(dice, SL_RECOMPUTE) : a->kind);
    else if (what == 3)
        a->other += by;
    else if (what == 4)
        a->edge = (uint16_t)dice_below(dice, sched->plan->edge_count);
    else
        return false;
    return true;
}

static const struct mutation mutations[] = {
    {"swapped neighbours", swap_neighbours},
    {"swapped", swap_any},
    {"moved", move},
    {"dropped", drop},
    {"duplicated", duplicate},
    {"re-versioned", reversion},
    {"re-slotted", reslot},
    {"re-predicted", foresee},
    {"re-peered", repeer},
    {"relabelled", relabel},
};

struct tally {
    int64_t rejected, harmless;
};

static bool same_program(const struct sl_sched *a, const struct sl_sched *b) {
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        for (int w = 0; w < a->plan->worker_count; w++) {
            const struct sl_actions *x = &a->lists[s][w], *y = &b->lists[s][w];
            if (x->count != y->count ||
                (x->count && memcmp(x->at, y->at, sizeof *x->at * (size_t)x->count) != 0))
                return false;
        }
    return true;
}

/* One mutant of `sched`; false: no mutation applied. */
static bool try_mutant(struct dice *dice, const struct sl_sched *sched, struct tally *tallies,
                       const char *row) {
    struct sl_arena arena = {0};
    struct sl_sched *mutant = sched_copy(&arena, sched);
    int kind = (int)dice_below(dice, SL_COUNT(mutations));
    int segment = (int)dice_below(dice, SL_SEGMENT_COUNT);
    int worker = (int)dice_below(dice, sched->plan->worker_count);
    bool made = mutations[kind].apply(dice, sched, &mutant->lists[segment][worker]) &&
                !same_program(mutant, sched);
    if (made) {
        sl_err err = sl_sched_verify(mutant);
        const char *why = symbolic_judge(mutant);
        if ((err == SL_OK) != (why == NULL))
            fail_msg("%s, %s in segment %d of worker %d, dice %llu/%llu: verifier says %s, judge "
                     "says %s",
                     row, mutations[kind].name, segment, worker, (unsigned long long)dice->stream,
                     (unsigned long long)dice->at, err == SL_OK ? "yes" : sl_err_message(),
                     why ? why : "harmless");
        if (err == SL_OK)
            tallies[kind].harmless++;
        else
            tallies[kind].rejected++;
    }
    sl_arena_free(&arena);
    return made;
}

static void test_mutants(void **state) {
    struct tally tallies[SL_COUNT(mutations)] = {{0}};
    int64_t wanted = test_count(100000), made = 0, rejected = 0, harmless = 0;
    int rows;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    (void)state;
    for (int64_t i = 0; made < wanted; i++) {
        struct sl_arena arena = {0};
        const struct sl_schedule *row = registry[i % rows];
        struct dice dice = {SEED, (uint64_t)i, 0};
        struct sched_case c = sched_case_draw(&arena, &dice, row, SIZE);
        const struct sl_sched *sched;
        assert_int_equal(sl_schedules_build(&arena, c.plan, &c.opts, &sched), SL_OK);
        for (int j = 0; j < MUTANTS_PER_PLAN; j++)
            made += try_mutant(&dice, sched, tallies, row->name);
        sl_arena_free(&arena);
    }
    for (int i = 0; i < SL_COUNT(mutations); i++) {
        printf("mutants %-18s %6lld rejected %6lld harmless\n", mutations[i].name,
               (long long)tallies[i].rejected, (long long)tallies[i].harmless);
        rejected += tallies[i].rejected;
        harmless += tallies[i].harmless;
        assert_true(tallies[i].rejected > 0);
    }
    printf("mutants in all %lld: %lld rejected, %lld harmless; the judge agrees on each; seed %d\n",
           (long long)made, (long long)rejected, (long long)harmless, SEED);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
