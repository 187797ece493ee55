/* What lets a pipeline pause with micro-batches in flight. Private to this directory. */
#ifndef SL_PIPE_BOX_H
#define SL_PIPE_BOX_H

#include "comm/comm.h"

enum { SL_PIPE_PAST = 8 }; /* number of past steps whose loss scales are kept */

/* Copies of the running statistics of an asynchronous stage, each taken before the first forward of
 * an iteration. A checkpoint or evaluation after step n uses the copy taken before iteration n,
 * because some of its forwards have already run. */
struct sl_pipe_border {
    int count;
    void **slabs;       /* [count] */
    int64_t *iteration; /* [count] iteration that a copy was taken before; -1: unused */
};

/* One seat's part of a checkpoint that is taken with micro-batches in flight (image.c). */
struct sl_pipe_image {
    char *host; /* numbers, then messages (image.c); NULL: checkpoints need no image */
    int64_t host_bytes, bytes; /* host_bytes: of `host`; bytes: with the slabs of the device */
};

/* A message: the samples that a micro-batch of stage `from` has in common with a micro-batch of
 * stage `to`. */
struct sl_pipe_piece {
    int32_t from, to;     /* micro-batches of the two stages, numbered within the iteration */
    int64_t first, count; /* samples, numbered within the iteration */
    int pair;             /* pair of replicas; each pair has its own channels */
    int64_t number;       /* number of the message within the iteration and pair */
};

/* A channel whose messages are numbered (mail.c). Messages first .. last - 1 had been sent but not
 * read when the run was saved; `kept` holds them. */
struct sl_pipe_box {
    struct sl_channel *channel;
    int sender, reader; /* seats at the two ends */
    /* numbers of the next message to send and to read, each valid on the rank of that end */
    int64_t sent, taken;
    const char *kept;
    int64_t first, last;
};

/* mail.c. Channel functions that take the number of a message. */
SL_MUST_CHECK sl_err sl_pipe_mail_receive(struct sl_pipe_box *box, int64_t n,
                                          struct sl_message *out);
SL_MUST_CHECK sl_err sl_pipe_mail_release(struct sl_pipe_box *box, int64_t n);
SL_MUST_CHECK sl_err sl_pipe_mail_send(struct sl_pipe_box *box, int64_t n, int64_t size_bytes);

#endif
