/* Schedules from files and modules in a job. They fix the stages, their workers and the number of
 * micro-batches. */
#include "job/parts.h"
#include "job/schedule.h"
#include "plan/model.h"

static sl_err open_row(struct sl_job_work *work) {
    const struct sl_job *job = &work->job;
    const struct sl_job_stored *stored = work->stored;
    if (stored && stored->use_sched && !*job->schedule_module)
        return sl_job_schedule_parse(&work->arena, "schedule.sched of the run", stored->sched,
                                     &work->pipe.row);
    return sl_job_schedule_open(&work->arena, job->schedule, job->schedule_module, &work->pipe.row);
}

static sl_err take_stages(struct sl_job *job, const struct sl_sched *given) {
    const struct sl_plan *plan = given->plan;
    if (job->stages && job->stages != plan->stage_count)
        return sl_fail(SL_ERR_USAGE, "`stages`: schedule '%s' has %d stages, found %lld",
                       given->name, plan->stage_count, (long long)job->stages);
    if (job->workers && job->workers != plan->worker_count)
        return sl_fail(SL_ERR_USAGE, "`workers`: schedule '%s' has %d workers, found %lld",
                       given->name, plan->worker_count, (long long)job->workers);
    job->stages = plan->stage_count;
    sl_job_mark(job, "stages");
    return SL_OK;
}

/* Sets the batch, if nobody gave it, to a multiple of the micro-batches. With several micro-batch
 * sizes it is a multiple of the file's batch, and the sizes grow with it. */
static sl_err take_micros(struct sl_job_work *work, const struct sl_sched *given) {
    struct sl_job *job = &work->job;
    bool sizes = sl_schedules_given_has_sizes(given);
    int64_t micros = 1;
    for (int s = 0; s < given->plan->stage_count; s++)
        micros = given->micros[s] > micros ? given->micros[s] : micros;
    int64_t unit = sizes ? given->batch : micros;
    SL_ASSERT(unit > 0);
    if (!sl_job_has(job, "micro"))
        job->micro = work->train.micros = micros;
    if (!sl_job_has(job, "batch") && job->batch % unit)
        job->batch = work->train.batch = (job->batch + unit - 1) / unit * unit;
    if (sizes && job->batch % unit)
        return sl_fail(SL_ERR_USAGE,
                       "`batch`: schedule '%s' has several micro-batch sizes for %lld samples, and "
                       "%lld is no multiple of it",
                       given->name, (long long)unit, (long long)job->batch);
    if (sizes && job->micro != micros)
        return sl_fail(SL_ERR_USAGE,
                       "`micro`: schedule '%s' has up to %lld micro-batches, not %lld", given->name,
                       (long long)micros, (long long)job->micro);
    return SL_OK;
}

static sl_err take_policy(struct sl_job_work *work, const struct sl_sched *given) {
    struct sl_text text = {0};
    if (!given->policy.row || !sl_optim_policy_is_none(work->job.policy))
        return SL_OK;
    sl_optim_policy_put(&text, &given->policy);
    sl_job_resolve(&work->job, "policy", text.at);
    sl_text_free(&text);
    return sl_optim_policy_parse(work->job.policy, &work->train.policy);
}

sl_err sl_job_given_open(struct sl_job_work *work, bool planned) {
    SL_TRY(open_row(work));
    const struct sl_sched *given = sl_schedules_given_passes(work->pipe.row);
    if (!given)
        return SL_OK;
    if (!planned) {
        SL_TRY(take_stages(&work->job, given));
        SL_TRY(take_micros(work, given));
    }
    return take_policy(work, given);
}

sl_err sl_job_given_place(struct sl_arena *arena, const struct sl_job *job,
                          const struct sl_sched *given, struct sl_model_plan_spec *spec) {
    const struct sl_plan *plan = given->plan;
    int *widths = SL_NEW(arena, int, plan->stage_count);
    const int **workers = SL_NEW(arena, const int *, plan->stage_count);
    int64_t *sizes = SL_NEW(arena, int64_t, plan->stage_count);
    bool *zero1 = SL_NEW(arena, bool, plan->stage_count);
    if (spec->stage_count != plan->stage_count)
        return sl_fail(SL_ERR_REFUSED,
                       "the model has %d stages along its branches, schedule '%s' has %d",
                       spec->stage_count, given->name, plan->stage_count);
    for (int s = 0; s < plan->stage_count; s++) {
        widths[s] = plan->stages[s].width;
        zero1[s] = job->zero1 || plan->stages[s].zero1;
        workers[s] = plan->stages[s].workers;
        sizes[s] = plan->stages[s].micro_size * (job->batch / given->batch);
        if (job->replicas && job->replicas != widths[s])
            return sl_fail(SL_ERR_USAGE, "`replicas`: schedule '%s' has %d of stage %s",
                           given->name, widths[s], plan->stages[s].name);
    }
    spec->micro_of = sl_schedules_given_has_sizes(given) ? sizes : NULL;
    spec->width_of = widths;
    spec->zero1_of = zero1;
    spec->workers_of = workers;
    spec->worker_count = plan->worker_count;
    return SL_OK;
}

/* Refuses a plan of another shape. Turns the passes of a module for this plan into passes of a
 * file. */
static sl_err write_down(struct sl_job_work *work) {
    struct sl_schedule_opts opts = {.row = work->pipe.row, .batch = work->train.batch, .iters = 1};
    struct sl_sched *passes;
    SL_TRY(sl_schedules_generate(&work->arena, work->pipe.plan, &opts, &passes));
    if (sl_schedules_given_passes(work->pipe.row))
        return SL_OK;
    return sl_schedules_given_row(&work->arena, passes, &work->pipe.row);
}

sl_err sl_job_given_keep(struct sl_job_work *work) {
    struct sl_job *job = &work->job;
    if (*job->schedule_module || sl_schedules_given_passes(work->pipe.row))
        SL_TRY(write_down(work));
    const struct sl_sched *given = sl_schedules_given_passes(work->pipe.row);
    if (!given)
        return SL_OK;
    sl_job_reset(job, "schedule_module");
    sl_job_resolve(job, "schedule", "schedule.sched");
    if (!sl_job_has(job, "slack")) {
        job->slack = given->slack;
        sl_job_mark(job, "slack");
    }
    return SL_OK;
}
