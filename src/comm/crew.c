/* The members of a group in one process: their barrier, slices and sums. */
#include "comm/crew.h"

#include <string.h>

struct round {
    struct sl_crew *crew;
    int64_t want;
};

static bool round_full(void *ctx) {
    struct round *r = ctx;
    return atomic_load_explicit(&r->crew->arrived, memory_order_acquire) >= r->want;
}

sl_err sl_comm_crew_meet(struct sl_crew *crew) {
    int64_t mine = atomic_fetch_add(&crew->arrived, 1);
    struct round round = {crew, (mine / crew->members + 1) * crew->members};
    sl_comm_gate_ring(crew->gate);
    return sl_comm_gate_wait(crew->gate, round_full, &round);
}

struct sl_crew_slice sl_comm_slice_of(int64_t count, int i, int n) {
    enum { LINE = 16 }; /* floats of a cache line */
    int64_t lines = (count + LINE - 1) / LINE;
    int64_t first = lines * i / n * LINE, end = lines * (i + 1) / n * LINE;
    end = end < count ? end : count;
    return (struct sl_crew_slice){first, end > first ? end - first : 0};
}

/* Floats of a block. On the host it fits a core's cache; on a device it is worth a kernel
 * launch. */
enum { BLOCK = 1 << 13, BLOCK_APART = 1 << 22 };

sl_err sl_comm_adder_open(struct sl_adder *adder, struct sl_device *device) {
    *adder =
        (struct sl_adder){.device = device, .floats = device->row->apart ? BLOCK_APART : BLOCK};
    return device->row->alloc(device, adder->floats * (int64_t)sizeof(float), &adder->block);
}

void sl_comm_adder_close(struct sl_adder *adder) {
    if (adder->device && adder->block)
        adder->device->row->free(adder->device, adder->block);
}

/* Sums into scratch memory, block by block, because `out` may be one of the terms. */
sl_err sl_comm_adder_sum(const struct sl_adder *adder, const float *const *terms, int term_count,
                         struct sl_crew_slice slice, float *out) {
    struct sl_device *device = adder->device;
    const struct sl_device_row *row = device->row;
    for (int64_t at = slice.first; at < slice.first + slice.count; at += adder->floats) {
        int64_t left = slice.first + slice.count - at;
        int64_t n = left < adder->floats ? left : adder->floats;
        SL_TRY(row->copy(device, SL_STREAM_COMPUTE, adder->block, terms[0] + at, n * 4));
        for (int t = 1; t < term_count; t++)
            SL_TRY(row->add(device, adder->block, terms[t] + at, n));
        SL_TRY(row->copy(device, SL_STREAM_COMPUTE, out + at, adder->block, n * 4));
    }
    return row->sync(device, SL_STREAM_COMPUTE);
}

void sl_comm_merge_words(void *into, const void *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t a, b;
        memcpy(&a, (char *)into + i * 8, 8);
        memcpy(&b, (const char *)from + i * 8, 8);
        a |= b;
        memcpy((char *)into + i * 8, &a, 8);
    }
}
