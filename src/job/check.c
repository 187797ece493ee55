/* Refuses bad jobs: combinations without a meaning, and texts that no registry knows. Also sets the
 * default of clip_scope, which depends on the schedule. */
#include "device/device.h"
#include "job/job.h"
#include "job/parts.h"
#include "job/schedule.h"
#include "pipe/pipe.h"
#include "schedules/schedule.h"

#include <string.h>

bool sl_job_is_pipeline(const struct sl_job *job) {
    return *job->plan || job->stages > 0 || job->cut == SL_JOB_CUT_BRANCHES ||
           sl_job_schedule_is_file(job->schedule);
}

bool sl_job_is_global(const struct sl_job *job, const struct sl_schedule *row) {
    if (!row)
        row = sl_schedules_row_find(*job->schedule ? job->schedule : "1f1b");
    if (sl_job_has(job, "clip_scope"))
        return job->clip_scope == SL_JOB_SCOPE_GLOBAL;
    const struct sl_sched *given = sl_schedules_given_passes(row);
    return !row || sl_schedules_row_is_global(row) || (given && given->global_step);
}

/* Checks fields that need a pipeline, some of which also need a run directory. */
static sl_err check_needs(const struct sl_job *job) {
    const struct {
        const char *key;
        bool used, out;
    } needs[] = {
        {"schedule", *job->schedule, false},
        {"schedule_module", *job->schedule_module, false},
        {"policy", !sl_optim_policy_is_none(job->policy), false},
        {"workers", job->workers > 0, false},
        {"replicas", job->replicas > 0, false},
        {"zero1", job->zero1, false},
        {"slack", sl_job_has(job, "slack"), false},
        {"group", sl_job_has(job, "group"), false},
        {"cost", *job->cost, false},
        {"emulate", job->emulate, false},
        {"trace", job->trace, true},
        {"log_staleness", job->log_staleness, true},
    };
    bool pipeline = sl_job_is_pipeline(job);
    for (int i = 0; i < SL_COUNT(needs); i++)
        if (needs[i].used && (!pipeline || (needs[i].out && !*job->out)))
            return sl_fail(SL_ERR_USAGE, "`%s` needs a pipeline: set `stages` or `plan`%s",
                           needs[i].key, needs[i].out ? ", and `out`" : "");
    if (!pipeline && strchr(job->device, ','))
        return sl_fail(SL_ERR_USAGE,
                       "`device`: several devices need a pipeline: set `stages` or `plan`");
    if (job->resume && !*job->out)
        return sl_fail(SL_ERR_USAGE, "`resume` needs the run directory: set `out`");
    if ((job->keep_best || job->patience) && !job->eval_every)
        return sl_fail(SL_ERR_USAGE, "`%s` needs evaluations: set `eval_every`",
                       job->patience ? "patience" : "keep_best");
    if (job->keep_best && !*job->out)
        return sl_fail(SL_ERR_USAGE, "`keep_best` needs the run directory: set `out`");
    if (sl_job_has(job, "from_step") && !job->resume)
        return sl_fail(SL_ERR_USAGE, "`from_step` needs `resume`");
    return SL_OK;
}

/* Refuses fields that a plan fixes, instead of ignoring them. */
static sl_err check_plan(const struct sl_job *job) {
    static const char *const fixed[] = {"stages", "cut", "workers", "replicas", "zero1"};
    for (int i = 0; *job->plan && i < SL_COUNT(fixed); i++)
        if (sl_job_has(job, fixed[i]))
            return sl_fail(SL_ERR_USAGE, "`%s` and `plan` exclude each other: a plan fixes it",
                           fixed[i]);
    if (job->stages && job->workers > job->stages)
        return sl_fail(SL_ERR_USAGE, "`workers`: expected at most one per stage (%lld), found %lld",
                       (long long)job->stages, (long long)job->workers);
    return SL_OK;
}

static sl_err check_dtype(const struct sl_job *job) {
    struct sl_job_devices devices;
    SL_TRY(sl_job_devices_find(job, &devices));
    for (int i = 0; i < devices.count; i++) {
        const struct sl_device_row *row = devices.at[i];
        if (!sl_device_takes(row, sl_job_activations(job)) ||
            (job->dtype == SL_JOB_TF32 && !row->tf32))
            return sl_fail(SL_ERR_REFUSED,
                           "`dtype`: device '%s' does not compute in %s; set `dtype` to fp32",
                           row->name, sl_job_dtype_name(job));
    }
    return SL_OK;
}

static sl_err check_rows(const struct sl_job *job) {
    struct sl_optim optim;
    struct sl_policy_use policy;
    struct sl_lr lr;
    struct sl_loss_scale scale;
    const struct sl_schedule *schedule;
    SL_TRY(sl_optim_parse(job->optimizer, &optim));
    SL_TRY(sl_optim_policy_parse(job->policy, &policy));
    SL_TRY(sl_optim_lr_parse(job->lr_schedule, job->steps, &lr));
    if (*job->loss_scale)
        SL_TRY(sl_optim_loss_scale_parse(job->loss_scale, &scale));
    bool own = !*job->schedule || *job->schedule_module || sl_job_schedule_is_file(job->schedule);
    return own ? SL_OK : sl_schedules_row_require(job->schedule, &schedule);
}

sl_err sl_job_check(const struct sl_job *job) {
    const double stall_s = (double)SL_STALL_NS * 1e-9;
    SL_TRY(check_needs(job));
    SL_TRY(check_plan(job));
    SL_TRY(check_dtype(job));
    SL_TRY(check_rows(job));
    if (sl_job_has(job, "stall_timeout") && job->stall_timeout < stall_s)
        return sl_fail(SL_ERR_USAGE, "`stall_timeout`: expected at least %g seconds, found %g",
                       stall_s, job->stall_timeout);
    return SL_OK;
}
