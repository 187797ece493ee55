/* The dynamic loss scale in a pipeline. Every worker updates it after each step (finite or skipped)
 * and gets the same value.
 *
 * Synchronous: iteration t uses the scale after steps 1 .. t. Without a flush an iteration begins
 * before the last steps are decided: it uses the scale after steps 1 .. t - lag. The lag is a
 * property of the schedule: every worker knows those steps when it begins iteration t.
 */
#include "pipe/scale.h"

#include "sched/lag.h"

#include <stdlib.h>

enum { LATE = 8 }; /* steps by which seats of one worker may be apart */

static int64_t kept(const struct sl_pipe *pipe) { return pipe->scale_lag + 2 + LATE; }

sl_err sl_pipe_scale_check(const struct sl_train_config *c, const struct sl_sched *sched) {
    if (!c->loss_scale.dynamic || sched->rule == SL_RULE_SYNC || sched->global_step)
        return SL_OK;
    return sl_fail(
        SL_ERR_REFUSED,
        "schedule '%s' lets every stage decide about its own gradient, so a dynamic loss "
        "scale has no common decision to follow; use `clip_scope` "
        "global, or a number as `loss_scale`",
        sched->name);
}

void sl_pipe_scale_start(struct sl_pipe *pipe) {
    if (!pipe->train.loss_scale.dynamic)
        return;
    pipe->scale_lag = sl_sched_decision_lag(pipe->sched);
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

void sl_pipe_scale_decided(struct sl_pipe_worker *w, int64_t version, bool finite) {
    const struct sl_loss_scale *rule = &w->pipe->train.loss_scale;
    if (rule->dynamic)
        *after(w, version) = sl_optim_loss_scale_next(rule, *after(w, version - 1),
                                                      sl_pipe_scale_of(w, version - 1), finite);
}

/* Rank of worker 0 shares the scale with ranks without workers. */
sl_err sl_pipe_scale_end(struct sl_pipe *pipe, int64_t steps) {
    struct sl_scale_state scale = {0};
    if (!pipe->train.loss_scale.dynamic)
        return SL_OK;
    if (sl_pipe_is_local(pipe, 0))
        scale = *after(&pipe->workers[0], steps);
    SL_TRY(sl_comm_merge(pipe->comm, &scale, sizeof scale));
    pipe->scale = scale;
    return SL_OK;
}

void sl_pipe_scale_close(struct sl_pipe *pipe) {
    for (int w = 0; pipe->workers && w < pipe->config.plan->worker_count; w++)
        free(pipe->workers[w].scales);
}
