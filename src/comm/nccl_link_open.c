/* Links for device memory: attaching, connecting two ranks, closing. nccl_link.c explains them. */
#include "comm/nccl_link_state.h"

#include "base/arena.h"

#include <stdlib.h>

static sl_err connect_way(struct sl_nccl_link *nccl_link, int from, int to) {
    int me = nccl_link->post->base.rank;
    char id[SL_NCCL_LINK_ID] = {0};
    struct sl_nccl_link_link *link = NULL;
    struct nccl_link_way *way = me == from ? &nccl_link->peers[to].out : &nccl_link->peers[from].in;
    if (way->link || (me != from && me != to) || (from == to && !nccl_link->loop))
        return SL_OK;
    if (me == from)
        SL_TRY(nccl_link->row->make_id(id));
    if (from != to)
        SL_TRY(sl_comm_post_pass(nccl_link->post, me == from, id, SL_NCCL_LINK_ID,
                                 me == from ? to : from, nccl_link->tag + 2));
    SL_TRY(nccl_link->row->open(id,
                                from == to   ? SL_NCCL_LINK_LOOP
                                : me == from ? SL_NCCL_LINK_SENDS
                                             : SL_NCCL_LINK_RECEIVES,
                                &link));
    sl_comm_post_lock(nccl_link->post);
    way->link = link;
    if (from == to)
        nccl_link->peers[me].in.link = link;
    sl_comm_post_unlock(nccl_link->post);
    return SL_OK;
}

sl_err sl_comm_nccl_link_connect(struct sl_post *post, int from, int to) {
    if (!post->nccl_link)
        return SL_OK;
    SL_TRY(connect_way(post->nccl_link, from, to));
    return connect_way(post->nccl_link, to, from);
}

static void free_queue(struct nccl_link_queue *q) {
    while (q->first) {
        struct nccl_link_message *m = q->first;
        q->first = m->next;
        free(m);
    }
}

static void close_comm(struct sl_comm *comm) {
    struct sl_post *post = (struct sl_post *)comm;
    struct sl_nccl_link *nccl_link = post->nccl_link;
    bool failed = nccl_link->aborted || atomic_load(&comm->gate.failed);
    sl_comm_post_lock(post);
    for (int r = 0; r < comm->ranks; r++) {
        struct nccl_link_peer *peer = &nccl_link->peers[r];
        if (r != comm->rank) {
            (void)post->row->drop(post, &peer->offer.op);
            (void)post->row->drop(post, &peer->accept.op);
        }
        sl_comm_nccl_link_close_links(nccl_link, peer, failed);
    }
    sl_comm_post_unlock(post);
    comm->gate.poll = nccl_link->poll_below;
    comm->gate.poll_ctx = nccl_link->poll_ctx;
    post->nccl_link = NULL;
    nccl_link->close_below(comm); /* after this, no offer or accept is in transit */
    for (int r = 0; r < nccl_link->ranks; r++) {
        struct nccl_link_peer *peer = &nccl_link->peers[r];
        struct nccl_link_queue *all[] = {&peer->sends, &peer->receives, &peer->offers,
                                         &peer->in.moving, &peer->out.moving};
        for (int q = 0; q < SL_COUNT(all); q++)
            free_queue(all[q]);
    }
    free_queue(&nccl_link->done);
    free(nccl_link->peers);
    free(nccl_link);
}

sl_err sl_comm_nccl_link_attach(struct sl_comm *comm, const struct sl_nccl_link_row *row,
                                const char *name, bool loop) {
    struct sl_post *post = (struct sl_post *)comm;
    struct sl_nccl_link *nccl_link = sl_realloc(NULL, sizeof *nccl_link);
    sl_err err = SL_OK;
    *nccl_link = (struct sl_nccl_link){.row = row,
                                       .post = post,
                                       .transport = *comm->row,
                                       .close_below = comm->row->close,
                                       .poll_below = comm->gate.poll,
                                       .poll_ctx = comm->gate.poll_ctx,
                                       .ranks = comm->ranks,
                                       .loop = loop};
    nccl_link->transport.name = name;
    nccl_link->transport.close = close_comm;
    nccl_link->peers = calloc((size_t)comm->ranks, sizeof *nccl_link->peers);
    if (!nccl_link->peers)
        sl_out_of_memory(sizeof *nccl_link->peers);
    SL_TRY_OUT(sl_comm_post_take_tags(post, 3, &nccl_link->tag));
    sl_comm_post_lock(post);
    for (int r = 0; r < comm->ranks && err == SL_OK; r++) {
        if (r != comm->rank)
            err =
                sl_comm_nccl_link_listen(nccl_link, r, &nccl_link->peers[r].offer, nccl_link->tag);
        if (r != comm->rank && err == SL_OK)
            err = sl_comm_nccl_link_listen(nccl_link, r, &nccl_link->peers[r].accept,
                                           nccl_link->tag + 1);
    }
    sl_comm_post_unlock(post);
    comm->row = &nccl_link->transport;
    comm->gate.poll = sl_comm_nccl_link_poll;
    comm->gate.poll_ctx = nccl_link;
    post->nccl_link = nccl_link;
    return err;
out:
    free(nccl_link->peers);
    free(nccl_link);
    return err;
}
