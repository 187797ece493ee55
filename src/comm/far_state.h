/* What links for device memory are made of. Private to far*.c; far.c says how it works. */
#ifndef SL_COMM_FAR_STATE_H
#define SL_COMM_FAR_STATE_H

#include "comm/far.h"

struct far_note { /* offer and accept */
    int64_t tag, size_bytes;
};

struct far_message {
    struct far_message *next;
    struct sl_transfer *op;
    void *bytes;
    int64_t size_bytes;
    int tag;
    struct sl_transfer control; /* its offer, or its accept */
    struct far_note note;
};

struct far_queue {
    struct far_message *first, **end;
};

struct far_way { /* one direction */
    struct sl_far_link *link;
    struct far_queue moving; /* on the link */
    int64_t over;            /* of them, since the link was opened */
};

struct far_ear { /* for notes of one kind from one rank */
    struct sl_transfer op;
    struct far_note note;
};

struct far_peer {
    struct far_way out, in;
    struct far_queue sends;    /* offered, not accepted */
    struct far_queue receives; /* not offered */
    struct far_queue offers;   /* that nobody has received yet */
    struct far_ear offer, accept;
};

struct sl_far {
    const struct sl_far_row *row;
    struct sl_post *post;
    struct sl_transport transport; /* the one below, with another name and end */
    void (*close_below)(struct sl_comm *comm);
    bool (*poll_below)(void *ctx);
    void *poll_ctx;
    struct far_peer *peers; /* [ranks] */
    struct far_queue done;  /* whose note may still be under way */
    int tag;                /* offers; + 1: accepts; + 2: ids */
    int ranks;
    bool loop, aborted;
};

/* far.c. Under the lock: wait for the next note of this kind; close the links to a rank (a loop is
 * one link for both ways). The poll of a gate. */
SL_MUST_CHECK sl_err far_listen(struct sl_far *far, int rank, struct far_ear *ear, int tag);
void far_close_links(const struct sl_far *far, struct far_peer *peer, bool abort);
bool far_poll(void *ctx);

#endif
