/* c = a b: cache blocking around the tile, over a part of the rows and columns of c.
 *
 *   for jc in columns by NC                             B block [KC, NC] packed: L2
 *     for pc in k by KC         (order of summation)
 *       for ic in rows by MC                            A block [MC, KC] packed: L2
 *         for jr by NR                                  B sliver [KC, NR]: L1
 *           for ir by MR                                tile in registers
 *
 * KC depends on k alone and k is never divided among threads: neither the number of threads nor the
 * partition changes a bit of the result.
 */
#ifndef SL_DEVICE_CPU_GEMM_H
#define SL_DEVICE_CPU_GEMM_H

#include "device/cpu/gemm_blocks.h"

INLINE int64_t gemm_column(const struct gemm *g, int64_t j) {
    return g->image ? j / g->image * g->image_step + j % g->image : j;
}

/* Columns that jump inside a vector: one element at a time. Such a product has no bias and no start
 * but c. */
static void gemm_scatter(const struct gemm_at *at, const float *spare, const struct tile *t,
                         const int64_t size[2]) {
    const struct gemm *g = at->gemm;
    bool add = at->pc > 0 || g->add;
    int64_t place[NR];
    for (int64_t q = 0; q < size[1]; q++)
        place[q] = gemm_column(g, t->j + q);
    for (int64_t r = 0; r < size[0]; r++) {
        float *c = g->c + (t->i + r) * g->ldc;
        const float *from = spare + r * NR;
        for (int64_t q = 0; q < size[1]; q++)
            c[place[q]] = add ? c[place[q]] + from[q] : from[q];
    }
}

/* A tile whose columns do not fill their vectors goes through memory of its own. */
static void gemm_edge(const struct gemm_at *at, struct tile *t, int64_t rows, int64_t cols) {
    float spare[MR * NR] __attribute__((aligned(64)));
    struct tile whole = *t;
    whole.c = spare;
    whole.ldc = NR;
    whole.next = VL;
    whole.start = whole.bias = whole.also = NULL;
    tiles[rows - 1][(cols - 1) / VL](&whole);
    if (at->gemm->image) {
        gemm_scatter(at, spare, t, (int64_t[]){rows, cols});
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += VL) {
            vf x = load(spare + i * NR + j);
            if (t->bias)
                x += load_n(t->bias + j, cols - j);
            if (t->start)
                x += load_n(t->start + i * t->start_step + j, cols - j);
            store_n(t->c + i * at->gemm->ldc + j, x, cols - j);
        }
}

/* What a tile adds to: the sums of the k before, or c, start and bias. */
INLINE void gemm_start(const struct gemm_at *at, struct tile *t, int64_t i, int64_t j) {
    const struct gemm *g = at->gemm;
    bool first = at->pc == 0;
    t->start = !first || g->add ? t->c : g->start ? g->start + i * g->ldc + j : NULL;
    t->start_step = g->ldc;
    t->bias = first && g->bias ? g->bias + j : NULL;
    if (at->pc + at->kc == g->k && g->finish)
        t->also = (g->y ? g->y : g->x) + i * g->ldc + j;
    else if (first && !g->add && g->start != g->c)
        t->also = t->start;
}

/* One sliver of B against the block of A. */
static void gemm_rows(struct gemm_at *at, int64_t j, int64_t cols, const float *b, int64_t b_step) {
    const struct gemm *g = at->gemm;
    bool last = at->pc + at->kc == g->k;
    for (int64_t ir = 0; ir < at->mc; ir += at->mr) {
        int64_t rows = least(at->mr, at->mc - ir), i = at->ic + ir;
        struct tile t = {
            .kc = at->kc,
            .a = at->pack_a + ir * at->kc,
            .a_step = rows,
            .b = b,
            .b_step = b_step,
            .c = g->c + i * g->ldc + gemm_column(g, j),
            .ldc = g->ldc,
            .next = gemm_column(g, j + VL) - gemm_column(g, j),
            .i = i,
            .j = j,
        };
        gemm_start(at, &t, i, j);
        gemm_ask(&at->ahead, &t);
        gemm_ask_b(at, &t, ir / at->mr);
        if (cols % VL || g->image % VL)
            gemm_edge(at, &t, rows, cols);
        else
            tiles[rows - 1][cols / VL - 1](&t);
        if (last && g->finish)
            g->finish(g, i, j, rows, cols);
    }
}

static void gemm_block(struct gemm_at *at) {
    const struct matrix *b = &at->gemm->b;
    for (int64_t jr = 0; jr < at->nc; jr += NR) {
        int64_t j = at->jc + jr, cols = least(NR, at->nc - jr);
        if (at->direct_b && cols % VL == 0)
            gemm_rows(at, j, cols, b->at + at->pc * b->ld + j, b->ld);
        else
            gemm_rows(at, j, cols, at->pack_b + jr * at->kc, up_to(cols, VL));
    }
}

/* The part of c, by one thread; `scratch` has gemm_floats(rows, columns, k). */
static void gemm_part(const struct gemm *gemm, const struct part *part, float *scratch) {
    int64_t kc = gemm_kc(gemm->k), nc = gemm_nc(kc), rows = part->m1 - part->m0;
    struct gemm_at at = {
        .gemm = gemm,
        .part = *part,
        .mr = MR,
        .direct_b = rows <= MR && !gemm->b.transposed && !gemm->b_sums && !gemm->pack_b,
    };
    at.pack_b = scratch;
    at.pack_a = scratch + least(up_to(part->n1 - part->n0, NR), nc) * kc;
    for (at.jc = part->n0; at.jc < part->n1; at.jc += nc) {
        at.nc = least(nc, part->n1 - at.jc);
        at.sum_a = gemm->a_sums && at.jc == 0;
        for (at.pc = 0; at.pc < gemm->k; at.pc += kc) {
            at.kc = least(kc, gemm->k - at.pc);
            gemm_pack_b(&at);
            for (at.ic = part->m0; at.ic < part->m1; at.ic += GEMM_MC) {
                at.mc = least(GEMM_MC, part->m1 - at.ic);
                gemm_pack_a(&at);
                gemm_plan_ahead(&at, kc);
                gemm_block(&at);
            }
        }
    }
}

#endif
