/* Device memory shared by two ranks of one host; ipc.c explains it. */
#ifndef SL_COMM_IPC_H
#define SL_COMM_IPC_H

#include "comm/comm.h"
#include "device/ipc.h"

struct sl_post;

struct sl_ipc {
    const struct sl_ipc_row *row;
    /* area.at NULL: nothing is shared, so messages go through host memory */
    struct sl_ipc_area area;
    bool entered;           /* this rank entered the memory of the other rank */
    char door[SL_IPC_DOOR]; /* handle for the other rank, if this rank owns the memory */
};

/* A pair of ranks: `from` enters memory of `to`. */
struct sl_ipc_pair {
    int from, to;
    int tag;                  /* a tag that is used for nothing else before */
    struct sl_device *device; /* device of this rank */
    int64_t size_bytes;
};

/* Shares memory between two ranks. Both call it, for all pairs in the same order. If either
 * refuses, both get no area, and a note gives the reason. The owner may call it again with the same
 * `ipc`, to let another rank enter. */
SL_MUST_CHECK sl_err sl_comm_ipc_open(struct sl_post *post, const struct sl_ipc_pair *pair,
                                      struct sl_ipc *ipc);
/* Closes one end. A rank that entered leaves at once. Shared memory is freed when the transport
 * closes, after the final barrier. */
void sl_comm_ipc_close(struct sl_post *post, struct sl_ipc *ipc);
void sl_comm_ipc_end(struct sl_post *post); /* called by sl_comm_post_close */

#endif
