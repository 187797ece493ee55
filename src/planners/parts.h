/* Planners that `sluice` also runs: each function adds the candidates of one planner to a pool. */
#ifndef SL_PLANNERS_PARTS_H
#define SL_PLANNERS_PARTS_H

#include "search/pool.h"

void sl_planners_add_even(struct sl_search_pool *pool);
void sl_planners_add_2bw(struct sl_search_pool *pool);
void sl_planners_add_dp(struct sl_search_pool *pool);
void sl_planners_add_model_parallel(struct sl_search_pool *pool);
void sl_planners_add_graphpipe(struct sl_search_pool *pool);
void sl_planners_add_hetpipe(struct sl_search_pool *pool);
/* Runs the cut planners of cut_rows.c, one after the other; calls `each` after each of them. */
void sl_planners_add_cuts(struct sl_search_pool *pool, void (*each)(struct sl_search_pool *pool));
/* Adds balanced stages of equal width, for every depth and width (balanced.c). */
void sl_planners_add_balanced(struct sl_search_pool *pool);
/* Adds candidates with several stages per worker, for the schedules of the query that need it
 * (virtual.c). Calls `each` after each number of stages per worker. */
void sl_planners_add_virtual(struct sl_search_pool *pool,
                             void (*each)(struct sl_search_pool *pool));
/* Adds variants of the candidates in the pool, without recomputation where the stage should fit. */
void sl_planners_add_less_recompute(struct sl_search_pool *pool);
/* Cuts `order` into at most `stages` runs of nearly equal time; returns their number. */
int sl_planners_even_cut(const struct sl_problem *problem, const int *order, int size, int stages,
                         int *stage_of);

#endif
