/* A pipeline: running a schedule. */
#include "pipe/halt.h"
#include "pipe/reporter.h"
#include "pipe/resume.h"
#include "pipe/scale.h"

#include "base/clock.h"
#include "device/bind.h"
#include "device/lend.h"
#include "sched/cut.h"
#include "sched/lag.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Runs the actions of a worker from its position to the end of the run. */
static sl_err run_list(struct sl_pipe_worker *w) {
    const struct sl_sched *sched = w->pipe->sched;
    int64_t at, number = 0;
    while (sl_pipe_halt_next(w->pipe, w->index, &at)) {
        struct sl_spot spot = sl_sched_spot(sched, w->index, at);
        const struct sl_action *listed = &sched->lists[spot.segment][w->index].at[spot.index];
        int seat = sl_sched_seat(sched->plan, listed->stage, w->index);
        struct sl_action action = sl_sched_at(sched, seat, listed, spot.rep);
        sl_pipe_status_action(w, &action);
        if (w->pipe->config.on_action && !sl_pipe_skips(w->pipe, &action))
            SL_TRY(w->pipe->config.on_action(w->pipe->config.on_action_ctx, w->index, number++));
        SL_TRY(sl_pipe_act_traced(w, &action));
        sl_comm_poll(w->pipe->comm);
        SL_TRY(sl_pipe_reduce_poll(w));
    }
    return SL_OK;
}

static bool help_others(void *ctx, bool (*ready)(void *ctx), void *ready_ctx) {
    const struct sl_pipe_worker *w = ctx;
    return sl_device_lend_work(w->device, ready, ready_ctx);
}

static void *worker_main(void *arg) {
    struct sl_pipe_worker *w = arg;
    if (w->pipe->lend)
        sl_comm_gate_use_waits(help_others, w);
    atomic_store_explicit(&w->status.thread, gettid(), memory_order_relaxed);
    sl_err err = w->pipe->first_place >= 0 ? sl_device_bind_thread(w->place) : SL_OK;
    if (err == SL_OK)
        err = run_list(w);
    if (err != SL_OK)
        sl_comm_fail(w->pipe->comm, err);
    sl_pipe_status_action(w, NULL);
    sl_pipe_watchdog_ended(w->pipe);
    return NULL;
}

/* ---- loss terms ---- */

static int64_t terms_of_step(const struct sl_pipe *pipe) {
    return pipe->max_micros * pipe->train.graph->losses.count;
}

int64_t sl_pipe_terms_ahead(const struct sl_pipe *pipe) {
    return sl_sched_decision_lag(pipe->sched) + 2;
}

void sl_pipe_terms_grow(struct sl_pipe *pipe, int64_t steps) {
    int64_t row = terms_of_step(pipe), count = steps + sl_pipe_terms_ahead(pipe);
    /* iterations that are in flight */
    int64_t old = pipe->terms_base + pipe->terms_count - pipe->done;
    double *terms = sl_realloc(NULL, sizeof *terms * (size_t)(count * row + 1));
    memset(terms, 0, sizeof *terms * (size_t)(count * row + 1));
    old = !pipe->under_way ? 0 : old < count ? old : count;
    if (old > 0)
        memcpy(terms, pipe->loss_terms + (pipe->done - pipe->terms_base) * row,
               sizeof *terms * (size_t)(old * row));
    free(pipe->loss_terms);
    pipe->loss_terms = terms;
    pipe->terms_base = pipe->done;
    pipe->terms_count = count;
}

static double *terms_in_flight(const struct sl_pipe *pipe) {
    return pipe->loss_terms + (pipe->done - pipe->terms_base) * terms_of_step(pipe);
}

void sl_pipe_terms_put(const struct sl_pipe *pipe, double *out, int64_t count) {
    memcpy(out, terms_in_flight(pipe), sizeof *out * (size_t)count);
}

/* Restores loss terms. Each term has one owner, but every worker of a process saves the terms of
 * its whole process, so the same term may come several times. */
void sl_pipe_terms_get(struct sl_pipe *pipe, const double *in, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (in[i] != 0)
            terms_in_flight(pipe)[i] = in[i];
}

/* ---- runs ---- */

/* Rank 0 sets the start time of all ranks. The clock of a schedule does not advance while it is
 * paused. */
static sl_err start_clock(struct sl_pipe *pipe) {
    int64_t now[2] = {0};
    if (pipe->comm->rank == 0) {
        now[0] = sl_clock_ns();
        now[1] = pipe->under_way ? now[0] - pipe->run_end_ns : now[0];
    }
    SL_TRY(sl_comm_merge(pipe->comm, now, sizeof now));
    pipe->begin_ns = pipe->last_ns = now[0];
    pipe->start_ns = now[1];
    pipe->last_cpu_ns = sl_clock_process_ns();
    for (int w = 0; w < pipe->config.plan->worker_count; w++)
        pipe->workers[w].busy_ns = 0;
    return SL_OK;
}

static sl_err start_run(struct sl_pipe *pipe, int64_t steps, struct sl_step_report *reports) {
    if (!pipe->under_way)
        SL_TRY(sl_pipe_begin(pipe, steps));
    if (pipe->done + steps > pipe->sched->iters)
        return sl_fail(SL_ERR_REFUSED,
                       "the schedule ends after %lld more steps, and %lld are wanted; its length "
                       "was fixed when it began",
                       (long long)(pipe->sched->iters - pipe->done), (long long)steps);
    if (!pipe->traced)
        SL_TRY(sl_pipe_open_trace(pipe));
    memset(reports, 0, sizeof *reports * (size_t)steps);
    pipe->reports = reports;
    sl_pipe_terms_grow(pipe, steps);
    SL_TRY(sl_pipe_reporter_start(pipe, steps));
    return start_clock(pipe);
}

double sl_pipe_loss(const struct sl_pipe *pipe, int64_t iteration) {
    int64_t terms = terms_of_step(pipe);
    double loss = 0;
    for (int64_t i = 0; i < terms; i++)
        loss += pipe->loss_terms[(iteration - pipe->terms_base) * terms + i];
    return loss;
}

int64_t sl_pipe_max_bytes(const struct sl_pipe *pipe) {
    int64_t max = 0;
    for (int w = 0; w < pipe->config.plan->worker_count; w++)
        max = pipe->worker_bytes[w] > max ? pipe->worker_bytes[w] : max;
    return max;
}

sl_err sl_pipe_run_workers(struct sl_pipe *pipe) {
    int count = pipe->config.plan->worker_count, w = 0;
    sl_pipe_watchdog_start(pipe, pipe->local_workers);
    for (; w < count; w++)
        if (sl_pipe_is_local(pipe, w) &&
            pthread_create(&pipe->workers[w].thread, NULL, worker_main, &pipe->workers[w]) != 0) {
            sl_comm_fail(pipe->comm, sl_fail(SL_ERR_SYSTEM, "cannot start worker %d", w));
            break;
        }
    for (int missing = w; missing < count; missing++)
        if (sl_pipe_is_local(pipe, missing))
            sl_pipe_watchdog_ended(pipe);
    sl_pipe_watchdog_wait(pipe);
    if (sl_pipe_is_abandoned(pipe))
        return sl_comm_gate_error(&pipe->comm->gate);
    while (w-- > 0)
        if (sl_pipe_is_local(pipe, w))
            pthread_join(pipe->workers[w].thread, NULL);
    return sl_comm_gate_error(&pipe->comm->gate);
}

/* Merges the reports of all ranks. One rank writes each entry; it is zero on the others. */
static sl_err share_reports(struct sl_pipe *pipe, int64_t steps) {
    int64_t bytes = steps * terms_of_step(pipe) * (int64_t)sizeof(double);
    SL_TRY(sl_comm_merge(pipe->comm, pipe->loss_terms, bytes));
    return sl_comm_merge(pipe->comm, pipe->reports, steps * (int64_t)sizeof *pipe->reports);
}

static sl_err finish_reports(struct sl_pipe *pipe, int64_t steps) {
    SL_TRY(share_reports(pipe, steps));
    for (int64_t i = 0; i < steps; i++) {
        struct sl_step_report *report = &pipe->reports[i];
        report->loss = sl_pipe_loss(pipe, pipe->done + i);
        sl_run_train_blame_scale(&pipe->train, report);
        report->bubble = sl_pipe_bubble(pipe);
        report->worker_bytes = sl_pipe_max_bytes(pipe);
    }
    return SL_OK;
}

sl_err sl_pipe_run(struct sl_pipe *pipe, int64_t steps, struct sl_step_report *reports) {
    SL_TRY(start_run(pipe, steps, reports));
    SL_TRY(sl_pipe_halt_start(pipe, pipe->done + steps));
    SL_TRY(sl_pipe_run_workers(pipe));
    sl_pipe_reporter_stop(pipe);
    int64_t done = sl_pipe_halt_end(pipe);
    pipe->halted = done < pipe->done + steps;
    pipe->ran = steps = done - pipe->done;
    if (sl_pipe_is_synchronous(pipe) &&
        sl_pipe_is_local(pipe, 0)) /* the last step lasts until the last worker has updated its
                                    * weights */
        reports[steps - 1].dur_ns += sl_clock_ns() - pipe->last_ns;
    pipe->run_end_ns = sl_clock_ns() - pipe->start_ns;
    SL_TRY(sl_pipe_close_trace(pipe));
    SL_TRY(finish_reports(pipe, steps));
    SL_TRY(sl_pipe_scale_end(pipe, done));
    return sl_pipe_end(pipe, done);
}

int64_t sl_pipe_ran(const struct sl_pipe *pipe) { return pipe->ran; }

int64_t sl_pipe_lent(const struct sl_pipe *pipe) {
    return pipe->lend ? sl_device_lend_count(pipe->lend) : 0;
}

struct sl_run_audit_count sl_pipe_audit_count(const struct sl_pipe *pipe) {
    struct sl_run_audit_count all = {0};
    for (int s = 0; s < pipe->config.plan->seat_count; s++)
        if (pipe->seat_at[s]) {
            struct sl_run_audit_count one = sl_run_audit_count(pipe->seat_at[s]->train.worker);
            all.seen += one.seen;
            all.twice += one.twice;
        }
    return all;
}

bool sl_pipe_is_synchronous(const struct sl_pipe *pipe) {
    return pipe->sched->rule == SL_RULE_SYNC;
}

int sl_pipe_stage_count(const struct sl_pipe *pipe) { return pipe->config.plan->stage_count; }

struct sl_worker *sl_pipe_worker(const struct sl_pipe *pipe, int stage) {
    return sl_pipe_replica(pipe, stage, 0);
}

struct sl_worker *sl_pipe_replica(const struct sl_pipe *pipe, int stage, int replica) {
    const struct sl_pipe_seat *seat =
        pipe->seat_at[pipe->config.plan->stages[stage].seat + replica];
    return seat ? seat->train.worker : NULL;
}

int sl_pipe_newest(const struct sl_pipe *pipe, int stage) {
    const struct sl_stage *s = &pipe->config.plan->stages[stage];
    for (int r = 0; r < s->width; r++)
        if (pipe->seat_at[s->seat + r])
            return pipe->seat_at[s->seat + r]->newest;
    return 0;
}

int sl_pipe_replica_newest(const struct sl_pipe *pipe, int stage, int replica) {
    return pipe->seat_at[pipe->config.plan->stages[stage].seat + replica]->newest;
}

const struct sl_timeline *sl_pipe_timeline(const struct sl_pipe *pipe) {
    return pipe->config.trace && (!pipe->under_way || pipe->halted) ? &pipe->timeline : NULL;
}

const int64_t *sl_pipe_bytes(const struct sl_pipe *pipe) { return pipe->worker_bytes; }

int64_t sl_pipe_proved_bytes(const struct sl_pipe *pipe, int worker) {
    return sl_sched_worker_bytes(pipe->sched, worker);
}

int64_t sl_pipe_step_count(const struct sl_pipe *pipe) { return pipe->start_step + pipe->done; }

double sl_pipe_bubble(const struct sl_pipe *pipe) {
    int count = pipe->config.plan->worker_count;
    double busy = 0;
    for (int w = 0; w < count; w++)
        busy += (double)pipe->busy_ns[w];
    return pipe->run_ns ? 1 - busy / ((double)pipe->run_ns * count) : 0;
}
