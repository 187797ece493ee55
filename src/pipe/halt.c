/* Ending an asynchronous run early, at a border of its period.
 *
 *   prologue | rep 0 | rep 1 | ... | rep limit - 1 | epilogue
 *
 * Workers are a repetition or more apart. A stop sets the limit to the repetitions that the foremost
 * worker has begun; all workers run up to it. The run is then the schedule with fewer repetitions,
 * which the proof of the longer one covers. The pipeline is empty afterwards and can be saved.
 * With several ranks no process knows the foremost worker, so such runs end as planned.
 */
#include "pipe/halt.h"

#include "base/arena.h"
#include "sched/deps.h"

struct sl_pipe_halt {
    pthread_mutex_t mutex;
    int32_t begun; /* repetitions, by the foremost worker */
    int32_t limit;
    bool may;    /* be stopped */
    int64_t ran; /* steps of the last run */
};

void sl_pipe_halt_open(struct sl_pipe *pipe) {
    pipe->halt = SL_NEW(&pipe->arena, struct sl_pipe_halt, 1);
    pthread_mutex_init(&pipe->halt->mutex, NULL);
}

void sl_pipe_halt_close(struct sl_pipe *pipe) {
    if (pipe->halt)
        pthread_mutex_destroy(&pipe->halt->mutex);
}

void sl_pipe_halt_start(struct sl_pipe *pipe) {
    struct sl_pipe_halt *h = pipe->halt;
    h->begun = 0;
    h->limit = pipe->sched->reps;
    h->may = pipe->config.hooks.stop && pipe->comm->ranks == 1 &&
             pipe->sched->rule != SL_RULE_SYNC && pipe->sched->rule != SL_RULE_FORWARD;
}

bool sl_pipe_halt_continues(struct sl_pipe *pipe, int32_t rep) {
    struct sl_pipe_halt *h = pipe->halt;
    pthread_mutex_lock(&h->mutex);
    bool continues = rep < h->limit;
    if (continues && rep >= h->begun)
        h->begun = rep + 1;
    pthread_mutex_unlock(&h->mutex);
    return continues;
}

int32_t sl_pipe_halt_reps(struct sl_pipe *pipe) {
    pthread_mutex_lock(&pipe->halt->mutex);
    int32_t reps = pipe->halt->limit;
    pthread_mutex_unlock(&pipe->halt->mutex);
    return reps;
}

void sl_pipe_halt_poll(struct sl_pipe *pipe) {
    struct sl_pipe_halt *h = pipe->halt;
    if (!h->may || !*pipe->config.hooks.stop)
        return;
    pthread_mutex_lock(&h->mutex);
    h->limit = sl_sched_shorten(pipe->sched, h->begun).reps;
    pthread_mutex_unlock(&h->mutex);
    h->may = false; /* once */
}

int64_t sl_pipe_halt_end(struct sl_pipe *pipe, int64_t steps) {
    int32_t reps = sl_pipe_halt_reps(pipe);
    if (reps < pipe->sched->reps) {
        struct sl_sched *run = SL_NEW(&pipe->sched_arena, struct sl_sched, 1);
        *run = sl_sched_shorten(pipe->sched, reps);
        steps -= pipe->sched->iters - run->iters;
        pipe->sched = pipe->timeline.sched = run;
    }
    return pipe->halt->ran = steps;
}

int64_t sl_pipe_ran(const struct sl_pipe *pipe) { return pipe->halt->ran; }
