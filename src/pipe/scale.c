/* The dynamic loss scale in a pipeline. Every worker updates it after each step (finite or skipped)
 * and gets the same value.
 *
 * Synchronous: iteration t uses the scale after steps 1 .. t. Without a flush an iteration
 * begins before the decisions about the last steps: it uses the scale after steps 1 .. t - lag.
 * The lag is a property of the schedule: when a worker begins iteration t, it knows the
 * decisions about these steps. */
#include "pipe/scale.h"

#include "sched/lag.h"

#include <stdlib.h>
#include <string.h>

enum { LATE = 8 }; /* steps by which two seats of one worker may differ */

static int64_t kept(const struct sl_pipe *pipe) { return pipe->scale_lag + 2 + LATE; }

sl_err sl_pipe_scale_check(const struct sl_train_config *c, const struct sl_sched *sched) {
    if (!c->loss_scale.dynamic || sched->rule == SL_RULE_SYNC || sched->global_step)
        return SL_OK;
    return sl_fail(
        SL_ERR_REFUSED,
        "schedule '%s' lets every stage decide about its own gradient, so a dynamic loss "
        "scale has no common decision to follow; use `clip_scope` "
        "global, which makes steps later, or a number as `loss_scale`",
        sched->name);
}

static struct sl_scale_state *after(const struct sl_pipe_worker *w, int64_t version) {
    return &w->scales[version % kept(w->pipe)];
}

/* Sets the scales at the start of a schedule. If it begins after its first iterations, they are
 * those of the steps before. */
void sl_pipe_scale_start(struct sl_pipe *pipe) {
    if (!pipe->train.loss_scale.dynamic)
        return;
    pipe->scale_lag = sl_sched_decision_lag(pipe->sched);
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        struct sl_pipe_worker *worker = &pipe->workers[w];
        worker->scales = sl_realloc(worker->scales, sizeof *worker->scales * (size_t)kept(pipe));
        memset(worker->scales, 0, sizeof *worker->scales * (size_t)kept(pipe));
        *after(worker, pipe->done) = pipe->scale;
        for (int i = 0; i < SL_PIPE_PAST && i < pipe->done; i++)
            *after(worker, pipe->done - 1 - i) = pipe->past[i];
    }
}

int64_t sl_pipe_scale_count(const struct sl_pipe *pipe) {
    return pipe->train.loss_scale.dynamic
               ? 2 * (sl_sched_decision_lag(pipe->sched) + 2 + (int64_t)LATE)
               : 0;
}

void sl_pipe_scale_put(const struct sl_pipe_worker *w, double *out) {
    for (int64_t i = 0; i < sl_pipe_scale_count(w->pipe) / 2; i++) {
        *out++ = w->scales[i].value;
        *out++ = (double)w->scales[i].good;
    }
}

void sl_pipe_scale_get(struct sl_pipe_worker *w, const double *in) {
    for (int64_t i = 0; i < sl_pipe_scale_count(w->pipe) / 2; i++, in += 2)
        w->scales[i] = (struct sl_scale_state){.value = in[0], .good = (int64_t)in[1]};
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

/* The rank of worker 0 shares the scales with ranks without workers. */
sl_err sl_pipe_scale_end(struct sl_pipe *pipe, int64_t done) {
    struct sl_scale_state scales[1 + SL_PIPE_PAST] = {{0}};
    if (!pipe->train.loss_scale.dynamic)
        return SL_OK;
    for (int i = 0; i <= SL_PIPE_PAST && i <= done && i <= pipe->scale_lag; i++)
        if (sl_pipe_is_local(pipe, 0))
            scales[i] = *after(&pipe->workers[0], done - i);
    SL_TRY(sl_comm_merge(pipe->comm, scales, sizeof scales));
    pipe->scale = scales[0];
    memcpy(pipe->past, scales + 1, sizeof pipe->past);
    return SL_OK;
}

void sl_pipe_scale_close(struct sl_pipe *pipe) {
    for (int w = 0; pipe->workers && w < pipe->config.plan->worker_count; w++)
        free(pipe->workers[w].scales);
}
