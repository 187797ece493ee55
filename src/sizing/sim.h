/* Simulates a model with given degrees of parallelism: tp shards, dp replicas, pp workers in a
 * pipeline.
 *
 * Stages have equal numbers of layers (repeated blocks). Nodes before the layers are on the
 * first stage, nodes after them on the last. Workers are placed on devices as in Megatron-LM:
 * shards next to each other, then replicas, then the workers of a pipeline. */
#ifndef SL_SIZING_SIM_H
#define SL_SIZING_SIM_H

#include "job/plan.h"
#include "report/model_sim.h"

struct sl_sizing_request {
    /* dp: [as many as there are devices for]; pp: [1]; planner, time limit and threads are not
     * used */
    struct sl_job_plan_request plan;
    int64_t chunks; /* stages per worker [1, or 2 for schedules that need it] */
    int64_t group;  /* k of a schedule with groups [1] */
    bool picture;   /* also build the timeline */
};

SL_MUST_CHECK sl_err sl_sizing_sim(struct sl_arena *arena, const struct sl_sizing_request *request,
                                   struct sl_report_model_sim *out);

#endif
