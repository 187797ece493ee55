/* SEND and RECV in the proof: in-order channels without buffering, and message buffers.
 *
 *     RECV  takes a free slot (or the one that already holds other pieces of the same micro-batch)
 *     SEND  waits until the channel has a posted receive; the oldest one must match; then
 *       delivers */
#include "sched/verify.h"

static struct sl_ver_channel *channel_of(struct sl_ver *v, int from, int to) {
    for (int i = v->first_channel[to]; i >= 0; i = v->next_channel.at[i])
        if (v->channels.at[i].from == from)
            return &v->channels.at[i];
    struct sl_ver_channel fresh = {.from = from, .to = to};
    SL_PUSH(&v->channels, fresh);
    SL_PUSH(&v->next_channel, v->first_channel[to]);
    v->first_channel[to] = (int)v->channels.count - 1;
    return &v->channels.at[v->channels.count - 1];
}

/* Does the dependency rule have this message between these two workers? */
static sl_err check_message(struct sl_ver *v, const struct sl_turn *t) {
    const struct sl_plan *plan = v->plan;
    const struct sl_action *a = &t->a;
    if (a->edge >= plan->edge_count || a->flags > SL_GRAD)
        return sl_sched_verify_fail(v, t, "no such edge");
    const struct sl_edge *edge = &plan->edges[a->edge];
    if ((a->flags & SL_GRAD) && !edge->grads)
        return sl_sched_verify_fail(v, t,
                                    "edge %d carries no gradients: a stage of it has no "
                                    "backward pass",
                                    a->edge);
    bool at_to = ((a->flags & SL_GRAD) != 0) == (a->kind == SL_SEND);
    int own = at_to ? edge->to : edge->from, other = at_to ? edge->from : edge->to;
    if (own != a->stage)
        return sl_sched_verify_fail(v, t, "edge %d does not do that at this stage", a->edge);
    if (a->other < 0 || a->other >= sl_sched_total(&v->view, other))
        return sl_sched_verify_fail(v, t, "the other end has no micro-batch %d", a->other);
    struct sl_micro_range range = sl_sched_deps_overlap(&v->view, a->stage, a->micro, other);
    if (a->other < range.low || a->other >= range.high)
        return sl_sched_verify_fail(v, t, "micro-batch %d of stage %s shares no sample with it",
                                    a->other, plan->stages[other].name);
    int worker = plan->seats[sl_sched_deps_seat(&v->view, other, a->other)].worker;
    if (worker != a->peer)
        return sl_sched_verify_fail(v, t, "the other end is on worker %d, not on worker %d", worker,
                                    a->peer);
    if (worker == t->worker)
        return sl_sched_verify_fail(v, t, "both ends are on this worker");
    return SL_OK;
}

struct sl_buffer *sl_sched_verify_input(struct sl_ver *v, int seat, int pool, int32_t micro) {
    struct sl_buffer *buffers = v->seats[seat].buffers[pool - SL_POOL_EDGES];
    int32_t count = v->view.pools[seat][pool].count;
    int32_t likely =
        count ? sl_sched_deps_ordinal(&v->view, v->plan->seats[seat].stage, micro) % count : 0;
    if (count && buffers[likely].micro == micro)
        return &buffers[likely];
    for (int32_t i = 0; i < count; i++)
        if (buffers[i].micro == micro)
            return &buffers[i];
    return NULL;
}

sl_err sl_sched_verify_fill(struct sl_ver *v, const struct sl_turn *t, int seat, int pool,
                            int32_t slot, int32_t micro) {
    if (slot < 0 || slot >= v->view.pools[seat][pool].count)
        return sl_sched_verify_fail(v, t, "message slot %d of %d", slot,
                                    v->view.pools[seat][pool].count);
    struct sl_buffer *buffer = &v->seats[seat].buffers[pool - SL_POOL_EDGES][slot];
    struct sl_buffer *present = sl_sched_verify_input(v, seat, pool, micro);
    if (present && present != buffer)
        return sl_sched_verify_fail(
            v, t, "micro-batch %d already has its pieces in slot %d, not %d", micro,
            (int)(present - v->seats[seat].buffers[pool - SL_POOL_EDGES]), slot);
    if (buffer->micro >= 0 && buffer->micro != micro)
        return sl_sched_verify_fail(
            v, t,
            "message slot %d is overwritten while live: micro-batch %d is in it and "
            "has not been read, micro-batch %d comes",
            slot, buffer->micro, micro);
    buffer->micro = micro;
    buffer->posted++;
    return SL_OK;
}

sl_err sl_sched_verify_recv(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    SL_TRY(check_message(v, t));
    bool grad = a->flags & SL_GRAD;
    if (v->done[a->stage][a->micro] & (grad ? SL_DONE_I : SL_DONE_F))
        return sl_sched_verify_fail(v, t, "received after the pass that reads it");
    int pool = sl_sched_pool_of_edge(v->plan, &v->plan->edges[a->edge], grad, false);
    SL_TRY(sl_sched_verify_fill(v, t, t->seat, pool, a->slot, a->micro));
    struct sl_ver_channel *channel = channel_of(v, a->peer, t->worker);
    if (channel->head > 64 && channel->head * 2 > channel->posted.count) {
        memmove(channel->posted.at, channel->posted.at + channel->head,
                sizeof *channel->posted.at * (size_t)(channel->posted.count - channel->head));
        channel->posted.count -= channel->head;
        channel->head = 0;
    }
    struct sl_posting posting = {a->micro, a->other, a->slot, a->edge, a->flags};
    for (int64_t i = channel->head; i < channel->posted.count; i++) {
        const struct sl_posting *p = &channel->posted.at[i];
        if (p->edge == a->edge && p->flags == a->flags && p->micro == a->micro &&
            p->other == a->other)
            return sl_sched_verify_fail(v, t, "the same message is received twice");
    }
    SL_PUSH(&channel->posted, posting);
    sl_sched_verify_wake(v, a->peer);
    return SL_OK;
}

static sl_err deliver(struct sl_ver *v, struct sl_turn *t, const struct sl_posting *p) {
    const struct sl_action *a = &t->a;
    bool grad = a->flags & SL_GRAD;
    const struct sl_edge *edge = &v->plan->edges[a->edge];
    int other = grad ? edge->from : edge->to;
    int seat = sl_sched_deps_seat(&v->view, other, a->other);
    int pool = sl_sched_pool_of_edge(v->plan, edge, grad, false);
    v->seats[seat].buffers[pool - SL_POOL_EDGES][p->slot].got++;
    sl_sched_verify_wake(v, a->peer);
    return SL_OK;
}

static sl_err fail_order(struct sl_ver *v, struct sl_turn *t, const struct sl_posting *p) {
    struct sl_action recv = {.kind = SL_RECV,
                             .flags = p->flags,
                             .micro = p->micro,
                             .other = p->other,
                             .peer = (uint16_t)t->worker,
                             .edge = p->edge};
    const struct sl_edge *edge = &v->plan->edges[p->edge];
    recv.stage = (uint16_t)(p->flags & SL_GRAD ? edge->from : edge->to);
    char text[SL_ACTION_TEXT];
    return sl_sched_verify_fail(
        v, t,
        "out of order: the oldest receive that worker %d has posted for this "
        "channel is %s",
        t->a.peer, sl_sched_action_text(&v->view, &recv, text));
}

sl_err sl_sched_verify_send(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    SL_TRY(check_message(v, t));
    bool grad = a->flags & SL_GRAD;
    int pool = sl_sched_pool_of_edge(v->plan, &v->plan->edges[a->edge], grad, true);
    if (a->slot < 0 || a->slot >= v->view.pools[t->seat][pool].count)
        return sl_sched_verify_fail(v, t, "message slot %d of %d", a->slot,
                                    v->view.pools[t->seat][pool].count);
    struct sl_buffer *buffer = &v->seats[t->seat].buffers[pool - SL_POOL_EDGES][a->slot];
    if (buffer->micro != a->micro)
        return buffer->micro < 0
                   ? sl_sched_verify_fail(
                         v, t, "message slot %d is empty: not made yet, or sent already", a->slot)
                   : sl_sched_verify_fail(v, t, "message slot %d holds micro-batch %d, not %d",
                                          a->slot, buffer->micro, a->micro);
    struct sl_ver_channel *channel = channel_of(v, t->worker, a->peer);
    if (channel->head == channel->posted.count) {
        sl_sched_verify_wait(v, t, a->peer, "for the matching RECV of");
        return SL_OK;
    }
    const struct sl_posting *p = &channel->posted.at[channel->head];
    if (p->edge != a->edge || p->flags != a->flags || p->micro != a->other || p->other != a->micro)
        return fail_order(v, t, p);
    SL_TRY(deliver(v, t, p));
    channel->head++;
    if (--buffer->got == 0)
        *buffer = (struct sl_buffer){.micro = -1};
    return SL_OK;
}
