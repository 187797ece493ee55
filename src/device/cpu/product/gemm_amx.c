/* c = a b on the tiles of AMX.
 *
 * With three parts per float (pack_amx.c) a product is the sum of six products of parts, which
 * is as accurate as float. The omitted ones (middle x low, low x low) are below 2^-26 of the
 * product. With one part, a and b are rounded to bf16.
 *
 *   for the outer side by blocks                 the smaller of A and B
 *     for k by DEPTH x KC                        outer blocks [.., KC] packed by all threads: L3
 *       for the inner side by blocks             each taken by one thread
 *         for pc in DEPTH by KC   (order of summation)
 *                                                inner block [.., KC] packed: L2
 *           for panels of 32 of the outer block
 *             for panels of 32 of the inner one: 32 x 32 results in four tiles
 *
 * One thread computes an element of c, in an order that depends on k alone: the bits do not depend
 * on the threads. */
#include "device/cpu/product/gemm_amx.h"

#include "device/cpu/product/amx.h"
#include "device/cpu/product/gemm_block.h"

/* ---- sizes ---- */

enum {
    AMX_KC = 384,
    AMX_KC_ALONE = 448,
    AMX_OUTER = 800 * 1024, /* elements of outer blocks, which stay in L3 */
    AMX_INNER = 96 * 1024,  /* elements of an inner block, which stays in L2 */
    AMX_PIECES = 4,         /* pieces per thread, at least, if there are several threads */
};

/* AMX does not pay for shorter sums or fewer rows. The rule must not depend on the threads. */
static bool amx_suits(int64_t m, int64_t k) { return m >= 8 && k >= 16; }

static INLINE int64_t amx_kc(int64_t k) {
    int64_t blocks = k <= AMX_KC_ALONE ? 1 : (k + AMX_KC - 1) / AMX_KC;
    return round_up((k + blocks - 1) / blocks, AMX_SIDE);
}

/* Number of rows or columns of a block: whole panels. */
static INLINE int64_t amx_side(int64_t count, int64_t kc, int64_t elements) {
    return min_i64(round_up(count, AMX_SIDE), max_i64(1, elements / kc / AMX_SIDE) * AMX_SIDE);
}

/* Number of rows or columns of a piece. Pieces are small enough to balance the threads. */
static INLINE int64_t amx_piece(int64_t count, int threads) {
    int64_t pieces = threads > 1 ? AMX_PIECES * threads : 1;
    return round_up(max_i64(1, count / pieces), 3 * AMX_SIDE);
}

struct amx_sizes {
    int64_t kc, inner, outer; /* sides of blocks */
    int64_t depth;            /* number of blocks of k whose outer sides are packed together */
};

/* If there are several threads, they take inner blocks as pieces. Packing many blocks of k together
 * keeps barriers rare. */
static struct amx_sizes amx_sizes(int64_t m, int64_t n, int64_t k, int threads) {
    int64_t kc = amx_kc(k);
    struct amx_sizes s = {.kc = kc,
                          .inner = amx_side(max_i64(m, n), kc, AMX_INNER),
                          .outer = amx_side(min_i64(m, n), kc, AMX_OUTER),
                          .depth = 1};
    if (threads > 1) {
        s.inner = min_i64(s.inner, amx_piece(max_i64(m, n), threads));
        s.depth = min_i64((k + kc - 1) / kc, max_i64(1, AMX_OUTER / (s.outer * kc)));
    }
    return s;
}

static INLINE int64_t amx_packed_floats(int64_t elements) {
    return elements * AMX_STEP / (AMX_SIDE * AMX_SIDE) / 4;
}

/* Floats of scratch for a product that several threads compute. */
static int64_t amx_floats(int64_t m, int64_t n, int64_t k, int threads) {
    struct amx_sizes s = amx_sizes(m, n, k, threads);
    return amx_packed_floats(s.kc * (s.depth * s.outer + threads * s.inner));
}

/* The same for a part that one thread computes, of this size or smaller; a smaller k may have a
 * larger kc. */
static int64_t amx_part_floats(int64_t m, int64_t n, int64_t k) {
    int64_t kc = min_i64(round_up(k, AMX_SIDE), AMX_KC_ALONE), total = 0;
    int64_t count[2] = {max_i64(m, n), min_i64(m, n)}, elements[2] = {AMX_INNER, AMX_OUTER};
    for (int i = 0; i < 2; i++)
        total += min_i64(round_up(count[i], AMX_SIDE) * kc, max_i64(elements[i], AMX_SIDE * kc));
    return amx_packed_floats(total);
}

/* ---- packing ---- */

enum amx_which { AMX_A, AMX_B };

struct amx_at {
    const struct sl_gemm_spec *gemm;
    struct sl_device_pool *pool; /* NULL: this thread alone */
    int64_t begin[2], end[2];    /* first and last rows and columns of the part */
    int64_t from[2], to[2];      /* first and last rows and columns of the block */
    int64_t k0, k1;              /* range of k of the outer blocks */
    int64_t pc, kc;
    int64_t whole;    /* kc of every block of k but the last one */
    int64_t block[2]; /* rows and columns of a block */
    char *packed[2];
    int64_t panel; /* bytes of the panel of 32 rows of A or 32 columns of B */
    int inner;
    struct sl_amx_ahead ahead;
};

/* Bytes of a packed block. */
static INLINE int64_t amx_bytes(const struct amx_at *at, int which) {
    return at->block[which] / AMX_SIDE * at->panel;
}

/* Returns the next of `count` pieces after `last`, or -1 if none is left. With a pool it asks
 * sl_device_pool_take. */
static INLINE int64_t amx_take(const struct amx_at *at, int64_t count, int thread, int64_t last) {
    if (at->pool)
        return sl_device_pool_take(at->pool, count, thread);
    return last + 1 < count ? last + 1 : -1;
}

static struct sl_amx_source amx_source_of(const struct amx_at *at, int which, int64_t i,
                                          int64_t pc) {
    const struct sl_gemm_matrix *m = which == AMX_A ? &at->gemm->a : &at->gemm->b;
    bool k_in_lanes = m->transposed == (which == AMX_B);
    return (struct sl_amx_source){
        .from = m->at + (k_in_lanes ? i * m->ld + pc : pc * m->ld + i),
        .ld = m->ld,
        .k_in_lanes = k_in_lanes,
        .turn = m->transposed,
    };
}

/* Returns where the sums over k of a side go, or NULL. A side is packed once per block of the other
 * side; only the first packing adds to the sums. */
static float *amx_sums(const struct amx_at *at, int which) {
    int other = !which;
    if (at->from[other] != 0)
        return NULL;
    return which == AMX_A ? at->gemm->a_sums : at->gemm->b_sums;
}

/* Packs `count` rows of A or columns of B from i on, at most AMX_WIDE. */
static void amx_pack_matrix(const struct amx_at *at, int which, int64_t i, int64_t count,
                            char *to) {
    float *to_sums = amx_sums(at, which);
    vf sums[AMX_WIDE / AMX_ROWS] = {{0}};
    struct sl_amx_source s = amx_source_of(at, which, i, at->pc);
    amx_pack_panels(&s, count, at->kc, to_sums ? sums : NULL, to, at->panel);
    for (int64_t v = 0; to_sums && v < count; v += AMX_ROWS) {
        int64_t n = min_i64(AMX_ROWS, count - v);
        vf sum = sums[v / AMX_ROWS];
        if (at->pc > 0 || at->gemm->add_sums)
            sum += load_n(to_sums + i + v, n);
        store_n(to_sums + i + v, sum, n);
    }
}

/* Packs by a pack_fn, which writes one line of `ld` floats per k; these lines are then packed into
 * tiles. */
static void amx_pack_by(const struct amx_at *at, int which, int64_t i, int64_t count, char *to) {
    float lines[AMX_PACK_STEPS * AMX_SIDE * AMX_SIDE + LANES] __attribute__((aligned(64)));
    const struct sl_gemm_spec *g = at->gemm;
    bool is_a = which == AMX_A;
    struct sl_amx_source s = {
        .from = lines, .ld = is_a ? count : round_up(count, LANES), .turn = is_a};
    for (int64_t k = 0; k < at->kc; k += AMX_PACK_STEPS * AMX_SIDE) {
        int64_t kc = min_i64(AMX_PACK_STEPS * AMX_SIDE, at->kc - k);
        (is_a ? g->pack_a : g->pack_b)(g, (int64_t[]){i, count, at->pc + k, kc}, lines);
        amx_pack_panels(&s, count, kc, NULL, to + k / AMX_SIDE * AMX_STEP, at->panel);
    }
}

/* Packs [from, to) of a block: whole panels, except for the last one. */
static void amx_pack_range(const struct amx_at *at, int which, int64_t from, int64_t to) {
    const struct sl_gemm_spec *g = at->gemm;
    bool by = which == AMX_A ? g->pack_a != NULL : g->pack_b != NULL;
    int64_t wide = !by ? AMX_WIDE : which == AMX_A ? AMX_ROWS : AMX_SIDE;
    for (int64_t i = from; i < to; i += wide) {
        int64_t v = i - at->from[which], count = min_i64(wide, to - i);
        char *panel =
            at->packed[which] + v / AMX_SIDE * at->panel + v % AMX_SIDE / AMX_ROWS * AMX_TILE;
        if (by)
            amx_pack_by(at, which, i, count, panel);
        else
            amx_pack_matrix(at, which, i, count, panel);
    }
}

/* Packs the outer blocks. A piece covers all of their k, so that sums have a fixed order. */
static void amx_pack_outer(void *ctx, int thread, int threads) {
    struct amx_at at = *(const struct amx_at *)ctx;
    int outer = !at.inner;
    int64_t base = at.from[outer], count = at.to[outer] - base;
    int64_t side = min_i64(AMX_WIDE, amx_piece(count, threads)), pieces = (count + side - 1) / side;
    char *packed = at.packed[outer];
    for (int64_t p = -1; (p = amx_take(&at, pieces, thread, p)) >= 0;) {
        at.packed[outer] = packed;
        for (at.pc = at.k0; at.pc < at.k1; at.pc += at.whole) {
            at.kc = min_i64(at.whole, at.gemm->k - at.pc);
            amx_pack_range(&at, outer, base + p * side, base + min_i64(count, (p + 1) * side));
            at.packed[outer] += amx_bytes(&at, outer);
        }
    }
}

/* Plans prefetching: the inner block that is packed next has the next k of these rows, or the rows
 * below, or the first rows with the k of the next outer blocks. */
static void amx_plan_ahead(struct amx_at *at) {
    const struct sl_gemm_spec *g = at->gemm;
    int64_t i = at->from[at->inner], pc = at->pc + at->whole, end = at->end[at->inner];
    at->ahead = (struct sl_amx_ahead){0};
    if (pc >= at->k1) {
        i = at->to[at->inner];
        pc = at->k0;
    }
    if (i >= end && !at->pool) {
        i = at->begin[at->inner];
        pc = at->k1;
    }
    if (i >= end || pc >= g->k || (at->inner == AMX_A ? g->pack_a != NULL : g->pack_b != NULL))
        return;
    struct sl_amx_source s = amx_source_of(at, at->inner, i, pc);
    int64_t count = min_i64(at->block[at->inner], end - i), kc = min_i64(at->whole, g->k - pc);
    at->ahead = (struct sl_amx_ahead){.at = s.from,
                                      .ld = s.ld,
                                      .rows = s.k_in_lanes ? count : kc,
                                      .wide = s.k_in_lanes ? kc : count};
}

/* ---- products ---- */

/* Stores element by element a vector whose columns are not neighbours in c. */
static void amx_scatter(const struct amx_at *at, const float *sums, const int64_t place[4]) {
    const struct sl_gemm_spec *g = at->gemm;
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

/* Stores 16 columns of the sums to c, plus bias and start. */
static INLINE void amx_store(const struct amx_at *at, const float *sums, const int64_t place[4]) {
    const struct sl_gemm_spec *g = at->gemm;
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
    const struct sl_gemm_spec *g = at->gemm;
    if (g->image % LANES || (g->image && place[3] % LANES))
        amx_scatter(at, sums, place);
    else
        for (int64_t v = 0; v < place[3]; v += LANES)
            amx_store(at, sums + v,
                      (int64_t[]){place[0], place[1] + v, place[2], min_i64(LANES, place[3] - v)});
    if (g->finish && at->pc + at->kc == g->k)
        g->finish(g, place[0], place[1], place[2], place[3]);
}

/* Returns the operand other than c that the results of a tile at (i, j) are combined with, or
 * NULL. */
static INLINE const float *amx_also(const struct amx_at *at, int64_t i, int64_t j) {
    const struct sl_gemm_spec *g = at->gemm;
    const float *first = at->pc == 0 && !g->add ? g->start : NULL;
    const float *last = at->pc + at->kc == g->k ? g->y ? g->y : g->x : NULL;
    const float *also = first ? first : last;
    return also ? also + i * g->ldc + j : NULL;
}

/* Multiplies one panel of A with one panel of B. */
static void amx_pair(struct amx_at *at, int64_t row, int64_t col, struct sl_amx_block *t) {
    const struct sl_gemm_spec *g = at->gemm;
    float sums[AMX_SIDE * AMX_SIDE] __attribute__((aligned(64)));
    int64_t i = at->from[AMX_A] + row * AMX_SIDE, j = at->from[AMX_B] + col * AMX_SIDE;
    int64_t high = min_i64(AMX_SIDE, at->to[AMX_A] - i),
            wide = min_i64(AMX_SIDE, at->to[AMX_B] - j);
    t->a = at->packed[AMX_A] + row * at->panel;
    t->b = at->packed[AMX_B] + col * at->panel;
    t->sums = sums;
    t->sums_step = AMX_SIDE;
    t->c = g->c + i * g->ldc + gemm_column(g, j);
    t->also = amx_also(at, i, j);
    t->ldc = g->ldc;
    t->rows = high;
    amx_multiply(t, high, wide);
    t->sums = NULL; /* a buffer of this call */
    amx_results(at, sums, (int64_t[]){i, j, high, wide});
}

/* Multiplies all panels of the outer block with those of the inner block, which stay in L2. */
static void amx_block(struct amx_at *at) {
    int inner = at->inner, outer = !inner;
    int64_t inners = (at->to[inner] - at->from[inner] + AMX_SIDE - 1) / AMX_SIDE;
    int64_t outers = (at->to[outer] - at->from[outer] + AMX_SIDE - 1) / AMX_SIDE;
    int64_t steps = (at->kc + AMX_SIDE - 1) / AMX_SIDE;
    int64_t lines = at->panel / 64 / steps / inners + 1;
    int64_t all = at->ahead.rows * ((at->ahead.wide + LINE - 1) / LINE);
    struct sl_amx_block t = {
        .steps = steps, .ahead = &at->ahead, .ahead_lines = all / (inners * outers * steps) + 1};
    for (int64_t p = 0; p < outers; p++)
        for (int64_t q = 0; q < inners; q++) {
            t.lines = p + 1 < outers ? lines : 0;
            t.panel = at->packed[outer] + (p + 1) * at->panel + q * steps * lines * 64;
            amx_pair(at, inner == AMX_A ? q : p, inner == AMX_A ? p : q, &t);
        }
}

/* Multiplies the inner block that starts at i with the outer blocks. */
static void amx_through(struct amx_at *at, int64_t i) {
    int inner = at->inner, outer = !inner;
    char *packed = at->packed[outer];
    at->from[inner] = i;
    at->to[inner] = min_i64(i + at->block[inner], at->end[inner]);
    for (at->pc = at->k0; at->pc < at->k1; at->pc += at->whole) {
        at->kc = min_i64(at->whole, at->gemm->k - at->pc);
        amx_pack_range(at, inner, at->from[inner], at->to[inner]);
        amx_plan_ahead(at);
        amx_block(at);
        at->packed[outer] += amx_bytes(at, outer);
    }
    at->packed[outer] = packed;
}

/* Multiplies all inner blocks; threads take them one by one. */
static void amx_inner(void *ctx, int thread, int threads) {
    struct amx_at at = *(const struct amx_at *)ctx;
    int64_t base = at.begin[at.inner], side = at.block[at.inner];
    int64_t blocks = (at.end[at.inner] - base + side - 1) / side;
    (void)threads;
    if (at.pool)
        at.packed[at.inner] =
            sl_device_pool_scratch(at.pool, at.packed[at.inner], amx_bytes(&at, at.inner), thread);
    amx_open();
    for (int64_t p = -1; (p = amx_take(&at, blocks, thread, p)) >= 0;)
        amx_through(&at, base + p * side);
    amx_close();
}

/* Calls body on every thread. `scratch` is the number of bytes that each thread needs. */
static void amx_run(struct amx_at *at, int64_t scratch,
                    void (*body)(void *ctx, int thread, int threads)) {
    if (at->pool)
        sl_device_pool_run_pieces(at->pool, scratch, body, at);
    else
        body(at, 0, 1);
}

/* Computes a part of c. With pool NULL, this thread computes it alone. */
static void amx_product(const struct sl_gemm_spec *g, const struct sl_gemm_part *part,
                        struct sl_device_pool *pool, float *scratch) {
    int64_t rows = part->m1 - part->m0, cols = part->n1 - part->n0;
    struct amx_sizes sizes = amx_sizes(rows, cols, g->k, pool ? sl_device_pool_threads(pool) : 1);
    struct amx_at at = {.gemm = g,
                        .pool = pool,
                        .begin = {part->m0, part->n0},
                        .end = {part->m1, part->n1},
                        .whole = sizes.kc,
                        .panel = sizes.kc / AMX_SIDE * AMX_STEP,
                        .inner = rows >= cols ? AMX_A : AMX_B};
    int inner = at.inner, outer = !inner;
    int64_t deep = sizes.depth * sizes.kc;
    at.block[inner] = sizes.inner;
    at.block[outer] = sizes.outer;
    at.packed[outer] = (char *)scratch;
    at.packed[inner] = at.packed[outer] + sizes.depth * amx_bytes(&at, outer);
    for (int64_t i = at.begin[outer]; i < at.end[outer]; i += at.block[outer])
        for (at.k0 = 0; at.k0 < g->k; at.k0 += deep) {
            at.k1 = min_i64(g->k, at.k0 + deep);
            at.from[outer] = i;
            at.to[outer] = min_i64(i + at.block[outer], at.end[outer]);
            at.from[inner] = at.begin[inner];
            amx_run(&at, 0, amx_pack_outer);
            amx_run(&at, amx_bytes(&at, inner), amx_inner);
        }
}

const struct sl_gemm_amx SL_ISA_NAME(gemm_amx_row) = {
    amx_suits,
    amx_floats,
    amx_part_floats,
    amx_product,
};
