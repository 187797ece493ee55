/* Simulating a model with given degrees of parallelism: tp shards, dp replicas, pp workers in a
 * pipeline.
 *
 * Stages have equal numbers of layers (repeated blocks); what comes before the layers is on the first
 * stage, what comes after them on the last one. Workers are placed on devices as Megatron-LM does:
 * shards next to each other, then replicas, then the workers of a pipeline.
 */
#ifndef SL_SIZING_SIM_H
#define SL_SIZING_SIM_H

#include "job/plan.h"
#include "report/model_sim.h"

struct sl_sizing_request {
    struct sl_job_plan_request plan; /* dp: [as many as there are devices for]; pp: [1]; planner,
                                        time limit and threads do not count */
    int64_t chunks;                  /* stages of a worker [1, or 2 for schedules that need it] */
    bool picture;                    /* build the timeline too */
};

SL_MUST_CHECK sl_err sl_sizing_sim(struct sl_arena *arena, const struct sl_sizing_request *request,
                                   struct sl_report_model_sim *out);

#endif
