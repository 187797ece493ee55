/* Random plans and options inside a schedule's domain, by seed and index. */
#ifndef SL_TESTS_SCHED_CASES_H
#define SL_TESTS_SCHED_CASES_H

#include "schedules/schedule.h"

struct dice { /* draws one after the other */
    uint64_t seed, stream, at;
};
int64_t dice_below(struct dice *dice, int64_t count);

struct sched_case {
    const struct sl_plan *plan;
    struct sl_schedule_opts opts;
};

/* `size` bounds stages and micro-batches. */
struct sched_case sched_case_draw(struct sl_arena *arena, struct dice *dice,
                                  const struct sl_schedule *row, int size);

/* The count of an issue, or about 1/50 of it without SL_TEST_FULL=1. */
int64_t test_count(int64_t full);

/* A copy with its own lists, for mutation. */
struct sl_sched *sched_copy(struct sl_arena *arena, const struct sl_sched *sched);

#endif
