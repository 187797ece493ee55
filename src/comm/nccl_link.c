/* Links for device memory over a transport of tagged messages.
 *
 * A link (NCCL) executes its operations in order, and both ends must queue them in the same
 * order. So the sender offers a message first, and the receiver accepts it when it has a place
 * for it:
 *
 *     sender                                     receiver
 *     send(tag)  ---------- offer (tag, size) ->
 *                                                receive(tag) was or will be called;
 *                <---- accept (tag) ------------ queue the receive on the link
 *     queue the send on the link ============>   bytes
 *
 * Offers and accepts are in-order messages of the transport: sends are queued in the order of
 * the accepts, which is the order of the receives. A message without a free place blocks no
 * other message. Each direction has its own link.
 *
 * Waiting threads make progress (sl_gate.poll). A failure aborts the links, so that no kernel spins
 * for a lost rank; the transport below reports which rank that is. */
#include "comm/nccl_link_state.h"

#include "base/arena.h"

/* ---- queues ---- */

static void put(struct nccl_link_queue *q, struct nccl_link_message *m) {
    m->next = NULL;
    if (!q->first)
        q->end = &q->first;
    *q->end = m;
    q->end = &m->next;
}

static void take(struct nccl_link_queue *q, struct nccl_link_message **at) {
    struct nccl_link_message *m = *at;
    *at = m->next;
    if (!m->next)
        q->end = at;
}

static struct nccl_link_message **find_tag(struct nccl_link_queue *q, int64_t tag) {
    for (struct nccl_link_message **at = &q->first; *at; at = &(*at)->next)
        if ((*at)->tag == tag)
            return at;
    return NULL;
}

/* Takes a used message if there is one, so that nothing is allocated in the steady state. */
static struct nccl_link_message *new_message(struct sl_nccl_link *nccl_link) {
    struct nccl_link_message *m = NULL;
    for (struct nccl_link_message **at = &nccl_link->done.first; *at; at = &(*at)->next)
        if (!atomic_load_explicit(&(*at)->control.busy, memory_order_acquire)) {
            m = *at;
            take(&nccl_link->done, at);
            break;
        }
    m = m ? m : sl_realloc(NULL, sizeof *m);
    *m = (struct nccl_link_message){0};
    return m;
}

/* ---- progress, under the lock ---- */

static sl_err say(struct sl_nccl_link *nccl_link, struct nccl_link_message *m, int to, int tag) {
    m->note = (struct nccl_link_note){m->tag, m->size_bytes};
    return nccl_link->post->row->send(nccl_link->post, &m->control, &m->note, sizeof m->note, to,
                                      tag);
}

sl_err sl_comm_nccl_link_listen(struct sl_nccl_link *nccl_link, int rank, struct nccl_link_ear *ear,
                                int tag) {
    return nccl_link->post->row->receive(nccl_link->post, &ear->op, &ear->note, sizeof ear->note,
                                         rank, tag);
}

static void finish(struct sl_nccl_link *nccl_link, struct nccl_link_message *m) {
    if (m->op->done)
        m->op->done(m->op, m->size_bytes);
    atomic_store_explicit(&m->op->busy, false, memory_order_release);
    put(&nccl_link->done, m);
}

/* Called when an offer and its receive have met. */
static sl_err accept(struct sl_nccl_link *nccl_link, int rank, struct nccl_link_message *m,
                     int64_t size_bytes) {
    struct nccl_link_way *way = &nccl_link->peers[rank].in;
    if (size_bytes > m->size_bytes)
        return sl_fail(SL_ERR_PEER, "rank %d sends %lld bytes where %lld are expected", rank,
                       (long long)size_bytes, (long long)m->size_bytes);
    m->size_bytes = size_bytes;
    SL_TRY(say(nccl_link, m, rank, nccl_link->tag + 1));
    if (!size_bytes) {
        finish(nccl_link, m);
        return SL_OK;
    }
    put(&way->moving, m);
    return nccl_link->row->receive(way->link, m->bytes, size_bytes);
}

static sl_err hear_offer(struct sl_nccl_link *nccl_link, int rank) {
    struct nccl_link_peer *peer = &nccl_link->peers[rank];
    struct nccl_link_note note = peer->offer.note;
    SL_TRY(sl_comm_nccl_link_listen(nccl_link, rank, &peer->offer, nccl_link->tag));
    struct nccl_link_message **at = find_tag(&peer->receives, note.tag), *m;
    if (at && !find_tag(&peer->offers, note.tag)) {
        m = *at;
        take(&peer->receives, at);
        return accept(nccl_link, rank, m, note.size_bytes);
    }
    m = new_message(nccl_link);
    m->tag = (int)note.tag;
    m->size_bytes = note.size_bytes;
    put(&peer->offers, m);
    return SL_OK;
}

static sl_err hear_accept(struct sl_nccl_link *nccl_link, int rank) {
    struct nccl_link_peer *peer = &nccl_link->peers[rank];
    struct nccl_link_note note = peer->accept.note;
    SL_TRY(sl_comm_nccl_link_listen(nccl_link, rank, &peer->accept, nccl_link->tag + 1));
    struct nccl_link_message **at = find_tag(&peer->sends, note.tag);
    if (!at)
        return sl_fail(SL_ERR_PEER, "rank %d waits for a message that was not sent", rank);
    struct nccl_link_message *m = *at;
    take(&peer->sends, at);
    if (!m->size_bytes) {
        finish(nccl_link, m);
        return SL_OK;
    }
    put(&peer->out.moving, m);
    return nccl_link->row->send(peer->out.link, m->bytes, m->size_bytes);
}

static sl_err look(struct sl_nccl_link *nccl_link, int rank, struct nccl_link_way *way,
                   bool *moved) {
    int64_t over = way->over;
    if (!way->moving.first)
        return SL_OK;
    sl_err err = nccl_link->row->look(way->link, &over);
    if (err != SL_OK)
        return sl_err_context(err, "between ranks %d and %d", nccl_link->post->base.rank, rank);
    for (; way->over < over; way->over++) {
        struct nccl_link_message *m = way->moving.first;
        take(&way->moving, &way->moving.first);
        finish(nccl_link, m);
        atomic_fetch_add_explicit(&nccl_link->post->base.moved, 1, memory_order_relaxed);
        *moved = true;
    }
    return SL_OK;
}

static bool heard(struct nccl_link_ear *ear) {
    return !atomic_load_explicit(&ear->op.busy, memory_order_acquire);
}

static sl_err move(struct sl_nccl_link *nccl_link, bool *moved) {
    for (int r = 0; r < nccl_link->post->base.ranks; r++) {
        struct nccl_link_peer *peer = &nccl_link->peers[r];
        while (r != nccl_link->post->base.rank && heard(&peer->offer)) {
            SL_TRY(hear_offer(nccl_link, r));
            *moved = true;
        }
        while (r != nccl_link->post->base.rank && heard(&peer->accept)) {
            SL_TRY(hear_accept(nccl_link, r));
            *moved = true;
        }
        SL_TRY(look(nccl_link, r, &peer->out, moved));
        SL_TRY(look(nccl_link, r, &peer->in, moved));
    }
    return SL_OK;
}

void sl_comm_nccl_link_close_links(const struct sl_nccl_link *nccl_link,
                                   struct nccl_link_peer *peer, bool abort) {
    if (peer->in.link != peer->out.link)
        nccl_link->row->close(peer->in.link, abort);
    nccl_link->row->close(peer->out.link, abort);
    peer->in.link = peer->out.link = NULL;
}

static void abort_links(struct sl_nccl_link *nccl_link) {
    nccl_link->aborted = true;
    for (int r = 0; r < nccl_link->ranks; r++)
        sl_comm_nccl_link_close_links(nccl_link, &nccl_link->peers[r], true);
}

bool sl_comm_nccl_link_poll(void *ctx) {
    struct sl_nccl_link *nccl_link = ctx;
    struct sl_comm *comm = &nccl_link->post->base;
    bool moved = nccl_link->poll_below && nccl_link->poll_below(nccl_link->poll_ctx);
    bool failed = atomic_load_explicit(&comm->gate.failed, memory_order_relaxed);
    sl_comm_post_lock(nccl_link->post);
    sl_err err = SL_OK;
    if (!nccl_link->aborted && !failed)
        err = move(nccl_link, &moved);
    else if (!nccl_link->aborted)
        abort_links(nccl_link);
    sl_comm_post_unlock(nccl_link->post);
    if (err != SL_OK)
        sl_comm_fail(comm, err);
    return moved;
}

/* ---- functions for post.c ---- */

bool sl_comm_nccl_link_owns(const struct sl_nccl_link *nccl_link, const void *bytes) {
    return nccl_link->row->is_nccl_link(bytes);
}

static sl_err refuse_link(int rank) {
    return sl_fail(SL_ERR_PEER, "there is no link to rank %d, or it was aborted", rank);
}

static struct nccl_link_message *fill(struct sl_nccl_link *nccl_link, struct sl_transfer *op,
                                      void *bytes, int64_t size_bytes, int tag) {
    struct nccl_link_message *m = new_message(nccl_link);
    m->op = op;
    m->bytes = bytes;
    m->size_bytes = size_bytes;
    m->tag = tag;
    atomic_store_explicit(&op->busy, true, memory_order_relaxed);
    return m;
}

/* Completes a message whose two ends are in this rank. */
static sl_err loop_back(struct sl_nccl_link *nccl_link, struct nccl_link_peer *self, int tag) {
    struct nccl_link_message **from = find_tag(&self->sends, tag),
                             **to = find_tag(&self->receives, tag);
    if (!from || !to)
        return SL_OK;
    struct nccl_link_message *a = *from, *b = *to;
    take(&self->sends, from);
    take(&self->receives, to);
    SL_ASSERT(a->size_bytes <= b->size_bytes);
    b->size_bytes = a->size_bytes;
    if (!a->size_bytes) {
        finish(nccl_link, a);
        finish(nccl_link, b);
        return SL_OK;
    }
    put(&self->in.moving, b);
    put(&self->out.moving, a);
    return nccl_link->row->loop(self->in.link, b->bytes, a->bytes, a->size_bytes);
}

sl_err sl_comm_nccl_link_send(struct sl_nccl_link *nccl_link, struct sl_transfer *op,
                              const void *bytes, int64_t size_bytes, int to, int tag) {
    struct nccl_link_peer *peer = &nccl_link->peers[to];
    if (!peer->out.link)
        return refuse_link(to);
    struct nccl_link_message *m = fill(nccl_link, op, (void *)(uintptr_t)bytes, size_bytes, tag);
    put(&peer->sends, m);
    return to == nccl_link->post->base.rank ? loop_back(nccl_link, peer, tag)
                                            : say(nccl_link, m, to, nccl_link->tag);
}

sl_err sl_comm_nccl_link_receive(struct sl_nccl_link *nccl_link, struct sl_transfer *op,
                                 void *bytes, int64_t size_bytes, int from, int tag) {
    struct nccl_link_peer *peer = &nccl_link->peers[from];
    if (!peer->in.link)
        return refuse_link(from);
    struct nccl_link_message *m = fill(nccl_link, op, bytes, size_bytes, tag);
    struct nccl_link_message **offer = find_tag(&peer->offers, tag);
    if (offer) {
        struct nccl_link_message *offered = *offer;
        int64_t size = offered->size_bytes;
        take(&peer->offers, offer);
        put(&nccl_link->done, offered);
        return accept(nccl_link, from, m, size);
    }
    put(&peer->receives, m);
    return from == nccl_link->post->base.rank ? loop_back(nccl_link, peer, tag) : SL_OK;
}

static bool drop_from(struct sl_nccl_link *nccl_link, struct nccl_link_queue *q,
                      const struct sl_transfer *op) {
    for (struct nccl_link_message **at = &q->first; *at; at = &(*at)->next)
        if ((*at)->op == op) {
            struct nccl_link_message *m = *at;
            take(q, at);
            put(&nccl_link->done, m);
            return true;
        }
    return false;
}

bool sl_comm_nccl_link_drop(struct sl_nccl_link *nccl_link, const struct sl_transfer *op,
                            bool *found) {
    *found = true;
    for (int r = 0; r < nccl_link->post->base.ranks; r++) {
        struct nccl_link_peer *peer = &nccl_link->peers[r];
        if (drop_from(nccl_link, &peer->sends, op) || drop_from(nccl_link, &peer->receives, op))
            return true;
        if (drop_from(nccl_link, &peer->in.moving, op) ||
            drop_from(nccl_link, &peer->out.moving, op))
            return nccl_link->aborted;
    }
    *found = false;
    return true;
}
