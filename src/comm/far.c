/* Device memory over a transport of tagged messages.
 *
 * A link does what is put on it in order, and both ends must put the same on it. So a message is
 * announced first, and the receiver, when it has a place for it, says that it comes next:
 *
 *     sender                                     receiver
 *     send(tag): note ----- offer (tag, size) ->
 *                                                receive(tag) was or will be called
 *                <---- accept (tag) ------------ and puts the receive on the link
 *     puts the send on the link =============>   bytes
 *
 * Offers and accepts are messages of the host between two ranks, which stay in order: sends are put
 * on the link in the order of the accepts, as the receives were. A message whose place is not free
 * holds up no other one. Each direction has a link of its own.
 *
 * Whoever waits moves all this (sl_gate.poll). When a worker fails, links are aborted, so that
 * nothing spins on a device for a rank that is gone; which rank it is, the transport below says.
 */
#include "comm/far.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

struct note { /* offer and accept */
    int64_t tag, size_bytes;
};

struct message {
    struct message *next;
    struct sl_transfer *op;
    void *bytes;
    int64_t size_bytes;
    int tag;
    struct sl_transfer control; /* its offer, or its accept */
    struct note note;
};

struct queue {
    struct message *first, **end;
};

struct way { /* one direction */
    struct sl_far_link *link;
    struct queue moving; /* on the link */
    int64_t over;        /* of them, since the link was opened */
};

struct ear { /* for notes of one kind from one rank */
    struct sl_transfer op;
    struct note note;
};

struct peer {
    struct way out, in;
    struct queue sends;    /* offered, not accepted */
    struct queue receives; /* not offered */
    struct queue offers;   /* that nobody has received yet */
    struct ear offer, accept;
};

struct sl_far {
    const struct sl_far_row *row;
    struct sl_post *post;
    struct sl_transport transport; /* the one below, with another name and end */
    void (*close_below)(struct sl_comm *comm);
    bool (*poll_below)(void *ctx);
    void *poll_ctx;
    struct peer *peers; /* [ranks] */
    struct queue done;  /* whose note may still be under way */
    int tag;            /* offers; + 1: accepts; + 2: ids */
    int ranks;
    bool loop, aborted;
};

/* ---- queues ---- */

static void put(struct queue *q, struct message *m) {
    m->next = NULL;
    if (!q->first)
        q->end = &q->first;
    *q->end = m;
    q->end = &m->next;
}

static void take(struct queue *q, struct message **at) {
    struct message *m = *at;
    *at = m->next;
    if (!m->next)
        q->end = at;
}

static struct message **find_tag(struct queue *q, int64_t tag) {
    for (struct message **at = &q->first; *at; at = &(*at)->next)
        if ((*at)->tag == tag)
            return at;
    return NULL;
}

/* A message that is over serves again, so that nothing is allocated once a run goes round. */
static struct message *new_message(struct sl_far *far) {
    struct message *m = NULL;
    for (struct message **at = &far->done.first; *at; at = &(*at)->next)
        if (!atomic_load_explicit(&(*at)->control.busy, memory_order_acquire)) {
            m = *at;
            take(&far->done, at);
            break;
        }
    m = m ? m : sl_realloc(NULL, sizeof *m);
    *m = (struct message){0};
    return m;
}

/* ---- moving, under the lock ---- */

static sl_err say(struct sl_far *far, struct message *m, int to, int tag) {
    m->note = (struct note){m->tag, m->size_bytes};
    return far->post->row->send(far->post, &m->control, &m->note, sizeof m->note, to, tag);
}

static sl_err listen(struct sl_far *far, int rank, struct ear *ear, int tag) {
    return far->post->row->receive(far->post, &ear->op, &ear->note, sizeof ear->note, rank, tag);
}

static void finish(struct sl_far *far, struct message *m) {
    if (m->op->done)
        m->op->done(m->op, m->size_bytes);
    atomic_store_explicit(&m->op->busy, false, memory_order_release);
    put(&far->done, m);
}

/* An offer meets a receive. */
static sl_err accept(struct sl_far *far, int rank, struct message *m, int64_t size_bytes) {
    struct way *way = &far->peers[rank].in;
    if (size_bytes > m->size_bytes)
        return sl_fail(SL_ERR_PEER, "rank %d sends %lld bytes where %lld are expected", rank,
                       (long long)size_bytes, (long long)m->size_bytes);
    m->size_bytes = size_bytes;
    SL_TRY(say(far, m, rank, far->tag + 1));
    if (!size_bytes) {
        finish(far, m);
        return SL_OK;
    }
    put(&way->moving, m);
    return far->row->receive(way->link, m->bytes, size_bytes);
}

static sl_err hear_offer(struct sl_far *far, int rank) {
    struct peer *peer = &far->peers[rank];
    struct note note = peer->offer.note;
    SL_TRY(listen(far, rank, &peer->offer, far->tag));
    struct message **at = find_tag(&peer->receives, note.tag), *m;
    if (at && !find_tag(&peer->offers, note.tag)) {
        m = *at;
        take(&peer->receives, at);
        return accept(far, rank, m, note.size_bytes);
    }
    m = new_message(far);
    m->tag = (int)note.tag;
    m->size_bytes = note.size_bytes;
    put(&peer->offers, m);
    return SL_OK;
}

static sl_err hear_accept(struct sl_far *far, int rank) {
    struct peer *peer = &far->peers[rank];
    struct note note = peer->accept.note;
    SL_TRY(listen(far, rank, &peer->accept, far->tag + 1));
    struct message **at = find_tag(&peer->sends, note.tag);
    if (!at)
        return sl_fail(SL_ERR_PEER, "rank %d waits for a message that was not sent", rank);
    struct message *m = *at;
    take(&peer->sends, at);
    if (!m->size_bytes) {
        finish(far, m);
        return SL_OK;
    }
    put(&peer->out.moving, m);
    return far->row->send(peer->out.link, m->bytes, m->size_bytes);
}

static sl_err look(struct sl_far *far, int rank, struct way *way, bool *moved) {
    int64_t over = way->over;
    if (!way->moving.first)
        return SL_OK;
    sl_err err = far->row->look(way->link, &over);
    if (err != SL_OK)
        return sl_err_context(err, "between ranks %d and %d", far->post->base.rank, rank);
    for (; way->over < over; way->over++) {
        struct message *m = way->moving.first;
        take(&way->moving, &way->moving.first);
        finish(far, m);
        atomic_fetch_add_explicit(&far->post->base.moved, 1, memory_order_relaxed);
        *moved = true;
    }
    return SL_OK;
}

static bool heard(struct ear *ear) {
    return !atomic_load_explicit(&ear->op.busy, memory_order_acquire);
}

static sl_err move(struct sl_far *far, bool *moved) {
    for (int r = 0; r < far->post->base.ranks; r++) {
        struct peer *peer = &far->peers[r];
        while (r != far->post->base.rank && heard(&peer->offer)) {
            SL_TRY(hear_offer(far, r));
            *moved = true;
        }
        while (r != far->post->base.rank && heard(&peer->accept)) {
            SL_TRY(hear_accept(far, r));
            *moved = true;
        }
        SL_TRY(look(far, r, &peer->out, moved));
        SL_TRY(look(far, r, &peer->in, moved));
    }
    return SL_OK;
}

/* A loop is one link for both ways. */
static void close_links(const struct sl_far *far, struct peer *peer, bool abort) {
    if (peer->in.link != peer->out.link)
        far->row->close(peer->in.link, abort);
    far->row->close(peer->out.link, abort);
    peer->in.link = peer->out.link = NULL;
}

static void abort_links(struct sl_far *far) {
    far->aborted = true;
    for (int r = 0; r < far->ranks; r++)
        close_links(far, &far->peers[r], true);
}

static bool poll(void *ctx) {
    struct sl_far *far = ctx;
    struct sl_comm *comm = &far->post->base;
    bool moved = far->poll_below && far->poll_below(far->poll_ctx);
    bool failed = atomic_load_explicit(&comm->gate.failed, memory_order_relaxed);
    sl_post_lock(far->post);
    sl_err err = SL_OK;
    if (!far->aborted && !failed)
        err = move(far, &moved);
    else if (!far->aborted)
        abort_links(far);
    sl_post_unlock(far->post);
    if (err != SL_OK)
        sl_comm_fail(comm, err);
    return moved;
}

/* ---- of post.c ---- */

bool sl_far_owns(const struct sl_far *far, const void *bytes) { return far->row->is_far(bytes); }

static sl_err refuse_link(int rank) {
    return sl_fail(SL_ERR_PEER, "there is no link to rank %d, or it was aborted", rank);
}

static struct message *fill(struct sl_far *far, struct sl_transfer *op, void *bytes,
                            int64_t size_bytes, int tag) {
    struct message *m = new_message(far);
    m->op = op;
    m->bytes = bytes;
    m->size_bytes = size_bytes;
    m->tag = tag;
    atomic_store_explicit(&op->busy, true, memory_order_relaxed);
    return m;
}

/* Both ends are here. */
static sl_err loop_back(struct sl_far *far, struct peer *self, int tag) {
    struct message **from = find_tag(&self->sends, tag), **to = find_tag(&self->receives, tag);
    if (!from || !to)
        return SL_OK;
    struct message *a = *from, *b = *to;
    take(&self->sends, from);
    take(&self->receives, to);
    SL_ASSERT(a->size_bytes <= b->size_bytes);
    b->size_bytes = a->size_bytes;
    if (!a->size_bytes) {
        finish(far, a);
        finish(far, b);
        return SL_OK;
    }
    put(&self->in.moving, b);
    put(&self->out.moving, a);
    return far->row->loop(self->in.link, b->bytes, a->bytes, a->size_bytes);
}

sl_err sl_far_send(struct sl_far *far, struct sl_transfer *op, const void *bytes,
                   int64_t size_bytes, int to, int tag) {
    struct peer *peer = &far->peers[to];
    if (!peer->out.link)
        return refuse_link(to);
    struct message *m = fill(far, op, (void *)(uintptr_t)bytes, size_bytes, tag);
    put(&peer->sends, m);
    return to == far->post->base.rank ? loop_back(far, peer, tag) : say(far, m, to, far->tag);
}

sl_err sl_far_receive(struct sl_far *far, struct sl_transfer *op, void *bytes, int64_t size_bytes,
                      int from, int tag) {
    struct peer *peer = &far->peers[from];
    if (!peer->in.link)
        return refuse_link(from);
    struct message *m = fill(far, op, bytes, size_bytes, tag);
    struct message **offer = find_tag(&peer->offers, tag);
    if (offer) {
        struct message *offered = *offer;
        int64_t size = offered->size_bytes;
        take(&peer->offers, offer);
        put(&far->done, offered);
        return accept(far, from, m, size);
    }
    put(&peer->receives, m);
    return from == far->post->base.rank ? loop_back(far, peer, tag) : SL_OK;
}

static bool drop_from(struct sl_far *far, struct queue *q, const struct sl_transfer *op) {
    for (struct message **at = &q->first; *at; at = &(*at)->next)
        if ((*at)->op == op) {
            struct message *m = *at;
            take(q, at);
            put(&far->done, m);
            return true;
        }
    return false;
}

bool sl_far_drop(struct sl_far *far, const struct sl_transfer *op, bool *found) {
    *found = true;
    for (int r = 0; r < far->post->base.ranks; r++) {
        struct peer *peer = &far->peers[r];
        if (drop_from(far, &peer->sends, op) || drop_from(far, &peer->receives, op))
            return true;
        if (drop_from(far, &peer->in.moving, op) || drop_from(far, &peer->out.moving, op))
            return far->aborted;
    }
    *found = false;
    return true;
}

/* ---- start and end ---- */

static sl_err exchange(struct sl_far *far, int from, int to, char id[SL_FAR_ID]) {
    struct sl_post *post = far->post;
    struct sl_transfer op = {0};
    bool sends = post->base.rank == from;
    sl_post_lock(post);
    sl_err err = sends ? post->row->send(post, &op, id, SL_FAR_ID, to, far->tag + 2)
                       : post->row->receive(post, &op, id, SL_FAR_ID, from, far->tag + 2);
    sl_post_unlock(post);
    if (err == SL_OK)
        err = sl_post_wait(post, &op, 1);
    if (err != SL_OK) {
        sl_post_lock(post);
        (void)post->row->drop(post, &op);
        sl_post_unlock(post);
    }
    return err;
}

static sl_err connect_way(struct sl_far *far, int from, int to) {
    int me = far->post->base.rank;
    char id[SL_FAR_ID] = {0};
    struct sl_far_link *link = NULL;
    struct way *way = me == from ? &far->peers[to].out : &far->peers[from].in;
    if (way->link || (me != from && me != to) || (from == to && !far->loop))
        return SL_OK;
    if (me == from)
        SL_TRY(far->row->make_id(id));
    if (from != to)
        SL_TRY(exchange(far, from, to, id));
    SL_TRY(far->row->open(id,
                          from == to   ? SL_FAR_LOOP
                          : me == from ? SL_FAR_SENDS
                                       : SL_FAR_RECEIVES,
                          &link));
    sl_post_lock(far->post);
    way->link = link;
    if (from == to)
        far->peers[me].in.link = link;
    sl_post_unlock(far->post);
    return SL_OK;
}

sl_err sl_far_connect(struct sl_post *post, int from, int to) {
    if (!post->far)
        return SL_OK;
    SL_TRY(connect_way(post->far, from, to));
    return connect_way(post->far, to, from);
}

static void free_queue(struct queue *q) {
    while (q->first) {
        struct message *m = q->first;
        q->first = m->next;
        free(m);
    }
}

static void close_comm(struct sl_comm *comm) {
    struct sl_post *post = (struct sl_post *)comm;
    struct sl_far *far = post->far;
    bool failed = far->aborted || atomic_load(&comm->gate.failed);
    sl_post_lock(post);
    for (int r = 0; r < comm->ranks; r++) {
        struct peer *peer = &far->peers[r];
        if (r != comm->rank) {
            (void)post->row->drop(post, &peer->offer.op);
            (void)post->row->drop(post, &peer->accept.op);
        }
        close_links(far, peer, failed);
    }
    sl_post_unlock(post);
    comm->gate.poll = far->poll_below;
    comm->gate.poll_ctx = far->poll_ctx;
    post->far = NULL;
    far->close_below(comm); /* after this no note is under way */
    for (int r = 0; r < far->ranks; r++) {
        struct peer *peer = &far->peers[r];
        struct queue *all[] = {&peer->sends, &peer->receives, &peer->offers, &peer->in.moving,
                               &peer->out.moving};
        for (int q = 0; q < SL_COUNT(all); q++)
            free_queue(all[q]);
    }
    free_queue(&far->done);
    free(far->peers);
    free(far);
}

sl_err sl_far_attach(struct sl_comm *comm, const struct sl_far_row *row, const char *name,
                     bool loop) {
    struct sl_post *post = (struct sl_post *)comm;
    struct sl_far *far = sl_realloc(NULL, sizeof *far);
    sl_err err = SL_OK;
    *far = (struct sl_far){.row = row,
                           .post = post,
                           .transport = *comm->row,
                           .close_below = comm->row->close,
                           .poll_below = comm->gate.poll,
                           .poll_ctx = comm->gate.poll_ctx,
                           .ranks = comm->ranks,
                           .loop = loop};
    far->transport.name = name;
    far->transport.close = close_comm;
    far->peers = calloc((size_t)comm->ranks, sizeof *far->peers);
    if (!far->peers)
        sl_out_of_memory(sizeof *far->peers);
    SL_TRY_OUT(sl_post_take_tags(post, 3, &far->tag));
    sl_post_lock(post);
    for (int r = 0; r < comm->ranks && err == SL_OK; r++) {
        if (r != comm->rank)
            err = listen(far, r, &far->peers[r].offer, far->tag);
        if (r != comm->rank && err == SL_OK)
            err = listen(far, r, &far->peers[r].accept, far->tag + 1);
    }
    sl_post_unlock(post);
    comm->row = &far->transport;
    comm->gate.poll = poll;
    comm->gate.poll_ctx = far;
    post->far = far;
    return err;
out:
    free(far->peers);
    free(far);
    return err;
}
