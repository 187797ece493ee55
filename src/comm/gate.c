/* Waiting: spin for a while, then sleep. */
#include "comm/gate.h"

#include "device/bind.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

/* LONGER: how many times more spins, if the thread has other work to do while it waits. */
enum { SPINS = 4000, LONGER = 16 };

static _Thread_local struct {
    sl_gate_work *work;
    void *ctx;
} idle;

void sl_comm_gate_use_waits(sl_gate_work *work, void *ctx) {
    idle.work = work;
    idle.ctx = ctx;
}

static bool work_idly(bool (*ready)(void *ctx), void *ctx) {
    return idle.work && idle.work(idle.ctx, ready, ctx);
}

struct sl_sleeper {
    bool (*ready)(void *ctx);
    void *ctx;
    pthread_cond_t wake;
    struct sl_sleeper *next;
};

void sl_comm_gate_open(struct sl_gate *gate) {
    /* no spins on one core: the other thread cannot run while this one spins */
    *gate = (struct sl_gate){.err = SL_OK, .spins = sl_device_bind_count() == 1 ? 0 : SPINS};
    pthread_mutex_init(&gate->mutex, NULL);
}

void sl_comm_gate_close(struct sl_gate *gate) { pthread_mutex_destroy(&gate->mutex); }

void sl_comm_gate_set_outer(struct sl_gate *gate, struct sl_gate *outer) {
    pthread_mutex_lock(&gate->mutex);
    gate->outer = outer;
    pthread_mutex_unlock(&gate->mutex);
}

void sl_comm_gate_ring(struct sl_gate *gate) {
    /* orders the ring before this test, against the sleeper's increment and its test */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&gate->sleepers) == 0)
        return;
    pthread_mutex_lock(&gate->mutex);
    for (struct sl_sleeper *s = gate->asleep; s; s = s->next)
        if (s->ready(s->ctx))
            pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&gate->mutex);
}

void sl_comm_gate_fail(struct sl_gate *gate, sl_err err) {
    pthread_mutex_lock(&gate->mutex);
    if (gate->err == SL_OK) {
        gate->err = err;
        snprintf(gate->message, sizeof gate->message, "%s", sl_err_message());
    }
    atomic_store(&gate->failed, true);
    for (struct sl_sleeper *s = gate->asleep; s; s = s->next)
        pthread_cond_signal(&s->wake);
    struct sl_gate *outer = gate->outer;
    pthread_mutex_unlock(&gate->mutex);
    if (outer)
        sl_comm_gate_fail(outer, err);
}

sl_err sl_comm_gate_error(struct sl_gate *gate) {
    pthread_mutex_lock(&gate->mutex);
    sl_err err = gate->err;
    if (err != SL_OK)
        sl_err_set_message(gate->message);
    pthread_mutex_unlock(&gate->mutex);
    return err;
}

/* Waits with a poll: polls, and yields the core if there was no progress. */
static sl_err wait_polling(struct sl_gate *gate, bool (*ready)(void *ctx), void *ctx) {
    const struct timespec nap = {.tv_nsec = 20000};
    int64_t until_ns = 0;
    for (int turns = 0;; turns += turns <= SPINS) {
        if (ready(ctx))
            return SL_OK;
        if (atomic_load_explicit(&gate->failed, memory_order_relaxed))
            return sl_comm_gate_error(gate);
        if (gate->poll(gate->poll_ctx) || work_idly(ready, ctx))
            turns = 0, until_ns = 0;
        else if (turns > SPINS && !(gate->own_places && sl_device_bind_stay_awake(&until_ns)))
            nanosleep(&nap, NULL);
        else if (turns > SPINS / 100)
            sched_yield();
    }
}

/* Sleeps until the condition holds. Returns false if a worker failed first. */
static bool sleep_until_ready(struct sl_gate *gate, struct sl_sleeper *self) {
    struct sl_sleeper **at = &gate->asleep;
    bool come;
    pthread_mutex_lock(&gate->mutex);
    self->next = gate->asleep;
    gate->asleep = self;
    atomic_fetch_add(&gate->sleepers, 1);
    while (!(come = self->ready(self->ctx)) && !atomic_load(&gate->failed))
        pthread_cond_wait(&self->wake, &gate->mutex);
    atomic_fetch_sub(&gate->sleepers, 1);
    while (*at != self)
        at = &(*at)->next;
    *at = self->next;
    pthread_mutex_unlock(&gate->mutex);
    return come;
}

sl_err sl_comm_gate_wait(struct sl_gate *gate, bool (*ready)(void *ctx), void *ctx) {
    if (gate->poll)
        return wait_polling(gate, ready, ctx);
    int spins = idle.work ? LONGER * gate->spins : gate->spins;
    int64_t until_ns = 0;
    for (int i = 0; i < spins || (gate->own_places && sl_device_bind_stay_awake(&until_ns)); i++) {
        if (ready(ctx))
            return SL_OK;
        if (atomic_load_explicit(&gate->failed, memory_order_relaxed))
            return sl_comm_gate_error(gate);
        if (work_idly(ready, ctx))
            i = 0, until_ns = 0;
        __builtin_ia32_pause();
    }
    struct sl_sleeper self = {ready, ctx, PTHREAD_COND_INITIALIZER, NULL};
    bool come = sleep_until_ready(gate, &self);
    pthread_cond_destroy(&self.wake);
    return come ? SL_OK : sl_comm_gate_error(gate);
}
