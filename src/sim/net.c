/* Channels between two workers, the wires under them, and when transfers happen.
 *
 *     sender   SEND 0 . . . . . SEND 1              the k-th SEND matches the k-th RECV of a
 *     receiver      RECV 0  RECV 1                  channel; ready at the later of the two
 *     wire          [0====]        [1====]          busy for bytes / bandwidth
 *                         arrives after the latency
 */
#include "sim/engine.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
}

int sl_sim_channel_find(const struct sl_engine *e, int from, int to) {
    uint64_t at = mix(((uint64_t)from << 20) ^ (uint64_t)to);
    for (;; at++) {
        int32_t channel = e->channel_table[at & (uint64_t)(e->channel_room - 1)];
        if (channel < 0 ||
            (e->channels.at[channel].from == from && e->channels.at[channel].to == to))
            return channel;
    }
}

static void index_channel(struct sl_engine *e, int32_t channel) {
    const struct sl_channel_sim *c = &e->channels.at[channel];
    uint64_t at = mix(((uint64_t)c->from << 20) ^ (uint64_t)c->to);
    while (e->channel_table[at & (uint64_t)(e->channel_room - 1)] >= 0)
        at++;
    e->channel_table[at & (uint64_t)(e->channel_room - 1)] = channel;
}

void sl_sim_channel_add(struct sl_engine *e, int from, int to) {
    if (e->channel_room && sl_sim_channel_find(e, from, to) >= 0)
        return;
    struct sl_channel_sim channel = {.from = from, .to = to};
    SL_PUSH(&e->channels, channel);
    if (e->channels.count * 4 <= e->channel_room) {
        index_channel(e, (int32_t)e->channels.count - 1);
        return;
    }
    e->channel_room = e->channel_room ? 2 * e->channel_room : 64;
    e->channel_table =
        sl_realloc(e->channel_table, sizeof *e->channel_table * (size_t)e->channel_room);
    memset(e->channel_table, 0xff, sizeof *e->channel_table * (size_t)e->channel_room);
    for (int64_t i = 0; i < e->channels.count; i++)
        index_channel(e, (int32_t)i);
}

/* --- wires --- */

void sl_sim_channel_wires(struct sl_engine *e) {
    if (!e->opts->net.route)
        return;
    struct sl_map names = {0};
    int64_t max = e->channels.count * SL_SIM_WIRES;
    uint64_t *keys = SL_NEW(&e->scratch, uint64_t, max);
    e->wire_free = SL_NEW(&e->scratch, int64_t, max);
    for (int64_t i = 0; i < e->channels.count; i++) {
        struct sl_channel_sim *c = &e->channels.at[i];
        struct sl_sim_route route = {0};
        e->opts->net.route(e->opts->net.ctx, c->from, c->to, &route);
        c->latency_ns = route.latency_ns;
        for (int j = 0; j < route.wire_count; j++) {
            keys[e->wire_count] = route.wires[j].name;
            struct sl_str key = {(const char *)&keys[e->wire_count], sizeof *keys};
            int64_t *known = sl_map_find(&names, key), speed = route.wires[j].bytes_per_s;
            if (!speed)
                continue;
            if (!c->bytes_per_s || speed < c->bytes_per_s)
                c->bytes_per_s = speed;
            c->wires[c->wire_count++] = known ? (int)*known : e->wire_count;
            e->shared |= known != NULL;
            if (!known)
                sl_map_put(&names, key, e->wire_count++);
        }
    }
    sl_map_free(&names);
}

static void uniform(const void *ctx, int from, int to, struct sl_sim_route *out) {
    const struct sl_sim_links *links = ctx;
    uint64_t a = (uint64_t)from, b = (uint64_t)to, low = a < b ? a : b, high = a < b ? b : a;
    int64_t speed = links->bytes_per_s;
    out->latency_ns = links->latency_ns;
    out->wire_count = 1;
    switch (links->sharing) {
    case SL_SHARE_ALL: out->wires[0] = (struct sl_sim_wire){0, speed}; return;
    case SL_SHARE_WORKER:
        out->wire_count = 2;
        out->wires[0] = (struct sl_sim_wire){2 * a, speed};
        out->wires[1] = (struct sl_sim_wire){2 * b + !links->half_duplex, speed};
        return;
    default:
        out->wires[0] = links->half_duplex ? (struct sl_sim_wire){low << 32 | high, speed}
                                           : (struct sl_sim_wire){a << 32 | b, speed};
    }
}

struct sl_sim_net sl_sim_uniform(const struct sl_sim_links *links) {
    return (struct sl_sim_net){uniform, links, links->early};
}

/* --- messages --- */

__extension__ typedef unsigned __int128 wide;

static int64_t wire_time(int64_t bytes, int64_t bytes_per_s) {
    if (!bytes_per_s || !bytes)
        return 0;
    wide ns = ((wide)bytes * 1000000000u + (wide)bytes_per_s - 1) / (wide)bytes_per_s;
    return ns > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)ns;
}

/* Returns the bytes of a piece: samples that both micro-batches have, times bytes of a sample. */
int64_t sl_sim_message_bytes(const struct sl_engine *e, const struct sl_action *a) {
    const struct sl_edge *edge = &e->plan->edges[a->edge];
    const struct sl_stage *stage = &e->plan->stages[a->stage];
    if (!edge->sample_bytes)
        return 0;
    int64_t samples =
        e->uneven ? sl_sched_samples(&e->view, a->stage, a->micro) : stage->micro_size;
    int other = edge->from == a->stage ? edge->to : edge->from;
    int64_t size = e->plan->stages[other].micro_size;
    if (size != stage->micro_size) {
        int64_t low = a->micro % e->view.micros[a->stage] * stage->micro_size;
        int64_t low2 = a->other % e->view.micros[other] * size;
        int64_t high = low + samples, high2 = low2 + sl_sched_samples(&e->view, other, a->other);
        samples = (high < high2 ? high : high2) - (low > low2 ? low : low2);
    }
    return samples > 0 ? samples * edge->sample_bytes : 0;
}

void sl_sim_queue_push(struct sl_queue *queue, struct sl_sim_post post) {
    if (queue->head == queue->vec.count) {
        queue->head = queue->vec.count = 0;
    } else if (queue->head > 64 && queue->head * 2 > queue->vec.count) {
        memmove(queue->vec.at, queue->vec.at + queue->head,
                sizeof *queue->vec.at * (size_t)(queue->vec.count - queue->head));
        queue->vec.count -= queue->head;
        queue->head = 0;
    }
    SL_PUSH(&queue->vec, post);
}

static void set_span(struct sl_engine *e, int worker, int64_t span, int64_t start, int64_t end) {
    struct sl_span *s = &e->lanes[worker].at[span];
    s->start_ns = start;
    s->end_ns = end;
}

/* Matches a landed message with its RECV: the reader may start from the arrival on. */
static void take_landed(struct sl_engine *e, struct sl_channel_sim *c) {
    if (c->landed.head == c->landed.vec.count || c->recvs.head == c->recvs.vec.count)
        return;
    struct sl_sim_post landed = c->landed.vec.at[c->landed.head++];
    struct sl_sim_post recv = c->recvs.vec.at[c->recvs.head++];
    struct sl_in *in = &e->ins[recv.buffer];
    in->got++;
    in->arrival_ns = landed.at_ns > in->arrival_ns ? landed.at_ns : in->arrival_ns;
    if (e->lanes)
        set_span(e, c->to, recv.span, landed.start_ns, landed.at_ns);
    sl_sim_engine_wake(e, c->to);
}

void sl_sim_channel_time(struct sl_engine *e, int channel) {
    struct sl_channel_sim *c = &e->channels.at[channel];
    struct sl_sim_post send = c->sends.vec.at[c->sends.head++];
    int64_t start = send.at_ns > c->last_ns ? send.at_ns : c->last_ns;
    if (!e->opts->net.early) { /* until its RECV is posted, there is no buffer */
        int64_t posted = c->recvs.vec.at[c->recvs.head].at_ns;
        start = posted > start ? posted : start;
    }
    for (int i = 0; i < c->wire_count; i++)
        start = e->wire_free[c->wires[i]] > start ? e->wire_free[c->wires[i]] : start;
    int64_t left = start + wire_time(send.bytes, c->bytes_per_s), arrival = left + c->latency_ns;
    for (int i = 0; i < c->wire_count; i++)
        e->wire_free[c->wires[i]] = left;
    c->last_ns = start;
    e->end_ns = arrival > e->end_ns ? arrival : e->end_ns;
    e->transfers++;
    e->moved_bytes += send.bytes;
    struct sl_out_buffer *out = &e->outs[send.buffer];
    out->pending--;
    out->free_ns = left > out->free_ns ? left : out->free_ns;
    if (e->lanes)
        set_span(e, c->from, send.span, start, left);
    struct sl_worker_sim *from = &e->workers[c->from];
    if (from->in_send && e->opts->send == SL_SEND_BLOCKING)
        from->resume_ns = left;
    sl_sim_engine_wake(e, c->from);
    sl_sim_queue_push(&c->landed, (struct sl_sim_post){.at_ns = arrival, .start_ns = start});
    take_landed(e, c);
}

/* With SL_SEND_RENDEZVOUS a matched SEND has blocked its worker, which continues now, before any
 * wire is granted at the same time. */
static void meet(struct sl_engine *e, const struct sl_channel_sim *c, int64_t ready) {
    struct sl_worker_sim *from = &e->workers[c->from];
    if (e->opts->send != SL_SEND_RENDEZVOUS || !from->in_send)
        return;
    from->resume_ns = ready;
    sl_sim_engine_wake(e, c->from);
}

void sl_sim_channel_match(struct sl_engine *e, int channel) {
    struct sl_channel_sim *c = &e->channels.at[channel];
    int64_t send = c->sends.head + c->in_queue, recv = c->recvs.head + c->in_queue;
    bool posted = recv < c->recvs.vec.count;
    if (e->opts->net.early)
        take_landed(e, c);
    if (send >= c->sends.vec.count || (!posted && !e->opts->net.early))
        return;
    int64_t ready = c->sends.vec.at[send].at_ns;
    if (!e->opts->net.early && c->recvs.vec.at[recv].at_ns > ready)
        ready = c->recvs.vec.at[recv].at_ns;
    meet(e, c, ready);
    if (!e->shared) {
        sl_sim_channel_time(e, channel);
        return;
    }
    c->in_queue++;
    sl_sim_engine_event(e, (struct sl_event){ready, channel, c->from, c->sends.vec.at[send].span});
}
