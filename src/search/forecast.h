/* How long the actions of a plan should take, whoever made the plan: by the same sums over measured
 * units that the planners' judge plays (candidate.h). It is told before a run, from a cost table
 * only; nothing of the run goes into it. */
#ifndef SL_SEARCH_FORECAST_H
#define SL_SEARCH_FORECAST_H

#include "plan/plan.h"
#include "sched/sched.h"
#include "search/problem.h"

struct sl_forecast_spec {
    const struct sl_graph *graph; /* differentiated */
    const struct sl_plan *plan;
    const int *stage_of;                  /* [forward nodes] */
    bool (*has_kernel)(const char *name); /* of the device: what is fused */
    const struct sl_optim *optim;
    const struct sl_precision *precision; /* NULL: fp32 */
    const struct sl_cost *cost;
    const char *schedule;
    int64_t batch;
};

/* Fills out[stage][kind]. SL_ERR_REFUSED: the table has no such unit, or a stage parts one. */
SL_MUST_CHECK sl_err sl_search_forecast_times(struct sl_arena *arena,
                                              const struct sl_forecast_spec *spec,
                                              int64_t (*out)[SL_KIND_COUNT]);

#endif
