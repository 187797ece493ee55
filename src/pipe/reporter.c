/* Reports of steps while an asynchronous run continues. Such a run returns its reports when the
 * pipeline is empty again, perhaps hours later. Until then the thread that waits for the workers
 * reports each step that has ended.
 *
 * With several ranks no process has all terms of a loss. Each rank publishes the sums of its own
 * terms for its last few steps, with its status. Rank 0 reports the newest step that all have
 * published. It skips some steps, and adds losses in another order than the final reports do.
 */
#include "pipe/reporter.h"

#include "pipe/resume.h"

#include "base/arena.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

struct sl_pipe_reporter {
    bool on;   /* early reports are made */
    int terms; /* number of loss terms per step of all local stages, in micro-batches */
    /* [count] how many of `terms` each iteration has so far, from iteration `base` on */
    atomic_int *arrived;
    int64_t base, count;
    atomic_int_least64_t ended; /* steps of which everything but the loss is final */
    int64_t reported;           /* steps that have been reported */
    int64_t passes;             /* passes of worker 0 since its last step */
    int64_t first;              /* the first of the steps that ended together with the last one */
    /* These are used with several ranks: */
    int64_t *terms_of;     /* [rank] number of loss terms per step */
    pthread_mutex_t mutex; /* protects `sums` */
    struct sl_pipe_loss_sums sums;
};

void sl_pipe_reporter_open(struct sl_pipe *pipe) {
    pipe->reporter = SL_NEW(&pipe->arena, struct sl_pipe_reporter, 1);
    pipe->reporter->terms_of = SL_NEW(&pipe->arena, int64_t, pipe->comm->ranks);
    pthread_mutex_init(&pipe->reporter->mutex, NULL);
}

void sl_pipe_reporter_close(struct sl_pipe *pipe) {
    if (!pipe->reporter)
        return;
    pthread_mutex_destroy(&pipe->reporter->mutex);
    free(pipe->reporter->arrived);
}

/* With replicas a rank does not know which terms of a loss are its own. */
static bool has_replicas(const struct sl_plan *plan) {
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].width > 1)
            return true;
    return false;
}

/* Are steps reported early? All ranks return the same. */
static bool reports_early(const struct sl_pipe *pipe) {
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

/* Makes room for `count` iterations and keeps what has arrived for iterations in flight. */
static void grow_arrived(struct sl_pipe_reporter *r, const struct sl_pipe *pipe, int64_t count) {
    atomic_int *arrived = sl_realloc(NULL, sizeof *arrived * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        int64_t old = pipe->done + i - r->base;
        bool has = pipe->under_way && old >= 0 && old < r->count;
        atomic_init(&arrived[i], has ? atomic_load(&r->arrived[old]) : 0);
    }
    free(r->arrived);
    r->arrived = arrived;
    r->base = pipe->done;
    r->count = count;
}

sl_err sl_pipe_reporter_start(struct sl_pipe *pipe, int64_t steps) {
    struct sl_pipe_reporter *r = pipe->reporter;
    int ranks = pipe->comm->ranks;
    r->on = reports_early(pipe);
    r->terms = r->on ? count_terms(pipe) : 0;
    r->reported = pipe->done;
    r->passes = r->first = 0;
    atomic_store(&r->ended, pipe->done);
    grow_arrived(r, pipe, steps + sl_pipe_terms_ahead(pipe));
    if (!r->on || pipe->under_way)
        return SL_OK;
    pthread_mutex_lock(&r->mutex);
    r->sums = (struct sl_pipe_loss_sums){.run = pipe->start_step + 1};
    pthread_mutex_unlock(&r->mutex);
    if (ranks == 1)
        return SL_OK;
    memset(r->terms_of, 0, sizeof *r->terms_of * (size_t)ranks);
    r->terms_of[pipe->comm->rank] = r->terms;
    return sl_comm_merge(pipe->comm, r->terms_of, ranks * (int64_t)sizeof *r->terms_of);
}

void sl_pipe_reporter_stop(struct sl_pipe *pipe) { pipe->reporter->on = false; }

/* Saves the counts of the process; every worker of a process saves the same. */
void sl_pipe_reporter_put(const struct sl_pipe *pipe, double *out, int64_t count) {
    const struct sl_pipe_reporter *r = pipe->reporter;
    for (int64_t i = 0; i < count; i++)
        out[i] = pipe->done + i - r->base < r->count
                     ? atomic_load(&r->arrived[pipe->done + i - r->base])
                     : 0;
}

void sl_pipe_reporter_get(struct sl_pipe *pipe, const double *in, int64_t count) {
    for (int64_t i = 0; i < count && i < pipe->reporter->count; i++)
        atomic_store(&pipe->reporter->arrived[i], (int)in[i]);
}

/* ---- several ranks ---- */

static void put_sums(struct sl_pipe *pipe, int64_t iteration) {
    struct sl_pipe_reporter *r = pipe->reporter;
    double loss = sl_pipe_loss(pipe, iteration); /* terms of other ranks are 0 here */
    pthread_mutex_lock(&r->mutex);
    struct sl_pipe_loss_sums *sums = &r->sums;
    int at = (int)(iteration % SL_PIPE_LOSS_STEPS);
    sums->step[at] = iteration + 1;
    sums->loss[at] = loss;
    pthread_mutex_unlock(&r->mutex);
}

void sl_pipe_reporter_publish(const struct sl_pipe *pipe, struct sl_pipe_loss_sums *out) {
    pthread_mutex_lock(&pipe->reporter->mutex);
    *out = pipe->reporter->sums;
    pthread_mutex_unlock(&pipe->reporter->mutex);
}

static bool read_sums(const struct sl_pipe *pipe, int rank, struct sl_pipe_loss_sums *out) {
    if (rank == pipe->comm->rank)
        sl_pipe_reporter_publish(pipe, out);
    else if (!sl_pipe_status_losses(pipe, rank, out))
        return false;
    return out->run == pipe->start_step + 1;
}

/* Returns the newest step that has ended and whose losses all ranks have published; 0: there is
 * none. */
static int64_t newest_of_all(const struct sl_pipe *pipe, int64_t ended, double *loss) {
    const struct sl_pipe_reporter *r = pipe->reporter;
    struct sl_pipe_loss_sums all = {0}, sums;
    bool first = true;
    int64_t newest = 0;
    for (int rank = 0; rank < pipe->comm->ranks; rank++) {
        if (!r->terms_of[rank])
            continue;
        if (!read_sums(pipe, rank, &sums))
            return 0;
        for (int i = 0; i < SL_PIPE_LOSS_STEPS; i++) {
            all.step[i] = first || all.step[i] == sums.step[i] ? sums.step[i] : 0;
            all.loss[i] += sums.loss[i];
        }
        first = false;
    }
    for (int i = 0; i < SL_PIPE_LOSS_STEPS; i++)
        if (all.step[i] > newest && all.step[i] <= ended) {
            newest = all.step[i];
            *loss = all.loss[i];
        }
    return newest;
}

/* ---- one rank or several ---- */

void sl_pipe_reporter_add_losses(struct sl_pipe *pipe, int64_t iteration) {
    struct sl_pipe_reporter *r = pipe->reporter;
    if (!r->on)
        return;
    int before =
        atomic_fetch_add_explicit(&r->arrived[iteration - r->base], 1, memory_order_acq_rel);
    if (before + 1 == r->terms && pipe->comm->ranks > 1)
        put_sums(pipe, iteration);
}

void sl_pipe_reporter_pass(struct sl_pipe *pipe) { pipe->reporter->passes++; }

/* With a global step the last two steps end one right after the other, so their time is divided
 * evenly. Hence a step is final only when the next one has ended. */
void sl_pipe_reporter_step_ended(struct sl_pipe *pipe, int64_t version) {
    struct sl_pipe_reporter *r = pipe->reporter;
    struct sl_step_report *reports = pipe->reports - pipe->done; /* indexed by version - 1 */
    int64_t dur_ns = 0, cpu_ns = 0;
    if (r->passes || !r->first)
        r->first = version;
    r->passes = 0;
    int64_t count = version - r->first + 1;
    for (int64_t v = r->first; v <= version; v++) {
        dur_ns += reports[v - 1].dur_ns;
        cpu_ns += reports[v - 1].cpu_ns;
    }
    for (int64_t v = r->first; v <= version; v++) {
        reports[v - 1].dur_ns = dur_ns / count;
        reports[v - 1].cpu_ns = cpu_ns / count;
    }
    atomic_store_explicit(&r->ended, r->first - 1, memory_order_release);
}

/* Share of the time that the local workers have spent outside actions so far. */
static double bubble_so_far(const struct sl_pipe *pipe) {
    int64_t busy = 0, run = sl_clock_ns() - pipe->begin_ns;
    for (int w = 0; w < pipe->config.plan->worker_count; w++)
        busy += atomic_load_explicit(&pipe->workers[w].busy_ns, memory_order_relaxed);
    return 1 - (double)busy / ((double)run * pipe->local_workers);
}

static void report_step(struct sl_pipe *pipe, int64_t step, double loss) {
    struct sl_step_report report = pipe->reports[step - 1 - pipe->done];
    report.loss = loss;
    sl_run_train_blame_scale(&pipe->train, &report);
    report.bubble = bubble_so_far(pipe);
    report.worker_bytes = sl_pipe_max_bytes(pipe);
    pipe->reporter->reported = step;
    pipe->config.hooks.on_step(pipe->config.hooks.ctx, &report);
}

void sl_pipe_reporter_poll(struct sl_pipe *pipe) {
    struct sl_pipe_reporter *r = pipe->reporter;
    int64_t ended = atomic_load_explicit(&r->ended, memory_order_acquire);
    if (!r->on || !pipe->config.hooks.on_step || pipe->comm->rank != 0)
        return;
    if (pipe->comm->ranks > 1) {
        double loss = 0;
        int64_t step = newest_of_all(pipe, ended, &loss);
        if (step > r->reported)
            report_step(pipe, step, loss);
        return;
    }
    while (r->reported < ended && atomic_load_explicit(&r->arrived[r->reported - r->base],
                                                       memory_order_acquire) >= r->terms)
        report_step(pipe, r->reported + 1, sl_pipe_loss(pipe, r->reported));
}
