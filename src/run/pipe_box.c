/* Boxes, and the waiting of workers for each other: spin for a while, then sleep. */
#include "run/pipe_box.h"

#include "base/arena.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPINS = 4000 };

void sl_gate_open(struct sl_gate *gate) {
    *gate = (struct sl_gate){.err = SL_OK};
    pthread_mutex_init(&gate->mutex, NULL);
    pthread_cond_init(&gate->wake, NULL);
}

void sl_gate_close(struct sl_gate *gate) {
    pthread_mutex_destroy(&gate->mutex);
    pthread_cond_destroy(&gate->wake);
}

void sl_gate_ring(struct sl_gate *gate) {
    atomic_thread_fence(memory_order_seq_cst); /* against the sleeper's increment, then look */
    if (atomic_load(&gate->sleepers) == 0)
        return;
    pthread_mutex_lock(&gate->mutex);
    pthread_cond_broadcast(&gate->wake);
    pthread_mutex_unlock(&gate->mutex);
}

void sl_gate_fail(struct sl_gate *gate, sl_err err) {
    pthread_mutex_lock(&gate->mutex);
    if (gate->err == SL_OK) {
        gate->err = err;
        snprintf(gate->message, sizeof gate->message, "%s", sl_err_message());
    }
    atomic_store(&gate->failed, true);
    pthread_cond_broadcast(&gate->wake);
    pthread_mutex_unlock(&gate->mutex);
}

static sl_err first_error(struct sl_gate *gate) {
    pthread_mutex_lock(&gate->mutex);
    sl_err err = gate->err;
    sl_err_set_message(gate->message);
    pthread_mutex_unlock(&gate->mutex);
    return err;
}

sl_err sl_gate_wait(struct sl_gate *gate, bool (*ready)(void *ctx), void *ctx) {
    for (int i = 0; i < SPINS; i++) {
        if (ready(ctx))
            return SL_OK;
        if (atomic_load_explicit(&gate->failed, memory_order_relaxed))
            return first_error(gate);
        __builtin_ia32_pause();
    }
    pthread_mutex_lock(&gate->mutex);
    atomic_fetch_add(&gate->sleepers, 1);
    while (!ready(ctx) && !atomic_load(&gate->failed))
        pthread_cond_wait(&gate->wake, &gate->mutex);
    atomic_fetch_sub(&gate->sleepers, 1);
    pthread_mutex_unlock(&gate->mutex);
    return ready(ctx) ? SL_OK : first_error(gate);
}

sl_err sl_box_open(struct sl_box *box, struct sl_gate *gate, struct sl_device *device, int count,
                   int64_t size_bytes) {
    *box = (struct sl_box){.gate = gate,
                           .count = count,
                           .size_bytes = (size_bytes + 63) & ~63LL,
                           .device = device};
    int64_t bytes = box->size_bytes * count;
    box->full = calloc((size_t)count, sizeof *box->full);
    if (!box->full)
        sl_out_of_memory((size_t)count * sizeof *box->full);
    void *memory;
    SL_TRY(device->row->alloc(device, bytes ? bytes : 64, &memory));
    box->memory = memory;
    return SL_OK;
}

void sl_box_close(struct sl_box *box) {
    if (box->memory)
        box->device->row->free(box->device, box->memory);
    free(box->full);
    *box = (struct sl_box){0};
}

struct place {
    struct sl_box *box;
    int64_t n, want;
};

static bool place_is(void *ctx) {
    struct place *p = ctx;
    return atomic_load_explicit(&p->box->full[p->n % p->box->count], memory_order_acquire) ==
           p->want;
}

static sl_err wait_place(struct sl_box *box, int64_t n, int64_t want, char **out) {
    struct place place = {box, n, want};
    SL_TRY(sl_gate_wait(box->gate, place_is, &place));
    *out = box->memory + (n % box->count) * box->size_bytes;
    return SL_OK;
}

static void set_place(struct sl_box *box, int64_t n, int64_t value) {
    atomic_store_explicit(&box->full[n % box->count], value, memory_order_release);
    sl_gate_ring(box->gate);
}

sl_err sl_box_reserve(struct sl_box *box, int64_t n, char **out) {
    return wait_place(box, n, 0, out);
}

void sl_box_send(struct sl_box *box, int64_t n) { set_place(box, n, n + 1); }

sl_err sl_box_receive(struct sl_box *box, int64_t n, char **out) {
    return wait_place(box, n, n + 1, out);
}

void sl_box_release(struct sl_box *box, int64_t n) { set_place(box, n, 0); }

struct round {
    struct sl_meeting *meeting;
    int64_t want;
};

static bool round_full(void *ctx) {
    struct round *r = ctx;
    return atomic_load_explicit(&r->meeting->arrived, memory_order_acquire) >= r->want;
}

sl_err sl_meeting_join(struct sl_meeting *meeting) {
    int64_t mine = atomic_fetch_add(&meeting->arrived, 1);
    struct round round = {meeting, (mine / meeting->members + 1) * meeting->members};
    sl_gate_ring(meeting->gate);
    return sl_gate_wait(meeting->gate, round_full, &round);
}
