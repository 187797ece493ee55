/* A pipeline: opening and closing. */
#include "pipe/halt.h"
#include "pipe/own.h"
#include "pipe/reporter.h"
#include "pipe/resume.h"
#include "pipe/scale.h"

#include "base/clock.h"
#include "device/bind.h"
#include "device/lend.h"
#include "sched/deps.h"
#include "sched/order.h"
#include "sched/slots.h"
#include "schedules/given.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- checks ---- */

enum { GRADS_MAX = 64 }; /* number of bits of seat->filled */

static sl_err check_config(const struct sl_pipe_config *c, const struct sl_sched *sched) {
    for (int i = 0; i < c->plan->seat_count; i++)
        if (sched->pools[i][SL_POOL_GRAD].count > GRADS_MAX)
            return sl_fail(SL_ERR_REFUSED,
                           "stage %s needs %d gradient buffers to wait for the global norm; the "
                           "maximum is %d; use a larger `micro`, or `clip_scope` stage",
                           c->plan->stages[c->plan->seats[i].stage].name,
                           sched->pools[i][SL_POOL_GRAD].count, GRADS_MAX);
    for (int w = 0; w < c->plan->worker_count; w++)
        if (!c->plan->worker_seat_count[w])
            return sl_fail(SL_ERR_REFUSED,
                           "worker %d of the plan has no stage; number the workers from 0 without "
                           "gaps",
                           w);
    SL_TRY(sl_pipe_policy_check(c->train, sched));
    SL_TRY(sl_pipe_own_check(c, sched));
    SL_TRY(sl_pipe_scale_check(c->train, sched));
    if (sched->rule == SL_RULE_SYNC && c->staleness)
        return sl_fail(SL_ERR_REFUSED,
                       "`log_staleness`: schedule '%s' is synchronous, so no weights are stale; "
                       "leave it out or use an asynchronous schedule",
                       sched->name);
    return SL_OK;
}

static const struct sl_device_row *device_of(const struct sl_train_config *c, int worker) {
    return c->kind_count ? c->kinds[worker % c->kind_count] : c->device;
}

/* Do both workers have devices of one kind with memory of their own? Every rank can compute this
 * for all workers. */
bool sl_pipe_is_ipc(const struct sl_pipe *pipe, int a, int b) {
    const struct sl_device_row *kind = device_of(&pipe->train, a);
    return kind->apart && kind == device_of(&pipe->train, b);
}

/* Refuses a cut between nodes that one fused kernel computes: in two stages they would round
 * differently. */
static sl_err check_cut(const struct sl_pipe_config *c, const struct sl_device_row *device,
                        struct sl_arena *arena) {
    const struct sl_graph *graph = c->train->graph;
    int *group = SL_NEW(arena, int, graph->forward_count + 1);
    sl_pass_glue(graph, device->has_kernel, group);
    for (int n = 0; n < graph->forward_count; n++) {
        const struct sl_node *node = &graph->nodes.at[n], *first = &graph->nodes.at[group[n]];
        int a = c->stage_of[group[n]], b = c->stage_of[n];
        if (a != b)
            return sl_fail(
                SL_ERR_REFUSED,
                "node %d (%s) is in stage %s and node %d (%s) in stage %s, but one kernel "
                "computes both on device '%s'; they must be in one stage",
                group[n], first->op->name, c->plan->stages[a].name, n, node->op->name,
                c->plan->stages[b].name, device->name);
    }
    return SL_OK;
}

static sl_err check_cuts(const struct sl_pipe_config *c, struct sl_arena *arena) {
    SL_TRY(check_cut(c, c->train->device, arena));
    for (int i = 0; i < c->train->kind_count; i++)
        SL_TRY(check_cut(c, c->train->kinds[i], arena));
    return SL_OK;
}

sl_err sl_pipe_build_sched(struct sl_pipe *pipe, int64_t iters) {
    struct sl_schedule_opts opts = {
        .schedule = pipe->config.schedule,
        .row = pipe->config.row,
        .batch = pipe->train.batch,
        .iters = iters,
        .slack = pipe->config.slack,
        .policy = &pipe->train.policy,
        .global_step = pipe->config.global_step,
    };
    if (pipe->sched && pipe->sched->iters == iters)
        return SL_OK; /* keeps the schedule of the previous run */
    pipe->sched = NULL;
    sl_arena_free(&pipe->sched_arena);
    SL_TRY(sl_schedules_build(&pipe->sched_arena, pipe->config.plan, &opts, &pipe->sched));
    pipe->ordered = sl_sched_order_of(pipe->sched).gradients;
    return check_config(&pipe->config, pipe->sched);
}

/* ---- opening ---- */

static bool is_split(const struct sl_sched *sched) {
    for (int seg = 0; seg < SL_SEGMENT_COUNT; seg++)
        for (int w = 0; w < sched->plan->worker_count; w++)
            for (int64_t i = 0; i < sched->lists[seg][w].count; i++)
                if (sched->lists[seg][w].at[i].kind == SL_BACKWARD_WEIGHT)
                    return true;
    return false;
}

bool sl_pipe_evaluates(const struct sl_pipe *pipe) {
    return pipe->train.eval_graph && (pipe->train.eval_every > 0 || pipe->train.evaluates);
}

static sl_err open_seat(struct sl_pipe *pipe, struct sl_pipe_worker *w, struct sl_pipe_seat *seat,
                        int number) {
    const struct sl_slot_pool *pools = pipe->sched->pools[number];
    const struct sl_train_config *c = &pipe->train;
    int stage = pipe->config.plan->seats[number].stage;
    int64_t full = pipe->config.plan->stages[stage].micro_size;
    bool split = is_split(pipe->sched);
    *seat = (struct sl_pipe_seat){.stage = stage,
                                  .replica = pipe->config.plan->seats[number].replica,
                                  .number = number,
                                  .counted = -1};
    seat->slots = sl_sched_slots(pipe->sched, number);
    /* a replica without micro-batches still gets one slot */
    seat->slots = seat->slots ? seat->slots : 1;
    struct sl_worker_config config = {
        .graph = c->graph,
        .stage_of = pipe->config.stage_of,
        .stage = stage,
        .samples = full,
        .last_samples = c->batch - full * (pipe->sched->micros[stage] - 1),
        .eval_graph = sl_pipe_evaluates(pipe) ? c->eval_graph : NULL,
        .eval_samples = full,
        .has_kernel = w->device->row->has_kernel,
        .dtype = c->dtype,
        .split = split,
        .recompute = pipe->config.plan->stages[stage].recompute,
        .slots = seat->slots,
        .versions = pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count,
        .grad_slots = pools[SL_POOL_GRAD].count,
        .state_count = sl_plan_slabs(&c->optim, &c->policy),
        .seed = c->seed,
        .divides = sl_pipe_own_divides(pipe, stage) ? &c->optim : NULL,
        .width = pipe->config.plan->stages[stage].width,
        .replica = seat->replica,
        .borrows = true,
        .eval_in_flight = pipe->sched->rule != SL_RULE_SYNC,
        .audit = c->audit,
    };
    seat->train.config = *c;
    seat->train.device = w->device;
    seat->train.counts = SL_NEW(&seat->train.arena, double, c->graph->losses.count);
    sl_pipe_policy_open(pipe, seat);
    SL_TRY(sl_run_worker_open(w->device, &config, &seat->train.worker));
    seat->foresight_slot = pools[SL_POOL_PREDICT].count ? config.versions - 1 : -1;
    SL_TRY(sl_pipe_policy_params(pipe, seat));
    sl_pipe_reduce_cut(pipe, seat);
    SL_TRY(sl_pipe_border_open(pipe, seat));
    if (pipe->config.staleness)
        SL_TRY(sl_pipe_staleness_open(seat));
    return SL_OK;
}

static sl_err open_worker(struct sl_pipe *pipe, int index) {
    const struct sl_plan *plan = pipe->config.plan;
    struct sl_pipe_worker *w = &pipe->workers[index];
    struct sl_device_config device = {.threads = pipe->train.threads,
                                      .bind = pipe->first_place >= 0,
                                      .index = index,
                                      .tf32 = pipe->train.tf32};
    *w = (struct sl_pipe_worker){.pipe = pipe, .index = index};
    if (!sl_pipe_is_local(pipe, index))
        return SL_OK;
    w->place = device.place = pipe->first_place + pipe->local_workers++ * pipe->train.threads;
    SL_TRY(device_of(&pipe->train, index)->open(&device, &w->device));
    if (pipe->lend)
        sl_device_lend_join(pipe->lend, w->device);
    w->seats = SL_NEW(&pipe->arena, struct sl_pipe_seat, plan->worker_seat_count[index]);
    w->reduce_seen = SL_NEW(&pipe->arena, int, sl_sched_group_count(plan));
    w->member = SL_NEW(&pipe->arena, int, sl_sched_group_count(plan) + 1);
    w->terms = SL_NEW(&pipe->arena, const float *, pipe->train.graph->grads.count + 1);
    w->messages = SL_NEW(&pipe->arena, const char *, pipe->config.plan->worker_count + 1);
    w->norms = SL_NEW(&pipe->arena, double, pipe->train.graph->params.count);
    for (int i = 0; i < plan->worker_seat_count[index]; i++) {
        struct sl_pipe_seat *seat = &w->seats[w->seat_count++];
        pipe->seat_at[plan->worker_seats[index][i]] = seat;
        SL_TRY(open_seat(pipe, w, seat, plan->worker_seats[index][i]));
    }
    return sl_pipe_open_areas(w);
}

static sl_err open_workers(struct sl_pipe *pipe) {
    int count = pipe->config.plan->worker_count, here = 0;
    for (int w = 0; w < count; w++)
        here += sl_pipe_is_local(pipe, w);
    SL_TRY(sl_pipe_bind_choose(pipe->comm, pipe->config.bind, here, pipe->train.threads,
                               &pipe->first_place));
    sl_err err = SL_OK;
    pipe->lend = pipe->config.lend ? sl_device_lend_open(here) : NULL;
    for (int w = 0; w < count && err == SL_OK; w++)
        err = open_worker(pipe, w);
    /* all ranks must agree, because one may refuse its stage */
    return sl_comm_consent(pipe->comm, err);
}

/* Shares the memory of each worker with all ranks. */
static sl_err count_bytes(struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    pipe->worker_bytes = SL_NEW(&pipe->arena, int64_t, plan->worker_count);
    for (int w = 0; w < plan->worker_count; w++)
        pipe->worker_bytes[w] = sl_pipe_worker_bytes(&pipe->workers[w]);
    sl_pipe_add_message_bytes(pipe, pipe->worker_bytes);
    return sl_comm_merge(pipe->comm, pipe->worker_bytes,
                         plan->worker_count * (int64_t)sizeof *pipe->worker_bytes);
}

static sl_err open_threads(struct sl_pipe *pipe) {
    const struct sl_transport *threads;
    SL_TRY(sl_comm_transport_find("threads", &threads));
    return sl_comm_open(threads, NULL, &pipe->comm);
}

/* Can a checkpoint of the full pipeline be restored on any number of stages (resume.h)? With two
 * versions, iteration n reads only version n - 1, so weights and optimizer are the whole state
 * after step n. Not so with predictions, which also read an older optimizer state, and not with
 * replicas, which average running statistics at steps. */
static bool is_portable(const struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    bool portable = pipe->sched->rule == SL_RULE_2BW;
    for (int i = 0; i < plan->seat_count; i++)
        portable &=
            pipe->sched->pools[i][SL_POOL_WEIGHT].count == 2 &&
            pipe->sched->pools[i][SL_POOL_PREDICT].count == 0 &&
            (plan->stages[plan->seats[i].stage].width == 1 || pipe->train.graph->states.count == 0);
    return portable;
}

/* Iterations of the schedule that sizes the pipeline. A shorter run of a row needs no more room than
 * one of three; the passes of a file may be in another order, and may end. */
static int64_t opening_iters(const struct sl_pipe *pipe) {
    int64_t steps = pipe->train.steps;
    const struct sl_sched *given = sl_schedules_given_passes(pipe->config.row);
    if (given && !given->reps)
        return steps > given->iters || steps < 1 ? given->iters : steps;
    return steps > 3 || (given && steps > 0) ? steps : 3;
}

sl_err sl_pipe_open(const struct sl_pipe_config *config, struct sl_pipe **out) {
    SL_TRY(sl_run_train_check(config->train));
    struct sl_pipe *pipe = calloc(1, sizeof *pipe);
    if (!pipe)
        sl_out_of_memory(sizeof *pipe);
    sl_err err = SL_OK;
    const struct sl_plan *plan = config->plan;
    pipe->config = *config;
    pipe->train = *config->train;
    pipe->scale = sl_optim_loss_scale_begin(&config->train->loss_scale);
    pipe->comm = config->comm;
    pipe->own_comm = !config->comm;
    if (pipe->own_comm)
        SL_TRY_OUT(open_threads(pipe));
    pipe->workers = SL_NEW(&pipe->arena, struct sl_pipe_worker, plan->worker_count);
    pipe->seat_at = SL_NEW(&pipe->arena, struct sl_pipe_seat *, plan->seat_count);
    pipe->timeline.lanes = SL_NEW(&pipe->arena, struct sl_lane, plan->worker_count);
    pipe->busy_ns = SL_NEW(&pipe->arena, int64_t, plan->worker_count);
    SL_TRY_OUT(check_cuts(config, &pipe->arena));
    SL_TRY_OUT(sl_pipe_build_sched(pipe, opening_iters(pipe)));
    for (int s = 0; s < plan->stage_count; s++)
        if (pipe->sched->micros[s] > pipe->max_micros)
            pipe->max_micros = pipe->sched->micros[s];
    pipe->at = SL_NEW(&pipe->arena, int64_t, plan->worker_count);
    SL_TRY_OUT(open_workers(pipe));
    pipe->portable = is_portable(pipe);
    pipe->previous = -1;
    SL_TRY_OUT(sl_pipe_link(pipe));
    SL_TRY_OUT(sl_pipe_global_step_open(pipe));
    pipe->eval_scores = SL_NEW(&pipe->arena, int64_t, 2 * plan->seat_count);
    SL_TRY_OUT(sl_pipe_open_eval(pipe));
    SL_TRY_OUT(sl_pipe_open_requests(pipe));
    SL_TRY_OUT(count_bytes(pipe));
    SL_TRY_OUT(sl_pipe_count_seats(pipe));
    sl_pipe_reporter_open(pipe);
    sl_pipe_watchdog_open(pipe); /* after the reporter, because it publishes the reporter's sums */
    sl_pipe_halt_open(pipe);
    pipe->obstacle = sl_pipe_halt_obstacle(pipe);
    *out = pipe;
out:
    if (err != SL_OK)
        sl_pipe_close(pipe);
    return err;
}

static void close_seat(struct sl_pipe_seat *seat) {
    sl_pipe_staleness_close(seat);
    sl_pipe_border_close(seat);
    sl_run_worker_close(seat->train.worker);
    sl_arena_free(&seat->train.arena);
}

void sl_pipe_close(struct sl_pipe *pipe) {
    if (!pipe)
        return;
    if (pipe->comm)
        sl_pipe_watchdog_close(pipe);
    if (sl_pipe_is_abandoned(pipe))
        return;
    sl_pipe_close_eval(pipe);
    sl_pipe_unlink(pipe);
    sl_pipe_global_step_close(pipe);
    sl_pipe_scale_close(pipe);
    sl_pipe_close_requests(pipe);
    for (int w = 0; pipe->workers && w < pipe->config.plan->worker_count; w++) {
        struct sl_pipe_worker *worker = &pipe->workers[w];
        for (int i = 0; i < worker->seat_count; i++)
            close_seat(&worker->seats[i]);
        sl_pipe_close_areas(worker);
        free(worker->lane.at);
        if (!worker->device)
            continue;
        worker->device->row->close(worker->device);
    }
    sl_device_lend_close(pipe->lend);
    free(pipe->loss_terms);
    sl_pipe_reporter_close(pipe);
    sl_pipe_halt_close(pipe);
    SL_VEC_FREE(&pipe->boxes);
    if (pipe->own_comm)
        sl_comm_close(pipe->comm);
    sl_arena_free(&pipe->sched_arena);
    sl_arena_free(&pipe->arena);
    free(pipe);
}
