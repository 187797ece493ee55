/* c = a b on the tiles of AMX, with the accuracy of float: six products of the parts of
 * amx_split.h. What is left out (middle x low, low x low) is below 2^-26 of a product.
 *
 *   for jc in columns by NC
 *     for pc in k by KC         (order of summation)       B block [KC, NC] packed
 *       for ic in rows by MC                               A block [MC, KC] packed, unless it is
 * there for a few panels of 32 columns: L2 for panels of 32 rows 32 x 32 results in four tiles
 *
 * Threads pack together, meet, and multiply their parts of the block. An element of c is computed
 * by one thread, in an order that depends on k alone: the bits do not depend on the threads.
 */
#ifndef SL_DEVICE_CPU_GEMM_AMX_H
#define SL_DEVICE_CPU_GEMM_AMX_H

#include "device/cpu/gemm.h"

#ifdef HEAVY_AMX

#include "device/cpu/amx_split.h"

enum {
    AMX_KC = 384,
    AMX_KC_ALONE = 448,
    AMX_A = 800 * 1024, /* elements of a packed block of A */
    AMX_B = 448 * 1024,
    AMX_NEAR = 768 * 1024, /* bytes of B that stay in L2 */
};

/* Sums shorter or matrices lower than this are not worth it. Only what no thread changes may decide
 * here. */
INLINE bool amx_suits(int64_t m, int64_t k) { return m >= 8 && k >= 16; }

INLINE int64_t amx_kc(int64_t k) {
    int64_t blocks = k <= AMX_KC_ALONE ? 1 : (k + AMX_KC - 1) / AMX_KC;
    return up_to((k + blocks - 1) / blocks, AMX_SIDE);
}

/* Rows or columns of a block: whole panels. */
INLINE int64_t amx_block_side(int64_t count, int64_t kc, int64_t elements) {
    return least(up_to(count, AMX_SIDE), most(1, elements / kc / AMX_SIDE) * AMX_SIDE);
}

/* Floats of scratch for products of this size and any smaller one. */
INLINE int64_t amx_floats(int64_t m, int64_t n, int64_t k) {
    int64_t kc = least(up_to(k, AMX_SIDE), AMX_KC_ALONE);
    int64_t a = least(up_to(m, AMX_SIDE) * kc, most(AMX_A, AMX_SIDE * kc));
    int64_t b = least(up_to(n, AMX_SIDE) * kc, most(AMX_B, AMX_SIDE * kc));
    return (a + b) * AMX_STEP / (AMX_SIDE * AMX_SIDE) / 4;
}

struct amx_at {
    const struct gemm *gemm;
    struct part part;
    int64_t jc, nc, pc, kc, ic, mc;
    char *a, *b;
    int64_t panel;     /* bytes of a panel: 32 rows of A or columns of B */
    bool has_a, has_b; /* packed before */
};

/* ---- packing ---- */

INLINE void amx_add_sums(vf sum, float *to, int64_t count, bool add) {
    if (add)
        sum += load_n(to, count);
    store_n(to, sum, count);
}

static void amx_pack_matrix(const struct amx_at *at, const struct matrix *m, bool is_a, int64_t i,
                            int64_t count, char *to) {
    const struct gemm *g = at->gemm;
    bool k_in_lanes = m->transposed != is_a;
    float *sums = is_a ? at->jc == at->part.n0 ? g->a_sums : NULL : g->b_sums;
    struct amx_source s = {
        .from = m->at + (k_in_lanes ? i * m->ld + at->pc : at->pc * m->ld + i),
        .ld = m->ld,
        .count = count,
        .k_in_lanes = k_in_lanes,
        .turn = m->transposed,
    };
    vf sum = {0};
    amx_pack_any(&s, at->kc, sums ? &sum : NULL, to);
    if (sums)
        amx_add_sums(sum, sums + i, count, at->pc > 0 || g->add_sums);
}

/* A pack_fn writes lines of `step` floats, one per k; from there into the tiles. */
static void amx_pack_by(const struct amx_at *at, bool is_a, int64_t i, int64_t count, char *to) {
    float lines[AMX_AT_ONCE * AMX_SIDE * AMX_SIDE + VL] __attribute__((aligned(64)));
    const struct gemm *g = at->gemm;
    int64_t step = is_a ? count : up_to(count, VL);
    for (int64_t k = 0; k < at->kc; k += AMX_AT_ONCE * AMX_SIDE) {
        int64_t kc = least(AMX_AT_ONCE * AMX_SIDE, at->kc - k);
        (is_a ? g->pack_a : g->pack_b)(g, (int64_t[]){i, count, at->pc + k, kc}, lines);
        for (int64_t v = 0; v < count; v += AMX_ROWS) {
            struct amx_source s = {
                .from = lines + v,
                .ld = step,
                .count = least(AMX_ROWS, count - v),
                .turn = is_a,
            };
            amx_pack_any(&s, kc, NULL, to + k / AMX_SIDE * AMX_STEP + v / AMX_ROWS * AMX_TILE);
        }
    }
}

/* One panel of A or B; i is its first row or column. */
static void amx_pack_panel(const struct amx_at *at, bool is_a, int64_t i, char *to) {
    const struct gemm *g = at->gemm;
    int64_t end = is_a ? at->ic + at->mc : at->jc + at->nc, count = least(AMX_SIDE, end - i);
    int64_t wide = is_a || !g->pack_b ? AMX_ROWS : AMX_SIDE;
    for (int64_t v = 0; v < count; v += wide) {
        int64_t here = least(wide, count - v);
        char *tile = to + v / AMX_ROWS * AMX_TILE;
        if (is_a ? g->pack_a : g->pack_b)
            amx_pack_by(at, is_a, i + v, here, tile);
        else
            amx_pack_matrix(at, is_a ? &g->a : &g->b, is_a, i + v, here, tile);
    }
}

/* A thread's share of what the block needs. */
static void amx_pack(void *ctx, int thread, int threads) {
    const struct amx_at *at = ctx;
    int64_t rows = at->has_a ? 0 : (at->mc + AMX_SIDE - 1) / AMX_SIDE;
    int64_t cols = at->has_b ? 0 : (at->nc + AMX_SIDE - 1) / AMX_SIDE, from, to;
    sl_pool_range(rows, 1, thread, threads, &from, &to);
    for (int64_t p = from; p < to; p++)
        amx_pack_panel(at, true, at->ic + p * AMX_SIDE, at->a + p * at->panel);
    sl_pool_range(cols, 1, thread, threads, &from, &to);
    for (int64_t p = from; p < to; p++)
        amx_pack_panel(at, false, at->jc + p * AMX_SIDE, at->b + p * at->panel);
}

/* ---- multiplying ---- */

struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static void amx_open(void) {
    struct amx_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = AMX_ROWS;
    }
    _tile_loadconfig(&config);
}

struct amx_block {
    const char *a, *b;
    int64_t steps;
    float *sums;    /* [32, 32] */
    const float *c; /* asked for: `rows` lines of 32 floats, ldc apart */
    int64_t ldc, rows;
    const char *ahead; /* asked for: `lines` lines of 64 bytes per step */
    int64_t lines;
};

/* What the next steps need, a few lines at a time. */
INLINE void amx_ask(const struct amx_block *t, int64_t step) {
    int64_t per_step = (t->rows + t->steps - 1) / t->steps;
    for (int64_t i = step * per_step; i < least(t->rows, (step + 1) * per_step); i++) {
        __builtin_prefetch(t->c + i * t->ldc, 1);
        __builtin_prefetch(t->c + i * t->ldc + LINE, 1);
        __builtin_prefetch(t->c + i * t->ldc + 2 * LINE - 1, 1);
    }
    for (int64_t i = 0; i < t->lines; i++)
        __builtin_prefetch(t->ahead + (step * t->lines + i) * 64, 0, 2);
}

#define AMX_A_PART(part)                                                                           \
    do {                                                                                           \
        _tile_loadd(4, a + (part)*AMX_PART, 64);                                                   \
        if (two_a)                                                                                 \
            _tile_loadd(5, a + (part)*AMX_PART + AMX_TILE, 64);                                    \
    } while (0)
#define AMX_B_PART(part)                                                                           \
    do {                                                                                           \
        _tile_loadd(6, b + (part)*AMX_PART, 64);                                                   \
        if (two_b)                                                                                 \
            _tile_loadd(7, b + (part)*AMX_PART + AMX_TILE, 64);                                    \
    } while (0)
#define AMX_MULTIPLY()                                                                             \
    do {                                                                                           \
        _tile_dpbf16ps(0, 4, 6);                                                                   \
        if (two_b)                                                                                 \
            _tile_dpbf16ps(1, 4, 7);                                                               \
        if (two_a)                                                                                 \
            _tile_dpbf16ps(2, 5, 6);                                                               \
        if (two_a && two_b)                                                                        \
            _tile_dpbf16ps(3, 5, 7);                                                               \
    } while (0)

/* Small products first; every product but the first loads one factor only. */
INLINE void amx_run_block(const struct amx_block *t, bool two_a, bool two_b) {
    const char *a = t->a, *b = t->b;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t step = 0; step < t->steps; step++, a += AMX_STEP, b += AMX_STEP) {
        amx_ask(t, step);
        AMX_A_PART(0);
        AMX_B_PART(2);
        AMX_MULTIPLY();
        AMX_B_PART(1);
        AMX_MULTIPLY();
        AMX_A_PART(1);
        AMX_MULTIPLY();
        AMX_B_PART(0);
        AMX_MULTIPLY();
        AMX_A_PART(2);
        AMX_MULTIPLY();
        AMX_A_PART(0);
        AMX_MULTIPLY();
    }
    _tile_stored(0, t->sums, 4 * AMX_SIDE);
    if (two_b)
        _tile_stored(1, t->sums + AMX_ROWS, 4 * AMX_SIDE);
    if (two_a)
        _tile_stored(2, t->sums + AMX_ROWS * AMX_SIDE, 4 * AMX_SIDE);
    if (two_a && two_b)
        _tile_stored(3, t->sums + AMX_ROWS * AMX_SIDE + AMX_ROWS, 4 * AMX_SIDE);
}

static void amx_multiply(const struct amx_block *t, int64_t rows, int64_t cols) {
    if (rows > AMX_ROWS && cols > AMX_ROWS)
        amx_run_block(t, true, true);
    else if (rows > AMX_ROWS)
        amx_run_block(t, true, false);
    else if (cols > AMX_ROWS)
        amx_run_block(t, false, true);
    else
        amx_run_block(t, false, false);
}

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

/* Panels [rows[0], rows[1]) of A against panels [cols[0], cols[1]) of B. */
static void amx_panels(struct amx_at *at, const int64_t rows[2], const int64_t cols[2]) {
    const struct gemm *g = at->gemm;
    float sums[AMX_SIDE * AMX_SIDE] __attribute__((aligned(64)));
    int64_t steps = (at->kc + AMX_SIDE - 1) / AMX_SIDE;
    for (int64_t row = rows[0]; row < rows[1]; row++)
        for (int64_t col = cols[0]; col < cols[1]; col++) {
            int64_t i = at->ic + row * AMX_SIDE, j = at->jc + col * AMX_SIDE;
            int64_t high = least(AMX_SIDE, at->ic + at->mc - i);
            int64_t wide = least(AMX_SIDE, at->jc + at->nc - j);
            struct amx_block t = {
                .a = at->a + row * at->panel,
                .b = at->b + col * at->panel,
                .steps = steps,
                .sums = sums,
                .c = g->c + i * g->ldc + gemm_column(g, j),
                .ldc = g->ldc,
                .rows = high,
                .lines = row + 1 < rows[1] ? at->panel / 64 / steps / (cols[1] - cols[0]) + 1 : 0,
            };
            t.ahead = t.a + at->panel + (col - cols[0]) * steps * t.lines * 64;
            amx_multiply(&t, high, wide);
            amx_results(at, sums, (int64_t[]){i, j, high, wide});
        }
}

/* The grid of threads whose slowest has least to do. */
static void amx_grid(int64_t rows, int64_t cols, int threads, int grid[2]) {
    int64_t best = INT64_MAX;
    for (int r = 1; r <= threads; r++) {
        int c = threads / r;
        int64_t cost = (rows + r - 1) / r * ((cols + c - 1) / c);
        if (threads % r == 0 && cost < best) {
            best = cost;
            grid[0] = r;
            grid[1] = c;
        }
    }
}

static void amx_compute(void *ctx, int thread, int threads) {
    struct amx_at at = *(const struct amx_at *)ctx;
    int64_t high = (at.mc + AMX_SIDE - 1) / AMX_SIDE, wide = (at.nc + AMX_SIDE - 1) / AMX_SIDE;
    int64_t rows[2], cols[2], step = most(1, AMX_NEAR / at.panel);
    int grid[2] = {1, 1};
    amx_grid(high, wide, threads, grid);
    sl_pool_range(high, 1, thread / grid[1], grid[0], &rows[0], &rows[1]);
    sl_pool_range(wide, 1, thread % grid[1], grid[1], &cols[0], &cols[1]);
    amx_open();
    for (int64_t j = cols[0]; j < cols[1]; j += step)
        amx_panels(&at, rows, (int64_t[]){j, least(j + step, cols[1])});
    _tile_release();
}

/* The part of c; pool NULL: by this thread alone. */
static void amx_product(const struct gemm *g, const struct part *part, struct sl_pool *pool,
                        float *scratch) {
    int64_t kc = amx_kc(g->k), rows = part->m1 - part->m0, cols = part->n1 - part->n0;
    int64_t mc = amx_block_side(rows, kc, AMX_A), nc = amx_block_side(cols, kc, AMX_B);
    struct amx_at at = {.gemm = g, .part = *part, .panel = kc / AMX_SIDE * AMX_STEP};
    at.a = (char *)scratch;
    at.b = at.a + mc / AMX_SIDE * at.panel;
    bool keeps_a = kc >= g->k && mc >= rows;
    for (at.jc = part->n0; at.jc < part->n1; at.jc += nc)
        for (at.pc = 0; at.pc < g->k; at.pc += kc)
            for (at.ic = part->m0; at.ic < part->m1; at.ic += mc) {
                at.nc = least(nc, part->n1 - at.jc);
                at.kc = least(kc, g->k - at.pc);
                at.mc = least(mc, part->m1 - at.ic);
                at.has_a = keeps_a && at.jc > part->n0;
                at.has_b = at.ic > part->m0;
                if (pool) {
                    sl_pool_run(pool, amx_pack, &at);
                    sl_pool_run(pool, amx_compute, &at);
                } else {
                    amx_pack(&at, 0, 1);
                    amx_compute(&at, 0, 1);
                }
            }
}

#else

/* Compiled for CPUs without: never asked for. */
INLINE bool amx_suits(int64_t m, int64_t k) { return m < 0 && k < 0; }
INLINE int64_t amx_floats(int64_t m, int64_t n, int64_t k) { return 0 * m * n * k; }
INLINE void amx_product(const struct gemm *g, const struct part *part, struct sl_pool *pool,
                        float *scratch) {
    (void)g, (void)part, (void)pool, (void)scratch;
}

#endif

#endif
