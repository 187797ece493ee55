/* Device memory that two ranks use; see near.c. */
#ifndef SL_COMM_IPC_H
#define SL_COMM_IPC_H

#include "comm/comm.h"
#include "device/ipc.h"

struct sl_post;

struct sl_ipc {
    const struct sl_ipc_row *row;
    struct sl_ipc_area area; /* at NULL: none, messages go through the host */
    bool entered;            /* it is the other rank's memory */
    char door[SL_IPC_DOOR];  /* else */
};

/* `from` enters memory of `to`. */
struct sl_ipc_pair {
    int from, to;
    int tag;                  /* over which nothing else goes before */
    struct sl_device *device; /* of this one */
    int64_t size_bytes;
};

/* Both ranks, in the same order among all pairs of theirs. Refused by either: both have no area,
 * and a note says why. Who shares may call again with what it has, for another one to enter. */
SL_MUST_CHECK sl_err sl_comm_ipc_open(struct sl_post *post, const struct sl_ipc_pair *pair,
                                      struct sl_ipc *ipc);
/* Who entered leaves at once; what was shared is freed when the transport ends, because all have
 * met by then. */
void sl_comm_ipc_close(struct sl_post *post, struct sl_ipc *ipc);
void sl_comm_ipc_end(struct sl_post *post); /* of sl_comm_post_close */

#endif
