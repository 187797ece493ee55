/* The scale of the loss in a pipeline. Every worker follows the verdicts and comes to the same.
 *
 * Synchronous: iteration t is scaled by what the verdicts 1 .. t have made of it. Without a flush
 * iterations begin before the last verdicts are in: then it is those 1 .. t - lag, where lag is the
 * schedule's, the same for all workers and so many that whoever begins t knows them.
 */
#include "pipe/scale.h"

#include "sched/lag.h"

#include <stdlib.h>

enum { LATE = 8 }; /* steps that a seat may make after another of its worker */

static int64_t kept(const struct sl_pipe *pipe) { return pipe->scale_lag + 2 + LATE; }

sl_err sl_pipe_scale_check(const struct sl_train_config *c, const struct sl_sched *sched) {
    if (!c->loss_scale.dynamic || sched->rule == SL_RULE_SYNC || sched->global_step)
        return SL_OK;
    return sl_fail(
        SL_ERR_REFUSED,
        "schedule '%s' lets every stage judge its own gradient, so there is no verdict "
        "that a dynamic loss scale could follow; let them step together (`clip_scope` global) "
        "or use a number as `loss_scale`",
        sched->name);
}

void sl_pipe_scale_start(struct sl_pipe *pipe) {
    if (!pipe->train.loss_scale.dynamic)
        return;
    pipe->scale_lag = sl_sched_verdict_lag(pipe->sched);
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        struct sl_pipe_worker *worker = &pipe->workers[w];
        worker->scales = sl_realloc(worker->scales, sizeof *worker->scales * (size_t)kept(pipe));
        worker->scales[0] = pipe->scale;
    }
}

static struct sl_scale_state *after(const struct sl_pipe_worker *w, int64_t version) {
    return &w->scales[version % kept(w->pipe)];
}

double sl_pipe_scale_of(const struct sl_pipe_worker *w, int64_t iteration) {
    int64_t version = iteration - w->pipe->scale_lag;
    if (!w->pipe->train.loss_scale.dynamic)
        return w->pipe->scale.value;
    return after(w, version > 0 ? version : 0)->value;
}

void sl_pipe_scale_judged(struct sl_pipe_worker *w, int64_t version, bool finite) {
    const struct sl_loss_scale *rule = &w->pipe->train.loss_scale;
    if (rule->dynamic)
        *after(w, version) = sl_optim_loss_scale_next(rule, *after(w, version - 1),
                                                      sl_pipe_scale_of(w, version - 1), finite);
}

/* Worker 0 tells those who have no worker of their own. */
sl_err sl_pipe_scale_end(struct sl_pipe *pipe, int64_t steps) {
    struct sl_scale_state scale = {0};
    if (!pipe->train.loss_scale.dynamic)
        return SL_OK;
    if (sl_pipe_is_here(pipe, 0))
        scale = *after(&pipe->workers[0], steps);
    SL_TRY(sl_comm_merge(pipe->comm, &scale, sizeof scale));
    pipe->scale = scale;
    return SL_OK;
}

void sl_pipe_scale_close(struct sl_pipe *pipe) {
    for (int w = 0; pipe->workers && w < pipe->config.plan->worker_count; w++)
        free(pipe->workers[w].scales);
}
