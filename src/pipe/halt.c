/* Ending a run after a step, with micro-batches in flight.
 *
 *   worker 0 | ... STEP 7 ¦ ... STEP 8 ¦ ...        ¦ the cut after a step (sched/cut.h)
 *   worker 1 | ... STEP 7 ¦ ... STEP 8 ¦ ...
 *
 * All workers stop at the cut after the last step of the run. If the run is asked to end early,
 * they stop at the first cut that no worker has passed. With several ranks no process knows how
 * far all workers are, so such runs end as planned. A schedule without cuts cannot pause: a signal
 * is then an error of the run. */
#include "pipe/halt.h"

#include "base/arena.h"
#include "sched/cut.h"

#include <string.h>

struct sl_pipe_halt {
    pthread_mutex_t mutex;
    /* [worker] stop: number of actions to run; other: the same for the cut that is being tried */
    int64_t *stop, *other;
    int64_t from, done; /* steps of the schedule before the run and after it */
    bool may;           /* the run may still be asked to end early */
};

static bool is_async(const struct sl_pipe *pipe) {
    return pipe->sched->rule != SL_RULE_SYNC && pipe->sched->rule != SL_RULE_FORWARD;
}

static const char *try_cut(struct sl_pipe *pipe, int64_t step) {
    if (sl_sched_cut(pipe->sched, (int32_t)step, pipe->halt->other) == SL_OK)
        return NULL;
    return sl_arena_dup(&pipe->arena, sl_err_message(), strlen(sl_err_message()));
}

/* Steps far from both ends of the schedule are alike, so one of them stands for all. Near the ends
 * only steps with an evaluation are tried. */
const char *sl_pipe_halt_obstacle(struct sl_pipe *pipe) {
    enum { NEAR = 4 };
    int64_t last = pipe->sched->iters - 1, every = pipe->train.eval_every;
    const char *why = is_async(pipe) && last > 0 ? try_cut(pipe, (last + 1) / 2) : NULL;
    for (int64_t i = 1; is_async(pipe) && !why && every > 0 && i <= NEAR && i <= last; i++) {
        if (i % every == 0)
            why = try_cut(pipe, i);
        if (!why && (last + 1 - i) % every == 0)
            why = try_cut(pipe, last + 1 - i);
    }
    return why;
}

void sl_pipe_halt_open(struct sl_pipe *pipe) {
    int count = pipe->config.plan->worker_count;
    pipe->halt = SL_NEW(&pipe->arena, struct sl_pipe_halt, 1);
    pipe->halt->stop = SL_NEW(&pipe->arena, int64_t, count);
    pipe->halt->other = SL_NEW(&pipe->arena, int64_t, count);
    pthread_mutex_init(&pipe->halt->mutex, NULL);
}

void sl_pipe_halt_close(struct sl_pipe *pipe) {
    if (pipe->halt)
        pthread_mutex_destroy(&pipe->halt->mutex);
}

sl_err sl_pipe_halt_start(struct sl_pipe *pipe, int64_t done) {
    enum { BACK = 8 };
    struct sl_pipe_halt *h = pipe->halt;
    const struct sl_run_hooks *hooks = &pipe->config.hooks;
    h->from = pipe->done;
    h->done = done;
    h->may = (hooks->stop || hooks->pause) && is_async(pipe) &&
             (pipe->comm->ranks == 1 || pipe->obstacle);
    sl_err err = sl_sched_cut(pipe->sched, (int32_t)done, h->stop);
    for (int i = 0; err != SL_OK && i < BACK && h->done - 1 > h->from; i++)
        if (sl_sched_cut(pipe->sched, (int32_t)--h->done, h->stop) == SL_OK)
            return SL_OK;
    return err;
}

bool sl_pipe_halt_next(struct sl_pipe *pipe, int worker, int64_t *at) {
    struct sl_pipe_halt *h = pipe->halt;
    pthread_mutex_lock(&h->mutex);
    bool more = pipe->at[worker] < h->stop[worker];
    if (more)
        *at = pipe->at[worker]++;
    pthread_mutex_unlock(&h->mutex);
    return more;
}

/* Has no worker passed the cut after this step? If so, h->other is that cut. */
static bool is_ahead(struct sl_pipe *pipe, int64_t step) {
    struct sl_pipe_halt *h = pipe->halt;
    if (sl_sched_cut(pipe->sched, (int32_t)step, h->other) != SL_OK)
        return false;
    for (int w = 0; w < pipe->config.plan->worker_count; w++)
        if (pipe->at[w] > h->other[w])
            return false;
    return true;
}

/* Finds the first step after which the workers can still stop, by bisection: cuts ascend with the
 * steps. */
static void shorten(struct sl_pipe *pipe) {
    struct sl_pipe_halt *h = pipe->halt;
    /* the cut of `low` has been passed, the cut of `high` has not */
    int64_t low = h->from, high = h->done;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (is_ahead(pipe, middle))
            high = middle;
        else
            low = middle;
    }
    if (high < h->done && is_ahead(pipe, high)) {
        memcpy(h->stop, h->other, sizeof *h->stop * (size_t)pipe->config.plan->worker_count);
        h->done = high;
    }
}

void sl_pipe_halt_poll(struct sl_pipe *pipe) {
    struct sl_pipe_halt *h = pipe->halt;
    const struct sl_run_hooks *hooks = &pipe->config.hooks;
    if (!h->may || !((hooks->stop && *hooks->stop) || (hooks->pause && hooks->pause(hooks->ctx))))
        return;
    if (pipe->obstacle) {
        sl_comm_fail(pipe->comm,
                     sl_fail(SL_ERR_REFUSED, "a signal ended the run after its last checkpoint: %s",
                             pipe->obstacle));
    } else {
        pthread_mutex_lock(&h->mutex);
        shorten(pipe);
        pthread_mutex_unlock(&h->mutex);
    }
    h->may = false; /* a run is shortened at most once */
}

/* Every rank sets the position of all workers to the cut where they stopped. */
int64_t sl_pipe_halt_end(struct sl_pipe *pipe) {
    memcpy(pipe->at, pipe->halt->stop, sizeof *pipe->at * (size_t)pipe->config.plan->worker_count);
    return pipe->halt->done;
}
