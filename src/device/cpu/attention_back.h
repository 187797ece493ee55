/* What one thread holds while it computes attention_dqkv. */
#ifndef SL_DEVICE_CPU_ATTENTION_BACK_H
#define SL_DEVICE_CPU_ATTENTION_BACK_H

#include "device/cpu/attention.h"

enum { BACK = 64 }; /* a multiple of NR */

struct attend_back {
    struct attention z;
    const float *q, *k, *v, *dy, *y, *lse;
    float *dq, *dk, *dv;
    float *k_lanes, *v_lanes, *dk_lanes, *dv_lanes; /* [S / NR, D, NR] */
    float *q_slivers, *dy_slivers;                  /* [T, D] */
    float *dq_lanes;                                /* [T / NR, D, NR] */
    float *delta;                                   /* [T] */
    float *p, *ds, *turned;                         /* [BACK, BACK] */
    int64_t b, h, q0, k0, queries, keys;            /* this block */
};

static int64_t back_floats(const struct attention *z) {
    int64_t s = up_to(z->s, BACK) * z->d, t = up_to(z->t, BACK) * z->d;
    return 4 * s + t + 2 * up_to(z->t * z->d + VL, VL) + up_to(z->t, VL) + 3 * BACK * BACK;
}

static void back_open(struct attend_back *w, float *scratch) {
    int64_t s = up_to(w->z.s, BACK) * w->z.d, t = up_to(w->z.t, BACK) * w->z.d;
    float **to[] = {&w->k_lanes,  &w->v_lanes,   &w->dk_lanes,   &w->dv_lanes,
                    &w->dq_lanes, &w->q_slivers, &w->dy_slivers, &w->delta,
                    &w->p,        &w->ds,        &w->turned};
    int64_t slivers = up_to(w->z.t * w->z.d + VL, VL), block = BACK * BACK;
    int64_t floats[] = {s, s, s, s, t, slivers, slivers, up_to(w->z.t, VL), block, block, block};
    for (int i = 0; i < SL_COUNT(to); i++) {
        *to[i] = scratch;
        scratch += floats[i];
    }
}

/* Slivers never cross the border of a block. */
static void back_slivers(const struct attend_back *w, const float *from, int64_t step, float *to) {
    const struct attention *z = &w->z;
    from += query_at(z, w->b, w->h, 0, step);
    for (int64_t t = 0; t < z->t; t += BACK)
        pack_slivers(from + t * step, step, least(BACK, z->t - t), z->d, to + t * z->d);
}

/* delta = dy . y, summed like dp: where one key takes all, they cancel to 0. */
static void back_delta(const struct attend_back *w, int64_t t, int64_t rows) {
    const float *dy = w->dy_slivers + t * w->z.d, *y = w->q_slivers + t * w->z.d;
    for (int64_t i = 0; i < rows; i += VL) {
        vf sum = {0};
        for (int64_t k = 0; k < w->z.d; k++)
            sum += load_n(dy + k * rows + i, rows - i) * load_n(y + k * rows + i, rows - i);
        store_n(w->delta + t + i, sum, rows - i);
    }
}

/* turned = ds' */
static void back_turn(const struct attend_back *w) {
    for (int64_t i = 0; i < w->queries; i += VL)
        for (int64_t j = 0; j < w->keys; j += VL) {
            vf x[VL];
#pragma GCC unroll 16
            for (int r = 0; r < VL; r++)
                x[r] = load(w->ds + (i + r) * BACK + j);
            transpose(x);
#pragma GCC unroll 16
            for (int r = 0; r < VL; r++)
                store(w->turned + (j + r) * BACK + i, x[r]);
        }
}

#endif
