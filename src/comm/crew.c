/* Members of a group that live in one process. */
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

sl_err sl_crew_meet(struct sl_crew *crew) {
    int64_t mine = atomic_fetch_add(&crew->arrived, 1);
    struct round round = {crew, (mine / crew->members + 1) * crew->members};
    sl_gate_ring(crew->gate);
    return sl_gate_wait(crew->gate, round_full, &round);
}

struct sl_slice sl_slice_of(int64_t count, int i, int n) {
    enum { LINE = 16 }; /* floats */
    int64_t lines = (count + LINE - 1) / LINE;
    int64_t first = lines * i / n * LINE, end = lines * (i + 1) / n * LINE;
    end = end < count ? end : count;
    return (struct sl_slice){first, end > first ? end - first : 0};
}

/* Block by block in memory of its own, because `out` may be any of the terms. */
void sl_sum_terms(const float *const *terms, int term_count, struct sl_slice slice, float *out) {
    enum { BLOCK = 1024 };
    float sum[BLOCK];
    for (int64_t at = 0; at < slice.count; at += BLOCK) {
        int64_t n = slice.count - at < BLOCK ? slice.count - at : BLOCK;
        memcpy(sum, terms[0] + slice.first + at, (size_t)n * sizeof(float));
        for (int t = 1; t < term_count; t++) {
            const float *x = terms[t] + slice.first + at;
            for (int64_t i = 0; i < n; i++)
                sum[i] += x[i];
        }
        memcpy(out + at, sum, (size_t)n * sizeof(float));
    }
}

void sl_merge_words(void *into, const void *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t a, b;
        memcpy(&a, (char *)into + i * 8, 8);
        memcpy(&b, (const char *)from + i * 8, 8);
        a |= b;
        memcpy((char *)into + i * 8, &a, 8);
    }
}
