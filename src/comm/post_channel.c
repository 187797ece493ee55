/* Channels over tagged messages. Within a rank they are rings, and between ranks of a host rings in
 * memory that both see, where the transport can. Otherwise each end has a ring of its own:
 *
 *   sender    place:  free --reserve, fill, send--> sending --post--> free
 *   receiver  place:  receive posted --post--> full --receive, read, release--> receive posted
 *
 * Receives are posted from the start, into the places themselves. Every place has a tag, so that
 * messages may be sent in any order of places; those of one tag stay in order. Sends are
 * synchronous: a send that is over has found a free place, so that a sender is two rings ahead of
 * its receiver at most, whatever the transport buffers.
 */
#include "comm/post.h"

#include "base/arena.h"
#include "base/clock.h"
#include "comm/far.h"

#include <stdlib.h>

struct place {
    struct sl_transfer op; /* busy: sending, or waiting for a message */
    int64_t size_bytes, arrived_ns;
};

struct channel {
    struct sl_channel base;
    struct sl_ring ring; /* memory of the end that is here; both ends when both are */
    struct place *places;
    struct sl_channel *next_left; /* of those that outlive their closing */
    int tag;
    bool local;  /* one ring: both ends are here, or on this host */
    bool shared; /* its memory is shared by ranks */
};

static void arrived(struct sl_transfer *op, int64_t size_bytes) {
    struct place *place = (struct place *)op;
    place->size_bytes = size_bytes;
    place->arrived_ns = sl_clock_ns();
}

static char *memory_of(struct channel *channel, int64_t place) {
    return channel->ring.memory + place * channel->ring.size_bytes;
}

static sl_err await(struct channel *channel, int64_t place) {
    struct sl_post *post = (struct sl_post *)channel->base.comm;
    const struct sl_channel_spec *spec = &channel->base.spec;
    return sl_post_receive(post, &channel->places[place].op, memory_of(channel, place),
                           spec->size_bytes, spec->from, channel->tag + (int)place);
}

/* The places, then their memory; the receiver's. All ranks of the host take part. */
static sl_err open_shared(struct channel *channel) {
    struct sl_post *post = (struct sl_post *)channel->base.comm;
    const struct sl_channel_spec *spec = &channel->base.spec;
    int64_t heads = (spec->places * (int64_t)sizeof(struct sl_place) + 63) & ~63LL;
    int64_t place = (spec->size_bytes + 63) & ~63LL;
    char *memory;
    sl_post_lock(post);
    sl_err err = post->row->share(post, spec->to, heads + place * spec->places + 64, &memory);
    sl_post_unlock(post);
    SL_TRY(err);
    channel->ring = (struct sl_ring){
        .gate = &post->base.gate,
        .count = spec->places,
        .size_bytes = place,
        .memory = memory + heads,
        .places = (struct sl_place *)(void *)memory,
    };
    if (spec->from == post->base.rank || spec->to == post->base.rank)
        post->base.bytes += sl_ring_bytes(&channel->ring);
    return SL_OK;
}

/* Both ends on one host, in different ranks, and this rank there, too. */
static bool is_shared(const struct sl_post *post, const struct sl_channel_spec *spec) {
    const int *host = post->host_of;
    return host && spec->from != spec->to && host[spec->from] == host[spec->to] &&
           host[post->base.rank] == host[spec->to];
}

static sl_err find_memory(const struct sl_post *post, struct sl_device *end,
                          struct sl_device **out) {
    *out = post->far ? end : NULL;
    if (!*out || end->row->apart)
        return SL_OK;
    return sl_fail(SL_ERR_NO,
                   "transport '%s' moves memory of GPUs, and device '%s' computes in the host's; "
                   "use --device cuda, or --transport tcp or mpi",
                   post->base.row->name, end->row->name);
}

static sl_err open_end(struct channel *channel) {
    struct sl_comm *comm = channel->base.comm;
    const struct sl_channel_spec *spec = &channel->base.spec;
    struct sl_channel_spec host = *spec;
    bool receives = spec->to == comm->rank;
    if (!channel->local) /* messages are the host's memory, unless there are links */
        SL_TRY(find_memory((struct sl_post *)comm, receives ? spec->device : spec->sender,
                           &host.device));
    SL_TRY(sl_ring_open(&channel->ring, &comm->gate, &host));
    comm->bytes += sl_ring_bytes(&channel->ring);
    if (channel->local)
        return SL_OK;
    channel->places = calloc((size_t)spec->places, sizeof *channel->places);
    if (!channel->places)
        sl_out_of_memory((size_t)spec->places * sizeof *channel->places);
    sl_err err = SL_OK;
    sl_post_lock((struct sl_post *)comm);
    for (int i = 0; receives && i < spec->places; i++) {
        channel->places[i].op.done = arrived;
        SL_TRY_OUT(await(channel, i));
    }
out:
    sl_post_unlock((struct sl_post *)comm);
    return err;
}

sl_err sl_post_channel_open(struct sl_comm *comm, const struct sl_channel_spec *spec,
                            struct sl_channel **out) {
    int tag;
    SL_TRY(sl_post_take_tags((struct sl_post *)comm, spec->places, &tag));
    SL_TRY(sl_far_connect((struct sl_post *)comm, spec->from, spec->to));
    struct channel *channel = sl_realloc(NULL, sizeof *channel);
    *channel = (struct channel){.base = {comm, *spec},
                                .tag = tag,
                                .shared = is_shared((struct sl_post *)comm, spec),
                                .local = spec->from == comm->rank && spec->to == comm->rank};
    sl_err err = SL_OK;
    if (channel->shared) {
        channel->local = true;
        err = open_shared(channel);
    } else if (spec->from == comm->rank || spec->to == comm->rank) {
        err = open_end(channel);
    }
    if (err != SL_OK)
        sl_post_channel_close(&channel->base);
    else
        *out = &channel->base;
    return err;
}

/* What has been sent is taken: receivers close after they have got everything. */
static sl_err wait_sent(struct channel *channel) {
    for (int i = 0; i < channel->base.spec.places; i++)
        SL_TRY(sl_post_wait((struct sl_post *)channel->base.comm, &channel->places[i].op, 1));
    return SL_OK;
}

static void free_channel(struct channel *channel) {
    if (!channel->shared) { /* else the transport keeps it */
        channel->base.comm->bytes -= sl_ring_bytes(&channel->ring);
        sl_ring_close(&channel->ring);
    }
    free(channel->places);
    free(channel);
}

void sl_post_close(struct sl_post *post) {
    while (post->left) {
        struct channel *channel = (struct channel *)post->left;
        post->left = channel->next_left;
        free_channel(channel);
    }
    free(post->everyone.at);
}

void sl_post_channel_close(struct sl_channel *base) {
    struct channel *channel = (struct channel *)base;
    struct sl_post *post = (struct sl_post *)base->comm;
    bool sends = base->spec.from == base->comm->rank, idle = true;
    if (channel->places && sends && wait_sent(channel) != SL_OK)
        idle = false;
    sl_post_lock(post);
    for (int i = 0; channel->places && i < base->spec.places; i++)
        idle &= sl_post_drop(post, &channel->places[i].op);
    if (!idle) {
        channel->next_left = post->left;
        post->left = base;
    }
    sl_post_unlock(post);
    if (idle)
        free_channel(channel);
}

sl_err sl_post_channel_reserve(struct sl_channel *base, int64_t n, char **out) {
    struct channel *channel = (struct channel *)base;
    int64_t i = n % base->spec.places;
    if (channel->local)
        return sl_ring_reserve(&channel->ring, n, out);
    SL_TRY(sl_post_wait((struct sl_post *)base->comm, &channel->places[i].op, 1));
    *out = memory_of(channel, i);
    return SL_OK;
}

sl_err sl_post_channel_send(struct sl_channel *base, int64_t n, int64_t size_bytes) {
    struct channel *channel = (struct channel *)base;
    struct sl_post *post = (struct sl_post *)base->comm;
    int64_t i = n % base->spec.places;
    if (channel->local) {
        sl_ring_send(&channel->ring, n, size_bytes);
        return SL_OK;
    }
    sl_post_lock(post);
    sl_err err = sl_post_send_sync(post, &channel->places[i].op, memory_of(channel, i), size_bytes,
                                   base->spec.to, channel->tag + (int)i);
    sl_post_unlock(post);
    return err;
}

sl_err sl_post_channel_receive(struct sl_channel *base, int64_t n, struct sl_message *out) {
    struct channel *channel = (struct channel *)base;
    int64_t i = n % base->spec.places;
    struct place *place = channel->local ? NULL : &channel->places[i];
    if (channel->local)
        return sl_ring_receive(&channel->ring, n, out);
    SL_TRY(sl_post_wait((struct sl_post *)base->comm, &place->op, 1));
    *out = (struct sl_message){memory_of(channel, i), place->size_bytes, place->arrived_ns};
    return SL_OK;
}

sl_err sl_post_channel_release(struct sl_channel *base, int64_t n) {
    struct channel *channel = (struct channel *)base;
    struct sl_post *post = (struct sl_post *)base->comm;
    if (channel->local) {
        sl_ring_release(&channel->ring, n);
        return SL_OK;
    }
    sl_post_lock(post);
    sl_err err = await(channel, n % base->spec.places);
    sl_post_unlock(post);
    return err;
}
