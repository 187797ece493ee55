/* What a pipeline keeps so that it can pause with micro-batches in flight. Private to this directory. */
#ifndef SL_PIPE_BOX_H
#define SL_PIPE_BOX_H

#include "comm/comm.h"

enum { SL_PIPE_PAST = 8 }; /* loss scales of past steps */

/* Asynchronous: running statistics before the forwards of the last iterations. A checkpoint and an
 * evaluation after step n take those before iteration n, although some of its forwards have run. */
struct sl_pipe_border {
    int count;
    void **slabs;       /* [count] */
    int64_t *iteration; /* [count] -1: none */
};

/* One seat's part of a checkpoint with micro-batches in flight (image.c). */
struct sl_pipe_image {
    char *host;                /* numbers, then messages; NULL: no checkpoints */
    int64_t host_bytes, bytes; /* bytes: with the slabs */
};

/* A message: samples that a micro-batch at one end of an edge shares with one at the other end. */
struct sl_pipe_piece {
    int32_t from, to;     /* micro-batches of the iteration */
    int64_t first, count; /* samples of the iteration */
    int pair;             /* of replicas; it has its own channels */
    int64_t number;       /* of the iteration's messages of this pair */
};

/* A channel with the numbers of its messages (mail.c). Messages first .. last - 1 were under way when
 * the run was saved. */
struct sl_pipe_box {
    struct sl_channel *channel;
    int sender, reader;  /* seats */
    int64_t sent, taken; /* the next message of each end, if it is local */
    const char *kept;
    int64_t first, last;
};

/* mail.c: the channel functions with the numbers of the box. */
SL_MUST_CHECK sl_err sl_pipe_mail_receive(struct sl_pipe_box *box, int64_t n,
                                          struct sl_message *out);
SL_MUST_CHECK sl_err sl_pipe_mail_release(struct sl_pipe_box *box, int64_t n);
SL_MUST_CHECK sl_err sl_pipe_mail_send(struct sl_pipe_box *box, int64_t n, int64_t size_bytes);

#endif
