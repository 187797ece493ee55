/* Planning for a schedule from a file: The schedule fixes the stages, their workers and the
 * number of micro-batches, so only the cut of the model is searched.
 *
 *     units in topological order | | | |      borders move while the simulated step gets shorter */
#ifndef SL_JOB_PLAN_GIVEN_H
#define SL_JOB_PLAN_GIVEN_H

#include "job/plan.h"
#include "report/sched.h"

struct sl_job_planned_given {
    const struct sl_plan *plan;
    struct sl_report_sim sim; /* simulation of one iteration */
    int tried;                /* number of cuts tried */
};

/* Plans for request->schedule, a file (job/schedule.h). SL_ERR_REFUSED: no cut fits; the message
 * names the worker that lacks memory in the best one. */
SL_MUST_CHECK sl_err sl_job_plan_given(struct sl_arena *arena,
                                       const struct sl_job_plan_request *request,
                                       struct sl_job_planned_given *out);

#endif
