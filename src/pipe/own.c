/* Divided optimizer state (zero1).
 *
 *     replica 0   sum of gradients | step [0, a)  | weights [0, a)  -> 1, [a, n) <- 1
 *     replica 1   sum of gradients | step [a, n)  | weights [a, n)  -> 0, [0, a) <- 0
 *
 * Every element is stepped by one replica with the gradient that all replicas have, so bits do not
 * change. The range of a replica is a group whose sum has one term, that of the owner. STEP of such a
 * stage is a meeting, which the verifier proves (sched/verify_pass.c). */
#include "pipe/own.h"

#include <string.h>

bool sl_pipe_own_divides(const struct sl_pipe *pipe, int stage) {
    const struct sl_stage *s = &pipe->config.plan->stages[stage];
    return s->zero1 && s->width > 1;
}

bool sl_pipe_own_spans(const struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    for (int i = 0; i < plan->seat_count; i++) {
        const struct sl_stage *s = &plan->stages[plan->seats[i].stage];
        if (s->zero1 && sl_comm_rank_of(pipe->comm, s->workers[0], plan->worker_count) !=
                            sl_comm_rank_of(pipe->comm, plan->seats[i].worker, plan->worker_count))
            return true;
    }
    return false;
}

sl_err sl_pipe_own_check(const struct sl_pipe_config *c, const struct sl_sched *sched) {
    const struct sl_policy_use *policy = &c->train->policy;
    bool keeps = sl_plan_slabs(&c->train->optim, policy) > sl_plan_optim_slabs(&c->train->optim);
    for (int i = 0; i < c->plan->seat_count; i++) {
        const struct sl_stage *stage = &c->plan->stages[c->plan->seats[i].stage];
        if (stage->zero1 && stage->width > 1 &&
            (keeps || sched->pools[i][SL_POOL_PREDICT].count > 0))
            return sl_fail(SL_ERR_REFUSED,
                           "stage %s: policy '%s' computes weights from the whole optimizer state, "
                           "and zero1 divides it among the replicas; leave out `zero1` or the "
                           "policy",
                           stage->name, policy->row ? policy->row->name : "of the schedule");
    }
    return SL_OK;
}

/* ---- ranges of all seats ---- */

/* The first element that a seat owns: index of its parameter in the graph, element of it. Parameters
 * of a slab are in the order of the graph. */
struct first {
    int64_t param, element;
};

struct sl_pipe_own {
    struct sl_group **groups; /* [seat] its range, from it to the other replicas; NULL: none */
    struct first *first;      /* [seat] of all ranks */
};

static struct first first_of(const struct sl_pipe_seat *seat) {
    const struct sl_worker *w = seat->train.worker;
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    for (int i = 0; i < p->param_count; i++) {
        int64_t end = p->params[i].offset / 4 + p->params[i].numel;
        if (end > w->own.first)
            return (struct first){p->params[i].param, sl_run_worker_own(w, i).first};
    }
    return (struct first){p->graph->params.count, 0};
}

struct sl_part sl_pipe_own_of(const struct sl_pipe *pipe, int seat, int param) {
    const struct sl_graph *graph = pipe->train.graph;
    const struct sl_seat *at = &pipe->config.plan->seats[seat];
    int64_t numel =
        sl_graph_shape_numel(&sl_graph_value(graph, graph->params.at[param].value)->shape, 1);
    struct sl_part all = {0, numel};
    if (!sl_pipe_own_divides(pipe, at->stage))
        return all;
    const struct first *from = &pipe->own->first[seat], *to = from + 1;
    bool last = at->replica + 1 == pipe->config.plan->stages[at->stage].width;
    int64_t low = from->param < param ? 0 : from->param == param ? from->element : numel;
    int64_t high = last || to->param > param ? numel : to->param == param ? to->element : 0;
    return (struct sl_part){low, high > low ? high - low : 0};
}

/* ---- groups ---- */

static sl_err open_stage(struct sl_pipe *pipe, int stage, struct sl_arena *scratch) {
    const struct sl_plan *plan = pipe->config.plan;
    const struct sl_stage *s = &plan->stages[stage];
    int *ranks = SL_NEW(scratch, int, s->width);
    struct sl_device **devices = SL_NEW(scratch, struct sl_device *, s->width);
    struct sl_group_spec spec = {
        .member_count = s->width, .ranks = ranks, .term_count = 1, .devices = devices, .ipc = true};
    const struct sl_pipe_seat *here = NULL;
    for (int r = 0; r < s->width; r++) {
        ranks[r] = sl_comm_rank_of(pipe->comm, s->workers[r], plan->worker_count);
        devices[r] = pipe->workers[s->workers[r]].device;
        spec.ipc &= sl_pipe_is_ipc(pipe, s->workers[0], s->workers[r]);
        here = pipe->seat_at[s->seat + r] ? pipe->seat_at[s->seat + r] : here;
    }
    for (int r = 0; r < s->width; r++) {
        spec.terms = &r;
        if (here)
            spec.sum_max = sl_plan_owned(here->train.worker->programs[SL_WORKER_FULL],
                                         &here->train.config.optim, s->width, r)
                               .count;
        SL_TRY(sl_comm_group_open(pipe->comm, &spec, &pipe->own->groups[s->seat + r]));
    }
    return SL_OK;
}

sl_err sl_pipe_own_open(struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    struct sl_arena scratch = {0};
    sl_err err = SL_OK;
    pipe->own = SL_NEW(&pipe->arena, struct sl_pipe_own, 1);
    pipe->own->groups = SL_NEW(&pipe->arena, struct sl_group *, plan->seat_count);
    pipe->own->first = SL_NEW(&pipe->arena, struct first, plan->seat_count);
    for (int i = 0; i < plan->seat_count; i++)
        if (pipe->seat_at[i])
            pipe->own->first[i] = first_of(pipe->seat_at[i]);
    for (int s = 0; s < plan->stage_count && err == SL_OK; s++)
        if (sl_pipe_own_divides(pipe, s))
            err = open_stage(pipe, s, &scratch);
    sl_arena_free(&scratch);
    SL_TRY(err);
    return sl_comm_merge(pipe->comm, pipe->own->first,
                         plan->seat_count * (int64_t)sizeof *pipe->own->first);
}

void sl_pipe_own_close(struct sl_pipe *pipe) {
    for (int i = 0; pipe->own && i < pipe->config.plan->seat_count; i++)
        sl_comm_group_close(pipe->own->groups[i]);
}

/* ---- after a step ---- */

sl_err sl_pipe_own_gather(struct sl_pipe_worker *w, struct sl_pipe_seat *seat, int version) {
    const struct sl_stage *s = &w->pipe->config.plan->stages[seat->stage];
    struct sl_worker *worker = seat->train.worker;
    struct sl_group *const *groups = &w->pipe->own->groups[s->seat];
    int64_t before = sl_pipe_clock(w);
    if (!sl_pipe_own_divides(w->pipe, seat->stage))
        return SL_OK;
    SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE)); /* others read our range */
    sl_pipe_status_wait(w, (struct sl_pipe_wait){.wait = SL_WAIT_GROUP, .of = seat->stage});
    for (int r = 0; r < s->width; r++) {
        struct sl_owned own =
            sl_plan_owned(worker->programs[SL_WORKER_FULL], &seat->train.config.optim, s->width, r);
        float *at = (float *)worker->param[version] + own.first;
        const float *term = at;
        SL_TRY(sl_comm_group_sum_begin(groups[r], seat->replica, &term, own.count, at));
    }
    for (int r = 0; r < s->width; r++)
        SL_TRY(sl_comm_group_sum_end(groups[r], seat->replica));
    sl_pipe_status_resume(w);
    w->waited_ns += sl_pipe_clock(w) - before;
    return SL_OK;
}
