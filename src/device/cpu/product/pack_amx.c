/* Floats as sums of three bf16, or as the nearest one, packed for the tiles of AMX.
 *
 *   x = high + middle + low      exact: each part has 8 bits of mantissa, rounded; it is at most
 *                                2^-9 of the part before
 *
 * A tile has 16 rows of 64 bytes. A tile of A holds 16 rows of the matrix and 32 of k; a tile of B
 * 32 of k and 16 columns, with two values of k side by side, as the instruction requires. Any
 * pairing of k works if A and B agree; k and k + 16 are paired, so that both come from whole
 * vectors.
 *
 * NaN stays NaN (with three parts, in the low part). Infinity becomes NaN with three parts and
 * stays infinity with one. Numbers below 2^-126 count as 0. */
#include "device/cpu/product/amx.h"

#include "device/cpu/sizes.h"
#include "device/cpu/vec_transpose.h"

/* Returns x rounded to the nearest bf16, in the upper half of each lane. Ties to even and NaN
 * matter only if there is one part. */
static INLINE vu nearest(vf x) {
    if (SL_ISA_AMX_PARTS == 1)
        return bf16_nearest(x);
    return ((vu)x + 0x8000u) & 0xFFFF0000u;
}

/* Packs one row of a step, one tile per part. x0 holds 16 values of k, x1 the next 16. */
static INLINE void split_rows(vf x0, vf x1, char *to) {
#pragma GCC unroll 3
    for (int part = 0; part < SL_ISA_AMX_PARTS; part++) {
        vu y0 = part < 2 ? nearest(x0) : (vu)x0, y1 = part < 2 ? nearest(x1) : (vu)x1;
        /* y0 of a tiny value has bits below the upper half */
        vu row = y0 >> 16 | (y1 & 0xFFFF0000u);
        memcpy(to + part * AMX_PART, &row, sizeof row);
        x0 -= (vf)y0;
        x1 -= (vf)y1;
    }
}

/* Loads line r of 16. Only `lines` lines and `lanes` lanes of each exist. */
static INLINE vf load_line(const struct sl_amx_source *s, const float *from, int r, int64_t lines,
                           int64_t lanes) {
    if (lines >= LANES && lanes >= LANES)
        return load(from + r * s->ld);
    return r < lines && lanes > 0 ? load_n(from + r * s->ld, lanes) : (vf){0};
}

/* Packs one step of a tile whose rows are lines of memory. `left` values of k exist. Adds to `sum`
 * per lane if k does not run along the lanes. */
static INLINE void pack_lines(const struct sl_amx_source *s, int64_t k, int64_t left, vf *sum,
                              char *to) {
    bool along = s->k_in_lanes;
    const float *from = s->from + (along ? k : k * s->ld);
    const float *second = from + (along ? LANES : LANES * s->ld);
    int64_t lines[2] = {along ? s->count : left, along ? s->count : left - LANES};
    int64_t lanes[2] = {along ? left : s->count, along ? left - LANES : s->count};
#pragma GCC unroll 4
    for (int r = 0; r < LANES; r++) {
        vf x0 = load_line(s, from, r, lines[0], lanes[0]);
        vf x1 = load_line(s, second, r, lines[1], lanes[1]);
        if (sum)
            *sum += x0 + x1;
        split_rows(x0, x1, to + r * 64);
    }
}

static INLINE void add_all(const vf x[LANES], vf *sum) {
#pragma GCC unroll 16
    for (int r = 0; r < LANES; r++)
        *sum += x[r];
}

/* Loads a 16 x 16 square and transposes it. Adds to `sum` over k on the side where k does not run
 * along the lanes. */
static INLINE void turn_tile(const struct sl_amx_source *s, int64_t k, int64_t left, vf *sum,
                             vf x[LANES]) {
    int64_t lines = s->k_in_lanes ? s->count : left, lanes = s->k_in_lanes ? left : s->count;
    const float *from = s->from + (s->k_in_lanes ? k : k * s->ld);
    if (lines >= LANES && lanes >= LANES) {
#pragma GCC unroll 16
        for (int r = 0; r < LANES; r++)
            x[r] = load(from + r * s->ld);
    } else {
        for (int r = 0; r < LANES; r++)
            x[r] = load_line(s, from, r, lines, lanes);
    }
    if (sum && !s->k_in_lanes)
        add_all(x, sum);
    transpose(x);
    if (sum && s->k_in_lanes)
        add_all(x, sum);
}

/* Packs one step of a tile whose rows are columns of memory. */
static INLINE void pack_turned(const struct sl_amx_source *s, int64_t k, int64_t left, vf *sum,
                               char *to) {
    vf x0[LANES], x1[LANES];
    turn_tile(s, k, left, sum, x0);
    turn_tile(s, k + LANES, left - LANES, sum, x1);
#pragma GCC unroll 4
    for (int r = 0; r < LANES; r++)
        split_rows(x0[r], x1[r], to + r * 64);
}

/* Packs one step of a tile; there is one such function for each of the four layouts of a matrix. */
typedef void pack_step_fn(const struct sl_amx_source *s, int64_t k, int64_t left, vf *sum,
                          char *to);

#define LAYOUT(name, pack, along)                                                                  \
    static void name(const struct sl_amx_source *s, int64_t k, int64_t left, vf *sum, char *to) {  \
        struct sl_amx_source known = *s;                                                           \
        known.k_in_lanes = along;                                                                  \
        pack(&known, k, left, sum, to);                                                            \
    }
LAYOUT(pack_a, pack_lines, true)
LAYOUT(pack_a_turned, pack_turned, false)
LAYOUT(pack_b, pack_lines, false)
LAYOUT(pack_b_turned, pack_turned, true)

static pack_step_fn *layout_of(const struct sl_amx_source *s) {
    if (s->k_in_lanes)
        return s->turn ? pack_b_turned : pack_a;
    return s->turn ? pack_a_turned : pack_b;
}

/* Reads along the lines of memory, far enough for the hardware prefetcher to follow. */
void amx_pack_panels(const struct sl_amx_source *from, int64_t count, int64_t kc, vf *sums,
                     char *to, int64_t panel) {
    pack_step_fn *pack = layout_of(from);
    int64_t tiles_wide = (count + AMX_ROWS - 1) / AMX_ROWS, steps = (kc + AMX_SIDE - 1) / AMX_SIDE;
    for (int64_t n = 0; n < tiles_wide * steps; n++) {
        int64_t tile = from->k_in_lanes ? n / steps : n % tiles_wide;
        int64_t step = from->k_in_lanes ? n % steps : n / tiles_wide;
        struct sl_amx_source s = *from;
        s.from += tile * AMX_ROWS * (s.k_in_lanes ? s.ld : 1);
        s.count = min_i64(AMX_ROWS, count - tile * AMX_ROWS);
        pack(&s, step * AMX_SIDE, kc - step * AMX_SIDE, sums ? sums + tile : NULL,
             to + tile / 2 * panel + tile % 2 * AMX_TILE + step * AMX_STEP);
    }
}
