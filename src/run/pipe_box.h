/* Boxes: rings of message buffers between stages, and the waiting of workers for each other. */
#ifndef SL_RUN_PIPE_BOX_H
#define SL_RUN_PIPE_BOX_H

#include "device/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Shared by all workers of a pipeline: who waits sleeps here after a while; who fails tells it. */
struct sl_gate {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    atomic_int sleepers;
    atomic_bool failed;
    sl_err err; /* the first error; guarded by mutex */
    char message[2048];
};

void sl_gate_open(struct sl_gate *gate);
void sl_gate_close(struct sl_gate *gate);
/* Something changed: wake whoever sleeps. */
void sl_gate_ring(struct sl_gate *gate);
/* This worker failed with the error recorded in its thread. */
void sl_gate_fail(struct sl_gate *gate, sl_err err);
/* Wait until ready(ctx); the first error when some worker failed meanwhile. */
SL_MUST_CHECK sl_err sl_gate_wait(struct sl_gate *gate, bool (*ready)(void *ctx), void *ctx);

/* A ring: message number n lies in place n mod count, from put to take. */
struct sl_box {
    struct sl_gate *gate;
    int count;
    int64_t size_bytes;
    struct sl_device *device;   /* of who receives: the memory is there */
    char *memory;               /* [count][size_bytes] */
    atomic_int_least64_t *full; /* [count] n + 1 while message n is there, 0 when free */
};

SL_MUST_CHECK sl_err sl_box_open(struct sl_box *box, struct sl_gate *gate,
                                 struct sl_device *device, int count, int64_t size_bytes);
void sl_box_close(struct sl_box *box);
/* Wait for the place of message n to be free; fill it; then sl_box_send. */
SL_MUST_CHECK sl_err sl_box_reserve(struct sl_box *box, int64_t n, char **out);
void sl_box_send(struct sl_box *box, int64_t n);
/* Wait for message n; read it; then sl_box_release. */
SL_MUST_CHECK sl_err sl_box_receive(struct sl_box *box, int64_t n, char **out);
void sl_box_release(struct sl_box *box, int64_t n);

/* A meeting of `members` workers, used again and again. */
struct sl_meeting {
    struct sl_gate *gate;
    int members;
    atomic_int_least64_t arrived;
};
SL_MUST_CHECK sl_err sl_meeting_join(struct sl_meeting *meeting);

#endif
