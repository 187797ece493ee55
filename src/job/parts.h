/* Parts of an opened job that several files of this component share. */
#ifndef SL_JOB_PARTS_H
#define SL_JOB_PARTS_H

#include "job/work.h"

struct sl_job_devices {
    int count;
    const struct sl_device_row *at[SL_KINDS_MAX];
};

/* The rows that `device` names; SL_ERR_USAGE with the nearest name. They may be missing on this
 * machine. */
SL_MUST_CHECK sl_err sl_job_devices_find(const struct sl_job *job, struct sl_job_devices *out);

/* Type of activations, and the name of `dtype`. */
enum sl_dtype sl_job_activations(const struct sl_job *job);
const char *sl_job_dtype_name(const struct sl_job *job);

/* layout.c: plan, stages of nodes, schedule and slack into work->pipe; needs work->train. Resolves
 * the fields that depend on the plan. */
SL_MUST_CHECK sl_err sl_job_layout(struct sl_job_work *work, const struct sl_plan *plan);
/* forecast.c: work->forecast from `cost`. */
SL_MUST_CHECK sl_err sl_job_forecast_make(struct sl_job_work *work);
/* open.c: a text field that the job leaves open; the value counts as given from now on. */
void sl_job_resolve(struct sl_job *job, const char *key, const char *value);

#endif
