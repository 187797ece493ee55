/* What one thread works on while it computes attention, and the products with vectors. */
#ifndef SL_DEVICE_CPU_ATTENTION_WORK_H
#define SL_DEVICE_CPU_ATTENTION_WORK_H

#include "device/cpu/attention_amx.h"

enum { KEYS = 8 * MR, MOST_KEYS = KEYS > AMX_KEYS ? KEYS : AMX_KEYS };

struct attend {
    struct attention z;
    const float *q, *k, *v;
    float *y, *lse;
    float *packed_k, *packed_q, *s, *o; /* [S, D] slivers, [D, NR], [KEYS, NR], [D, NR] */
    struct attend_tiles tiles;          /* instead of packed_k and packed_q where AMX is used */
    bool amx;
    int64_t packed_pair; /* sample and key head in packed_k, -1: none */
    int64_t b, h, t0;    /* this block */
    vf top[NV], sum[NV];
};

static int64_t attend_floats(const struct attention *z) {
    int64_t packed_k = amx_attends(z) ? attend_tiles_floats(z) : up_to(z->s * z->d + VL, VL);
    return packed_k + 2 * z->d * NR + MOST_KEYS * NR;
}

/* s [keys, NR] = k q' */
static void attend_scores(const struct attend *w, int64_t j0, int64_t keys) {
    const struct attention *z = &w->z;
    for (int64_t i = 0; i < keys; i += MR) {
        int64_t rows = least(MR, keys - i), high = least(MR, z->s - j0 - i);
        struct tile t = {.kc = z->d,
                         .a = w->packed_k + (j0 + i) * z->d,
                         .a_step = high,
                         .b = w->packed_q,
                         .b_step = NR,
                         .c = w->s + i * NR,
                         .ldc = NR,
                         .next = VL};
        tiles[rows - 1][NV - 1](&t);
    }
}

/* o (+)= v' p */
static void attend_values(const struct attend *w, int64_t j0, int64_t keys) {
    const struct attention *z = &w->z;
    const float *value = w->v + key_at(z, w->b, w->h / z->group, j0, z->v_step);
    for (int64_t k = 0; k < z->d; k += MR) {
        struct tile t = {.kc = keys,
                         .a = value + k,
                         .a_step = z->v_step,
                         .b = w->s,
                         .b_step = NR,
                         .c = w->o + k * NR,
                         .ldc = NR,
                         .next = VL,
                         .start = j0 ? w->o + k * NR : NULL,
                         .start_step = NR};
        tiles[least(MR, z->d - k) - 1][NV - 1](&t);
    }
}

/* Keys and values of a pair, once for all its blocks; queries of this block, scaled. */
static void attend_pack(struct attend *w, int64_t rows) {
    const struct attention *z = &w->z;
    int64_t hk = w->h / z->group, pair = w->b * z->hk + hk;
    const float *k = w->k + key_at(z, w->b, hk, 0, z->k_step);
    const float *q = w->q + query_at(z, w->b, w->h, w->t0, z->q_step);
    if (pair != w->packed_pair && w->amx)
        amx_pack_keys(z, &w->tiles, k, w->v + key_at(z, w->b, hk, 0, z->v_step));
    else if (pair != w->packed_pair)
        pack_slivers(k, z->k_step, z->s, z->d, w->packed_k);
    w->packed_pair = pair;
    pack_lanes(q, z->q_step, rows, z->d, w->packed_q);
    scale_by(w->packed_q, z->d * NR, z->scale);
    if (w->amx)
        amx_pack_queries(z, &w->tiles, w->packed_q, rows);
}

#endif
