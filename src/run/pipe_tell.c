/* Steps that are told while a run goes on. A pipeline without flushes reports its steps when it is
 * empty again, which may be hours later: until then the thread that waits for the workers tells
 * what has ended. Where workers are on several ranks, no one has all terms of a loss, and nothing
 * is told before the end.
 */
#include "run/pipe_tell.h"

#include "base/arena.h"
#include "base/clock.h"

#include <stdlib.h>

struct sl_tell {
    int64_t steps;              /* of the run; 0: nothing is told */
    int terms;                  /* micro-batches of a step that have losses, over all stages */
    atomic_int *there;          /* [steps] of them, in loss_terms */
    atomic_int_least64_t ended; /* steps that worker 0 has reported */
    int64_t told;
};

static bool tells(const struct sl_pipe *pipe) {
    return pipe->config.on_step && pipe->comm->ranks == 1 && !sl_pipe_is_synchronous(pipe);
}

void sl_pipe_tell_open(struct sl_pipe *pipe) {
    pipe->tell = SL_NEW(&pipe->arena, struct sl_tell, 1);
}

void sl_pipe_tell_close(struct sl_pipe *pipe) { free(pipe->tell ? pipe->tell->there : NULL); }

void sl_pipe_tell_start(struct sl_pipe *pipe, int64_t steps) {
    struct sl_tell *tell = pipe->tell;
    tell->steps = tells(pipe) ? steps : 0;
    tell->terms = 0;
    tell->told = 0;
    atomic_store(&tell->ended, 0);
    tell->there = sl_realloc(tell->there, sizeof *tell->there * (size_t)(tell->steps + 1));
    for (int64_t i = 0; i < tell->steps; i++)
        atomic_init(&tell->there[i], 0);
    for (int s = 0; tell->steps && s < pipe->config.plan->stage_count; s++)
        if (sl_pipe_worker(pipe, s)->programs[SL_WORKER_FULL]->losses.count)
            tell->terms += pipe->sched->micros[s];
}

void sl_pipe_tell_stop(struct sl_pipe *pipe) { pipe->tell->steps = 0; }

void sl_pipe_tell_losses(struct sl_pipe *pipe, int64_t iteration) {
    if (pipe->tell->steps)
        atomic_fetch_add_explicit(&pipe->tell->there[iteration], 1, memory_order_release);
}

void sl_pipe_tell_ended(struct sl_pipe *pipe, int64_t version) {
    atomic_store_explicit(&pipe->tell->ended, version, memory_order_release);
}

static double bubble_so_far(const struct sl_pipe *pipe) {
    int count = pipe->config.plan->worker_count;
    int64_t busy = 0, run = sl_clock_ns() - pipe->start_ns;
    for (int w = 0; w < count; w++)
        busy += atomic_load_explicit(&pipe->workers[w].busy_ns, memory_order_relaxed);
    return 1 - (double)busy / ((double)run * count);
}

void sl_pipe_tell(struct sl_pipe *pipe) {
    struct sl_tell *tell = pipe->tell;
    int64_t ended = atomic_load_explicit(&tell->ended, memory_order_acquire);
    for (; tell->steps && tell->told < ended; tell->told++) {
        if (atomic_load_explicit(&tell->there[tell->told], memory_order_acquire) < tell->terms)
            return;
        struct sl_step_report report = pipe->reports[tell->told];
        report.loss = sl_pipe_loss(pipe, tell->told);
        sl_train_blame_scale(&pipe->train, &report);
        report.bubble = bubble_so_far(pipe);
        report.worker_bytes = sl_pipe_most_bytes(pipe);
        pipe->config.on_step(pipe->config.on_step_ctx, &report);
    }
}
