/* The gate of a process: who waits for another worker waits here, and who fails tells it. */
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
    /* A transport that moves nothing by itself is asked to by those who wait, instead of their
     * sleeping. True: something moved. NULL: waiters sleep until somebody rings. */
    bool (*poll)(void *ctx);
    void *poll_ctx;
    int spins;             /* before a waiter sleeps */
    bool own_places;       /* waiters are bound, each to its own: then they stay awake longer */
    struct sl_gate *outer; /* fails with this one; NULL: none; guarded by mutex */
};

void sl_comm_gate_open(struct sl_gate *gate);
void sl_comm_gate_close(struct sl_gate *gate);
void sl_comm_gate_set_outer(struct sl_gate *gate, struct sl_gate *outer);
/* Something changed: wake those who sleep and are ready now. Asks for them: what they wait for is
 * seen under the gate's mutex, by any thread. */
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
