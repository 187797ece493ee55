/* Recurrent products: one small product per step, with a right side that stays packed. */
#include "device/cpu/product/recurrent.h"

#include "device/cpu/cpu.h"
#include "device/cpu/sizes.h"

static int64_t units_wide(const struct sl_recurrent *r, int threads) {
    int64_t share = (round_up(r->h, LANES) / LANES + threads - 1) / threads * LANES;
    return round_up(share, NR);
}

int64_t recurrent_floats(const struct sl_recurrent *r, int threads) {
    int64_t wide = units_wide(r, threads);
    return r->parts * wide * r->k + round_up(r->b * r->k + LANES, 16) + r->b * r->parts * wide;
}

struct sl_recurrent_units units_of(const struct sl_recurrent *r, int thread, int threads) {
    struct sl_recurrent_units u = {.wide = units_wide(r, threads)};
    sl_device_pool_range(r->h, LANES, thread, threads, &u.j0, &u.j1);
    u.panels = r->scratch + thread * r->scratch_step;
    u.left = u.panels + r->parts * u.wide * r->k;
    u.sums = u.left + round_up(r->b * r->k + LANES, 16);
    return u;
}

void units_pack(const struct sl_recurrent *r, const struct sl_recurrent_units *u,
                const struct sl_gemm_matrix *right, int64_t part_step) {
    for (int64_t part = 0; part < r->parts; part++)
        for (int64_t j = u->j0; j < u->j1; j += NR) {
            float *to = u->panels + (part * u->wide + j - u->j0) * r->k;
            gemm_pack_b(right, part * part_step + j, min_i64(NR, u->j1 - j), 0, r->k, to);
        }
}

void units_multiply(const struct sl_recurrent *r, const struct sl_recurrent_units *u,
                    const float *left, int64_t left_step) {
    const struct sl_gemm_matrix a = {left, left_step, false};
    /* Choose tiles of about equal height: 16 samples become 8 and 8, not 14 and 2. */
    int64_t tiles_high = (r->b + MR - 1) / MR, high = (r->b + tiles_high - 1) / tiles_high;
    for (int64_t i = 0; i < r->b; i += high)
        gemm_pack_a(&a, i, min_i64(high, r->b - i), 0, r->k, u->left + i * r->k);
    for (int64_t part = 0; part < r->parts; part++)
        for (int64_t j = 0; j < u->j1 - u->j0; j += NR)
            for (int64_t i = 0; i < r->b; i += high) {
                int64_t rows = min_i64(high, r->b - i), cols = min_i64(NR, u->j1 - u->j0 - j);
                struct sl_gemm_tile t = {
                    .kc = r->k,
                    .a = u->left + i * r->k,
                    .a_step = rows,
                    .b = u->panels + (part * u->wide + j) * r->k,
                    .b_step = round_up(cols, LANES),
                    .c = u->sums + (i * r->parts + part) * u->wide + j,
                    .ldc = r->parts * u->wide,
                    .c_next = LANES,
                };
                gemm_tiles[rows - 1][(cols - 1) / LANES](&t);
            }
}
