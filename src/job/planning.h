/* Machine, costs and problem of a planning request, for plan.c and plan_given.c. */
#ifndef SL_JOB_PLANNING_H
#define SL_JOB_PLANNING_H

#include "device/device.h"
#include "job/plan.h"

struct sl_job_planning {
    struct sl_arena *arena;
    const struct sl_job_plan_request *request;
    const struct sl_machine *machine;
    const struct sl_cost *cost; /* NULL: times are roofline estimates */
    const struct sl_device_row *device;
    enum sl_dtype dtype; /* type of activations */
    struct sl_optim *optim;
    const struct sl_staleness_cost *staleness;
    int staleness_count;
    const struct sl_problem *problem;
    struct sl_graph *shard; /* the caller closes it; NULL: no tensor parallelism */
};

/* Checks the numbers of the request and opens everything that it names. */
SL_MUST_CHECK sl_err sl_job_planning_open(struct sl_arena *arena,
                                          const struct sl_job_plan_request *request,
                                          struct sl_job_planning *out);

#endif
