/* Floats as sums of three bf16, packed for the tiles of AMX.
 *
 *   x = high + middle + low      exactly: 8 bits of mantissa each, rounded, so that every part is
 *                                at most 2^-9 of the one before
 *
 * A tile has 16 rows of 64 bytes. A tile of A holds 16 rows of the matrix and 32 of k, a tile of B
 * 32 of k and 16 columns, two of k side by side as the instruction wants them. Which two is free as
 * long as A and B agree: here k and k + 16, so that the two come from whole vectors.
 *
 * NaN stays NaN (in the low part); infinity becomes NaN; what is below 2^-126 counts as 0.
 */
#ifndef SL_DEVICE_CPU_AMX_SPLIT_H
#define SL_DEVICE_CPU_AMX_SPLIT_H

#include "device/cpu/gemm_spec.h"

enum {
    AMX_ROWS = 16,           /* of a tile */
    AMX_SIDE = 32,           /* rows, columns and k of a step: two tiles each */
    AMX_TILE = 1024,         /* bytes */
    AMX_PART = 2 * AMX_TILE, /* bytes of one part of a step */
    AMX_STEP = 3 * AMX_PART, /* bytes of a step of a panel */
    AMX_AT_ONCE = 4,         /* steps that a pack_fn is asked for */
};

/* The nearest bf16, in the upper half. */
INLINE vu amx_nearest(vf x) { return ((vu)x + 0x8000u) & 0xFFFF0000u; }

/* One row of the three tiles of a step: x0 are 16 values of k, x1 the next 16. */
INLINE void amx_split(vf x0, vf x1, char *to) {
#pragma GCC unroll 3
    for (int part = 0; part < 3; part++) {
        vu y0 = part < 2 ? amx_nearest(x0) : (vu)x0, y1 = part < 2 ? amx_nearest(x1) : (vu)x1;
        vu row = y0 >> 16 | y1;
        memcpy(to + part * AMX_PART, &row, sizeof row);
        x0 -= (vf)y0;
        x1 -= (vf)y1;
    }
}

/* What a tile is packed from: x[r] is at `from` + r * ld. */
struct amx_source {
    const float *from;
    int64_t ld;
    int64_t count;   /* rows of A or columns of B, 16 at most */
    bool k_in_lanes; /* lines of memory run along k, not across it */
    bool turn;       /* a row of the tile is not a line of memory */
};

/* 16 lines of 16 floats; `lines` and `lanes` of them are there. */
INLINE void amx_load(const struct amx_source *s, const float *from, int64_t lines, int64_t lanes,
                     vf x[VL]) {
    if (lines >= VL && lanes >= VL) {
#pragma GCC unroll 16
        for (int r = 0; r < VL; r++)
            x[r] = load(from + r * s->ld);
        return;
    }
    for (int r = 0; r < VL; r++)
        x[r] = r < lines && lanes > 0 ? load_n(from + r * s->ld, lanes) : (vf){0};
}

/* Sums over k, with the rows of A or columns of B along the lanes. */
INLINE void amx_sum(const vf x[VL], vf *sum) {
#pragma GCC unroll 16
    for (int r = 0; r < VL; r++)
        *sum += x[r];
}

/* One step of a tile: `left` of k are there. */
INLINE void amx_pack_step(const struct amx_source *s, int64_t k, int64_t left, vf *sum, char *to) {
    vf x[2][VL];
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        int64_t at = k + half * VL, rest = most(0, left - half * VL);
        if (s->k_in_lanes)
            amx_load(s, s->from + at, s->count, rest, x[half]);
        else
            amx_load(s, s->from + at * s->ld, rest, s->count, x[half]);
        if (sum && !s->k_in_lanes)
            amx_sum(x[half], sum);
        if (s->turn)
            transpose(x[half]);
        if (sum && s->k_in_lanes)
            amx_sum(x[half], sum);
    }
#pragma GCC unroll 16
    for (int r = 0; r < VL; r++)
        amx_split(x[0][r], x[1][r], to + r * 64);
}

/* kc of k of one tile; steps are AMX_STEP apart. */
INLINE void amx_pack_tile(const struct amx_source *s, int64_t kc, vf *sum, char *to) {
    for (int64_t k = 0; k < kc; k += AMX_SIDE, to += AMX_STEP)
        amx_pack_step(s, k, kc - k, sum, to);
}

/* The four ways a matrix can lie, each compiled by itself. */
#define AMX_WAY(name, along, turned)                                                               \
    static void name(const struct amx_source *s, int64_t kc, vf *sum, char *to) {                  \
        struct amx_source known = *s;                                                              \
        known.k_in_lanes = along;                                                                  \
        known.turn = turned;                                                                       \
        amx_pack_tile(&known, kc, sum, to);                                                        \
    }
AMX_WAY(amx_pack_a, true, false)
AMX_WAY(amx_pack_a_turned, false, true)
AMX_WAY(amx_pack_b, false, false)
AMX_WAY(amx_pack_b_turned, true, true)

static void amx_pack_any(const struct amx_source *s, int64_t kc, vf *sum, char *to) {
    if (s->k_in_lanes)
        (s->turn ? amx_pack_b_turned : amx_pack_a)(s, kc, sum, to);
    else
        (s->turn ? amx_pack_a_turned : amx_pack_b)(s, kc, sum, to);
}

#endif
