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
    struct sl_sleeper *asleep; /* a list; guarded by mutex */
    atomic_int sleepers;
    atomic_bool failed;
    sl_err err; /* the first error; guarded by mutex */
    char message[2048];
    /* Progress of a transport without a thread: waiters call it instead of sleeping. True: there
     * was progress. NULL: waiters sleep until the gate rings. */
    bool (*poll)(void *ctx);
    void *poll_ctx;
    int spins;             /* before a waiter sleeps */
    bool own_places;       /* waiters have cores of their own: they spin longer */
    struct sl_gate *outer; /* fails with this one; NULL: none; guarded by mutex */
};

void sl_comm_gate_open(struct sl_gate *gate);
void sl_comm_gate_close(struct sl_gate *gate);
void sl_comm_gate_set_outer(struct sl_gate *gate, struct sl_gate *outer);
/* Wake the sleepers whose condition holds now. Any thread may evaluate a condition, under the gate's
 * mutex. */
void sl_comm_gate_ring(struct sl_gate *gate);
/* This worker failed with the error recorded in its thread. The first one counts. */
void sl_comm_gate_fail(struct sl_gate *gate, sl_err err);
/* The first error, with its message put into this thread; SL_OK: none failed. */
SL_MUST_CHECK sl_err sl_comm_gate_error(struct sl_gate *gate);
/* What the calling thread does from now on while it waits at a gate: work() returns soon when
 * ready(ready_ctx), false: there was nothing to do. NULL: nothing. */
typedef bool sl_gate_work(void *ctx, bool (*ready)(void *ctx), void *ready_ctx);
void sl_comm_gate_use_waits(sl_gate_work *work, void *ctx);
/* Wait until ready(ctx); the first error when some worker failed meanwhile. */
SL_MUST_CHECK sl_err sl_comm_gate_wait(struct sl_gate *gate, bool (*ready)(void *ctx), void *ctx);

#endif
