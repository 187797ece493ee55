/* Channels and groups of a pipeline. Every rank opens all of them, in the same order. */
#include "run/pipe_state.h"

#include "sched/deps.h"

#include <string.h>

static int rank_of(const struct sl_pipe *pipe, int worker) {
    return sl_comm_rank_of(pipe->comm, worker, pipe->config.plan->worker_count);
}

bool sl_pipe_is_here(const struct sl_pipe *pipe, int worker) {
    return rank_of(pipe, worker) == pipe->comm->rank;
}

/* ---- channels ---- */

static int64_t port_bytes(const struct sl_ports *ports, int peer) {
    int64_t bytes = 0;
    for (int i = 0; i < ports->count; i++)
        if (ports->at[i].peer == peer)
            bytes += ports->at[i].operand.numel * 4;
    return bytes;
}

/* Of the end that is here: both have the same ports. 0 when neither is. */
static int64_t message_bytes(const struct sl_pipe *pipe, const struct sl_edge *edge, bool grad) {
    const struct sl_seat_state *from = pipe->seat_of[edge->from], *to = pipe->seat_of[edge->to];
    const struct sl_seat_state *here = from ? from : to;
    if (!here)
        return 0;
    const struct sl_program *p = here->train.worker->programs[SL_WORKER_FULL];
    if (here == from)
        return port_bytes(grad ? &p->recv_grad : &p->send_act, edge->to);
    return port_bytes(grad ? &p->send_grad : &p->recv_act, edge->from);
}

static struct sl_device *device_of(const struct sl_pipe *pipe, int stage) {
    return pipe->seat_of[stage] ? pipe->seat_of[stage]->train.device : NULL;
}

/* As many places as the edge's first stage has micro-batches in flight: a message that has not been
 * taken, either way, belongs to one of those. */
static sl_err open_channels(struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    pipe->acts = SL_NEW(&pipe->arena, struct sl_channel *, plan->edge_count + 1);
    pipe->grads = SL_NEW(&pipe->arena, struct sl_channel *, plan->edge_count + 1);
    for (int e = 0; e < plan->edge_count; e++) {
        const struct sl_edge *edge = &plan->edges[e];
        int from = rank_of(pipe, plan->stages[edge->from].workers[0]);
        int to = rank_of(pipe, plan->stages[edge->to].workers[0]);
        struct sl_channel_spec spec = {from, to, sl_pipe_slots(pipe, edge->from), 0, NULL};
        spec.size_bytes = message_bytes(pipe, edge, false);
        spec.device = device_of(pipe, edge->to);
        SL_TRY(sl_channel_open(pipe->comm, &spec, &pipe->acts[e]));
        spec.from = to;
        spec.to = from;
        spec.size_bytes = message_bytes(pipe, edge, true);
        spec.device = device_of(pipe, edge->from);
        SL_TRY(sl_channel_open(pipe->comm, &spec, &pipe->grads[e]));
    }
    return SL_OK;
}

/* ---- groups ---- */

static bool in_group(const struct sl_plan *plan, int group, int worker) {
    for (int i = 0; i < plan->worker_seat_count[worker]; i++)
        if (sl_sched_in_group(plan, group, plan->seats[plan->worker_seats[worker][i]].stage))
            return true;
    return false;
}

/* The uses of a tied parameter, in graph order: whose each one is. */
static void list_terms(const struct sl_pipe *pipe, const struct sl_tie *tie, const int *member,
                       int *terms, struct sl_group_spec *spec) {
    const struct sl_graph *graph = pipe->train.graph;
    for (int64_t g = 0; g < graph->grads.count; g++) {
        if (strcmp(graph->params.at[graph->grads.at[g].param].name, tie->name) != 0)
            continue;
        int stage = pipe->config.stage_of[graph->grads.at[g].node];
        terms[spec->term_count++] = member[pipe->config.plan->stages[stage].workers[0]];
    }
    spec->terms = terms;
    spec->sum_most = tie->bytes / 4;
}

/* Members of a group are workers, not seats. */
static sl_err open_group(struct sl_pipe *pipe, int group, struct sl_arena *scratch) {
    const struct sl_plan *plan = pipe->config.plan;
    int *ranks = SL_NEW(scratch, int, plan->worker_count);
    int *member = SL_NEW(scratch, int, plan->worker_count);
    int *terms = SL_NEW(scratch, int, pipe->train.graph->grads.count + 1);
    struct sl_device **devices = SL_NEW(scratch, struct sl_device *, plan->worker_count);
    struct sl_group_spec spec = {.ranks = ranks, .devices = devices};
    if (sl_sched_group_size(plan, group) < 2)
        return SL_OK;
    for (int w = 0; w < plan->worker_count; w++) {
        member[w] = in_group(plan, group, w) ? spec.member_count : -1;
        if (sl_pipe_is_here(pipe, w))
            pipe->workers[w].member[group] = member[w];
        if (member[w] < 0)
            continue;
        devices[spec.member_count] = pipe->workers[w].device;
        ranks[spec.member_count++] = rank_of(pipe, w);
    }
    if (group >= plan->stage_count)
        list_terms(pipe, &plan->ties[group - plan->stage_count], member, terms, &spec);
    return sl_group_open(pipe->comm, &spec, &pipe->groups[group]);
}

static sl_err open_all(struct sl_pipe *pipe, struct sl_arena *scratch) {
    int count = pipe->config.plan->worker_count;
    int *ranks = SL_NEW(scratch, int, count);
    for (int w = 0; w < count; w++)
        ranks[w] = rank_of(pipe, w);
    struct sl_group_spec spec = {
        .member_count = count,
        .ranks = ranks,
        .table_most = pipe->train.graph->params.count,
    };
    return sl_group_open(pipe->comm, &spec, &pipe->all);
}

sl_err sl_pipe_link(struct sl_pipe *pipe) {
    int count = sl_sched_group_count(pipe->config.plan);
    struct sl_arena scratch = {0};
    sl_err err = SL_OK;
    pipe->groups = SL_NEW(&pipe->arena, struct sl_group *, count + 1);
    SL_TRY_OUT(open_channels(pipe));
    SL_TRY_OUT(open_all(pipe, &scratch));
    for (int g = 0; g < count; g++)
        SL_TRY_OUT(open_group(pipe, g, &scratch));
out:
    sl_arena_free(&scratch);
    return err;
}

void sl_pipe_unlink(struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    for (int e = 0; pipe->grads && e < plan->edge_count; e++) {
        sl_channel_close(pipe->acts[e]);
        sl_channel_close(pipe->grads[e]);
    }
    for (int g = 0; pipe->groups && g < sl_sched_group_count(plan); g++)
        sl_group_close(pipe->groups[g]);
    sl_group_close(pipe->all);
}
