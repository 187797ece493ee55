/* State of the links for device memory. Private to nccl_link*.c; nccl_link.c explains it. */
#ifndef SL_COMM_NCCL_LINK_STATE_H
#define SL_COMM_NCCL_LINK_STATE_H

#include "comm/nccl_link.h"

struct nccl_link_note { /* offer and accept */
    int64_t tag, size_bytes;
};

struct nccl_link_message {
    struct nccl_link_message *next;
    struct sl_transfer *op;
    void *bytes;
    int64_t size_bytes;
    int tag;
    struct sl_transfer control; /* its offer, or its accept */
    struct nccl_link_note note;
};

struct nccl_link_queue {
    struct nccl_link_message *first, **end;
};

struct nccl_link_way { /* one direction */
    struct sl_nccl_link_link *link;
    struct nccl_link_queue moving; /* on the link */
    int64_t over;                  /* messages completed since the link was opened */
};

struct nccl_link_ear { /* posted receive for notes of one kind from one rank */
    struct sl_transfer op;
    struct nccl_link_note note;
};

struct nccl_link_peer {
    struct nccl_link_way out, in;
    struct nccl_link_queue sends;    /* offered, not accepted */
    struct nccl_link_queue receives; /* not offered */
    struct nccl_link_queue offers;   /* without a matching receive */
    struct nccl_link_ear offer, accept;
};

struct sl_nccl_link {
    const struct sl_nccl_link_row *row;
    struct sl_post *post;
    struct sl_transport transport; /* copy of the row below with another name and close */
    void (*close_below)(struct sl_comm *comm);
    bool (*poll_below)(void *ctx);
    void *poll_ctx;
    struct nccl_link_peer *peers; /* [ranks] */
    struct nccl_link_queue done;  /* done, but the note may still be in transit */
    int tag;                      /* offers; + 1: accepts; + 2: ids */
    int ranks;
    bool loop, aborted;
};

/* nccl_link.c. Under the lock: post the receive for the next note of a kind; close the links to a
 * rank (a loop is one link for both directions). poll: sl_gate.poll. */
SL_MUST_CHECK sl_err sl_comm_nccl_link_listen(struct sl_nccl_link *nccl_link, int rank,
                                              struct nccl_link_ear *ear, int tag);
void sl_comm_nccl_link_close_links(const struct sl_nccl_link *nccl_link,
                                   struct nccl_link_peer *peer, bool abort);
bool sl_comm_nccl_link_poll(void *ctx);

#endif
