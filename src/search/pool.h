/* The pool: the candidates of one planner, simulated in the order of their bounds.
 *
 *     add, add, ...  copy a candidate and estimate it, unless the pool has an equal one
 *     simulate       the new ones, smallest bound first, until no other one can win
 *     try            one candidate at once (branch and bound, hill climbing)
 *     close          the result keeps best, runners-up and nearest (in the pool's arena) */
#ifndef SL_SEARCH_POOL_H
#define SL_SEARCH_POOL_H

#include "base/vec.h"
#include "search/planner.h"

struct sl_search_downsets;

struct sl_search_pool {
    struct sl_arena *arena;
    const struct sl_search_query *query;
    struct sl_search_result *out;
    SL_VEC(struct sl_candidate_entry) at;
    int done;       /* at[0 .. done - 1] have been simulated or given up */
    int64_t passes; /* passes simulated so far */
};

/* Adds a candidate; `planner` is the name for reports. */
void sl_search_pool_add(struct sl_search_pool *pool, const struct sl_candidate *candidate,
                        const char *planner);
/* Simulates candidates until no other one can win, the deadline comes, or a limit on passes is
 * reached. */
void sl_search_pool_simulate(struct sl_search_pool *pool);
/* Simulates one candidate at once. Returns true if it fits. It becomes the best one if it is
 * better. */
bool sl_search_pool_try(struct sl_search_pool *pool, const struct sl_candidate *candidate,
                        const char *planner, struct sl_candidate_score *score);
/* Has sl_search_pool_try reached its limit of passes, or the deadline? */
bool sl_search_pool_exhausted(const struct sl_search_pool *pool);
/* Does a lower bound exclude every plan with this schedule and micro-batch size? */
bool sl_search_pool_cannot_win(const struct sl_search_pool *pool, const char *schedule, int size);
void sl_search_pool_progress(const struct sl_search_pool *pool, const char *phase);
void sl_search_pool_close(struct sl_search_pool *pool);

/* ---- improving the best plan ---- */

/* Runs branch and bound over sequences of downsets, then hill climbing (branch_and_bound.c). */
void sl_search_branch_and_bound(struct sl_search_pool *pool,
                                const struct sl_search_downsets *downsets, const char *planner);
/* Tries small changes to the best plan (hill_climb.c). */
void sl_search_hill_climb(struct sl_search_pool *pool, const char *planner);

#endif
