/* Predicted durations of a plan's actions, and its predicted step, from a cost table only.
 *
 * The durations are the same sums over measured units that planners simulate (candidate.h); any
 * plan will do. A prediction uses no measurement of a run. */
#ifndef SL_SEARCH_FORECAST_H
#define SL_SEARCH_FORECAST_H

#include "plan/plan.h"
#include "sched/sched.h"
#include "search/problem.h"
#include "sim/sim.h"

struct sl_forecast_spec {
    const struct sl_graph *graph; /* the differentiated graph */
    const struct sl_plan *plan;
    const int *stage_of; /* [forward nodes] stage of each */
    /* the device's kernel query, which decides what is fused */
    bool (*has_kernel)(const char *name);
    const struct sl_optim *optim;
    const struct sl_precision *precision; /* NULL: fp32 */
    const struct sl_cost *cost;
    const char *schedule;
    int64_t batch;
};

/* Fills out[stage][kind]. SL_ERR_REFUSED: the table lacks a unit, or a border between stages
 * divides one. */
SL_MUST_CHECK sl_err sl_search_forecast_times(struct sl_arena *arena,
                                              const struct sl_forecast_spec *spec,
                                              int64_t (*out)[SL_KIND_COUNT]);

/* Returns the step of a simulation with these durations: the time of an iteration if the schedule
 * is synchronous, else the mean time between steps. */
int64_t sl_search_step_ns(const struct sl_sched *sched, const struct sl_sim *sim,
                          const int64_t (*dur_ns)[SL_KIND_COUNT]);

/* Predicts the step with the measured tempo of the workers, by simulations that start at several
 * passes of the tempo: their median if the schedule is synchronous, else their mean. */
SL_MUST_CHECK sl_err sl_search_forecast_step(const struct sl_sched *sched,
                                             const struct sl_sim_opts *opts,
                                             const struct sl_tempo *tempo,
                                             const int64_t (*dur_ns)[SL_KIND_COUNT], int64_t *out);

/* A 90 % interval of the step of one run. Its width comes from two sources: the variation of the
 * table's rows (the speed of a computer drifts, so a run varies as one pass does), and the error of
 * single runs against their own forecasts (docs/results/forecasts.md). `shared_ns`: the step if
 * workers that share cores run one after another; the upper end starts from it. */
struct sl_forecast_interval {
    int64_t low_ns, high_ns;
};
struct sl_forecast_interval sl_search_forecast_interval(const struct sl_cost *cost, int64_t step_ns,
                                                        int64_t shared_ns);

#endif
