/* A pipeline: running a schedule. */
#include "pipe/halt.h"
#include "pipe/reporter.h"
#include "pipe/scale.h"
#include "pipe/state.h"

#include "base/clock.h"
#include "device/bind.h"
#include "device/lend.h"
#include "sched/deps.h"
#include "sched/slots.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sl_err run_list(struct sl_pipe_worker *w, int segment, int32_t rep, int64_t *number) {
    const struct sl_sched *sched = w->pipe->sched;
    const struct sl_actions *list = &sched->lists[segment][w->index];
    for (int64_t i = 0; i < list->count; i++) {
        int seat = sl_sched_seat(sched->plan, list->at[i].stage, w->index);
        struct sl_action action = sl_sched_at(sched, seat, &list->at[i], rep);
        sl_pipe_status_action(w, &action);
        if (w->pipe->config.on_action)
            SL_TRY(w->pipe->config.on_action(w->pipe->config.on_action_ctx, w->index, (*number)++));
        SL_TRY(sl_pipe_act_traced(w, &action));
        sl_comm_poll(w->pipe->comm);
        SL_TRY(sl_pipe_reduce_poll(w));
    }
    return SL_OK;
}

/* The actions of a worker: prologue, repeated period, epilogue. */
static sl_err run_lists(struct sl_pipe_worker *w) {
    int64_t number = 0;
    SL_TRY(run_list(w, SL_PROLOGUE, 0, &number));
    for (int32_t rep = 0; sl_pipe_halt_continues(w->pipe, rep); rep++)
        SL_TRY(run_list(w, SL_PERIOD, rep, &number));
    return run_list(w, SL_EPILOGUE, sl_pipe_halt_reps(w->pipe), &number);
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
        err = run_lists(w);
    if (err != SL_OK)
        sl_comm_fail(w->pipe->comm, err);
    sl_pipe_status_action(w, NULL);
    sl_pipe_watchdog_ended(w->pipe);
    return NULL;
}

/* A run starts with version 0 in weight slab 0; the previous one may have ended in another slab. */
static sl_err start_seat(struct sl_pipe *pipe, struct sl_pipe_seat *seat) {
    struct sl_worker *worker = seat->train.worker;
    const struct sl_slot_pool *pools = pipe->sched->pools[seat->number];
    int slots = sl_sched_slots(pipe->sched, seat->number);
    int versions = pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count;
    seat->filled = 0;
    if (slots > seat->slots || versions > worker->versions ||
        pools[SL_POOL_GRAD].count > worker->grad_slots)
        return sl_fail(SL_ERR_REFUSED,
                       "stage %d needs %d micro-batches in flight and %d weight versions for a run "
                       "of this length; it was opened with %d and %d",
                       seat->stage, slots, versions, seat->slots, worker->versions);
    if (seat->newest != 0)
        SL_TRY(sl_run_worker_copy_weights(worker, 0, seat->newest));
    seat->newest = 0;
    seat->counted = -1;
    sl_pipe_staleness_start(seat);
    return SL_OK;
}

/* Rank 0 sets the start time of all ranks. */
static sl_err start_clock(struct sl_pipe *pipe) {
    pipe->start_ns = pipe->comm->rank == 0 ? sl_clock_ns() : 0;
    SL_TRY(sl_comm_merge(pipe->comm, &pipe->start_ns, sizeof pipe->start_ns));
    pipe->last_ns = pipe->start_ns;
    pipe->last_cpu_ns = sl_clock_process_ns();
    return SL_OK;
}

static sl_err start_run(struct sl_pipe *pipe, int64_t steps, struct sl_step_report *reports) {
    size_t terms = (size_t)(steps * pipe->max_micros * pipe->train.graph->losses.count);
    SL_TRY(sl_pipe_build_sched(pipe, steps));
    SL_TRY(sl_pipe_check_links(pipe));
    for (int s = 0; s < pipe->config.plan->seat_count; s++)
        if (pipe->seat_at[s])
            SL_TRY(start_seat(pipe, pipe->seat_at[s]));
    SL_TRY(sl_pipe_open_trace(pipe));
    sl_pipe_global_step_start(pipe);
    sl_pipe_scale_start(pipe);
    memset(reports, 0, sizeof *reports * (size_t)steps);
    pipe->reports = reports;
    pipe->loss_terms = sl_realloc(pipe->loss_terms, (terms + 1) * sizeof(double));
    memset(pipe->loss_terms, 0, terms * sizeof(double));
    SL_TRY(sl_pipe_reporter_start(pipe, steps));
    return start_clock(pipe);
}

double sl_pipe_loss(const struct sl_pipe *pipe, int64_t step) {
    int64_t terms = pipe->max_micros * pipe->train.graph->losses.count;
    double loss = 0;
    for (int64_t i = 0; i < terms; i++)
        loss += pipe->loss_terms[step * terms + i];
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
    sl_pipe_halt_start(pipe);
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

/* Merges the reports of all ranks; one rank writes each entry, it is zero elsewhere. */
static sl_err share_reports(struct sl_pipe *pipe, int64_t steps) {
    int64_t terms = steps * pipe->max_micros * pipe->train.graph->losses.count;
    SL_TRY(sl_comm_merge(pipe->comm, pipe->loss_terms, terms * (int64_t)sizeof(double)));
    return sl_comm_merge(pipe->comm, pipe->reports, steps * (int64_t)sizeof *pipe->reports);
}

sl_err sl_pipe_run(struct sl_pipe *pipe, int64_t steps, struct sl_step_report *reports) {
    SL_TRY(start_run(pipe, steps, reports));
    SL_TRY(sl_pipe_run_workers(pipe));
    sl_pipe_reporter_stop(pipe);
    steps = sl_pipe_halt_end(pipe, steps);
    if (sl_pipe_is_synchronous(pipe) &&
        sl_pipe_is_local(pipe, 0)) /* until the last worker has updated */
        reports[steps - 1].dur_ns += sl_clock_ns() - pipe->last_ns;
    SL_TRY(sl_pipe_close_trace(pipe));
    SL_TRY(share_reports(pipe, steps));
    SL_TRY(sl_pipe_scale_end(pipe, steps));
    for (int64_t i = 0; i < steps; i++) {
        reports[i].loss = sl_pipe_loss(pipe, i);
        sl_run_train_blame_scale(&pipe->train, &reports[i]);
        reports[i].bubble = sl_pipe_bubble(pipe);
        reports[i].worker_bytes = sl_pipe_max_bytes(pipe);
    }
    pipe->start_step += steps;
    pipe->start_sample += steps * pipe->train.batch;
    return SL_OK;
}

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
    for (int r = 0; r < s->width; r++) /* the same on all replicas */
        if (pipe->seat_at[s->seat + r])
            return pipe->seat_at[s->seat + r]->newest;
    return 0;
}

const struct sl_timeline *sl_pipe_timeline(const struct sl_pipe *pipe) {
    return pipe->config.trace ? &pipe->timeline : NULL;
}

const int64_t *sl_pipe_bytes(const struct sl_pipe *pipe) { return pipe->worker_bytes; }

int64_t sl_pipe_proved_bytes(const struct sl_pipe *pipe, int worker) {
    return sl_sched_worker_bytes(pipe->sched, worker);
}

int64_t sl_pipe_step_count(const struct sl_pipe *pipe) { return pipe->start_step; }

double sl_pipe_bubble(const struct sl_pipe *pipe) {
    int count = pipe->config.plan->worker_count;
    double busy = 0;
    for (int w = 0; w < count; w++)
        busy += (double)pipe->busy_ns[w];
    return pipe->run_ns ? 1 - busy / ((double)pipe->run_ns * count) : 0;
}
