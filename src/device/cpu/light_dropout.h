/* dropout and alpha_dropout: element i of the run is dropped when word i of its Philox stream is
 * below p 2^32 (op/dropout.h); nothing is kept for the backward pass.
 *
 * One draw makes LANES blocks of four words. Lane l counts block (l % 4) (LANES / 4) + l / 4, so
 * that turning 4 x 4 words within each 16 bytes leaves 4 LANES words in the order of the stream.
 */
#ifndef SL_DEVICE_CPU_LIGHT_DROPOUT_H
#define SL_DEVICE_CPU_LIGHT_DROPOUT_H

#include "device/cpu/light_elementwise.h"

enum { DROP_P, DROP_STREAM };

struct dropper {
    uint64_t seed, stream, first; /* number of the micro-batch's first element in the run */
    uint32_t below;
    float slope, shift, dropped; /* kept: x slope + shift */
    bool add;
};

typedef uint64_t vw __attribute__((vector_size(VEC_BYTES)));

/* The high and low halves of a x k. */
INLINE void multiply_wide(vu a, uint32_t k, vu *high, vu *low) {
    vw even = (vw)multiply_even(a, k + (vu){0});
    vw odd = (vw)multiply_even((vu)((vw)a >> 32), k + (vu){0});
    *high = (vu)((even >> 32) | (odd & 0xFFFFFFFF00000000u));
    *low = (vu)((even & 0xFFFFFFFFu) | (odd << 32));
}

/* The words of LANES blocks from `block` on. */
INLINE void draw(const struct dropper *d, uint64_t block, vu word[4]) {
    vu c[4], key[2] = {(uint32_t)d->seed + (vu){0}, (uint32_t)(d->seed >> 32) + (vu){0}};
    for (int l = 0; l < LANES; l++) {
        uint64_t at = block + (uint64_t)(l % 4 * (LANES / 4) + l / 4);
        c[0][l] = (uint32_t)at;
        c[1][l] = (uint32_t)(at >> 32);
    }
    c[2] = (uint32_t)d->stream + (vu){0};
    c[3] = (uint32_t)(d->stream >> 32) + (vu){0};
    for (int round = 0; round < 10; round++) {
        vu high[2], low[2];
        multiply_wide(c[0], 0xD2511F53u, &high[0], &low[0]);
        multiply_wide(c[2], 0xCD9E8D57u, &high[1], &low[1]);
        c[0] = high[1] ^ c[1] ^ key[0];
        c[1] = low[1];
        c[2] = high[0] ^ c[3] ^ key[1];
        c[3] = low[0];
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    vu a = interleave_low(c[0], c[2]), b = interleave_low(c[1], c[3]);
    word[0] = interleave_low(a, b);
    word[1] = interleave_high(a, b);
    a = interleave_high(c[0], c[2]);
    b = interleave_high(c[1], c[3]);
    word[2] = interleave_low(a, b);
    word[3] = interleave_high(a, b);
}

INLINE vf drop(const struct dropper *d, vf x, vu word) {
    return pick((vi)(word >= d->below), x * d->slope + d->shift, splat(d->dropped));
}

/* Up to 4 LANES elements from element `at` of the run on; they may begin inside a block. */
static void drop_few(const struct dropper *d, float *y, const float *x, uint64_t at, int64_t n) {
    uint32_t word[4 * LANES];
    vu words[4];
    draw(d, at / 4, words);
    memcpy(word, words, sizeof word);
    for (int64_t i = 0; i < n; i++) {
        float v = word[at % 4 + (uint64_t)i] >= d->below ? x[i] * d->slope + d->shift : d->dropped;
        y[i] = d->add ? y[i] + v : v;
    }
}

static void drop_range(const struct dropper *d, float *y, const float *x, int64_t from,
                       int64_t to) {
    uint64_t at = d->first + (uint64_t)from;
    int64_t head = (int64_t)(-at % 4);
    head = head < to - from ? head : to - from;
    if (head > 0)
        drop_few(d, y + from, x + from, at, head);
    for (from += head; from + 4 * LANES <= to; from += 4 * LANES) {
        vu words[4];
        draw(d, (d->first + (uint64_t)from) / 4, words);
        for (int k = 0; k < 4; k++)
            put(y + from + k * LANES, drop(d, load(x + from + k * LANES), words[k]), d->add);
    }
    if (from < to)
        drop_few(d, y + from, x + from, d->first + (uint64_t)from, to - from);
}

typedef void drop_numbers(struct dropper *d, double p);

INLINE void drop_part(void *ctx, int thread, int threads, drop_numbers *numbers) {
    const struct sl_cpu_call *call = ctx;
    const union sl_attr *attr = call->instr->attr;
    int64_t count = numel_out(call, 0), from, to;
    struct dropper d = {
        .seed = call->seed,
        .stream = (uint64_t)attr[DROP_STREAM].i,
        .first = (uint64_t)(call->first_sample * (count / call->samples)),
        .below = (uint32_t)(attr[DROP_P].f * 4294967296.0),
        .add = call->add,
    };
    numbers(&d, attr[DROP_P].f);
    sl_pool_range(count, 4 * LANES, thread, threads, &from, &to);
    drop_range(&d, call->out[0], call->in[0], from, to);
}

static void dropout_numbers(struct dropper *d, double p) { d->slope = (float)(1 / (1 - p)); }

static const double alpha_lowest = -1.7580993408473768599; /* -lambda alpha of selu */

static double alpha_slope(double p) {
    return 1 / sqrt((1 - p) * (1 + p * alpha_lowest * alpha_lowest));
}

static void alpha_numbers(struct dropper *d, double p) {
    double a = alpha_slope(p), b = -a * p * alpha_lowest;
    d->slope = (float)a;
    d->shift = (float)b;
    d->dropped = (float)(a * alpha_lowest + b);
}

static void alpha_dx_numbers(struct dropper *d, double p) { d->slope = (float)alpha_slope(p); }

#define DROP(name, numbers)                                                                        \
    static void name##_part(void *ctx, int thread, int threads) {                                  \
        drop_part(ctx, thread, threads, numbers);                                                  \
    }                                                                                              \
    static void k_##name(const struct sl_cpu_call *call) {                                         \
        split(call, numel_out(call, 0), name##_part);                                              \
    }

DROP(dropout, dropout_numbers)
DROP(alpha_dropout, alpha_numbers)
DROP(alpha_dropout_dx, alpha_dx_numbers)

#endif
