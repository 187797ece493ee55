/* Steps that are told while a run goes on. A pipeline without flushes reports its steps when it is
 * empty again, which may be hours later: until then the thread that waits for the workers tells
 * what has ended.
 *
 * Where workers are on several ranks, no one has all terms of a loss. Each rank then shows the sums
 * of its own, of its last few steps, with its signs of life, and rank 0 tells the newest step that
 * all have shown: some are left out, and the sum is made in another order than in the reports.
 */
#include "pipe/tell.h"

#include "base/arena.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

struct sl_tell {
    int64_t steps;              /* of the run; 0: nothing is told */
    int terms;                  /* micro-batches of a step that have losses, of all stages here */
    atomic_int *there;          /* [steps] of them, in loss_terms */
    atomic_int_least64_t ended; /* steps whose reports do not change any more, but for the loss */
    int64_t told;
    int64_t passes; /* of worker 0, since its step before */
    int64_t first;  /* of the steps that ended with its last one */
    /* Several ranks: */
    int64_t *terms_of;     /* [rank] */
    pthread_mutex_t mutex; /* of what this rank shows */
    struct sl_word word;
};

void sl_pipe_tell_open(struct sl_pipe *pipe) {
    pipe->tell = SL_NEW(&pipe->arena, struct sl_tell, 1);
    pipe->tell->terms_of = SL_NEW(&pipe->arena, int64_t, pipe->comm->ranks);
    pthread_mutex_init(&pipe->tell->mutex, NULL);
}

void sl_pipe_tell_close(struct sl_pipe *pipe) {
    if (!pipe->tell)
        return;
    pthread_mutex_destroy(&pipe->tell->mutex);
    free(pipe->tell->there);
}

/* Replicas of a loss may be anywhere: then a rank does not know which terms are its own. */
static bool has_replicas(const struct sl_plan *plan) {
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].width > 1)
            return true;
    return false;
}

/* The same on all ranks. */
static bool tells(const struct sl_pipe *pipe) {
    if (sl_pipe_is_synchronous(pipe))
        return false;
    return pipe->comm->ranks == 1 ? pipe->config.hooks.on_step != NULL
                                  : !has_replicas(pipe->config.plan);
}

static int count_terms(const struct sl_pipe *pipe) {
    int terms = 0;
    for (int s = 0; s < pipe->config.plan->stage_count; s++) {
        const struct sl_worker *worker = sl_pipe_worker(pipe, s);
        if (worker && worker->programs[SL_WORKER_FULL]->losses.count)
            terms += pipe->sched->micros[s];
    }
    return terms;
}

sl_err sl_pipe_tell_start(struct sl_pipe *pipe, int64_t steps) {
    struct sl_tell *tell = pipe->tell;
    int ranks = pipe->comm->ranks;
    tell->steps = tells(pipe) ? steps : 0;
    tell->terms = tell->steps ? count_terms(pipe) : 0;
    tell->told = tell->passes = tell->first = 0;
    atomic_store(&tell->ended, 0);
    tell->there = sl_realloc(tell->there, sizeof *tell->there * (size_t)(tell->steps + 1));
    for (int64_t i = 0; i < tell->steps; i++)
        atomic_init(&tell->there[i], 0);
    pthread_mutex_lock(&tell->mutex);
    tell->word = (struct sl_word){.run = pipe->start_step + 1};
    pthread_mutex_unlock(&tell->mutex);
    if (ranks == 1 || !tell->steps)
        return SL_OK;
    memset(tell->terms_of, 0, sizeof *tell->terms_of * (size_t)ranks);
    tell->terms_of[pipe->comm->rank] = tell->terms;
    return sl_comm_merge(pipe->comm, tell->terms_of, ranks * (int64_t)sizeof *tell->terms_of);
}

void sl_pipe_tell_stop(struct sl_pipe *pipe) { pipe->tell->steps = 0; }

/* ---- of several ranks ---- */

static void put_word(struct sl_pipe *pipe, int64_t iteration) {
    struct sl_tell *tell = pipe->tell;
    double loss = sl_pipe_loss(pipe, iteration); /* terms of others are 0 here */
    pthread_mutex_lock(&tell->mutex);
    struct sl_word *word = &tell->word;
    int at = (int)(iteration % SL_WORD_STEPS);
    word->step[at] = iteration + 1;
    word->loss[at] = loss;
    pthread_mutex_unlock(&tell->mutex);
}

void sl_pipe_tell_show(const struct sl_pipe *pipe, struct sl_word *out) {
    pthread_mutex_lock(&pipe->tell->mutex);
    *out = pipe->tell->word;
    pthread_mutex_unlock(&pipe->tell->mutex);
}

static bool hear(const struct sl_pipe *pipe, int rank, struct sl_word *out) {
    if (rank == pipe->comm->rank)
        sl_pipe_tell_show(pipe, out);
    else if (!sl_pipe_look_word(pipe, rank, out))
        return false;
    return out->run == pipe->start_step + 1;
}

/* The newest step that has ended and whose losses all ranks have shown; 0: none. */
static int64_t newest_of_all(const struct sl_pipe *pipe, int64_t ended, double *loss) {
    const struct sl_tell *tell = pipe->tell;
    struct sl_word all = {0}, word;
    bool first = true;
    int64_t newest = 0;
    for (int r = 0; r < pipe->comm->ranks; r++) {
        if (!tell->terms_of[r])
            continue;
        if (!hear(pipe, r, &word))
            return 0;
        for (int i = 0; i < SL_WORD_STEPS; i++) {
            all.step[i] = first || all.step[i] == word.step[i] ? word.step[i] : 0;
            all.loss[i] += word.loss[i];
        }
        first = false;
    }
    for (int i = 0; i < SL_WORD_STEPS; i++)
        if (all.step[i] > newest && all.step[i] <= ended) {
            newest = all.step[i];
            *loss = all.loss[i];
        }
    return newest;
}

/* ---- both ---- */

void sl_pipe_tell_losses(struct sl_pipe *pipe, int64_t iteration) {
    struct sl_tell *tell = pipe->tell;
    if (!tell->steps)
        return;
    int before = atomic_fetch_add_explicit(&tell->there[iteration], 1, memory_order_acq_rel);
    if (before + 1 == tell->terms && pipe->comm->ranks > 1)
        put_word(pipe, iteration);
}

void sl_pipe_tell_pass(struct sl_pipe *pipe) { pipe->tell->passes++; }

/* Where steps wait for a verdict, the last two end one right after the other: what they took is
 * what they took together. So a step is told when the next has ended. */
void sl_pipe_tell_ended(struct sl_pipe *pipe, int64_t version) {
    struct sl_tell *tell = pipe->tell;
    struct sl_step_report *reports = pipe->reports;
    int64_t dur_ns = 0, cpu_ns = 0;
    if (tell->passes || !tell->first)
        tell->first = version;
    tell->passes = 0;
    int64_t count = version - tell->first + 1;
    for (int64_t v = tell->first; v <= version; v++) {
        dur_ns += reports[v - 1].dur_ns;
        cpu_ns += reports[v - 1].cpu_ns;
    }
    for (int64_t v = tell->first; v <= version; v++) {
        reports[v - 1].dur_ns = dur_ns / count;
        reports[v - 1].cpu_ns = cpu_ns / count;
    }
    atomic_store_explicit(&tell->ended, tell->first - 1, memory_order_release);
}

/* Of the workers here. */
static double bubble_so_far(const struct sl_pipe *pipe) {
    int64_t busy = 0, run = sl_clock_ns() - pipe->start_ns;
    for (int w = 0; w < pipe->config.plan->worker_count; w++)
        busy += atomic_load_explicit(&pipe->workers[w].busy_ns, memory_order_relaxed);
    return 1 - (double)busy / ((double)run * pipe->workers_here);
}

static void tell_step(struct sl_pipe *pipe, int64_t step, double loss) {
    struct sl_step_report report = pipe->reports[step - 1];
    report.loss = loss;
    sl_run_train_blame_scale(&pipe->train, &report);
    report.bubble = bubble_so_far(pipe);
    report.worker_bytes = sl_pipe_max_bytes(pipe);
    pipe->tell->told = step;
    pipe->config.hooks.on_step(pipe->config.hooks.ctx, &report);
}

void sl_pipe_tell(struct sl_pipe *pipe) {
    struct sl_tell *tell = pipe->tell;
    int64_t ended = atomic_load_explicit(&tell->ended, memory_order_acquire);
    if (!tell->steps || !pipe->config.hooks.on_step || pipe->comm->rank != 0)
        return;
    if (pipe->comm->ranks > 1) {
        double loss = 0;
        int64_t step = newest_of_all(pipe, ended, &loss);
        if (step > tell->told)
            tell_step(pipe, step, loss);
        return;
    }
    while (tell->told < ended &&
           atomic_load_explicit(&tell->there[tell->told], memory_order_acquire) >= tell->terms)
        tell_step(pipe, tell->told + 1, sl_pipe_loss(pipe, tell->told));
}
