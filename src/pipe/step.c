/* Optimizer steps and reductions of a pipeline; sums of replicas are in reduce.c.
 *
 * Synchronous: all workers meet at the step of an iteration. Each worker puts the norms of its
 * gradients into a table. The workers merge their tables, and each adds all norms in graph
 * order. So all get the same norm and the same decision (clip, skip) as one worker, bit for bit.
 *
 * Tied parameters: every holder adds all uses in graph order; the sum is its gradient. */
#include "pipe/own.h"
#include "pipe/reporter.h"
#include "pipe/scale.h"
#include "pipe/shards.h"
#include "pipe/state.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

/* Returns the index of the parameter in the seat's program, or -1 if the seat lacks it. */
static int find_param(const struct sl_pipe_seat *seat, const char *name) {
    const struct sl_program *p = seat->train.worker->programs[SL_WORKER_FULL];
    for (int i = 0; i < p->param_count; i++)
        if (strcmp(p->graph->params.at[p->params[i].param].name, name) == 0)
            return i;
    return -1;
}

float *sl_pipe_use(const struct sl_pipe_seat *seat, int64_t grad, int grad_slot) {
    const struct sl_worker *worker = seat->train.worker;
    const struct sl_program *p = worker->programs[SL_WORKER_FULL];
    int u = 0;
    while (p->uses[u].grad != grad)
        SL_ASSERT(++u < p->use_count);
    return (float *)(void *)((char *)worker->grad[grad_slot] + p->uses[u].offset);
}

/* Lists this worker's uses of a tied parameter, in graph order. */
static void find_terms(struct sl_pipe_worker *w, const struct sl_tie *tie, int grad_slot) {
    const struct sl_pipe *pipe = w->pipe;
    const struct sl_graph *graph = pipe->train.graph;
    int count = 0;
    for (int64_t g = 0; g < graph->grads.count; g++) {
        const struct sl_param_grad *grad = &graph->grads.at[g];
        int stage = pipe->config.stage_of[grad->node];
        if (strcmp(graph->params.at[grad->param].name, tie->name) == 0 &&
            pipe->config.plan->stages[stage].workers[0] == w->index)
            w->terms[count++] =
                sl_pipe_use(pipe->seat_at[pipe->config.plan->stages[stage].seat], g, grad_slot);
    }
}

static sl_err sum_tie(struct sl_pipe_worker *w, int group, int grad_slot, float *out) {
    const struct sl_plan *plan = w->pipe->config.plan;
    const struct sl_tie *tie = &plan->ties[group - plan->stage_count];
    struct sl_group *sum = w->pipe->groups[group];
    int64_t before = sl_pipe_clock(w);
    find_terms(w, tie, grad_slot);
    /* other workers read our gradients */
    SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE));
    sl_pipe_status_wait(w, (struct sl_pipe_wait){.wait = SL_WAIT_GROUP, .of = group});
    SL_TRY(sl_comm_group_sum_begin(sum, w->member[group], w->terms, tie->bytes / 4, out));
    SL_TRY(sl_comm_group_sum_end(sum, w->member[group]));
    sl_pipe_status_resume(w);
    w->waited_ns += sl_pipe_clock(w) - before;
    return SL_OK;
}

static bool holds_tie(const struct sl_tie *tie, int stage) {
    for (int i = 0; i < tie->count; i++)
        if (tie->stages[i] == stage)
            return true;
    return false;
}

/* Runs a REDUCE. A worker with several seats in the group acts at the REDUCE of its last seat. */
sl_err sl_pipe_reduce(struct sl_pipe_worker *w, const struct sl_action *action) {
    const struct sl_plan *plan = w->pipe->config.plan;
    int group = action->slot, here = 0;
    if (group < plan->stage_count)
        return sl_pipe_reduce_replicas(w, action);
    if (w->pipe->sched->global_step)
        return sl_pipe_global_step_reduce(
            w, w->pipe->seat_at[sl_sched_seat(plan, action->stage, w->index)], action);
    const struct sl_tie *tie = &plan->ties[group - plan->stage_count];
    for (int i = 0; i < w->seat_count; i++)
        here += holds_tie(tie, w->seats[i].stage);
    if (++w->reduce_seen[group] < here)
        return SL_OK;
    w->reduce_seen[group] = 0;
    float *sum = NULL; /* the gradient of the first seat; the others get a copy */
    for (int i = 0; i < w->seat_count; i++) {
        struct sl_pipe_seat *seat = &w->seats[i];
        int param = holds_tie(tie, seat->stage) ? find_param(seat, tie->name) : -1;
        if (param < 0)
            continue;
        float *grad = sl_run_worker_grad(seat->train.worker, action->grad_slot, param);
        seat->train.worker->tied[param] = true;
        if (sum) {
            SL_TRY(w->device->row->copy(w->device, SL_STREAM_COMPUTE, grad, sum, tie->bytes));
            continue;
        }
        sum = grad;
        SL_TRY(sum_tie(w, group, action->grad_slot, sum));
    }
    return SL_OK;
}

/* scale_of: NULL, or the scale of each parameter if parameters are clipped and skipped
 * separately. */
static sl_err update_seat(struct sl_pipe_worker *w, struct sl_pipe_seat *seat, double lr,
                          const struct sl_norm_verdict *verdict, const float *scale_of) {
    struct sl_worker *worker = seat->train.worker;
    struct sl_update_args args = {
        .t = w->pipe->start_step + seat->step_version,
        .lr = lr,
        .scale = verdict->scale,
        .scale_of = scale_of,
        .version = seat->step_to,
        .grad_slot = seat->step_grad,
    };
    if (seat->step_to != seat->step_from)
        SL_TRY(sl_run_worker_copy_weights(worker, seat->step_to, seat->step_from));
    if (verdict->finite || scale_of) {
        SL_TRY(sl_run_policy_update(&seat->policy, &args, seat->foresight_slot, NULL));
        SL_TRY(sl_pipe_own_gather(w, seat, args.version));
    }
    seat->newest = seat->step_to;
    seat->filled &= ~((uint64_t)1 << seat->step_grad);
    SL_TRY(sl_pipe_staleness_step(w->pipe, seat, seat->step_version));
    seat->step_version = 0;
    return SL_OK;
}

/* Puts the norms of this seat's gradients into the worker's table. One seat owns each entry. */
static sl_err publish_norms(struct sl_pipe_worker *w, struct sl_pipe_seat *seat) {
    const struct sl_program *p = seat->train.worker->programs[SL_WORKER_FULL];
    SL_TRY(sl_run_worker_sum_uses(seat->train.worker, 0));
    SL_TRY(sl_run_train_norms(&seat->train, 0));
    for (int i = 0; i < p->param_count; i++) {
        int param = p->params[i].param;
        const struct sl_param_grad *grads = w->pipe->train.graph->grads.at;
        bool mine = true; /* the owner is replica 0 of the stage with the first use */
        for (int64_t g = 0; g < w->pipe->train.graph->grads.count; g++)
            if (grads[g].param == param) {
                mine = w->pipe->config.stage_of[grads[g].node] == seat->stage && seat->replica == 0;
                break;
            }
        if (mine && !p->graph->params.at[param].echo)
            w->norms[param] = seat->train.norm_sums[i];
    }
    return SL_OK;
}

static void report_step(const struct sl_pipe_worker *w, int64_t version,
                        const struct sl_norm_verdict *verdict, double lr) {
    struct sl_pipe *pipe = w->pipe;
    struct sl_step_report *report = &pipe->reports[version - 1 - pipe->done];
    int64_t now = sl_clock_ns(), cpu = sl_clock_process_ns();
    report->step = pipe->start_step + version;
    report->norm = verdict->norm;
    report->lr = lr;
    report->loss_scale =
        sl_run_train_reported_scale(&pipe->train, sl_pipe_scale_of(w, version - 1));
    report->skipped = !verdict->finite;
    report->samples = pipe->train.batch;
    report->dur_ns = now - pipe->last_ns;
    report->data_ns = sl_run_ahead_take_ns(pipe->train.ahead);
    report->cpu_ns = cpu - pipe->last_cpu_ns;
    pipe->last_ns = now;
    pipe->last_cpu_ns = cpu;
    sl_pipe_reporter_step_ended(pipe, version);
}

/* A step of a synchronous schedule: all workers exchange norms, then each updates its own seats. */
static sl_err step_synchronous(struct sl_pipe_worker *w, int64_t version) {
    struct sl_pipe *pipe = w->pipe;
    double sum = 0,
           lr = sl_optim_lr_at(&pipe->train.lr, pipe->train.base_lr, pipe->start_step + version);
    int64_t params = pipe->train.graph->params.count;
    memset(w->norms, 0, sizeof *w->norms * (size_t)params);
    for (int i = 0; i < w->seat_count; i++)
        SL_TRY(publish_norms(w, &w->seats[i]));
    int64_t before = sl_pipe_clock(w);
    sl_pipe_status_wait(w, (struct sl_pipe_wait){.wait = SL_WAIT_GROUP, .of = SL_WAIT_ALL});
    SL_TRY(sl_comm_group_merge(pipe->all, w->index, w->norms, params));
    sl_pipe_status_resume(w);
    w->waited_ns += sl_pipe_clock(w) - before;
    for (int64_t i = 0; i < params; i++)
        sum += w->norms[i];
    double scale = sl_pipe_scale_of(w, version - 1);
    struct sl_norm_verdict verdict = sl_optim_norm_judge(sum, 1 / scale, pipe->train.clip);
    sl_pipe_scale_decided(w, version, verdict.finite);
    for (int i = 0; i < w->seat_count; i++)
        SL_TRY(update_seat(w, &w->seats[i], lr, &verdict, NULL));
    if (w->index == 0)
        report_step(w, version, &verdict, lr);
    return SL_OK;
}

/* A step of an asynchronous schedule by the global norm (global_step.c). */
static sl_err step_global(struct sl_pipe_worker *w, struct sl_pipe_seat *seat,
                          const struct sl_action *action) {
    struct sl_pipe *pipe = w->pipe;
    double lr =
        sl_optim_lr_at(&pipe->train.lr, pipe->train.base_lr, pipe->start_step + action->version);
    struct sl_norm_verdict verdict;
    SL_TRY(sl_pipe_global_step_decide(w, seat, action, &verdict));
    SL_TRY(update_seat(w, seat, lr, &verdict, NULL));
    if (w->index == 0 && seat == &w->seats[0])
        report_step(w, action->version, &verdict, lr);
    return SL_OK;
}

static bool is_tied(const struct sl_pipe_worker *w, const char *name) {
    const struct sl_plan *plan = w->pipe->config.plan;
    for (int t = 0; t < plan->tie_count; t++)
        if (strcmp(plan->ties[t].name, name) == 0)
            return true;
    return false;
}

/* A step of an asynchronous schedule, stage by stage: a stage clips by the norm of its own gradient
 * and skips its step if that norm is not finite. A tied parameter is clipped and skipped by its own
 * norm, so that all holders do the same without a message. */
static sl_err step_alone(struct sl_pipe_worker *w, struct sl_pipe_seat *seat, int64_t version) {
    struct sl_pipe *pipe = w->pipe;
    const struct sl_program *p = seat->train.worker->programs[SL_WORKER_FULL];
    double sum = 0, scale = 1 / sl_pipe_scale_of(w, version - 1), clip = pipe->train.clip,
           lr = sl_optim_lr_at(&pipe->train.lr, pipe->train.base_lr, pipe->start_step + version);
    bool alike = true;
    SL_TRY(sl_run_worker_sum_uses(seat->train.worker, seat->step_grad));
    SL_TRY(sl_run_train_norms(&seat->train, seat->step_grad));
    SL_TRY(sl_pipe_shards_norms(w, seat));
    for (int i = 0; i < p->param_count; i++)
        if (!seat->team && !is_tied(w, p->graph->params.at[p->params[i].param].name))
            sum += seat->train.norm_sums[i];
    for (int64_t i = 0; seat->team && i < p->graph->params.count; i++)
        if (!is_tied(w, p->graph->params.at[i].name))
            sum += w->norms[i];
    struct sl_norm_verdict own = sl_optim_norm_judge(sum, scale, clip);
    for (int i = 0; i < p->param_count; i++) {
        bool tied = is_tied(w, p->graph->params.at[p->params[i].param].name);
        struct sl_norm_verdict of =
            tied ? sl_optim_norm_judge(seat->train.norm_sums[i], scale, clip) : own;
        seat->scales[i] = of.finite ? of.scale : -1;
        alike &= !tied;
    }
    SL_TRY(update_seat(w, seat, lr, &own, alike ? NULL : seat->scales));
    own.norm = NAN;
    if (w->index == 0 && seat == &w->seats[0])
        report_step(w, version, &own, lr);
    return SL_OK;
}

sl_err sl_pipe_step(struct sl_pipe_worker *w, const struct sl_action *action) {
    int number = sl_sched_seat(w->pipe->config.plan, action->stage, w->index);
    struct sl_pipe_seat *seat = w->pipe->seat_at[number];
    SL_ASSERT(seat->step_version == 0);
    seat->step_version = action->version;
    seat->step_from = action->slot;
    seat->step_to = action->weight_slot;
    seat->step_grad = action->grad_slot;
    if (w->pipe->sched->global_step)
        return step_global(w, seat, action);
    if (w->pipe->sched->rule != SL_RULE_SYNC)
        return step_alone(w, seat, action->version);
    if (++w->steps_waiting < w->seat_count)
        return SL_OK;
    w->steps_waiting = 0;
    return step_synchronous(w, action->version);
}
