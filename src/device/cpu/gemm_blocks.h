/* Blocks of A and B at hand, packed in slivers, with the sums over k that go with them. */
#ifndef SL_DEVICE_CPU_GEMM_BLOCKS_H
#define SL_DEVICE_CPU_GEMM_BLOCKS_H

#include "device/cpu/gemm_ahead.h"

/* A transposed: row by row, so that the matrix is read from end to end. sums: += of every sliver.
 */
static void gemm_pack_columns(const struct gemm_at *at, vf *sums) {
    const struct matrix *a = &at->gemm->a;
    const int64_t rows = at->mc, mr = at->mr, kc = at->kc, last = (rows - 1) / mr * mr;
    for (int64_t k = 0; k < kc; k++) {
        const float *from = a->at + (at->pc + k) * a->ld + at->ic;
        for (int64_t r = 0; r < rows; r += mr) {
            int64_t high = r < last ? mr : rows - last;
            vf x = load_n(from + r, high);
            if (at->sum_a)
                sums[r / mr] += x;
            store_n(at->pack_a + r * kc + k * high, x, k + 1 < kc ? VL : high);
        }
    }
}

static void gemm_keep_sums(const struct gemm_at *at, const vf *sums) {
    const struct gemm *g = at->gemm;
    for (int64_t ir = 0; at->sum_a && ir < at->mc; ir += at->mr) {
        int64_t rows = least(at->mr, at->mc - ir);
        float *to = g->a_sums + at->ic + ir;
        vf sum = sums[ir / at->mr];
        if (at->pc || g->add_sums)
            sum += load_n(to, rows);
        store_n(to, sum, rows);
    }
}

static void gemm_pack_a(const struct gemm_at *at) {
    const struct gemm *g = at->gemm;
    if (!g->pack_a && g->a.transposed) {
        vf sums[GEMM_MC / MR] = {{0}};
        gemm_pack_columns(at, sums);
        gemm_keep_sums(at, sums);
        return;
    }
    for (int64_t ir = 0; ir < at->mc; ir += at->mr) {
        int64_t rows = least(at->mr, at->mc - ir);
        float *to = at->pack_a + ir * at->kc;
        if (g->pack_a)
            g->pack_a(g, (int64_t[]){at->ic + ir, rows, at->pc, at->kc}, to);
        else
            pack_a(&g->a, at->ic + ir, rows, at->pc, at->kc, to);
    }
}

static void gemm_sum_b(const struct gemm_at *at, int64_t jr, int64_t cols) {
    const struct gemm *g = at->gemm;
    for (int64_t v = 0; v < cols; v += VL)
        sum_sliver(at->pack_b + jr * at->kc + v, up_to(cols, VL), at->kc,
                   g->b_sums + at->jc + jr + v, least(VL, cols - v), at->pc || g->add_sums);
}

static void gemm_pack_b(const struct gemm_at *at) {
    const struct gemm *g = at->gemm;
    int64_t whole = g->pack_b || g->b.transposed || at->direct_b ? 0 : at->nc / NR;
    pack_panels(&g->b, at->jc, whole, at->pc, at->kc, at->pack_b);
    for (int64_t jr = 0; jr < at->nc; jr += NR) {
        int64_t cols = least(NR, at->nc - jr);
        float *to = at->pack_b + jr * at->kc;
        if (g->pack_b)
            g->pack_b(g, (int64_t[]){at->jc + jr, cols, at->pc, at->kc}, to);
        else if (jr >= whole * NR && (!at->direct_b || cols % VL))
            pack_b(&g->b, at->jc + jr, cols, at->pc, at->kc, to);
        if (g->b_sums && at->part.m0 == 0)
            gemm_sum_b(at, jr, cols);
    }
}

#endif
