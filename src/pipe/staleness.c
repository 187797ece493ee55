/* Measuring staleness: the distance between the weights that a pass reads and those it stands for.
 *
 * A pass that starts from version v stands for version v + s. With a prediction, s is the number of
 * steps predicted; without, its gradient is applied to version v + s. When the stage makes that
 * version, two distances are known:
 *     predicted   what the pass read      to the true weights of version v + s
 *     stale       version v               to the true weights of version v + s
 * Each stage measures one forward and one backward pass at a time, so two copies of the weights
 * suffice. It reports one pass per version. A pass on stashed weights may stand for a version
 * that already exists: then its distance is known at once. */
#include "pipe/state.h"

#include <math.h>
#include <stdlib.h>

sl_err sl_pipe_staleness_open(struct sl_pipe_seat *seat) {
    struct sl_worker *worker = seat->train.worker;
    int64_t bytes = worker->programs[SL_WORKER_FULL]->param_bytes + 64;
    for (int d = 0; d < 2; d++) {
        seat->watch[d].target = -1;
        for (int i = 0; i < 2; i++)
            SL_TRY(worker->device->row->alloc(worker->device, bytes, &seat->watch[d].slabs[i]));
    }
    return SL_OK;
}

void sl_pipe_staleness_close(struct sl_pipe_seat *seat) {
    struct sl_device *device = seat->train.device;
    for (int d = 0; d < 2; d++)
        for (int i = 0; device && i < 2; i++)
            device->row->free(device, seat->watch[d].slabs[i]);
    SL_VEC_FREE(&seat->watched);
}

/* Called before a run, whose versions count from 0. */
void sl_pipe_staleness_start(struct sl_pipe_seat *seat) {
    for (int d = 0; d < 2; d++) {
        seat->watch[d].target = -1;
        seat->watch[d].told = seat->watch[d].made = 0;
    }
}

static sl_err begin(struct sl_pipe_seat *seat, int d, const struct sl_pipe_stale_pass *what,
                    int read, int base) {
    struct sl_worker *worker = seat->train.worker;
    struct sl_device *device = worker->device;
    struct sl_pipe_stale_pass *watch = &seat->watch[d];
    int64_t bytes = worker->programs[SL_WORKER_FULL]->param_bytes;
    watch->target = what->target;
    watch->ahead = what->ahead;
    watch->predicted = what->predicted;
    SL_TRY(
        device->row->copy(device, SL_STREAM_COMPUTE, watch->slabs[0], worker->param[read], bytes));
    return device->row->copy(device, SL_STREAM_COMPUTE, watch->slabs[1], worker->param[base],
                             bytes);
}

static bool is_free(const struct sl_pipe_seat *seat, int d) {
    return seat->watch[d].slabs[0] && seat->watch[d].target < 0;
}

static double rmse(const struct sl_program *p, const void *a, const void *b) {
    double sum = 0, count = 0;
    for (int i = 0; i < p->param_count; i++) {
        const float *x = (const float *)(const void *)((const char *)a + p->params[i].offset);
        const float *y = (const float *)(const void *)((const char *)b + p->params[i].offset);
        for (int64_t j = 0; j < p->params[i].numel; j++)
            sum += ((double)x[j] - (double)y[j]) * ((double)x[j] - (double)y[j]);
        count += (double)p->params[i].numel;
    }
    return count > 0 ? sqrt(sum / count) : 0;
}

static sl_err on_host(struct sl_pipe_seat *seat, const void *slab, char *out) {
    struct sl_device *device = seat->train.device;
    int64_t bytes = seat->train.worker->programs[SL_WORKER_FULL]->param_bytes;
    SL_TRY(device->row->download(device, SL_STREAM_COMPUTE, out, slab, bytes));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

/* Reports a measured pass. The version that it stands for is now the newest. */
static sl_err report(const struct sl_pipe *pipe, struct sl_pipe_seat *seat, int d) {
    const struct sl_program *p = seat->train.worker->programs[SL_WORKER_FULL];
    struct sl_pipe_stale_pass *watch = &seat->watch[d];
    size_t bytes = (size_t)p->param_bytes + 64;
    char *host = sl_realloc(NULL, 2 * bytes), *now = host + bytes;
    struct sl_staleness s = {.step = pipe->start_step + watch->target,
                             .stage = seat->stage,
                             .base = pipe->start_step + watch->target - watch->ahead,
                             .ahead = watch->ahead,
                             .backward = d,
                             .predicts = watch->predicted};
    sl_err err = on_host(seat, seat->train.worker->param[seat->newest], now);
    if (err == SL_OK)
        err = on_host(seat, watch->slabs[0], host);
    s.predicted = rmse(p, host, now);
    if (err == SL_OK)
        err = on_host(seat, watch->slabs[1], host);
    s.stale = rmse(p, host, now);
    free(host);
    SL_TRY(err);
    SL_PUSH(&seat->watched, s);
    watch->told = watch->target;
    watch->target = -1;
    return SL_OK;
}

/* Called before a pass that reads unpredicted weights. */
sl_err sl_pipe_staleness_pass(const struct sl_pipe *pipe, struct sl_pipe_seat *seat,
                              const struct sl_action *a) {
    const struct sl_policy *row = pipe->train.policy.row;
    int target = a->micro / pipe->sched->micros[a->stage], d = a->kind != SL_FORWARD;
    bool predicts = row && row->ahead && row->kept != SL_KEPT_VELOCITY;
    if (!is_free(seat, d) || a->ahead || predicts || target <= a->version ||
        target <= seat->watch[d].told)
        return SL_OK;
    struct sl_pipe_stale_pass what = {.target = target, .ahead = target - a->version};
    SL_TRY(begin(seat, d, &what, a->weight_slot, a->weight_slot));
    return target == seat->watch[d].made ? report(pipe, seat, d) : SL_OK;
}

/* Called after a prediction. Under rule `newest` the second prediction slot, if there is one, is
 * for backward passes. */
sl_err sl_pipe_staleness_predict(const struct sl_pipe *pipe, struct sl_pipe_seat *seat,
                                 const struct sl_action *a) {
    const struct sl_slot_pool *pools = pipe->sched->pools[seat->number];
    int d = pipe->sched->rule == SL_RULE_NEWEST && a->weight_slot > pools[SL_POOL_WEIGHT].count;
    if (!is_free(seat, d) || pipe->train.policy.row->kept == SL_KEPT_VELOCITY)
        return SL_OK;
    struct sl_pipe_stale_pass what = {
        .target = a->version + a->ahead, .ahead = a->ahead, .predicted = true};
    return begin(seat, d, &what, a->weight_slot, a->slot);
}

/* Called after a step has made version `version` in slab seat->newest. */
sl_err sl_pipe_staleness_step(const struct sl_pipe *pipe, struct sl_pipe_seat *seat,
                              int64_t version) {
    for (int d = 0; d < 2; d++) {
        seat->watch[d].made = version;
        if (seat->watch[d].slabs[0] && seat->watch[d].target == version)
            SL_TRY(report(pipe, seat, d));
    }
    return SL_OK;
}

static int earlier(const void *a, const void *b) {
    const struct sl_staleness *x = a, *y = b;
    int64_t order = x->step != y->step     ? x->step - y->step
                    : x->stage != y->stage ? x->stage - y->stage
                                           : (int64_t)x->backward - y->backward;
    return (order > 0) - (order < 0);
}

/* Returns the number of measurements of local seats, and moves them to `out` unless it is NULL. */
static int64_t take_local(struct sl_pipe *pipe, struct sl_staleness *out) {
    int64_t count = 0;
    for (int i = 0; i < pipe->config.plan->seat_count; i++) {
        struct sl_pipe_seat *seat = pipe->seat_at[i];
        for (int64_t j = 0; seat && seat->replica == 0 && j < seat->watched.count; j++, count++)
            if (out)
                out[count] = seat->watched.at[j];
        if (seat && out)
            seat->watched.count = 0;
    }
    return count;
}

sl_err sl_pipe_take_staleness(struct sl_pipe *pipe, struct sl_staleness **out, int64_t *count) {
    struct sl_arena arena = {0};
    struct sl_comm *comm = pipe->comm;
    int64_t *counts = SL_NEW(&arena, int64_t, comm->ranks), before = 0;
    sl_err err = SL_OK;
    *out = NULL;
    *count = 0;
    if (!pipe->config.staleness)
        goto out;
    counts[comm->rank] = take_local(pipe, NULL);
    SL_TRY_OUT(sl_comm_merge(comm, counts, comm->ranks * (int64_t)sizeof *counts));
    for (int r = 0; r < comm->ranks; r++) {
        before += r < comm->rank ? counts[r] : 0;
        *count += counts[r];
    }
    *out = calloc((size_t)*count + 1, sizeof **out);
    if (!*out)
        sl_out_of_memory((size_t)(*count + 1) * sizeof **out);
    take_local(pipe, *out + before);
    SL_TRY_OUT(sl_comm_merge(comm, *out, *count * (int64_t)sizeof **out));
    qsort(*out, (size_t)*count, sizeof **out, earlier);
out:
    sl_arena_free(&arena);
    return err;
}
