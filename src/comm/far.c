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
#include "comm/far_state.h"

#include "base/arena.h"

/* ---- queues ---- */

static void put(struct far_queue *q, struct far_message *m) {
    m->next = NULL;
    if (!q->first)
        q->end = &q->first;
    *q->end = m;
    q->end = &m->next;
}

static void take(struct far_queue *q, struct far_message **at) {
    struct far_message *m = *at;
    *at = m->next;
    if (!m->next)
        q->end = at;
}

static struct far_message **find_tag(struct far_queue *q, int64_t tag) {
    for (struct far_message **at = &q->first; *at; at = &(*at)->next)
        if ((*at)->tag == tag)
            return at;
    return NULL;
}

/* A message that is over serves again, so that nothing is allocated once a run goes round. */
static struct far_message *new_message(struct sl_far *far) {
    struct far_message *m = NULL;
    for (struct far_message **at = &far->done.first; *at; at = &(*at)->next)
        if (!atomic_load_explicit(&(*at)->control.busy, memory_order_acquire)) {
            m = *at;
            take(&far->done, at);
            break;
        }
    m = m ? m : sl_realloc(NULL, sizeof *m);
    *m = (struct far_message){0};
    return m;
}

/* ---- moving, under the lock ---- */

static sl_err say(struct sl_far *far, struct far_message *m, int to, int tag) {
    m->note = (struct far_note){m->tag, m->size_bytes};
    return far->post->row->send(far->post, &m->control, &m->note, sizeof m->note, to, tag);
}

sl_err far_listen(struct sl_far *far, int rank, struct far_ear *ear, int tag) {
    return far->post->row->receive(far->post, &ear->op, &ear->note, sizeof ear->note, rank, tag);
}

static void finish(struct sl_far *far, struct far_message *m) {
    if (m->op->done)
        m->op->done(m->op, m->size_bytes);
    atomic_store_explicit(&m->op->busy, false, memory_order_release);
    put(&far->done, m);
}

/* An offer meets a receive. */
static sl_err accept(struct sl_far *far, int rank, struct far_message *m, int64_t size_bytes) {
    struct far_way *way = &far->peers[rank].in;
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
    struct far_peer *peer = &far->peers[rank];
    struct far_note note = peer->offer.note;
    SL_TRY(far_listen(far, rank, &peer->offer, far->tag));
    struct far_message **at = find_tag(&peer->receives, note.tag), *m;
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
    struct far_peer *peer = &far->peers[rank];
    struct far_note note = peer->accept.note;
    SL_TRY(far_listen(far, rank, &peer->accept, far->tag + 1));
    struct far_message **at = find_tag(&peer->sends, note.tag);
    if (!at)
        return sl_fail(SL_ERR_PEER, "rank %d waits for a message that was not sent", rank);
    struct far_message *m = *at;
    take(&peer->sends, at);
    if (!m->size_bytes) {
        finish(far, m);
        return SL_OK;
    }
    put(&peer->out.moving, m);
    return far->row->send(peer->out.link, m->bytes, m->size_bytes);
}

static sl_err look(struct sl_far *far, int rank, struct far_way *way, bool *moved) {
    int64_t over = way->over;
    if (!way->moving.first)
        return SL_OK;
    sl_err err = far->row->look(way->link, &over);
    if (err != SL_OK)
        return sl_err_context(err, "between ranks %d and %d", far->post->base.rank, rank);
    for (; way->over < over; way->over++) {
        struct far_message *m = way->moving.first;
        take(&way->moving, &way->moving.first);
        finish(far, m);
        atomic_fetch_add_explicit(&far->post->base.moved, 1, memory_order_relaxed);
        *moved = true;
    }
    return SL_OK;
}

static bool heard(struct far_ear *ear) {
    return !atomic_load_explicit(&ear->op.busy, memory_order_acquire);
}

static sl_err move(struct sl_far *far, bool *moved) {
    for (int r = 0; r < far->post->base.ranks; r++) {
        struct far_peer *peer = &far->peers[r];
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

void far_close_links(const struct sl_far *far, struct far_peer *peer, bool abort) {
    if (peer->in.link != peer->out.link)
        far->row->close(peer->in.link, abort);
    far->row->close(peer->out.link, abort);
    peer->in.link = peer->out.link = NULL;
}

static void abort_links(struct sl_far *far) {
    far->aborted = true;
    for (int r = 0; r < far->ranks; r++)
        far_close_links(far, &far->peers[r], true);
}

bool far_poll(void *ctx) {
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

static struct far_message *fill(struct sl_far *far, struct sl_transfer *op, void *bytes,
                                int64_t size_bytes, int tag) {
    struct far_message *m = new_message(far);
    m->op = op;
    m->bytes = bytes;
    m->size_bytes = size_bytes;
    m->tag = tag;
    atomic_store_explicit(&op->busy, true, memory_order_relaxed);
    return m;
}

/* Both ends are here. */
static sl_err loop_back(struct sl_far *far, struct far_peer *self, int tag) {
    struct far_message **from = find_tag(&self->sends, tag), **to = find_tag(&self->receives, tag);
    if (!from || !to)
        return SL_OK;
    struct far_message *a = *from, *b = *to;
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
    struct far_peer *peer = &far->peers[to];
    if (!peer->out.link)
        return refuse_link(to);
    struct far_message *m = fill(far, op, (void *)(uintptr_t)bytes, size_bytes, tag);
    put(&peer->sends, m);
    return to == far->post->base.rank ? loop_back(far, peer, tag) : say(far, m, to, far->tag);
}

sl_err sl_far_receive(struct sl_far *far, struct sl_transfer *op, void *bytes, int64_t size_bytes,
                      int from, int tag) {
    struct far_peer *peer = &far->peers[from];
    if (!peer->in.link)
        return refuse_link(from);
    struct far_message *m = fill(far, op, bytes, size_bytes, tag);
    struct far_message **offer = find_tag(&peer->offers, tag);
    if (offer) {
        struct far_message *offered = *offer;
        int64_t size = offered->size_bytes;
        take(&peer->offers, offer);
        put(&far->done, offered);
        return accept(far, from, m, size);
    }
    put(&peer->receives, m);
    return from == far->post->base.rank ? loop_back(far, peer, tag) : SL_OK;
}

static bool drop_from(struct sl_far *far, struct far_queue *q, const struct sl_transfer *op) {
    for (struct far_message **at = &q->first; *at; at = &(*at)->next)
        if ((*at)->op == op) {
            struct far_message *m = *at;
            take(q, at);
            put(&far->done, m);
            return true;
        }
    return false;
}

bool sl_far_drop(struct sl_far *far, const struct sl_transfer *op, bool *found) {
    *found = true;
    for (int r = 0; r < far->post->base.ranks; r++) {
        struct far_peer *peer = &far->peers[r];
        if (drop_from(far, &peer->sends, op) || drop_from(far, &peer->receives, op))
            return true;
        if (drop_from(far, &peer->in.moving, op) || drop_from(far, &peer->out.moving, op))
            return far->aborted;
    }
    *found = false;
    return true;
}
