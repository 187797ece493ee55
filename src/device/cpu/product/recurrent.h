/* Recurrent products: one small product per step, with a right side that stays packed.
 *
 * A thread owns hidden units [j0, j1) for all samples. Their columns of the recurrent matrix are
 * packed once, and no other thread writes their results. Between steps all threads meet.
 *
 *   panels: [parts, panels of NR columns, k, NR]   an lstm has 4 parts (gates) forward, 1 backward
 */
#ifndef SL_DEVICE_CPU_PRODUCT_RECURRENT_H
#define SL_DEVICE_CPU_PRODUCT_RECURRENT_H

#include "device/cpu/product/gemm_pack.h"

struct sl_recurrent {
    int64_t b, t, h; /* samples, steps, hidden units */
    int64_t k;       /* length of the sums */
    int64_t parts;
    float *scratch;
    int64_t scratch_step;
};

/* The hidden units and the memory of one thread. */
struct sl_recurrent_units {
    int64_t j0, j1, wide;        /* `wide` is j1 - j0 rounded up to panels */
    float *panels, *left, *sums; /* [parts, wide / NR, k, NR], [b, k] slivers, [b, parts, wide] */
};

#define recurrent_floats SL_ISA_NAME(recurrent_floats)
#define units_multiply SL_ISA_NAME(units_multiply)
#define units_of SL_ISA_NAME(units_of)
#define units_pack SL_ISA_NAME(units_pack)

/* Floats of scratch per thread. */
int64_t recurrent_floats(const struct sl_recurrent *r, int threads);
struct sl_recurrent_units units_of(const struct sl_recurrent *r, int thread, int threads);
/* Packs columns part * part_step + [j0, j1) of `right` [k, ...], for every part. */
void units_pack(const struct sl_recurrent *r, const struct sl_recurrent_units *u,
                const struct sl_gemm_matrix *right, int64_t part_step);
/* sums [b, parts, wide] = left [b, k] times the panels. The rows of `left` are left_step apart. */
void units_multiply(const struct sl_recurrent *r, const struct sl_recurrent_units *u,
                    const float *left, int64_t left_step);

/* Loads n floats at p + at; 0 if p is NULL. */
static INLINE vf optional_load(const float *p, int64_t at, int64_t n) {
    return p ? load_n(p + at, n) : (vf){0};
}

#endif
