/* Blocks of a product on AMX: what is packed when, and by which thread.
 *
 *   for the far side by blocks                   the lower of A and B
 *     for k by DEPTH x KC                        far blocks [.., KC] packed by all threads: L3
 *       for the near side by blocks              each taken by one thread
 *         for pc in DEPTH by KC   (order of summation)
 *                                                near block [.., KC] packed: L2
 *           for panels of 32 of far
 *             for panels of 32 of near: 32 x 32 results in four tiles
 *
 * An element of c is computed by one thread, in an order that depends on k alone: the bits do not
 * depend on the threads.
 */
#ifndef SL_DEVICE_CPU_GEMM_AMX_PACK_H
#define SL_DEVICE_CPU_GEMM_AMX_PACK_H

#include "device/cpu/amx_split.h"
#include "device/cpu/gemm_amx_sizes.h"

enum amx_which { AMX_A, AMX_B };

struct amx_at {
    const struct gemm *gemm;
    struct sl_pool *pool;     /* NULL: this thread alone */
    int64_t begin[2], end[2]; /* rows and columns of the part */
    int64_t from[2], to[2];   /* of the block */
    int64_t k0, k1;           /* of the far blocks */
    int64_t pc, kc;
    int64_t whole;    /* kc of every block of k but the last */
    int64_t block[2]; /* sides of blocks */
    char *packed[2];
    int64_t panel; /* bytes: 32 rows of A or columns of B */
    int near;
    struct amx_ahead ahead;
};

/* Bytes of a packed block. */
INLINE int64_t amx_bytes(const struct amx_at *at, int which) {
    return at->block[which] / AMX_SIDE * at->panel;
}

/* Which of `count` pieces comes next, `last` being the one before: as sl_pool_take. */
INLINE int64_t amx_take(const struct amx_at *at, int64_t count, int thread, int64_t last) {
    if (at->pool)
        return sl_pool_take(at->pool, count, thread);
    return last + 1 < count ? last + 1 : -1;
}

static struct amx_source amx_source_of(const struct amx_at *at, int which, int64_t i, int64_t pc) {
    const struct matrix *m = which == AMX_A ? &at->gemm->a : &at->gemm->b;
    bool k_in_lanes = m->transposed == (which == AMX_B);
    return (struct amx_source){
        .from = m->at + (k_in_lanes ? i * m->ld + pc : pc * m->ld + i),
        .ld = m->ld,
        .k_in_lanes = k_in_lanes,
        .turn = m->transposed,
    };
}

/* Where sums over k go: each row or column is packed once per pass over the other side, and by
 * every part that it is in. */
static float *amx_sums(const struct amx_at *at, int which) {
    int other = !which;
    if (at->from[other] != 0)
        return NULL;
    return which == AMX_A ? at->gemm->a_sums : at->gemm->b_sums;
}

/* Rows of A or columns of B from i on, AMX_WIDE at most. */
static void amx_pack_matrix(const struct amx_at *at, int which, int64_t i, int64_t count,
                            char *to) {
    float *to_sums = amx_sums(at, which);
    vf sums[AMX_WIDE / AMX_ROWS] = {{0}};
    struct amx_source s = amx_source_of(at, which, i, at->pc);
    amx_pack_panels(&s, count, at->kc, to_sums ? sums : NULL, to, at->panel);
    for (int64_t v = 0; to_sums && v < count; v += AMX_ROWS) {
        int64_t n = least(AMX_ROWS, count - v);
        vf sum = sums[v / AMX_ROWS];
        if (at->pc > 0 || at->gemm->add_sums)
            sum += load_n(to_sums + i + v, n);
        store_n(to_sums + i + v, sum, n);
    }
}

/* A pack_fn writes lines of `ld` floats, one per k; from there into the tiles of a panel. */
static void amx_pack_by(const struct amx_at *at, int which, int64_t i, int64_t count, char *to) {
    float lines[AMX_AT_ONCE * AMX_SIDE * AMX_SIDE + VL] __attribute__((aligned(64)));
    const struct gemm *g = at->gemm;
    bool is_a = which == AMX_A;
    struct amx_source s = {.from = lines, .ld = is_a ? count : up_to(count, VL), .turn = is_a};
    for (int64_t k = 0; k < at->kc; k += AMX_AT_ONCE * AMX_SIDE) {
        int64_t kc = least(AMX_AT_ONCE * AMX_SIDE, at->kc - k);
        (is_a ? g->pack_a : g->pack_b)(g, (int64_t[]){i, count, at->pc + k, kc}, lines);
        amx_pack_panels(&s, count, kc, NULL, to + k / AMX_SIDE * AMX_STEP, at->panel);
    }
}

/* [from, to) of a block: whole panels but for the last. */
static void amx_pack_range(const struct amx_at *at, int which, int64_t from, int64_t to) {
    const struct gemm *g = at->gemm;
    bool by = which == AMX_A ? g->pack_a != NULL : g->pack_b != NULL;
    int64_t wide = !by ? AMX_WIDE : which == AMX_A ? AMX_ROWS : AMX_SIDE;
    for (int64_t i = from; i < to; i += wide) {
        int64_t v = i - at->from[which], count = least(wide, to - i);
        char *panel =
            at->packed[which] + v / AMX_SIDE * at->panel + v % AMX_SIDE / AMX_ROWS * AMX_TILE;
        if (by)
            amx_pack_by(at, which, i, count, panel);
        else
            amx_pack_matrix(at, which, i, count, panel);
    }
}

/* The far blocks, piece by piece, each through all of their k: sums have an order. */
static void amx_pack_far(void *ctx, int thread, int threads) {
    struct amx_at at = *(const struct amx_at *)ctx;
    int far = !at.near;
    int64_t base = at.from[far], count = at.to[far] - base;
    int64_t side = least(AMX_WIDE, amx_piece(count, threads)), pieces = (count + side - 1) / side;
    char *packed = at.packed[far];
    for (int64_t p = -1; (p = amx_take(&at, pieces, thread, p)) >= 0;) {
        at.packed[far] = packed;
        for (at.pc = at.k0; at.pc < at.k1; at.pc += at.whole) {
            at.kc = least(at.whole, at.gemm->k - at.pc);
            amx_pack_range(&at, far, base + p * side, base + least(count, (p + 1) * side));
            at.packed[far] += amx_bytes(&at, far);
        }
    }
}

/* What is packed next of the near side: the next k of these rows, the rows below, or the first ones
 * with the k of the next far blocks. */
static void amx_plan_ahead(struct amx_at *at) {
    const struct gemm *g = at->gemm;
    int64_t i = at->from[at->near], pc = at->pc + at->whole, end = at->end[at->near];
    at->ahead = (struct amx_ahead){0};
    if (pc >= at->k1) {
        i = at->to[at->near];
        pc = at->k0;
    }
    if (i >= end && !at->pool) {
        i = at->begin[at->near];
        pc = at->k1;
    }
    if (i >= end || pc >= g->k || (at->near == AMX_A ? g->pack_a != NULL : g->pack_b != NULL))
        return;
    struct amx_source s = amx_source_of(at, at->near, i, pc);
    int64_t count = least(at->block[at->near], end - i), kc = least(at->whole, g->k - pc);
    at->ahead = (struct amx_ahead){.at = s.from,
                                   .ld = s.ld,
                                   .rows = s.k_in_lanes ? count : kc,
                                   .wide = s.k_in_lanes ? kc : count};
}

#endif
