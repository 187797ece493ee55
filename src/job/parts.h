/* Parts of an opened job that several files of this component share. */
#ifndef SL_JOB_PARTS_H
#define SL_JOB_PARTS_H

#include "job/job.h"
#include "run/train.h"

struct sl_job_devices {
    int count;
    const struct sl_device_row *at[SL_KINDS_MAX];
};

/* The rows that `device` names; SL_ERR_USAGE with the nearest name. They may be missing on this
 * machine. */
SL_MUST_CHECK sl_err sl_job_devices_find(const struct sl_job *job, struct sl_job_devices *out);
/* One of them by name. */
SL_MUST_CHECK sl_err sl_job_device_find(const char *name, const struct sl_device_row **out);

/* Type of activations, and the name of `dtype`. */
enum sl_dtype sl_job_activations(const struct sl_job *job);
const char *sl_job_dtype_name(const struct sl_job *job);

#endif
