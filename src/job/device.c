/* The devices and the number type of a job. */
#include "device/device.h"
#include "job/parts.h"

#include <string.h>

static const char *row_name(const void *ctx, int i) {
    (void)ctx;
    return sl_device_rows[i]->name;
}

sl_err sl_job_device_find(const char *name, const struct sl_device_row **out) {
    int count = 0;
    *out = sl_device_find(name);
    if (*out)
        return SL_OK;
    while (sl_device_rows[count])
        count++;
    const char *nearest = sl_nearest(name, count, row_name, NULL);
    return sl_fail(SL_ERR_USAGE, "`device`: unknown device '%s'%s%s%s", name,
                   nearest ? "; did you mean '" : "; see 'sluice list devices'",
                   nearest ? nearest : "", nearest ? "'?" : "");
}

sl_err sl_job_devices_find(const struct sl_job *job, struct sl_job_devices *out) {
    out->count = 0;
    for (const char *at = job->device;; at++) {
        char name[32];
        size_t length = strcspn(at, ",");
        if (out->count == SL_KINDS_MAX || length >= sizeof name)
            return sl_fail(SL_ERR_USAGE, "`device`: '%.64s' is not D or D,D,... (at most %d)",
                           job->device, SL_KINDS_MAX);
        memcpy(name, at, length);
        name[length] = 0;
        SL_TRY(sl_job_device_find(name, &out->at[out->count++]));
        at += length;
        if (!*at)
            return SL_OK;
    }
}

enum sl_dtype sl_job_activations(const struct sl_job *job) {
    static const enum sl_dtype types[] = {
        [SL_JOB_FP32] = SL_FLOAT,
        [SL_JOB_TF32] = SL_FLOAT,
        [SL_JOB_BF16] = SL_BF16,
        [SL_JOB_FP16] = SL_FP16,
    };
    return types[job->dtype];
}

const char *sl_job_dtype_name(const struct sl_job *job) {
    return sl_job_field_find("dtype")->choices[job->dtype];
}
