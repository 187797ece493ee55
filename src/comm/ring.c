/* A ring of message places in one process. */
#include "comm/ring.h"

#include "base/arena.h"
#include "base/clock.h"

#include <stdlib.h>

sl_err sl_comm_ring_open(struct sl_ring *ring, struct sl_gate *gate,
                         const struct sl_channel_spec *spec) {
    *ring = (struct sl_ring){.gate = gate,
                             .count = spec->places,
                             .size_bytes = (spec->size_bytes + 63) & ~63LL,
                             .device = spec->device};
    int64_t bytes = ring->size_bytes * ring->count;
    void *memory = NULL;
    bytes = bytes ? bytes : 64;
    ring->places = calloc((size_t)ring->count, sizeof *ring->places);
    if (!ring->places)
        sl_out_of_memory((size_t)ring->count * sizeof *ring->places);
    sl_err err = SL_OK;
    if (ring->device)
        err = ring->device->row->alloc(ring->device, bytes, &memory);
    else if (!(memory = aligned_alloc(64, (size_t)bytes)))
        err = sl_fail(SL_ERR_SYSTEM, "cannot allocate %lld bytes for messages", (long long)bytes);
    ring->memory = memory;
    if (err != SL_OK)
        sl_comm_ring_close(ring);
    return err;
}

int64_t sl_comm_ring_bytes(const struct sl_ring *ring) {
    return ring->count * (ring->size_bytes + (int64_t)sizeof *ring->places);
}

void sl_comm_ring_close(struct sl_ring *ring) {
    if (ring->device && ring->memory)
        ring->device->row->free(ring->device, ring->memory);
    else
        free(ring->memory);
    free(ring->places);
    *ring = (struct sl_ring){0};
}

struct wait {
    struct sl_place *place;
    int64_t want;
};

static bool place_is(void *ctx) {
    struct wait *w = ctx;
    return atomic_load_explicit(&w->place->full, memory_order_acquire) == w->want;
}

static struct sl_place *place_of(struct sl_ring *ring, int64_t n) {
    return &ring->places[n % ring->count];
}

static char *memory_of(struct sl_ring *ring, int64_t n) {
    return ring->memory + (n % ring->count) * ring->size_bytes;
}

static void set_full(struct sl_ring *ring, int64_t n, int64_t value) {
    atomic_store_explicit(&place_of(ring, n)->full, value, memory_order_release);
    sl_comm_gate_ring(ring->gate);
}

sl_err sl_comm_ring_reserve(struct sl_ring *ring, int64_t n, char **out) {
    struct wait wait = {place_of(ring, n), 0};
    SL_TRY(sl_comm_gate_wait(ring->gate, place_is, &wait));
    *out = memory_of(ring, n);
    return SL_OK;
}

void sl_comm_ring_send(struct sl_ring *ring, int64_t n, int64_t size_bytes) {
    place_of(ring, n)->size_bytes = size_bytes;
    place_of(ring, n)->sent_ns = sl_clock_ns();
    set_full(ring, n, n + 1);
}

sl_err sl_comm_ring_receive(struct sl_ring *ring, int64_t n, struct sl_message *out) {
    struct sl_place *place = place_of(ring, n);
    struct wait wait = {place, n + 1};
    SL_TRY(sl_comm_gate_wait(ring->gate, place_is, &wait));
    *out = (struct sl_message){memory_of(ring, n), place->size_bytes, place->sent_ns};
    return SL_OK;
}

void sl_comm_ring_release(struct sl_ring *ring, int64_t n) { set_full(ring, n, 0); }
