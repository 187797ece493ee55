/* dropout and alpha_dropout: element i is dropped if word i of its Philox stream is below p 2^32
 * (op/dropout.h). Nothing is stored for the backward pass.
 *
 * One draw computes LANES / 2 blocks of four words, one block per 64-bit lane. Only the lower
 * halves of the lanes are valid. Lane 2 q computes block q, lane 2 q + 1 block LANES / 4 + q: then
 * interleaving yields the words in the order of the stream.
 */
#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/vec.h"

enum { DROP_P, DROP_STREAM };

typedef uint64_t vw __attribute__((vector_size(SL_ISA_VEC_BYTES)));

struct dropper {
    vw lane; /* block of each lane, relative to the first */
    uint64_t seed, stream,
        first; /* `first` is the index in the stream of the micro-batch's first element */
    uint32_t below;
    float slope, shift, dropped; /* a kept element becomes x slope + shift */
    bool add;
};

/* Draws 2 LANES words, from `block` on. */
static INLINE void draw(const struct dropper *d, uint64_t block, vu word[2]) {
    vw c[4], key[2] = {(d->seed & 0xFFFFFFFFu) + (vw){0}, (d->seed >> 32) + (vw){0}};
    const vu factor[2] = {0xD2511F53u + (vu){0}, 0xCD9E8D57u + (vu){0}};
    c[0] = block + d->lane;
    c[1] = c[0] >> 32;
    c[2] = d->stream + (vw){0};
    c[3] = c[2] >> 32;
    for (int round = 0; round < 10; round++) {
        vw p0 = (vw)multiply_even((vu)c[0], factor[0]), p1 = (vw)multiply_even((vu)c[2], factor[1]);
        c[0] = (p1 >> 32) ^ c[1] ^ key[0];
        c[1] = p1;
        c[2] = (p0 >> 32) ^ c[3] ^ key[1];
        c[3] = p0;
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    vu a = (vu)((c[0] & 0xFFFFFFFFu) | (c[1] << 32)), b = (vu)((c[2] & 0xFFFFFFFFu) | (c[3] << 32));
    word[0] = interleave_low(a, b);
    word[1] = interleave_high(a, b);
}

static INLINE vf drop(const struct dropper *d, vf x, vu word) {
    return pick((vi)(word >= d->below), x * d->slope + d->shift, splat(d->dropped));
}

/* Handles n < 2 LANES elements from element `at` of the stream on. If `at` is inside a block, n is
 * at most 3. */
static void drop_few(const struct dropper *d, float *y, const float *x, uint64_t at, int64_t n) {
    uint32_t word[2 * LANES];
    vu words[2];
    draw(d, at / 4, words);
    memcpy(word, words, sizeof words);
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
    for (from += head; from + 2 * LANES <= to; from += 2 * LANES) {
        vu words[2];
        draw(d, (d->first + (uint64_t)from) / 4, words);
        for (int k = 0; k < 2; k++)
            put(y + from + k * LANES, drop(d, load(x + from + k * LANES), words[k]), d->add);
    }
    if (from < to)
        drop_few(d, y + from, x + from, d->first + (uint64_t)from, to - from);
}

typedef void drop_numbers(struct dropper *d, double p);

static INLINE void drop_part(void *ctx, int thread, int threads, drop_numbers *numbers) {
    const struct sl_device_cpu_call *call = ctx;
    const union sl_attr *attr = call->instr->attr;
    int64_t count = numel_out(call, 0), from, to;
    struct dropper d = {
        .seed = call->seed,
        .stream = (uint64_t)attr[DROP_STREAM].i,
        .first = (uint64_t)(call->first_sample * (count / call->samples)),
        .below = (uint32_t)(attr[DROP_P].f * 4294967296.0),
        .add = call->add,
    };
    for (uint64_t l = 0; l < LANES / 2; l++)
        d.lane[l] = l % 2 * (LANES / 4) + l / 2;
    numbers(&d, attr[DROP_P].f);
    sl_device_pool_range(count, 4 * LANES, thread, threads, &from, &to);
    drop_range(&d, call->out[0], call->in[0], from, to);
}

static void dropout_numbers(struct dropper *d, double p) { d->slope = (float)(1 / (1 - p)); }

/* The lowest value of selu, -lambda alpha. */
static const double alpha_lowest = -1.7580993408473768599;

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
    static void k_##name(const struct sl_device_cpu_call *call) {                                  \
        run_parts(call, numel_out(call, 0), name##_part);                                          \
    }

DROP(dropout, dropout_numbers)
DROP(alpha_dropout, alpha_numbers)
DROP(alpha_dropout_dx, alpha_dx_numbers)

const struct sl_device_cpu_kernel SL_ISA_NAME(dropout_kernels)[] = {
    {"alpha_dropout", k_alpha_dropout, NULL},
    {"alpha_dropout_dx", k_alpha_dropout_dx, NULL},
    {"dropout", k_dropout, NULL},
    {0},
};
