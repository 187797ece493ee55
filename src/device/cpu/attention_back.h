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

#endif
