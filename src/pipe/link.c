/* Channels and groups of a pipeline. Every rank opens all of them, in the same order. */
#include "pipe/own.h"
#include "pipe/shards.h"

#include "sched/deps.h"

#include <stdlib.h>
#include <string.h>

static int rank_of(const struct sl_pipe *pipe, int worker) {
    return sl_comm_rank_of(pipe->comm, worker, pipe->config.plan->worker_count);
}

bool sl_pipe_is_local(const struct sl_pipe *pipe, int worker) {
    return rank_of(pipe, worker) == pipe->comm->rank;
}

/* ---- pieces: the samples that two micro-batches have in common ---- */

static void count_pieces(const struct sl_pipe *pipe, const struct sl_edge *edge,
                         struct sl_pipe_edge *link) {
    const struct sl_stage *from = &pipe->config.plan->stages[edge->from];
    const struct sl_stage *to = &pipe->config.plan->stages[edge->to];
    struct sl_pipe_piece piece = {0};
    int32_t count = 0;
    while (piece.first < pipe->train.batch) {
        int64_t a = (piece.from + 1) * from->micro_size, b = (piece.to + 1) * to->micro_size;
        int64_t end = a < b ? a : b;
        end = end < pipe->train.batch ? end : pipe->train.batch;
        piece.count = end - piece.first;
        piece.pair = piece.from % from->width * to->width + piece.to % to->width;
        piece.number = link->per_iteration[piece.pair]++;
        link->pieces[count++] = piece;
        link->of_from[piece.from + 1] = link->of_to[piece.to + 1] = link->piece_count = count;
        piece.from += end == a;
        piece.to += end == b;
        piece.first = end;
    }
}

static void open_pieces(struct sl_pipe *pipe, const struct sl_edge *edge,
                        struct sl_pipe_edge *link) {
    const struct sl_plan *plan = pipe->config.plan;
    int32_t a = pipe->sched->micros[edge->from], b = pipe->sched->micros[edge->to];
    link->pair_count = plan->stages[edge->from].width * plan->stages[edge->to].width;
    link->pieces = SL_NEW(&pipe->arena, struct sl_pipe_piece, a + b);
    link->of_from = SL_NEW(&pipe->arena, int32_t, a + 2);
    link->of_to = SL_NEW(&pipe->arena, int32_t, b + 2);
    link->per_iteration = SL_NEW(&pipe->arena, int64_t, link->pair_count);
    link->acts = SL_NEW(&pipe->arena, struct sl_pipe_box, link->pair_count);
    link->grads = SL_NEW(&pipe->arena, struct sl_pipe_box, link->pair_count);
    count_pieces(pipe, edge, link);
}

/* Returns the most pieces that one micro-batch has with one pair of replicas. */
static int max_pieces(const struct sl_pipe_edge *link, const int32_t *begins, int32_t micros,
                      int pair) {
    int max = 0;
    for (int32_t j = 0; j < micros; j++) {
        int count = 0;
        for (int32_t i = begins[j]; i < begins[j + 1]; i++)
            count += link->pieces[i].pair == pair;
        max = count > max ? count : max;
    }
    return max;
}

/* ---- channels ---- */

struct ends {           /* the two ends of a channel */
    int sender, reader; /* seats */
};

static struct ends ends_of(const struct sl_plan *plan, const struct sl_edge *edge, int pair,
                           bool grad) {
    const struct sl_stage *from = &plan->stages[edge->from], *to = &plan->stages[edge->to];
    int a = from->seat + pair / to->width, b = to->seat + pair % to->width;
    return grad ? (struct ends){b, a} : (struct ends){a, b};
}

/* Number of places of a channel: the buffers of reader and sender, which the verifier counted
 * separately and proved sufficient, in one ring. */
static int places_of(const struct sl_pipe *pipe, int e, int pair, bool grad) {
    const struct sl_plan *plan = pipe->config.plan;
    const struct sl_edge *edge = &plan->edges[e];
    const struct sl_pipe_edge *link = &pipe->links[e];
    struct ends ends = ends_of(plan, edge, pair, grad);
    int from = max_pieces(link, link->of_from, pipe->sched->micros[edge->from], pair);
    int to = max_pieces(link, link->of_to, pipe->sched->micros[edge->to], pair);
    int reads =
        pipe->sched->pools[ends.reader][sl_sched_pool_of_edge(plan, edge, grad, false)].count;
    int sends =
        pipe->sched->pools[ends.sender][sl_sched_pool_of_edge(plan, edge, grad, true)].count;
    int places = reads * (grad ? from : to) + sends * (grad ? to : from);
    return places > 0 ? places : 1;
}

static enum sl_worker_program program_of(const struct sl_pipe *pipe) {
    return pipe->sched->rule == SL_RULE_FORWARD ? SL_WORKER_EVAL : SL_WORKER_FULL;
}

static int64_t port_bytes(const struct sl_ports *ports, int peer) {
    int64_t bytes = 0;
    for (int i = 0; i < ports->count; i++)
        if (ports->at[i].peer == peer)
            bytes += sl_pass_operand_bytes(&ports->at[i].operand);
    return bytes;
}

/* Returns the size of the largest message, from the ports of the local end; the remote end gets the
 * same size. Returns 0 if neither end is local. */
static int64_t message_bytes(const struct sl_pipe *pipe, int e, struct ends ends, bool grad) {
    const struct sl_edge *edge = &pipe->config.plan->edges[e];
    const struct sl_pipe_seat *sender = pipe->seat_at[ends.sender];
    const struct sl_pipe_seat *local = sender ? sender : pipe->seat_at[ends.reader];
    if (!local)
        return 0;
    const struct sl_program *p = local->train.worker->programs[program_of(pipe)];
    bool at_from = local->stage == edge->from;
    const struct sl_ports *ports =
        at_from ? (grad ? &p->recv_grad : &p->send_act) : (grad ? &p->send_grad : &p->recv_act);
    int64_t max = 0;
    const struct sl_pipe_edge *link = &pipe->links[e];
    for (int32_t i = 0; i < link->of_from[pipe->sched->micros[edge->from]]; i++)
        max = link->pieces[i].count > max ? link->pieces[i].count : max;
    return port_bytes(ports, at_from ? edge->to : edge->from) * max / p->samples;
}

static sl_err open_channel(struct sl_pipe *pipe, int e, int pair, bool grad) {
    const struct sl_plan *plan = pipe->config.plan;
    struct sl_pipe_edge *link = &pipe->links[e];
    struct ends ends = ends_of(plan, &plan->edges[e], pair, grad);
    const struct sl_pipe_seat *reader = pipe->seat_at[ends.reader];
    const struct sl_pipe_seat *sender = pipe->seat_at[ends.sender];
    int from = plan->seats[ends.sender].worker, to = plan->seats[ends.reader].worker;
    struct sl_channel_spec spec = {
        .from = rank_of(pipe, from),
        .to = rank_of(pipe, to),
        .places = places_of(pipe, e, pair, grad),
        .size_bytes = message_bytes(pipe, e, ends, grad),
        .device = reader ? reader->train.device : NULL,
        .sender = sender ? sender->train.device : NULL,
        .ipc = sl_pipe_is_ipc(pipe, from, to),
    };
    if (reader && sender && spec.device->row != spec.sender->row)
        spec.device = spec.sender = NULL; /* both devices can read host memory */
    struct sl_pipe_box *box = grad ? &link->grads[pair] : &link->acts[pair];
    *box = (struct sl_pipe_box){.sender = ends.sender, .reader = ends.reader};
    if (pipe->sched->rule != SL_RULE_FORWARD)
        SL_PUSH(&pipe->boxes, box);
    return sl_comm_channel_open(pipe->comm, &spec, &box->channel);
}

static sl_err refuse_sizes(const struct sl_pipe *pipe, const struct sl_edge *edge, int value) {
    const struct sl_plan *plan = pipe->config.plan;
    const struct sl_stage *from = &plan->stages[edge->from], *to = &plan->stages[edge->to];
    const struct sl_graph *graph = pipe->train.graph;
    char name[SL_NAME_TEXT], shape[SL_SHAPE_TEXT];
    return sl_fail(SL_ERR_REFUSED,
                   "%s %s goes from stage %s to stage %s, which have micro-batches of %lld and "
                   "%lld samples, and its first size is not the batch; give these stages one "
                   "micro-batch size",
                   sl_graph_value_name(graph, value, name),
                   sl_graph_shape_text(&sl_graph_value(graph, value)->shape, shape), from->name,
                   to->name, (long long)from->micro_size, (long long)to->micro_size);
}

/* A piece is a range of samples, so samples must be the first dimension of the value. Reads the graph
 * instead of programs, so that all ranks get the same result. */
static sl_err check_samples(const struct sl_pipe *pipe, const struct sl_edge *edge) {
    const struct sl_stage *stages = pipe->config.plan->stages;
    const struct sl_graph *graph = pipe->train.graph;
    const int *stage_of = pipe->config.stage_of;
    if (stages[edge->from].micro_size == stages[edge->to].micro_size)
        return SL_OK;
    for (int n = 0; n < graph->forward_count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; stage_of[n] == edge->to && i < node->in_count; i++) {
            const struct sl_value *v = node->in[i] < 0 ? NULL : sl_graph_value(graph, node->in[i]);
            if (v && v->kind == SL_VALUE_NODE && stage_of[v->node] == edge->from &&
                v->shape.batch != 1)
                return refuse_sizes(pipe, edge, node->in[i]);
        }
    }
    return SL_OK;
}

sl_err sl_pipe_open_links(struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    pipe->links = SL_NEW(&pipe->arena, struct sl_pipe_edge, plan->edge_count + 1);
    for (int e = 0; e < plan->edge_count; e++) {
        open_pieces(pipe, &plan->edges[e], &pipe->links[e]);
        SL_TRY(check_samples(pipe, &plan->edges[e]));
        for (int pair = 0; pair < pipe->links[e].pair_count; pair++) {
            if (pipe->links[e].per_iteration[pair] == 0)
                continue; /* with many replicas most pairs share no samples */
            SL_TRY(open_channel(pipe, e, pair, false));
            if (pipe->sched->rule != SL_RULE_FORWARD && plan->edges[e].grads)
                SL_TRY(open_channel(pipe, e, pair, true));
        }
    }
    return SL_OK;
}

void sl_pipe_add_message_bytes(const struct sl_pipe *pipe, int64_t *out) {
    const struct sl_plan *plan = pipe->config.plan;
    for (int e = 0; e < plan->edge_count; e++)
        for (int i = 0; i < 2 * pipe->links[e].pair_count; i++) {
            const struct sl_pipe_edge *link = &pipe->links[e];
            const struct sl_channel *channel = (i % 2 ? link->grads : link->acts)[i / 2].channel;
            int reader = plan->seats[ends_of(plan, &plan->edges[e], i / 2, i % 2).reader].worker;
            if (channel && sl_pipe_is_local(pipe, reader))
                out[reader] += channel->spec.places * channel->spec.size_bytes;
        }
}

sl_err sl_pipe_check_links(const struct sl_pipe *pipe) {
    for (int e = 0; e < pipe->config.plan->edge_count; e++)
        for (int i = 0; i < 2 * pipe->links[e].pair_count; i++) {
            struct sl_pipe_edge *link = &pipe->links[e];
            const struct sl_channel *channel = (i % 2 ? link->grads : link->acts)[i / 2].channel;
            int need = channel ? places_of(pipe, e, i / 2, i % 2) : 0;
            if (channel && need > channel->spec.places)
                return sl_fail(SL_ERR_REFUSED,
                               "edge %d needs %d messages under way for a run of this length; it "
                               "was opened with %d",
                               e, need, channel->spec.places);
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

/* Lists for each use of a tied parameter, in graph order, the member that holds it. Replicas are
 * summed before, so replica 0 represents its stage. */
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
    spec->sum_max = tie->bytes / 4;
}

/* Lists the replicas of a stage, in order. They sum the parts of their gradients and average their
 * running statistics. */
static void list_replicas(const struct sl_pipe *pipe, int stage, const int *member, int *terms,
                          struct sl_group_spec *spec) {
    const struct sl_stage *s = &pipe->config.plan->stages[stage];
    for (int r = 0; r < s->width; r++) {
        const struct sl_pipe_seat *seat = pipe->seat_at[s->seat + r];
        terms[spec->term_count++] = member[s->workers[r]];
        if (!seat)
            continue;
        spec->sum_max = seat->train.worker->programs[SL_WORKER_FULL]->state_bytes / 4;
    }
    spec->terms = terms;
}

/* Opens the groups of a stage's gradient parts. All ranks open SL_PARTS groups, even if the stage
 * has fewer parts. */
static sl_err open_parts(struct sl_pipe *pipe, int stage, struct sl_group_spec *spec) {
    const struct sl_stage *s = &pipe->config.plan->stages[stage];
    for (int k = 0; k < SL_PARTS; k++) {
        for (int r = 0; r < s->width; r++) {
            const struct sl_pipe_seat *seat = pipe->seat_at[s->seat + r];
            if (seat)
                spec->sum_max = seat->parts.first[k + 1] - seat->parts.first[k];
        }
        spec->sum_max = spec->sum_max > 0 ? spec->sum_max : 0;
        SL_TRY(sl_comm_group_open(pipe->comm, spec, &pipe->parts[stage].at[k]));
    }
    return SL_OK;
}

/* Threads read each other's memory directly, so the devices of a group must be of one kind. */
static sl_err check_kinds(const struct sl_pipe *pipe, struct sl_device *const *devices, int count) {
    for (int i = 1; i < count && pipe->own_comm; i++)
        if (devices[i]->row != devices[0]->row)
            return sl_fail(SL_ERR_REFUSED,
                           "devices '%s' and '%s' share tied weights or are replicas of a stage, "
                           "which threads of one process cannot add up; untie them, cut elsewhere, "
                           "or give each worker a process ('sluice launch')",
                           devices[0]->row->name, devices[i]->row->name);
    return SL_OK;
}

/* Opens the group of all workers that have a seat in it; its members are workers, not seats. */
static sl_err open_group(struct sl_pipe *pipe, int group, struct sl_arena *scratch) {
    const struct sl_plan *plan = pipe->config.plan;
    int *ranks = SL_NEW(scratch, int, plan->worker_count);
    int *member = SL_NEW(scratch, int, plan->worker_count);
    int *terms = SL_NEW(scratch, int, pipe->train.graph->grads.count + plan->worker_count);
    struct sl_device **devices = SL_NEW(scratch, struct sl_device *, plan->worker_count);
    struct sl_group_spec spec = {.ranks = ranks, .devices = devices, .ipc = true};
    int first = -1;
    if (sl_sched_group_size(plan, group) < 2)
        return SL_OK;
    for (int w = 0; w < plan->worker_count; w++) {
        member[w] = in_group(plan, group, w) ? spec.member_count : -1;
        if (sl_pipe_is_local(pipe, w))
            pipe->workers[w].member[group] = member[w];
        if (member[w] < 0)
            continue;
        first = first < 0 ? w : first;
        spec.ipc &= sl_pipe_is_ipc(pipe, first, w);
        devices[spec.member_count] = pipe->workers[w].device;
        ranks[spec.member_count++] = rank_of(pipe, w);
    }
    SL_TRY(check_kinds(pipe, devices, spec.member_count));
    if (group >= plan->stage_count)
        list_terms(pipe, &plan->ties[group - plan->stage_count], member, terms, &spec);
    else
        list_replicas(pipe, group, member, terms, &spec);
    SL_TRY(sl_comm_group_open(pipe->comm, &spec, &pipe->groups[group]));
    return group < plan->stage_count ? open_parts(pipe, group, &spec) : SL_OK;
}

static sl_err open_all(struct sl_pipe *pipe, struct sl_arena *scratch) {
    int count = pipe->config.plan->worker_count;
    int *ranks = SL_NEW(scratch, int, count);
    for (int w = 0; w < count; w++)
        ranks[w] = rank_of(pipe, w);
    struct sl_group_spec spec = {
        .member_count = count,
        .ranks = ranks,
        .table_max = pipe->train.graph->params.count,
    };
    return sl_comm_group_open(pipe->comm, &spec, &pipe->all);
}

sl_err sl_pipe_link(struct sl_pipe *pipe) {
    int count = sl_sched_group_count(pipe->config.plan);
    struct sl_arena scratch = {0};
    sl_err err = SL_OK;
    pipe->groups = SL_NEW(&pipe->arena, struct sl_group *, count + 1);
    pipe->parts = SL_NEW(&pipe->arena, struct sl_pipe_part_groups, pipe->config.plan->stage_count);
    SL_TRY_OUT(sl_pipe_open_links(pipe));
    SL_TRY_OUT(open_all(pipe, &scratch));
    for (int g = 0; g < count; g++)
        SL_TRY_OUT(open_group(pipe, g, &scratch));
    SL_TRY_OUT(sl_pipe_shards_open(pipe));
    SL_TRY_OUT(sl_pipe_own_open(pipe));
out:
    sl_arena_free(&scratch);
    return err;
}

void sl_pipe_close_links(struct sl_pipe *pipe) {
    for (int e = 0; pipe->links && e < pipe->config.plan->edge_count; e++) {
        for (int i = 0; i < pipe->links[e].pair_count; i++) {
            sl_comm_channel_close(pipe->links[e].acts[i].channel);
            sl_comm_channel_close(pipe->links[e].grads[i].channel);
        }
        free(pipe->links[e].arrived[0]);
        free(pipe->links[e].arrived[1]);
    }
}

void sl_pipe_unlink(struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    sl_pipe_close_links(pipe);
    for (int g = 0; pipe->groups && g < sl_sched_group_count(plan); g++)
        sl_comm_group_close(pipe->groups[g]);
    for (int k = 0; pipe->parts && k < plan->stage_count * SL_PARTS; k++)
        sl_comm_group_close(pipe->parts[k / SL_PARTS].at[k % SL_PARTS]);
    sl_pipe_shards_close(pipe);
    sl_pipe_own_close(pipe);
    sl_comm_group_close(pipe->all);
}
