/* State of the links for device memory. Private to nccl_link*.c; nccl_link.c explains it. */
#ifndef SL_COMM_NCCL_LINK_STATE_H
#define SL_COMM_NCCL_LINK_STATE_H

#include "comm/nccl_link.h"

struct nccl_link_note { /* an offer or an accept */
    int64_t tag, size_bytes;
};

struct nccl_link_message {
    struct nccl_link_message *next;
    struct sl_transfer *op;
    void *bytes;
    int64_t size_bytes;
    int tag;
    struct sl_transfer control; /* the offer or accept of this message */
    struct nccl_link_note note;
};

struct nccl_link_queue {
    struct nccl_link_message *first, **end;
};

struct nccl_link_way { /* one direction of a link */
    struct sl_nccl_link_link *link;
    struct nccl_link_queue moving; /* messages that the link is transferring */
    int64_t over;                  /* number of messages completed since the link was opened */
};

struct nccl_link_ear { /* a posted receive for offers, or accepts, from one rank */
    struct sl_transfer op;
    struct nccl_link_note note;
};

struct nccl_link_peer {
    struct nccl_link_way out, in;
    struct nccl_link_queue sends;    /* messages to send that were offered but not accepted */
    struct nccl_link_queue receives; /* receives that were not offered yet */
    struct nccl_link_queue offers;   /* offers without a matching receive */
    struct nccl_link_ear offer, accept;
};

struct sl_nccl_link {
    const struct sl_nccl_link_row *row;
    struct sl_post *post;
    /* copy of the row of the transport below, with another name and close */
    struct sl_transport transport;
    void (*close_below)(struct sl_comm *comm);
    bool (*poll_below)(void *ctx);
    void *poll_ctx;
    struct nccl_link_peer *peers; /* [ranks] */
    /* completed messages whose offer or accept may still be in transit */
    struct nccl_link_queue done;
    int tag; /* tag of offers; the next two are those of accepts and ids */
    int ranks;
    bool loop, aborted;
};

/* nccl_link.c. Under the lock. listen: posts the receive for the next offer or accept. close_links:
 * closes the links to a rank (a loop is one link for both directions). poll: a sl_gate.poll. */
SL_MUST_CHECK sl_err sl_comm_nccl_link_listen(struct sl_nccl_link *nccl_link, int rank,
                                              struct nccl_link_ear *ear, int tag);
void sl_comm_nccl_link_close_links(const struct sl_nccl_link *nccl_link,
                                   struct nccl_link_peer *peer, bool abort);
bool sl_comm_nccl_link_poll(void *ctx);

#endif
