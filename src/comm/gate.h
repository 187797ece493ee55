/* The gate of a process: workers wait here for each other, and a failure wakes all of them. */
#ifndef SL_COMM_GATE_H
#define SL_COMM_GATE_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sl_gate {
    pthread_mutex_t mutex;
    struct sl_sleeper *asleep; /* list of sleeping waiters; guarded by mutex */
    atomic_int sleepers;
    atomic_bool failed;
    sl_err err; /* the first error, guarded by mutex */
    char message[2048];
    /* Makes progress for a transport without a thread: waiters call it instead of sleeping. Returns
     * whether there was progress. NULL: waiters sleep until the gate rings. */
    bool (*poll)(void *ctx);
    void *poll_ctx;
    int spins;             /* number of spins before a waiter sleeps */
    bool own_places;       /* each waiter has its own core, so it spins longer */
    struct sl_gate *outer; /* a gate that fails when this one does; NULL: none; guarded by mutex */
};

void sl_comm_gate_open(struct sl_gate *gate);
void sl_comm_gate_close(struct sl_gate *gate);
void sl_comm_gate_set_outer(struct sl_gate *gate, struct sl_gate *outer);
/* Wakes the sleepers whose condition holds now. Any thread may evaluate a condition, under the
 * gate's mutex. */
void sl_comm_gate_ring(struct sl_gate *gate);
/* Records that this worker failed, with the error of its thread. Only the first failure counts. */
void sl_comm_gate_fail(struct sl_gate *gate, sl_err err);
/* Returns the first error and puts its message into this thread; SL_OK: no worker has failed. */
SL_MUST_CHECK sl_err sl_comm_gate_error(struct sl_gate *gate);
/* Sets what the calling thread does from now on while it waits at a gate: it calls work(), which
 * returns soon after ready(ready_ctx) becomes true, or false if there was nothing to do. work NULL:
 * it does nothing. */
typedef bool sl_gate_work(void *ctx, bool (*ready)(void *ctx), void *ready_ctx);
void sl_comm_gate_use_waits(sl_gate_work *work, void *ctx);
/* Waits until ready(ctx). Returns the first error if a worker fails meanwhile. */
SL_MUST_CHECK sl_err sl_comm_gate_wait(struct sl_gate *gate, bool (*ready)(void *ctx), void *ctx);

#endif
