/* Tensor parallelism of a job: the graph of all shards for one worker, or graphs of single shards
 * and the expanded plan for a pipeline. */
#include "base/vec.h"
#include "job/parts.h"
#include "job/plan.h"
#include "plan/model.h"
#include "schedules/schedule.h"
#include "shard/shard.h"

#include <string.h>

static sl_err check_dtype(int64_t shards, bool half) {
    if (shards > 1 && half)
        return sl_fail(SL_ERR_REFUSED, "`tp`: shards exchange fp32 tensors only; set `dtype` to "
                                       "fp32");
    return SL_OK;
}

static sl_err check(const struct sl_job_work *work) {
    const struct sl_job *job = &work->job;
    SL_TRY(check_dtype(job->tp, sl_dtype_is_half(work->train.dtype)));
    if (job->audit)
        return sl_fail(SL_ERR_REFUSED, "`audit` repeats passes, and shards meet in them: leave out "
                                       "`audit` or `tp`");
    if (work->train.kind_count > 1)
        return sl_fail(SL_ERR_REFUSED, "`tp`: the shards of a stage must be on devices of one "
                                       "kind; name one `device`");
    if (*job->cost)
        return sl_fail(SL_ERR_REFUSED, "`cost`: the costs are those of whole ops, a forecast of "
                                       "shards is not possible yet");
    return SL_OK;
}

/* ---- graphs ---- */

static sl_err rewrite(struct sl_job_work *work, enum sl_shard_form form,
                      struct sl_shard_node **nodes) {
    struct sl_shard_layouts layouts, eval;
    SL_TRY(sl_shard_choose(&work->arena, work->graph, (int)work->job.tp, &layouts));
    if (!layouts.regions)
        return sl_fail(SL_ERR_REFUSED,
                       "`tp`: no part of model '%s' can be divided into %lld shards (sizes must "
                       "be multiples of it)",
                       work->graph->name, (long long)work->job.tp);
    SL_TRY(sl_shard_rewrite(work->graph, &layouts, form, &work->shard_graph, nodes));
    SL_TRY(sl_graph_autodiff(work->shard_graph));
    work->train.graph = work->shard_graph;
    if (!work->eval_graph)
        return SL_OK;
    SL_TRY(sl_shard_choose_like(&work->arena, work->eval_graph, work->graph, &layouts, &eval));
    SL_TRY(sl_shard_rewrite(work->eval_graph, &eval, form, &work->shard_eval_graph, NULL));
    work->train.eval_graph = work->shard_eval_graph;
    return SL_OK;
}

/* ---- the expanded plan ---- */

static void spread_workers(struct sl_job_work *work, int t, struct sl_model_plan_spec *spec) {
    const struct sl_plan *plan = work->plan;
    int count = plan->stage_count * t;
    int *widths = SL_NEW(&work->arena, int, count);
    const int **workers = SL_NEW(&work->arena, const int *, count);
    int64_t *micros = SL_NEW(&work->arena, int64_t, count);
    bool *recompute = SL_NEW(&work->arena, bool, count);
    bool *zero1 = SL_NEW(&work->arena, bool, count);
    for (int s = 0; s < count; s++) {
        const struct sl_stage *stage = &plan->stages[s / t];
        int *at = SL_NEW(&work->arena, int, stage->width);
        for (int r = 0; r < stage->width; r++)
            at[r] = stage->workers[r] * t + s % t;
        widths[s] = stage->width;
        workers[s] = at;
        micros[s] = stage->micro_size;
        recompute[s] = stage->recompute;
        zero1[s] = stage->zero1;
    }
    spec->stage_count = count;
    spec->parts = t;
    spec->worker_count = plan->worker_count * t;
    spec->width_of = widths;
    spec->workers_of = workers;
    spec->micro_of = micros;
    spec->recompute_of = recompute;
    spec->zero1_of = zero1;
}

static int *stages_of(struct sl_job_work *work, int t, const struct sl_shard_node *nodes) {
    const struct sl_graph *graph = work->shard_graph;
    int *stage_of = SL_NEW(&work->arena, int, graph->forward_count + 1);
    for (int n = 0; n < graph->forward_count; n++)
        stage_of[n] = work->pipe.stage_of[nodes[n].node] * t + nodes[n].shard;
    return stage_of;
}

/* Adds what only the plan of the job states: names, times, groups, memory. */
static sl_err complete(struct sl_job_work *work, int t, const struct sl_plan *plan) {
    struct sl_plan draft = *plan;
    struct sl_stage *stages =
        sl_vec_freeze(&work->arena, plan->stages, plan->stage_count, sizeof *stages);
    int64_t *memory = SL_NEW(&work->arena, int64_t, plan->worker_count);
    for (int s = 0; s < plan->stage_count; s++) {
        const struct sl_stage *from = &work->plan->stages[s / t];
        stages[s].name = sl_arena_printf(&work->arena, "%s.%d", from->name, s % t);
        stages[s].group = from->group;
        stages[s].times = from->times;
    }
    for (int w = 0; w < plan->worker_count; w++)
        memory[w] = work->plan->memory_bytes[w / t];
    draft.stages = stages;
    draft.memory_bytes = memory;
    draft.schedule = work->plan->schedule;
    draft.batch = work->plan->batch;
    return sl_plan_build(&work->arena, &draft, &work->pipe.plan);
}

/* Records the job's plan with its shards, the bytes of one device, and the collectives. */
static sl_err record(struct sl_job_work *work, int t) {
    const struct sl_plan *expanded = work->pipe.plan;
    struct sl_plan draft = *work->plan;
    struct sl_stage *stages =
        sl_vec_freeze(&work->arena, draft.stages, draft.stage_count, sizeof *stages);
    struct sl_tie *ties = sl_vec_freeze(&work->arena, draft.ties, draft.tie_count, sizeof *ties);
    for (int s = 0; s < draft.stage_count; s++) {
        const struct sl_stage *of = &expanded->stages[s * t];
        stages[s].shards = t;
        stages[s].bytes = of->bytes;
        stages[s].collectives = of->collectives;
        stages[s].collective_count = of->collective_count;
    }
    for (int i = 0, next = 0; i < expanded->tie_count && next < draft.tie_count; i++)
        if (expanded->ties[i].stages[0] % t == 0)
            ties[next++].bytes = expanded->ties[i].bytes;
    draft.stages = stages;
    draft.ties = ties;
    return sl_plan_build(&work->arena, &draft, &work->plan);
}

static sl_err expand(struct sl_job_work *work, int t, const struct sl_shard_node *nodes) {
    const struct sl_train_config *c = &work->train;
    int *stage_of = stages_of(work, t, nodes);
    struct sl_model_plan_spec spec = {
        .graph = work->shard_graph,
        .stage_of = stage_of,
        .split = work->pipe.row->splits_backward,
        .optim = &c->optim,
        .policy = &c->policy,
        .has_kernel = c->device->has_kernel,
        .dtype = c->dtype,
        .extra_bytes = c->device->extra_bytes,
        .threads = c->threads,
    };
    const struct sl_plan *plan;
    spread_workers(work, t, &spec);
    SL_TRY(sl_plan_from_model(&work->arena, &spec, &plan));
    SL_TRY(complete(work, t, plan));
    work->pipe.stage_of = stage_of;
    return record(work, t);
}

sl_err sl_job_shard(struct sl_job_work *work) {
    bool pipeline = work->pipe.plan != NULL;
    struct sl_shard_node *nodes;
    work->plan = work->pipe.plan;
    if (work->job.tp < 2)
        return SL_OK;
    SL_TRY(check(work));
    if (work->pipe.comm && work->pipe.comm->ranks > 1)
        sl_job_resolve(&work->job, "save", "sync");
    SL_TRY(rewrite(work, pipeline ? SL_SHARD_APART : SL_SHARD_TOGETHER, &nodes));
    return pipeline ? expand(work, (int)work->job.tp, nodes) : SL_OK;
}

sl_err sl_job_shard_together(struct sl_job_work *work, struct sl_graph **out) {
    struct sl_shard_layouts layouts;
    SL_TRY(sl_shard_choose(&work->arena, work->graph, (int)work->job.tp, &layouts));
    SL_TRY(sl_shard_rewrite(work->graph, &layouts, SL_SHARD_TOGETHER, out, NULL));
    return sl_graph_autodiff(*out);
}
