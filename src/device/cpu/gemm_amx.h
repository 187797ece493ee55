/* c = a b on the tiles of AMX, with the accuracy of float: six products of the parts of
 * amx_split.h. What is left out (middle x low, low x low) is below 2^-26 of a product. With one
 * part (heavy_bf16_amx.c) a and b are rounded to bf16.
 */
#ifndef SL_DEVICE_CPU_GEMM_AMX_H
#define SL_DEVICE_CPU_GEMM_AMX_H

#include "device/cpu/gemm.h"

#ifdef HEAVY_AMX

#include "device/cpu/amx_tiles.h"

/* Columns that jump inside a vector. */
static void amx_scatter(const struct amx_at *at, const float *sums, const int64_t place[4]) {
    const struct gemm *g = at->gemm;
    bool add = at->pc > 0 || g->add;
    int64_t to[AMX_SIDE];
    for (int64_t q = 0; q < place[3]; q++)
        to[q] = gemm_column(g, place[1] + q);
    for (int64_t r = 0; r < place[2]; r++) {
        float *c = g->c + (place[0] + r) * g->ldc;
        for (int64_t q = 0; q < place[3]; q++)
            c[to[q]] = (add ? c[to[q]] : 0) + sums[r * AMX_SIDE + q];
    }
}

/* 16 columns of the finished sums to c, with what is added to them. */
INLINE void amx_store(const struct amx_at *at, const float *sums, const int64_t place[4]) {
    const struct gemm *g = at->gemm;
    int64_t i = place[0], j = place[1], cols = place[3];
    float *c = g->c + i * g->ldc + gemm_column(g, j);
    bool first = at->pc == 0;
    const float *start = !first || g->add ? c : g->start ? g->start + i * g->ldc + j : NULL;
    vf bias = first && g->bias ? load_n(g->bias + j, cols) : (vf){0};
    for (int64_t r = 0; r < place[2]; r++) {
        vf x = load(sums + r * AMX_SIDE) + bias;
        if (start)
            x += load_n(start + r * g->ldc, cols);
        store_n(c + r * g->ldc, x, cols);
    }
}

static void amx_results(struct amx_at *at, const float *sums, const int64_t place[4]) {
    const struct gemm *g = at->gemm;
    if (g->image % VL || (g->image && place[3] % VL))
        amx_scatter(at, sums, place);
    else
        for (int64_t v = 0; v < place[3]; v += VL)
            amx_store(at, sums + v,
                      (int64_t[]){place[0], place[1] + v, place[2], least(VL, place[3] - v)});
    if (g->finish && at->pc + at->kc == g->k)
        g->finish(g, place[0], place[1], place[2], place[3]);
}

/* What the results of a tile at (i, j) are combined with, other than c. */
INLINE const float *amx_also(const struct amx_at *at, int64_t i, int64_t j) {
    const struct gemm *g = at->gemm;
    const float *first = at->pc == 0 && !g->add ? g->start : NULL;
    const float *last = at->pc + at->kc == g->k ? g->y ? g->y : g->x : NULL;
    const float *also = first ? first : last;
    return also ? also + i * g->ldc + j : NULL;
}

/* One panel of A against one of B. */
static void amx_pair(struct amx_at *at, int64_t row, int64_t col, struct amx_block *t) {
    const struct gemm *g = at->gemm;
    float sums[AMX_SIDE * AMX_SIDE] __attribute__((aligned(64)));
    int64_t i = at->from[AMX_A] + row * AMX_SIDE, j = at->from[AMX_B] + col * AMX_SIDE;
    int64_t high = least(AMX_SIDE, at->to[AMX_A] - i), wide = least(AMX_SIDE, at->to[AMX_B] - j);
    t->a = at->packed[AMX_A] + row * at->panel;
    t->b = at->packed[AMX_B] + col * at->panel;
    t->sums = sums;
    t->sums_step = AMX_SIDE;
    t->c = g->c + i * g->ldc + gemm_column(g, j);
    t->also = amx_also(at, i, j);
    t->ldc = g->ldc;
    t->rows = high;
    amx_multiply(t, high, wide);
    amx_results(at, sums, (int64_t[]){i, j, high, wide});
}

/* All panels of far against those of near, which L2 holds. */
static void amx_block(struct amx_at *at) {
    int near = at->near, far = !near;
    int64_t nears = (at->to[near] - at->from[near] + AMX_SIDE - 1) / AMX_SIDE;
    int64_t fars = (at->to[far] - at->from[far] + AMX_SIDE - 1) / AMX_SIDE;
    int64_t steps = (at->kc + AMX_SIDE - 1) / AMX_SIDE;
    int64_t lines = at->panel / 64 / steps / nears + 1;
    int64_t all = at->ahead.rows * ((at->ahead.wide + LINE - 1) / LINE);
    struct amx_block t = {
        .steps = steps, .ahead = &at->ahead, .ahead_lines = all / (nears * fars * steps) + 1};
    for (int64_t p = 0; p < fars; p++)
        for (int64_t q = 0; q < nears; q++) {
            t.lines = p + 1 < fars ? lines : 0;
            t.panel = at->packed[far] + (p + 1) * at->panel + q * steps * lines * 64;
            amx_pair(at, near == AMX_A ? q : p, near == AMX_A ? p : q, &t);
        }
}

/* Rows or columns of the near side from i on against the far blocks. */
static void amx_through(struct amx_at *at, int64_t i) {
    int near = at->near, far = !near;
    char *packed = at->packed[far];
    at->from[near] = i;
    at->to[near] = least(i + at->block[near], at->end[near]);
    for (at->pc = at->k0; at->pc < at->k1; at->pc += at->whole) {
        at->kc = least(at->whole, at->gemm->k - at->pc);
        amx_pack_range(at, near, at->from[near], at->to[near]);
        amx_plan_ahead(at);
        amx_block(at);
        at->packed[far] += amx_bytes(at, far);
    }
    at->packed[far] = packed;
}

/* The near side, block by block. */
static void amx_near(void *ctx, int thread, int threads) {
    struct amx_at at = *(const struct amx_at *)ctx;
    int64_t base = at.begin[at.near], side = at.block[at.near];
    int64_t blocks = (at.end[at.near] - base + side - 1) / side;
    (void)threads;
    if (at.pool)
        at.packed[at.near] =
            sl_pool_scratch(at.pool, at.packed[at.near], amx_bytes(&at, at.near), thread);
    amx_open();
    for (int64_t p = -1; (p = amx_take(&at, blocks, thread, p)) >= 0;)
        amx_through(&at, base + p * side);
    amx_close();
}

/* Calls body on every thread; scratch: bytes that each needs. */
static void amx_run(struct amx_at *at, int64_t scratch,
                    void (*body)(void *ctx, int thread, int threads)) {
    if (at->pool)
        sl_pool_run_pieces(at->pool, scratch, body, at);
    else
        body(at, 0, 1);
}

/* The part of c; pool NULL: by this thread alone. */
static void amx_product(const struct gemm *g, const struct part *part, struct sl_pool *pool,
                        float *scratch) {
    int64_t rows = part->m1 - part->m0, cols = part->n1 - part->n0;
    struct amx_sizes sizes = amx_sizes(rows, cols, g->k, pool ? sl_pool_threads(pool) : 1);
    struct amx_at at = {.gemm = g,
                        .pool = pool,
                        .begin = {part->m0, part->n0},
                        .end = {part->m1, part->n1},
                        .whole = sizes.kc,
                        .panel = sizes.kc / AMX_SIDE * AMX_STEP,
                        .near = rows >= cols ? AMX_A : AMX_B};
    int near = at.near, far = !near;
    int64_t deep = sizes.depth * sizes.kc;
    at.block[near] = sizes.near;
    at.block[far] = sizes.far;
    at.packed[far] = (char *)scratch;
    at.packed[near] = at.packed[far] + sizes.depth * amx_bytes(&at, far);
    for (int64_t i = at.begin[far]; i < at.end[far]; i += at.block[far])
        for (at.k0 = 0; at.k0 < g->k; at.k0 += deep) {
            at.k1 = least(g->k, at.k0 + deep);
            at.from[far] = i;
            at.to[far] = least(i + at.block[far], at.end[far]);
            at.from[near] = at.begin[near];
            amx_run(&at, 0, amx_pack_far);
            amx_run(&at, amx_bytes(&at, near), amx_near);
        }
}
#else

#include "device/cpu/amx.h"

/* Compiled for CPUs without: never asked for. */
INLINE bool amx_suits(int64_t m, int64_t k) { return m < 0 && k < 0; }
INLINE int64_t amx_floats(int64_t m, int64_t n, int64_t k, int threads) {
    return 0 * m * n * k * threads;
}
INLINE int64_t amx_part_floats(int64_t m, int64_t n, int64_t k) { return 0 * m * n * k; }
INLINE void amx_product(const struct gemm *g, const struct part *part, struct sl_pool *pool,
                        float *scratch) {
    (void)g, (void)part, (void)pool, (void)scratch;
}
INLINE void amx_open(void) {}
INLINE void amx_close(void) {}
INLINE void amx_pack_panels(const struct amx_source *from, int64_t count, int64_t kc, vf *sums,
                            char *to, int64_t panel) {
    (void)from, (void)count, (void)kc, (void)sums, (void)to, (void)panel;
}
INLINE void amx_multiply(const struct amx_block *t, int64_t rows, int64_t cols) {
    (void)t, (void)rows, (void)cols;
}

#endif

#endif
