/* What lstm and its gradient share: one product per step whose right side stays packed.
 *
 * A thread owns hidden units [j0, j1) for all samples: their columns of the recurrent matrix are
 * packed once, and no other thread writes what it writes. Between steps all threads meet.
 *
 *   room: [parts, panels of NR columns, k, NR]   parts: 4 gates forward, 1 backward
 */
#ifndef SL_DEVICE_CPU_LSTM_STEPS_H
#define SL_DEVICE_CPU_LSTM_STEPS_H

#include "device/cpu/gemm_run.h"

struct recurrent {
    int64_t b, t, h; /* samples, steps, hidden units */
    int64_t k;       /* length of the sums */
    int64_t parts;
    float *scratch;
    int64_t scratch_step;
};

/* A thread's units and memory. */
struct units {
    int64_t j0, j1, wide;        /* wide: j1 - j0 up to whole vectors */
    float *panels, *left, *sums; /* [parts, wide / NR, k, NR], [b, k] slivers, [b, parts, wide] */
};

static int64_t units_wide(const struct recurrent *r, int threads) {
    int64_t share = (up_to(r->h, VL) / VL + threads - 1) / threads * VL;
    return up_to(share, NR);
}

static int64_t recurrent_floats(const struct recurrent *r, int threads) {
    int64_t wide = units_wide(r, threads);
    return r->parts * wide * r->k + up_to(r->b * r->k + VL, 16) + r->b * r->parts * wide;
}

static struct units units_of(const struct recurrent *r, int thread, int threads) {
    struct units u = {.wide = units_wide(r, threads)};
    sl_pool_range(r->h, VL, thread, threads, &u.j0, &u.j1);
    u.panels = r->scratch + thread * r->scratch_step;
    u.left = u.panels + r->parts * u.wide * r->k;
    u.sums = u.left + up_to(r->b * r->k + VL, 16);
    return u;
}

/* Columns part * part_step + [j0, j1) of `right` [k, ...]. */
static void units_pack(const struct recurrent *r, const struct units *u, const struct matrix *right,
                       int64_t part_step) {
    for (int64_t part = 0; part < r->parts; part++)
        for (int64_t j = u->j0; j < u->j1; j += NR) {
            float *to = u->panels + (part * u->wide + j - u->j0) * r->k;
            pack_b(right, part * part_step + j, least(NR, u->j1 - j), 0, r->k, to);
        }
}

/* sums [b, parts, wide] = left [b, k], rows left_step apart, times the panels. */
static void units_multiply(const struct recurrent *r, const struct units *u, const float *left,
                           int64_t left_step) {
    const struct matrix a = {left, left_step, false};
    /* Tiles of about the same height: 16 samples are 8 and 8, not 14 and 2. */
    int64_t tiles_high = (r->b + MR - 1) / MR, high = (r->b + tiles_high - 1) / tiles_high;
    for (int64_t i = 0; i < r->b; i += high)
        pack_a(&a, i, least(high, r->b - i), 0, r->k, u->left + i * r->k);
    for (int64_t part = 0; part < r->parts; part++)
        for (int64_t j = 0; j < u->j1 - u->j0; j += NR)
            for (int64_t i = 0; i < r->b; i += high) {
                int64_t rows = least(high, r->b - i), cols = least(NR, u->j1 - u->j0 - j);
                struct tile t = {
                    .kc = r->k,
                    .a = u->left + i * r->k,
                    .a_step = rows,
                    .b = u->panels + (part * u->wide + j) * r->k,
                    .b_step = up_to(cols, VL),
                    .c = u->sums + (i * r->parts + part) * u->wide + j,
                    .ldc = r->parts * u->wide,
                    .next = VL,
                };
                tiles[rows - 1][(cols - 1) / VL](&t);
            }
}

#endif
