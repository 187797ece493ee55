/* Floats as sums of three bf16, or as the nearest one, packed for the tiles of AMX.
 *
 *   x = high + middle + low      exactly: 8 bits of mantissa each, rounded, so that every part is
 *                                at most 2^-9 of the one before
 *
 * A tile has 16 rows of 64 bytes. A tile of A holds 16 rows of the matrix and 32 of k, a tile of B
 * 32 of k and 16 columns, two of k side by side as the instruction wants them. Which two is free as
 * long as A and B agree: here k and k + 16, so that the two come from whole vectors.
 *
 * NaN stays NaN (of three parts in the low one); infinity becomes NaN, as one part it stays; what
 * is below 2^-126 counts as 0.
 */
#ifndef SL_DEVICE_CPU_AMX_SPLIT_H
#define SL_DEVICE_CPU_AMX_SPLIT_H

#include "device/cpu/amx.h"

/* The nearest bf16, in the upper half. Only as one part it must be the even one of two, and NaN. */
INLINE vu amx_nearest(vf x) {
    if (AMX_PARTS == 1)
        return bf16_nearest(x);
    return ((vu)x + 0x8000u) & 0xFFFF0000u;
}

/* One row of the tiles of a step, a tile per part: x0 are 16 values of k, x1 the next 16. */
INLINE void amx_split(vf x0, vf x1, char *to) {
#pragma GCC unroll 3
    for (int part = 0; part < AMX_PARTS; part++) {
        vu y0 = part < 2 ? amx_nearest(x0) : (vu)x0, y1 = part < 2 ? amx_nearest(x1) : (vu)x1;
        vu row = y0 >> 16 | (y1 & 0xFFFF0000u); /* of tiny values bits are left in the lower half */
        memcpy(to + part * AMX_PART, &row, sizeof row);
        x0 -= (vf)y0;
        x1 -= (vf)y1;
    }
}

/* Line r of 16; `lines` and `lanes` of it are there. */
INLINE vf amx_line(const struct amx_source *s, const float *from, int r, int64_t lines,
                   int64_t lanes) {
    if (lines >= VL && lanes >= VL)
        return load(from + r * s->ld);
    return r < lines && lanes > 0 ? load_n(from + r * s->ld, lanes) : (vf){0};
}

/* One step of a tile whose rows are lines of memory. `left` of k are there; they are summed for
 * every lane unless k runs along the lanes. */
INLINE void amx_pack_lines(const struct amx_source *s, int64_t k, int64_t left, vf *sum, char *to) {
    bool along = s->k_in_lanes;
    const float *from = s->from + (along ? k : k * s->ld);
    const float *second = from + (along ? VL : VL * s->ld);
    int64_t lines[2] = {along ? s->count : left, along ? s->count : left - VL};
    int64_t lanes[2] = {along ? left : s->count, along ? left - VL : s->count};
#pragma GCC unroll 4
    for (int r = 0; r < VL; r++) {
        vf x0 = amx_line(s, from, r, lines[0], lanes[0]);
        vf x1 = amx_line(s, second, r, lines[1], lanes[1]);
        if (sum)
            *sum += x0 + x1;
        amx_split(x0, x1, to + r * 64);
    }
}

INLINE void amx_sum(const vf x[VL], vf *sum) {
#pragma GCC unroll 16
    for (int r = 0; r < VL; r++)
        *sum += x[r];
}

/* 16 x 16 turned; sums over k are taken where k does not run along the lanes. */
INLINE void amx_turn(const struct amx_source *s, int64_t k, int64_t left, vf *sum, vf x[VL]) {
    int64_t lines = s->k_in_lanes ? s->count : left, lanes = s->k_in_lanes ? left : s->count;
    const float *from = s->from + (s->k_in_lanes ? k : k * s->ld);
    if (lines >= VL && lanes >= VL) {
#pragma GCC unroll 16
        for (int r = 0; r < VL; r++)
            x[r] = load(from + r * s->ld);
    } else {
        for (int r = 0; r < VL; r++)
            x[r] = amx_line(s, from, r, lines, lanes);
    }
    if (sum && !s->k_in_lanes)
        amx_sum(x, sum);
    transpose(x);
    if (sum && s->k_in_lanes)
        amx_sum(x, sum);
}

/* The same where the rows of a tile are columns of memory. */
INLINE void amx_pack_turned(const struct amx_source *s, int64_t k, int64_t left, vf *sum,
                            char *to) {
    vf x0[VL], x1[VL];
    amx_turn(s, k, left, sum, x0);
    amx_turn(s, k + VL, left - VL, sum, x1);
#pragma GCC unroll 4
    for (int r = 0; r < VL; r++)
        amx_split(x0[r], x1[r], to + r * 64);
}

/* One step of a tile, for each of the four ways a matrix can lie. */
typedef void amx_pack_fn(const struct amx_source *s, int64_t k, int64_t left, vf *sum, char *to);

#define AMX_WAY(name, pack, along)                                                                 \
    static void name(const struct amx_source *s, int64_t k, int64_t left, vf *sum, char *to) {     \
        struct amx_source known = *s;                                                              \
        known.k_in_lanes = along;                                                                  \
        pack(&known, k, left, sum, to);                                                            \
    }
AMX_WAY(amx_pack_a, amx_pack_lines, true)
AMX_WAY(amx_pack_a_turned, amx_pack_turned, false)
AMX_WAY(amx_pack_b, amx_pack_lines, false)
AMX_WAY(amx_pack_b_turned, amx_pack_turned, true)

static amx_pack_fn *amx_way(const struct amx_source *s) {
    if (s->k_in_lanes)
        return s->turn ? amx_pack_b_turned : amx_pack_a;
    return s->turn ? amx_pack_a_turned : amx_pack_b;
}

/* kc of k of `count` rows of A or columns of B, AMX_WIDE at most, to panels that are `panel` bytes
 * apart. Memory is read along its lines, far enough that the next ones come by themselves. */
static void amx_pack_panels(const struct amx_source *from, int64_t count, int64_t kc, vf *sums,
                            char *to, int64_t panel) {
    amx_pack_fn *pack = amx_way(from);
    int64_t tiles_wide = (count + AMX_ROWS - 1) / AMX_ROWS, steps = (kc + AMX_SIDE - 1) / AMX_SIDE;
    for (int64_t n = 0; n < tiles_wide * steps; n++) {
        int64_t tile = from->k_in_lanes ? n / steps : n % tiles_wide;
        int64_t step = from->k_in_lanes ? n % steps : n / tiles_wide;
        struct amx_source s = *from;
        s.from += tile * AMX_ROWS * (s.k_in_lanes ? s.ld : 1);
        s.count = least(AMX_ROWS, count - tile * AMX_ROWS);
        pack(&s, step * AMX_SIDE, kc - step * AMX_SIDE, sums ? sums + tile : NULL,
             to + tile / 2 * panel + tile % 2 * AMX_TILE + step * AMX_STEP);
    }
}

#endif
