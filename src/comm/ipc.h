/* Device memory shared by two ranks of a host; ipc.c explains it. */
#ifndef SL_COMM_IPC_H
#define SL_COMM_IPC_H

#include "comm/comm.h"
#include "device/ipc.h"

struct sl_post;

struct sl_ipc {
    const struct sl_ipc_row *row;
    struct sl_ipc_area area; /* at NULL: none; messages go through host memory */
    bool entered;            /* the memory belongs to the other rank */
    char door[SL_IPC_DOOR];  /* if not entered: handle for the other rank */
};

/* `from` enters memory of `to`. */
struct sl_ipc_pair {
    int from, to;
    int tag;                  /* not used for anything else before */
    struct sl_device *device; /* of this rank */
    int64_t size_bytes;
};

/* Called by both ranks, for all pairs in the same order. If either refuses, both have no area and a
 * note gives the reason. The owner may call again with the same `ipc` for another rank to enter. */
SL_MUST_CHECK sl_err sl_comm_ipc_open(struct sl_post *post, const struct sl_ipc_pair *pair,
                                      struct sl_ipc *ipc);
/* A rank that entered leaves at once. Shared memory is freed when the transport closes, after the
 * final barrier. */
void sl_comm_ipc_close(struct sl_post *post, struct sl_ipc *ipc);
void sl_comm_ipc_end(struct sl_post *post); /* for sl_comm_post_close */

#endif
