/* Makes the pipeline of a job: the nodes of each stage, the stages of each worker, the schedule and
 * its slack. */
#include "base/vec.h"
#include "job/parts.h"
#include "job/schedule.h"
#include "plan/model.h"
#include "sched/lag.h"
#include "schedules/schedule.h"
#include "search/candidate.h"

#include <stdlib.h>
#include <string.h>

struct cut {
    struct sl_arena *arena;
    int *stage_of;  /* [forward nodes] stage of each */
    int *worker_of; /* [stages] worker of each */
    int stages, workers;
};

/* Places stage s on worker s mod W; in a V-shaped layout, up the workers and back. */
static sl_err place_stages(const struct sl_schedule *schedule, int64_t stages, int64_t workers,
                           int *worker_of) {
    bool v = schedule->layout == SL_LAYOUT_V;
    if (v && stages != 2 * workers)
        return sl_fail(SL_ERR_REFUSED,
                       "%s needs two stages per worker, not %lld stages on %lld; use an even "
                       "number of `stages` and leave out `workers`",
                       schedule->name, (long long)stages, (long long)workers);
    for (int64_t s = 0; s < stages; s++)
        worker_of[s] = (int)(v ? (s < workers ? s : 2 * workers - 1 - s) : s % workers);
    return SL_OK;
}

static sl_err cut_stages(const struct sl_job_work *work, const struct sl_schedule *schedule,
                         struct cut *out) {
    const struct sl_job *job = &work->job;
    const struct sl_device_row *device = work->train.device;
    bool v = schedule->layout == SL_LAYOUT_V, even = job->cut == SL_JOB_CUT_EVEN;
    if (even)
        SL_TRY(sl_plan_cut_even(work->graph, device->has_kernel, out->stages, out->stage_of));
    else
        SL_TRY(sl_plan_cut_branches(work->graph, device->has_kernel, out->stages, out->stage_of,
                                    &out->stages));
    out->workers = v ? (out->stages + 1) / 2 : out->stages;
    if (job->workers > out->stages)
        return sl_fail(SL_ERR_USAGE, "`workers`: expected at most one per stage (%d), found %lld",
                       out->stages, (long long)job->workers);
    if (job->workers)
        out->workers = (int)job->workers;
    out->worker_of = SL_NEW(out->arena, int, out->stages);
    if (even || v)
        return place_stages(schedule, out->stages, out->workers, out->worker_of);
    sl_plan_spread(work->graph, out->stage_of, out->stages, out->workers, out->worker_of);
    return SL_OK;
}

/* Places the replicas: stage s on workers s*w .. s*w + w-1; with two crossing pipelines, on worker
 * s and the opposite one. */
static sl_err replicate(const struct sl_job *job, const struct sl_schedule *schedule,
                        struct cut *cut, struct sl_model_plan_spec *spec) {
    if (sl_schedules_given_passes(schedule))
        return sl_job_given_place(cut->arena, job, sl_schedules_given_passes(schedule), spec);
    bool cross = schedule->layout == SL_LAYOUT_CROSS;
    int64_t width = job->replicas ? job->replicas : cross ? 2 : 1;
    if (width == 1)
        return SL_OK;
    if (cross && width != 2)
        return sl_fail(SL_ERR_REFUSED, "%s has two replicas of every stage; leave out `replicas`",
                       schedule->name);
    if (cross && cut->stages % 2)
        return sl_fail(SL_ERR_REFUSED,
                       "%s needs an even number of stages, not %d: the middle one would have both "
                       "replicas on one worker",
                       schedule->name, cut->stages);
    if (!cross && (cut->workers != cut->stages || schedule->layout == SL_LAYOUT_V))
        return sl_fail(SL_ERR_REFUSED, "`replicas` needs a worker for every stage; leave out "
                                       "`workers`, or describe the layout in a plan");
    int *widths = SL_NEW(cut->arena, int, cut->stages);
    const int **workers = SL_NEW(cut->arena, const int *, cut->stages);
    for (int s = 0; s < cut->stages; s++) {
        int *at = SL_NEW(cut->arena, int, width);
        for (int r = 0; r < width; r++)
            at[r] = cross ? (r ? cut->stages - 1 - s : s) : s * (int)width + r;
        widths[s] = (int)width;
        workers[s] = at;
    }
    spec->width_of = widths;
    spec->workers_of = workers;
    spec->worker_count = cut->stages * (cross ? 1 : (int)width);
    return SL_OK;
}

static sl_err plan_stages(struct sl_job_work *work, int *stage_of) {
    const struct sl_train_config *c = &work->train;
    const struct sl_schedule *schedule = work->pipe.row;
    struct cut cut = {.arena = &work->arena, .stage_of = stage_of, .stages = (int)work->job.stages};
    SL_TRY(cut_stages(work, schedule, &cut));
    bool *zero1 = SL_NEW(&work->arena, bool, cut.stages);
    for (int s = 0; s < cut.stages; s++)
        zero1[s] = work->job.zero1;
    struct sl_model_plan_spec spec = {
        .graph = work->graph,
        .stage_of = stage_of,
        .stage_count = cut.stages,
        .zero1_of = zero1,
        .micro_size = sl_run_train_full_samples(c->batch, c->micros),
        .split = schedule->splits_backward,
        .recompute = c->recompute,
        .optim = &c->optim,
        .policy = &c->policy,
        .worker_count = cut.workers,
        .worker_of = cut.worker_of,
        .has_kernel = c->device->has_kernel,
        .dtype = c->dtype,
        .extra_bytes = c->device->extra_bytes,
        .threads = c->threads,
    };
    SL_TRY(replicate(&work->job, schedule, &cut, &spec));
    return sl_plan_from_model(&work->arena, &spec, &work->pipe.plan);
}

static sl_err read_plan_file(struct sl_job_work *work, const struct sl_plan **out) {
    enum { PLAN_LIMIT = 1 << 28 };
    const char *file = work->job.plan;
    char *text;
    size_t length;
    if (work->stored && work->stored->use_plan)
        return sl_plan_read(&work->arena, "plan.plan of the run", work->stored->plan,
                            strlen(work->stored->plan), out);
    SL_TRY(sl_file_read(file, PLAN_LIMIT, &text, &length));
    sl_err err = sl_plan_read(&work->arena, file, text, length, out);
    free(text);
    return err;
}

/* Takes a plan. Its schedule and batch are defaults of the job. */
static sl_err read_plan(struct sl_job_work *work, const struct sl_plan *plan, int *stage_of) {
    struct sl_job *job = &work->job;
    if (!plan)
        SL_TRY(read_plan_file(work, &plan));
    work->pipe.plan = plan;
    sl_job_resolve(job, "plan", "plan.plan");
    if (!*job->schedule && plan->schedule)
        sl_job_resolve(job, "schedule", plan->schedule);
    if (!sl_job_has(job, "batch") && plan->batch)
        job->batch = work->train.batch = plan->batch;
    return sl_plan_stage_of(plan, work->graph, stage_of);
}

/* Returns the schedule's default slack. Global steps need most memory, so a slack that fits with
 * them always fits. */
static int64_t default_slack(const struct sl_job_work *work) {
    const struct sl_plan *plan = work->pipe.plan;
    struct sl_schedule_opts opts = {.schedule = work->job.schedule,
                                    .row = work->pipe.row,
                                    .batch = work->train.batch,
                                    .iters = SL_ASYNC_ITERS,
                                    .policy = &work->train.policy,
                                    .global_step = true};
    return sl_schedules_row_slack(plan, &opts);
}

/* Sets k of kFkB for all stages; the plan records it. */
static sl_err set_group(struct sl_job_work *work) {
    const struct sl_plan *plan = work->pipe.plan;
    const struct sl_schedule *row = work->pipe.row;
    struct sl_plan draft = *plan;
    if (!sl_job_has(&work->job, "group"))
        return SL_OK;
    if (!row->groups)
        return sl_fail(SL_ERR_USAGE,
                       "`group`: %s runs no groups; use `schedule` kfkb, or graph for stages of "
                       "different micro-batch sizes",
                       row->name);
    struct sl_stage *stages =
        sl_vec_freeze(&work->arena, plan->stages, plan->stage_count, sizeof *stages);
    for (int i = 0; i < plan->stage_count; i++)
        stages[i].group = (int)work->job.group;
    draft.stages = stages;
    return sl_plan_build(&work->arena, &draft, &work->pipe.plan);
}

static sl_err delays_of(struct sl_job_work *work, bool global_step, const double **out) {
    const struct sl_plan *plan = work->pipe.plan;
    struct sl_arena scratch = {0};
    struct sl_schedule_opts opts = {.schedule = work->job.schedule,
                                    .batch = work->train.batch,
                                    .iters = SL_ASYNC_ITERS,
                                    .row = work->pipe.row,
                                    .slack = work->job.slack,
                                    .policy = &work->train.policy,
                                    .global_step = global_step};
    const struct sl_sched *given = sl_schedules_given_passes(work->pipe.row), *sched;
    if (given && !given->reps)
        opts.iters = given->iters;
    double *delays = SL_NEW(&work->arena, double, plan->stage_count);
    sl_err err = sl_schedules_build(&scratch, plan, &opts, &sched);
    if (err == SL_OK)
        sl_sched_delays(sched, delays);
    sl_arena_free(&scratch);
    *out = delays;
    return err;
}

/* Measures the delay that global steps add on every stage. */
static sl_err measure_delays(struct sl_job_work *work) {
    if (!work->pipe.global_step || sl_schedules_row_is_global(work->pipe.row))
        return SL_OK;
    SL_TRY(delays_of(work, false, &work->published));
    return delays_of(work, true, &work->delays);
}

/* All stages of a plan have the same number of shards, which is that of the job; so is zero1. */
static sl_err take_shards(struct sl_job_work *work) {
    const struct sl_plan *plan = work->pipe.plan;
    struct sl_job *job = &work->job;
    bool zero1 = false;
    for (int s = 0; s < plan->stage_count; s++) {
        const struct sl_stage *stage = &plan->stages[s];
        if (stage->shards != plan->stages[0].shards)
            return sl_fail(SL_ERR_REFUSED,
                           "stage %s has %d shards and stage %s has %d; such plans can be "
                           "simulated, not run: give all stages one number",
                           plan->stages[0].name, plan->stages[0].shards, stage->name,
                           stage->shards);
        if (stage->parts > 1)
            return sl_fail(SL_ERR_REFUSED,
                           "stage %s is part %d of %d: an expanded plan is made "
                           "from one with `shards`, which is the one to run",
                           stage->name, stage->part, stage->parts);
        zero1 |= stage->zero1 && stage->width > 1;
    }
    if (job->zero1 && !zero1)
        return sl_fail(SL_ERR_USAGE, "`zero1` divides the optimizer state among replicas, and no "
                                     "stage has any; set `replicas`");
    if (zero1) {
        job->zero1 = true;
        sl_job_mark(job, "zero1");
        if (work->pipe.comm && work->pipe.comm->ranks > 1) /* ranks hold parts of tensors */
            sl_job_resolve(job, "save", "sync");
    }
    int shards = plan->stages[0].shards;
    if (shards > 1 && sl_job_has(job, "tp") && job->tp != shards)
        return sl_fail(SL_ERR_USAGE, "`tp`: the stages of the plan have %d shards, found %lld",
                       shards, (long long)job->tp);
    if (shards > SL_MAX_OUT)
        return sl_fail(SL_ERR_REFUSED, "%d tensor-parallel shards: 1 to %d can run", shards,
                       SL_MAX_OUT);
    if (shards > 1) {
        job->tp = shards;
        sl_job_mark(job, "tp");
    }
    return SL_OK;
}

sl_err sl_job_layout(struct sl_job_work *work, const struct sl_plan *plan) {
    struct sl_job *job = &work->job;
    int *stage_of = SL_NEW(&work->arena, int, work->graph->forward_count);
    bool planned = plan || *job->plan;
    if (planned)
        SL_TRY(read_plan(work, plan, stage_of));
    if (!*job->schedule && !*job->schedule_module)
        sl_job_resolve(job, "schedule", "1f1b");
    SL_TRY(sl_job_given_open(work, planned));
    if (!planned)
        SL_TRY(plan_stages(work, stage_of));
    SL_TRY(take_shards(work));
    SL_TRY(set_group(work));
    SL_TRY(sl_job_given_keep(work));
    if (!sl_job_has(job, "slack"))
        job->slack = default_slack(work);
    sl_job_mark(job, "slack");
    job->clip_scope =
        sl_job_is_global(job, work->pipe.row) ? SL_JOB_SCOPE_GLOBAL : SL_JOB_SCOPE_STAGE;
    sl_job_mark(job, "clip_scope");
    work->pipe.stage_of = stage_of;
    work->pipe.schedule = work->pipe.row->name;
    work->pipe.slack = job->slack;
    work->pipe.global_step = job->clip_scope == SL_JOB_SCOPE_GLOBAL;
    return measure_delays(work);
}
