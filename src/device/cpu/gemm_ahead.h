/* Where the loops of a product are, and the block of A that comes next.
 *
 * Packing a block of A from far away would leave the arithmetic idle; so the tiles before it ask
 * for its lines, two at a time, into L2.
 */
#ifndef SL_DEVICE_CPU_GEMM_AHEAD_H
#define SL_DEVICE_CPU_GEMM_AHEAD_H

#include "device/cpu/gemm_spec.h"

/* The block of A that comes next, as rows in memory; a tile asks for a piece of it. */
struct ahead {
    const float *at; /* NULL: there is none */
    int64_t ld, rows, pieces;
    bool transposed;
    int64_t next; /* piece */
};

/* Where the loops are. */
struct gemm_at {
    const struct gemm *gemm;
    struct part part;
    int64_t jc, nc, pc, kc, ic, mc;
    float *pack_a, *pack_b;
    bool direct_b;
    int64_t mr; /* rows of a tile */
    bool sum_a;
    struct matrix next_b; /* the panel of B that comes next; at NULL: none */
    struct ahead ahead;
};

/* Rows from i and k from p on come next. Not transposed: pieces of MR x 2 lines of one row.
 * Transposed: 2 lines of MR rows. */
static void gemm_look_ahead(struct gemm_at *at, int64_t i, int64_t p, int64_t rows, int64_t cols) {
    const struct gemm *g = at->gemm;
    at->ahead = (struct ahead){.ld = g->a.ld, .transposed = g->a.transposed};
    if (g->pack_a)
        return;
    at->ahead.at = g->a.at + (g->a.transposed ? p * g->a.ld + i : i * g->a.ld + p);
    at->ahead.rows = g->a.transposed ? (cols + MR - 1) / MR : rows;
    at->ahead.pieces = g->a.transposed ? (rows + 2 * LINE - 1) / (2 * LINE)
                                       : (cols + 2 * LINE * MR - 1) / (2 * LINE * MR);
}

/* In the order of gemm_part. */
static void gemm_plan_ahead(struct gemm_at *at, int64_t kc) {
    int64_t i = at->ic + GEMM_MC, p = at->pc, k = at->gemm->k;
    if (i >= at->part.m1) {
        i = at->part.m0;
        p = p + kc < k ? p + kc : 0;
    }
    bool done = p == 0 && i == at->part.m0 && at->jc + at->nc >= at->part.n1;
    if (done || (i == at->ic && p == at->pc))
        at->ahead.at = NULL;
    else
        gemm_look_ahead(at, i, p, least(GEMM_MC, at->part.m1 - i), least(kc, k - p));
}

INLINE void gemm_ask(struct ahead *ahead, struct tile *t) {
    if (!ahead->at || ahead->next >= ahead->rows * ahead->pieces)
        return;
    int64_t row = ahead->next / ahead->pieces, piece = ahead->next % ahead->pieces;
    ahead->next++;
    t->ahead_step = ahead->transposed ? ahead->ld : 2 * LINE;
    t->ahead = ahead->transposed ? ahead->at + row * MR * ahead->ld + piece * 2 * LINE
                                 : ahead->at + row * ahead->ld + piece * 2 * LINE * MR;
}

/* Tile `index` of a panel asks for its share of the next one: some rows of B in pairs of lines. */
INLINE void gemm_ask_b(const struct gemm_at *at, struct tile *t, int64_t index) {
    const struct matrix *b = &at->next_b;
    if (!b->at)
        return;
    int64_t count = (at->mc + at->mr - 1) / at->mr;
    t->more_steps = b->transposed ? (at->kc + 2 * LINE - 1) / (2 * LINE) : at->mr;
    t->more_rows = b->transposed ? (NR + count - 1) / count : at->kc / (count * at->mr) + 1;
    t->more_ld = b->ld;
    t->more_step = b->transposed ? 2 * LINE : t->more_rows * b->ld;
    t->more = b->at + index * t->more_rows * (b->transposed ? 1 : at->mr) * b->ld;
}

#endif
