/* Links for device memory: connecting two ranks, beginning and end. See far.c. */
#include "comm/far_state.h"

#include "base/arena.h"

#include <stdlib.h>

static sl_err connect_way(struct sl_far *far, int from, int to) {
    int me = far->post->base.rank;
    char id[SL_FAR_ID] = {0};
    struct sl_far_link *link = NULL;
    struct far_way *way = me == from ? &far->peers[to].out : &far->peers[from].in;
    if (way->link || (me != from && me != to) || (from == to && !far->loop))
        return SL_OK;
    if (me == from)
        SL_TRY(far->row->make_id(id));
    if (from != to)
        SL_TRY(sl_post_pass(far->post, me == from, id, SL_FAR_ID, me == from ? to : from,
                            far->tag + 2));
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

static void free_queue(struct far_queue *q) {
    while (q->first) {
        struct far_message *m = q->first;
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
        struct far_peer *peer = &far->peers[r];
        if (r != comm->rank) {
            (void)post->row->drop(post, &peer->offer.op);
            (void)post->row->drop(post, &peer->accept.op);
        }
        far_close_links(far, peer, failed);
    }
    sl_post_unlock(post);
    comm->gate.poll = far->poll_below;
    comm->gate.poll_ctx = far->poll_ctx;
    post->far = NULL;
    far->close_below(comm); /* after this no note is under way */
    for (int r = 0; r < far->ranks; r++) {
        struct far_peer *peer = &far->peers[r];
        struct far_queue *all[] = {&peer->sends, &peer->receives, &peer->offers, &peer->in.moving,
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
            err = far_listen(far, r, &far->peers[r].offer, far->tag);
        if (r != comm->rank && err == SL_OK)
            err = far_listen(far, r, &far->peers[r].accept, far->tag + 1);
    }
    sl_post_unlock(post);
    comm->row = &far->transport;
    comm->gate.poll = far_poll;
    comm->gate.poll_ctx = far;
    post->far = far;
    return err;
out:
    free(far->peers);
    free(far);
    return err;
}
