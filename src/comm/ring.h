/* A ring of message places in one process: the sender writes where the receiver reads. */
#ifndef SL_COMM_RING_H
#define SL_COMM_RING_H

#include "comm/comm.h"

struct sl_place {
    atomic_int_least64_t full; /* n + 1 while it holds message n, 0 when it is free */
    int64_t size_bytes, sent_ns;
};

struct sl_ring {
    struct sl_gate *gate;
    int count;
    int64_t size_bytes;       /* size of a place */
    struct sl_device *device; /* device whose memory holds the places; NULL: the host */
    char *memory;             /* [count][size_bytes] */
    struct sl_place *places;
};

SL_MUST_CHECK sl_err sl_comm_ring_open(struct sl_ring *ring, struct sl_gate *gate,
                                       const struct sl_channel_spec *spec);
void sl_comm_ring_close(struct sl_ring *ring);
int64_t sl_comm_ring_bytes(const struct sl_ring *ring);
SL_MUST_CHECK sl_err sl_comm_ring_reserve(struct sl_ring *ring, int64_t n, char **out);
void sl_comm_ring_send(struct sl_ring *ring, int64_t n, int64_t size_bytes);
SL_MUST_CHECK sl_err sl_comm_ring_receive(struct sl_ring *ring, int64_t n, struct sl_message *out);
void sl_comm_ring_release(struct sl_ring *ring, int64_t n);

#endif
