/* Channels over tagged messages. Within a rank a channel is a ring. Between ranks of one host it
 * is a ring in shared memory, if the transport can share memory. Otherwise each end has its own
 * ring:
 *
 *   sender    place:  free --reserve, fill, send--> sending --post--> free
 *   receiver  place:  receive posted --post--> full --receive, read, release--> receive posted
 *
 * Receives are posted at open, directly into the places. Every place has a tag, so messages may
 * be sent in any order of places; messages of one tag stay in order. Sends are synchronous: a
 * completed send has found a free place, so that a sender is at most two rings ahead of its
 * receiver, independent of the transport's buffers.
 *
 * If both ends use the receiver's device memory (ipc.c), there is one ring. Its flags are in
 * shared host memory, if there is any; else they are sent as messages: "filled", with the size,
 * and "free". */
#include "comm/post.h"

#include "base/arena.h"
#include "base/clock.h"
#include "comm/ipc.h"
#include "comm/nccl_link.h"

#include <stdlib.h>

struct place {
    struct sl_transfer op; /* busy while it sends or waits for a message */
    int64_t size_bytes, arrived_ns;
    /* With ipc: `op` receives the flag message of the other end, `word` sends ours. */
    struct sl_transfer word;
    int64_t filled; /* bytes in the place, as the sender's flag message says */
};

struct channel {
    struct sl_channel base;
    struct sl_ring ring; /* the ring of the local end, or of both ends */
    struct place *places;
    struct sl_ipc ipc;            /* memory of the ring; without an area the ring has its own */
    struct sl_channel *next_left; /* next in the list sl_post.left */
    int tag;
    bool local;  /* there is one ring: both ends are in this rank, or on this host */
    bool shared; /* ranks share the ring's memory */
};

static void arrived(struct sl_transfer *op, int64_t size_bytes) {
    struct place *place = (struct place *)op;
    place->size_bytes = size_bytes;
    place->arrived_ns = sl_clock_ns();
}

static void heard_filled(struct sl_transfer *op, int64_t size_bytes) {
    struct place *place = (struct place *)op;
    (void)size_bytes;
    arrived(op, place->filled);
}

static char *memory_of(struct channel *channel, int64_t place) {
    return channel->ring.memory + place * channel->ring.size_bytes;
}

static int64_t place_bytes(const struct sl_channel_spec *spec) {
    return (spec->size_bytes + 63) & ~63LL;
}

static sl_err await(struct channel *channel, int64_t i) {
    struct sl_post *post = (struct sl_post *)channel->base.comm;
    const struct sl_channel_spec *spec = &channel->base.spec;
    struct place *place = &channel->places[i];
    int tag = channel->tag + (int)i;
    if (channel->ipc.area.at)
        return sl_comm_post_receive(post, &place->op, &place->filled, sizeof place->filled,
                                    spec->from, tag);
    return sl_comm_post_receive(post, &place->op, memory_of(channel, i), spec->size_bytes,
                                spec->from, tag);
}

/* Opens shared memory for the places and their data; the receiver owns it. All ranks of the host
 * take part. */
static sl_err open_shared(struct channel *channel) {
    struct sl_post *post = (struct sl_post *)channel->base.comm;
    const struct sl_channel_spec *spec = &channel->base.spec;
    int64_t heads = (spec->places * (int64_t)sizeof(struct sl_place) + 63) & ~63LL;
    char *memory, *ipc = channel->ipc.area.at;
    int64_t place = place_bytes(spec), size = ipc ? 0 : place * spec->places;
    sl_comm_post_lock(post);
    sl_err err = post->row->share(post, spec->to, heads + size + 64, &memory);
    sl_comm_post_unlock(post);
    SL_TRY(err);
    channel->ring = (struct sl_ring){
        .gate = &post->base.gate,
        .count = spec->places,
        .size_bytes = place,
        .memory = ipc ? ipc : memory + heads,
        .places = (struct sl_place *)(void *)memory,
    };
    if (spec->from == post->base.rank || spec->to == post->base.rank)
        post->base.bytes += sl_comm_ring_bytes(&channel->ring);
    return SL_OK;
}

/* Are the two ends in different ranks of the host of this rank? */
static bool is_shared(const struct sl_post *post, const struct sl_channel_spec *spec) {
    const int *host = post->host_of;
    return host && spec->from != spec->to && host[spec->from] == host[spec->to] &&
           host[post->base.rank] == host[spec->to];
}

static sl_err find_memory(const struct sl_post *post, struct sl_device *end,
                          struct sl_device **out) {
    *out = post->nccl_link ? end : NULL;
    if (!*out || end->row->apart)
        return SL_OK;
    return sl_fail(SL_ERR_REFUSED,
                   "transport '%s' moves GPU memory, but device '%s' computes in host memory; "
                   "use --device cuda, or --transport tcp or mpi",
                   post->base.row->name, end->row->name);
}

static sl_err open_ring(struct channel *channel) {
    struct sl_comm *comm = channel->base.comm;
    const struct sl_channel_spec *spec = &channel->base.spec;
    struct sl_channel_spec host = *spec;
    if (channel->ipc.area.at) {
        channel->ring = (struct sl_ring){.gate = &comm->gate,
                                         .count = spec->places,
                                         .size_bytes = place_bytes(spec),
                                         .memory = channel->ipc.area.at};
    } else {
        if (!channel->local) /* device memory can be used only with links */
            SL_TRY(find_memory((struct sl_post *)comm,
                               spec->to == comm->rank ? spec->device : spec->sender, &host.device));
        SL_TRY(sl_comm_ring_open(&channel->ring, &comm->gate, &host));
    }
    comm->bytes += sl_comm_ring_bytes(&channel->ring);
    return SL_OK;
}

static sl_err open_end(struct channel *channel) {
    struct sl_comm *comm = channel->base.comm;
    const struct sl_channel_spec *spec = &channel->base.spec;
    bool receives = spec->to == comm->rank;
    SL_TRY(open_ring(channel));
    if (channel->local)
        return SL_OK;
    channel->places = calloc((size_t)spec->places, sizeof *channel->places);
    if (!channel->places)
        sl_out_of_memory((size_t)spec->places * sizeof *channel->places);
    sl_err err = SL_OK;
    sl_comm_post_lock((struct sl_post *)comm);
    for (int i = 0; receives && i < spec->places; i++) {
        channel->places[i].op.done = channel->ipc.area.at ? heard_filled : arrived;
        SL_TRY_OUT(await(channel, i));
    }
out:
    sl_comm_post_unlock((struct sl_post *)comm);
    return err;
}

static sl_err open_ipc(struct channel *channel) {
    const struct sl_channel_spec *spec = &channel->base.spec;
    struct sl_post *post = (struct sl_post *)channel->base.comm;
    struct sl_ipc_pair pair = {
        .from = spec->from,
        .to = spec->to,
        .tag = channel->tag,
        .device = post->base.rank == spec->to ? spec->device : spec->sender,
        .size_bytes = place_bytes(spec) * spec->places,
    };
    return sl_comm_ipc_open(post, &pair, &channel->ipc);
}

sl_err sl_comm_post_channel_open(struct sl_comm *comm, const struct sl_channel_spec *spec,
                                 struct sl_channel **out) {
    int tag;
    SL_TRY(sl_comm_post_take_tags((struct sl_post *)comm, spec->places, &tag));
    SL_TRY(sl_comm_nccl_link_connect((struct sl_post *)comm, spec->from, spec->to));
    struct channel *channel = sl_realloc(NULL, sizeof *channel);
    *channel = (struct channel){.base = {comm, *spec},
                                .tag = tag,
                                .shared = is_shared((struct sl_post *)comm, spec),
                                .local = spec->from == comm->rank && spec->to == comm->rank};
    bool here = spec->from == comm->rank || spec->to == comm->rank;
    sl_err err = SL_OK;
    if (spec->ipc && here && !channel->local && !((struct sl_post *)comm)->nccl_link)
        err = open_ipc(channel);
    if (err == SL_OK && channel->shared) {
        channel->local = true;
        err = open_shared(channel);
    } else if (err == SL_OK && here) {
        err = open_end(channel);
    }
    if (err != SL_OK)
        sl_comm_post_channel_close(&channel->base);
    else
        *out = &channel->base;
    return err;
}

static sl_err wait_idle(struct channel *channel, int64_t i) {
    struct sl_post *post = (struct sl_post *)channel->base.comm;
    SL_TRY(sl_comm_post_wait(post, &channel->places[i].op, 1));
    return sl_comm_post_wait(post, &channel->places[i].word, 1);
}

/* Waits until all sent messages have a place: receivers close after they have received
 * everything. */
static sl_err wait_sent(struct channel *channel) {
    struct sl_post *post = (struct sl_post *)channel->base.comm;
    for (int i = 0; i < channel->base.spec.places; i++) {
        struct place *place = &channel->places[i];
        SL_TRY(sl_comm_post_wait(post, channel->ipc.area.at ? &place->word : &place->op, 1));
    }
    return SL_OK;
}

static void free_channel(struct channel *channel) {
    if (!channel->shared) { /* otherwise the transport owns the places */
        channel->base.comm->bytes -= sl_comm_ring_bytes(&channel->ring);
        if (channel->ipc.area.at)
            channel->ring.memory = NULL; /* the ring does not own this memory */
        sl_comm_ring_close(&channel->ring);
    }
    sl_comm_ipc_close((struct sl_post *)channel->base.comm, &channel->ipc);
    free(channel->places);
    free(channel);
}

void sl_comm_post_close(struct sl_post *post) {
    while (post->left) {
        struct channel *channel = (struct channel *)post->left;
        post->left = channel->next_left;
        free_channel(channel);
    }
    sl_comm_ipc_end(post);
    sl_comm_post_free_kept(post);
    free(post->everyone.at);
}

void sl_comm_post_channel_close(struct sl_channel *base) {
    struct channel *channel = (struct channel *)base;
    struct sl_post *post = (struct sl_post *)base->comm;
    bool sends = base->spec.from == base->comm->rank, idle = true;
    if (channel->places && sends && wait_sent(channel) != SL_OK)
        idle = false;
    sl_comm_post_lock(post);
    for (int i = 0; channel->places && i < base->spec.places; i++) {
        idle &= sl_comm_post_drop(post, &channel->places[i].op);
        idle &= sl_comm_post_drop(post, &channel->places[i].word);
    }
    if (!idle) {
        channel->next_left = post->left;
        post->left = base;
    }
    sl_comm_post_unlock(post);
    if (idle)
        free_channel(channel);
}

sl_err sl_comm_post_channel_reserve(struct sl_channel *base, int64_t n, char **out) {
    struct channel *channel = (struct channel *)base;
    int64_t i = n % base->spec.places;
    if (channel->local)
        return sl_comm_ring_reserve(&channel->ring, n, out);
    SL_TRY(wait_idle(channel, i));
    *out = memory_of(channel, i);
    return SL_OK;
}

/* Tells the receiver that a place is filled; the receiver told us before that it was free. */
static sl_err say_filled(struct channel *channel, int64_t i, int64_t size_bytes) {
    struct sl_post *post = (struct sl_post *)channel->base.comm;
    struct place *place = &channel->places[i];
    int to = channel->base.spec.to, tag = channel->tag + (int)i;
    place->filled = size_bytes;
    SL_TRY(sl_comm_post_receive(post, &place->op, NULL, 0, to, tag));
    return sl_comm_post_send(post, &place->word, &place->filled, sizeof place->filled, to, tag);
}

sl_err sl_comm_post_channel_send(struct sl_channel *base, int64_t n, int64_t size_bytes) {
    struct channel *channel = (struct channel *)base;
    struct sl_post *post = (struct sl_post *)base->comm;
    int64_t i = n % base->spec.places;
    if (channel->local) {
        sl_comm_ring_send(&channel->ring, n, size_bytes);
        return SL_OK;
    }
    sl_comm_post_lock(post);
    sl_err err = channel->ipc.area.at
                     ? say_filled(channel, i, size_bytes)
                     : sl_comm_post_send_sync(post, &channel->places[i].op, memory_of(channel, i),
                                              size_bytes, base->spec.to, channel->tag + (int)i);
    sl_comm_post_unlock(post);
    return err;
}

sl_err sl_comm_post_channel_receive(struct sl_channel *base, int64_t n, struct sl_message *out) {
    struct channel *channel = (struct channel *)base;
    int64_t i = n % base->spec.places;
    struct place *place = channel->local ? NULL : &channel->places[i];
    if (channel->local)
        return sl_comm_ring_receive(&channel->ring, n, out);
    SL_TRY(sl_comm_post_wait((struct sl_post *)base->comm, &place->op, 1));
    *out = (struct sl_message){memory_of(channel, i), place->size_bytes, place->arrived_ns};
    return SL_OK;
}

sl_err sl_comm_post_channel_release(struct sl_channel *base, int64_t n) {
    struct channel *channel = (struct channel *)base;
    struct sl_post *post = (struct sl_post *)base->comm;
    int64_t i = n % base->spec.places;
    if (channel->local) {
        sl_comm_ring_release(&channel->ring, n);
        return SL_OK;
    }
    SL_TRY(sl_comm_post_wait(post, &channel->places[i].word, 1)); /* waits for the previous message
                                                                * of this place */
    sl_comm_post_lock(post);
    sl_err err = await(channel, i);
    if (err == SL_OK && channel->ipc.area.at)
        err = sl_comm_post_send(post, &channel->places[i].word, NULL, 0, base->spec.from,
                                channel->tag + (int)i);
    sl_comm_post_unlock(post);
    return err;
}
