/* Ending an asynchronous run before its time, at a border of its period.
 *
 *   prologue | rep 0 | rep 1 | ... | rep limit - 1 | epilogue
 *
 * Workers are apart by a repetition or more. Who is asked to stop sets the limit to what the
 * foremost worker has begun, and all come to it: the run is then the schedule with so many
 * repetitions, which was proved with the longer one, and the pipeline is empty and can be saved.
 * Of several ranks nobody knows the foremost worker: their runs end as planned.
 */
#include "pipe/halt.h"

#include "base/arena.h"
#include "sched/deps.h"

struct sl_halt {
    pthread_mutex_t mutex;
    int32_t begun; /* repetitions, by the foremost worker */
    int32_t limit;
    bool may;
    int64_t ran; /* steps of the last run */
};

void sl_pipe_halt_open(struct sl_pipe *pipe) {
    pipe->halt = SL_NEW(&pipe->arena, struct sl_halt, 1);
    pthread_mutex_init(&pipe->halt->mutex, NULL);
}

void sl_pipe_halt_close(struct sl_pipe *pipe) {
    if (pipe->halt)
        pthread_mutex_destroy(&pipe->halt->mutex);
}

void sl_pipe_halt_start(struct sl_pipe *pipe) {
    struct sl_halt *h = pipe->halt;
    h->begun = 0;
    h->limit = pipe->sched->reps;
    h->may = pipe->config.hooks.stop && pipe->comm->ranks == 1 &&
             pipe->sched->rule != SL_RULE_SYNC && pipe->sched->rule != SL_RULE_FORWARD;
}

bool sl_pipe_goes_on(struct sl_pipe *pipe, int32_t rep) {
    struct sl_halt *h = pipe->halt;
    pthread_mutex_lock(&h->mutex);
    bool goes_on = rep < h->limit;
    if (goes_on && rep >= h->begun)
        h->begun = rep + 1;
    pthread_mutex_unlock(&h->mutex);
    return goes_on;
}

int32_t sl_pipe_reps(struct sl_pipe *pipe) {
    pthread_mutex_lock(&pipe->halt->mutex);
    int32_t reps = pipe->halt->limit;
    pthread_mutex_unlock(&pipe->halt->mutex);
    return reps;
}

void sl_pipe_halt_look(struct sl_pipe *pipe) {
    struct sl_halt *h = pipe->halt;
    if (!h->may || !*pipe->config.hooks.stop)
        return;
    pthread_mutex_lock(&h->mutex);
    h->limit = sl_sched_shorten(pipe->sched, h->begun).reps;
    pthread_mutex_unlock(&h->mutex);
    h->may = false; /* once */
}

int64_t sl_pipe_halt_end(struct sl_pipe *pipe, int64_t steps) {
    int32_t reps = sl_pipe_reps(pipe);
    if (reps < pipe->sched->reps) {
        struct sl_sched *run = SL_NEW(&pipe->sched_arena, struct sl_sched, 1);
        *run = sl_sched_shorten(pipe->sched, reps);
        steps -= pipe->sched->iters - run->iters;
        pipe->sched = pipe->timeline.sched = run;
    }
    return pipe->halt->ran = steps;
}

int64_t sl_pipe_ran(const struct sl_pipe *pipe) { return pipe->halt->ran; }
