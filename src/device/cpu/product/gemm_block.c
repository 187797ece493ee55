/* One block of a matrix product: packing, tiles, prefetching, for one thread. */
#include "device/cpu/product/gemm_block.h"

/* ---- prefetching: while tiles compute, they prefetch the next block of A into L2 ---- */

/* Sets the next block of A. A piece is MR x 2 cache lines of one row, or, if A is transposed, 2
 * cache lines of MR rows. */
void gemm_block_look_ahead(struct sl_gemm_block *at, int64_t i, int64_t p, int64_t rows,
                           int64_t cols) {
    const struct sl_gemm_spec *g = at->gemm;
    at->ahead = (struct sl_gemm_ahead){.ld = g->a.ld, .transposed = g->a.transposed};
    if (g->pack_a)
        return;
    at->ahead.at = g->a.at + (g->a.transposed ? p * g->a.ld + i : i * g->a.ld + p);
    at->ahead.rows = g->a.transposed ? (cols + MR - 1) / MR : rows;
    at->ahead.pieces = g->a.transposed ? (rows + 2 * LINE - 1) / (2 * LINE)
                                       : (cols + 2 * LINE * MR - 1) / (2 * LINE * MR);
}

/* Plans the block of A that follows the current one in the order of gemm_part. */
static void plan_ahead(struct sl_gemm_block *at, int64_t kc) {
    int64_t i = at->ic + GEMM_MC, p = at->pc, k = at->gemm->k;
    if (i >= at->part.m1) {
        i = at->part.m0;
        p = p + kc < k ? p + kc : 0;
    }
    bool done = p == 0 && i == at->part.m0 && at->jc + at->nc >= at->part.n1;
    if (done || (i == at->ic && p == at->pc))
        at->ahead.at = NULL;
    else
        gemm_block_look_ahead(at, i, p, min_i64(GEMM_MC, at->part.m1 - i), min_i64(kc, k - p));
}

static INLINE void prefetch_next_a(struct sl_gemm_ahead *ahead, struct sl_gemm_tile *t) {
    if (!ahead->at || ahead->next >= ahead->rows * ahead->pieces)
        return;
    int64_t row = ahead->next / ahead->pieces, piece = ahead->next % ahead->pieces;
    ahead->next++;
    t->next_a_step = ahead->transposed ? ahead->ld : 2 * LINE;
    t->next_a = ahead->transposed ? ahead->at + row * MR * ahead->ld + piece * 2 * LINE
                                  : ahead->at + row * ahead->ld + piece * 2 * LINE * MR;
}

/* Prefetches the share that tile `index` of a panel has of the next panel: rows of B, 2 cache lines
 * each. */
static INLINE void prefetch_next_b(const struct sl_gemm_block *at, struct sl_gemm_tile *t,
                                   int64_t index) {
    const struct sl_gemm_matrix *b = &at->next_b;
    if (!b->at)
        return;
    int64_t count = (at->mc + at->mr - 1) / at->mr;
    t->next_b_steps = b->transposed ? (at->kc + 2 * LINE - 1) / (2 * LINE) : at->mr;
    t->next_b_rows = b->transposed ? (NR + count - 1) / count : at->kc / (count * at->mr) + 1;
    t->next_b_ld = b->ld;
    t->next_b_step = b->transposed ? 2 * LINE : t->next_b_rows * b->ld;
    t->next_b = b->at + index * t->next_b_rows * (b->transposed ? 1 : at->mr) * b->ld;
}

/* ---- packing ---- */

/* sums[i] (+)= the sum over k of from[k * step + i], for i < count <= LANES. */
static void sum_sliver(const float *from, int64_t step, int64_t kc, float *sums, int64_t count,
                       bool add) {
    vf sum = {0};
    for (int64_t k = 0; k < kc; k++)
        sum += load_n(from + k * step, count);
    if (add)
        sum += load_n(sums, count);
    store_n(sums, sum, count);
}

/* Packs an A that is transposed: copies row by row, so that the matrix is read contiguously. Adds
 * the slivers to `sums`. */
static void pack_columns(const struct sl_gemm_block *at, vf *sums) {
    const struct sl_gemm_matrix *a = &at->gemm->a;
    const int64_t rows = at->mc, mr = at->mr, kc = at->kc, last = (rows - 1) / mr * mr;
    for (int64_t k = 0; k < kc; k++) {
        const float *from = a->at + (at->pc + k) * a->ld + at->ic;
        for (int64_t r = 0; r < rows; r += mr) {
            int64_t high = r < last ? mr : rows - last;
            vf x = load_n(from + r, high);
            if (at->sum_a)
                sums[r / mr] += x;
            store_n(at->pack_a + r * kc + k * high, x, k + 1 < kc ? LANES : high);
        }
    }
}

static void keep_sums(const struct sl_gemm_block *at, const vf *sums) {
    const struct sl_gemm_spec *g = at->gemm;
    for (int64_t ir = 0; at->sum_a && ir < at->mc; ir += at->mr) {
        int64_t rows = min_i64(at->mr, at->mc - ir);
        float *to = g->a_sums + at->ic + ir;
        vf sum = sums[ir / at->mr];
        if (at->pc || g->add_sums)
            sum += load_n(to, rows);
        store_n(to, sum, rows);
    }
}

void gemm_block_pack_a(const struct sl_gemm_block *at) {
    const struct sl_gemm_spec *g = at->gemm;
    if (!g->pack_a && g->a.transposed) {
        vf sums[GEMM_MC / MR] = {{0}};
        pack_columns(at, sums);
        keep_sums(at, sums);
        return;
    }
    for (int64_t ir = 0; ir < at->mc; ir += at->mr) {
        int64_t rows = min_i64(at->mr, at->mc - ir);
        float *to = at->pack_a + ir * at->kc;
        if (g->pack_a)
            g->pack_a(g, (int64_t[]){at->ic + ir, rows, at->pc, at->kc}, to);
        else
            gemm_pack_a(&g->a, at->ic + ir, rows, at->pc, at->kc, to);
    }
}

static void sum_b(const struct sl_gemm_block *at, int64_t jr, int64_t cols) {
    const struct sl_gemm_spec *g = at->gemm;
    for (int64_t v = 0; v < cols; v += LANES)
        sum_sliver(at->pack_b + jr * at->kc + v, round_up(cols, LANES), at->kc,
                   g->b_sums + at->jc + jr + v, min_i64(LANES, cols - v), at->pc || g->add_sums);
}

void gemm_block_pack_b(const struct sl_gemm_block *at) {
    const struct sl_gemm_spec *g = at->gemm;
    int64_t whole = g->pack_b || g->b.transposed || at->direct_b ? 0 : at->nc / NR;
    gemm_pack_panels(&g->b, at->jc, whole, at->pc, at->kc, at->pack_b);
    for (int64_t jr = 0; jr < at->nc; jr += NR) {
        int64_t cols = min_i64(NR, at->nc - jr);
        float *to = at->pack_b + jr * at->kc;
        if (g->pack_b)
            g->pack_b(g, (int64_t[]){at->jc + jr, cols, at->pc, at->kc}, to);
        else if (jr >= whole * NR && (!at->direct_b || cols % LANES))
            gemm_pack_b(&g->b, at->jc + jr, cols, at->pc, at->kc, to);
        if (g->b_sums && at->part.m0 == 0)
            sum_b(at, jr, cols);
    }
}

/* ---- tiles ---- */

/* Stores element by element a vector whose columns are not neighbours in c. Such a product has no
 * bias, and its `start` is c or NULL. */
static void scatter(const struct sl_gemm_block *at, const float *spare,
                    const struct sl_gemm_tile *t, const int64_t size[2]) {
    const struct sl_gemm_spec *g = at->gemm;
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

/* Computes a tile whose columns do not fill their vectors into a buffer first. */
static void edge_tile(const struct sl_gemm_block *at, struct sl_gemm_tile *t, int64_t rows,
                      int64_t cols) {
    float spare[MR * NR] __attribute__((aligned(64)));
    struct sl_gemm_tile whole = *t;
    whole.c = spare;
    whole.ldc = NR;
    whole.c_next = LANES;
    whole.start = whole.bias = whole.with_c = NULL;
    gemm_tiles[rows - 1][(cols - 1) / LANES](&whole);
    if (at->gemm->image) {
        scatter(at, spare, t, (int64_t[]){rows, cols});
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += LANES) {
            vf x = load(spare + i * NR + j);
            if (t->bias)
                x += load_n(t->bias + j, cols - j);
            if (t->start)
                x += load_n(t->start + i * t->start_step + j, cols - j);
            store_n(t->c + i * at->gemm->ldc + j, x, cols - j);
        }
}

/* Sets what a tile starts from: partial sums of earlier k, or c, start and bias. */
static INLINE void tile_start(const struct sl_gemm_block *at, struct sl_gemm_tile *t, int64_t i,
                              int64_t j) {
    const struct sl_gemm_spec *g = at->gemm;
    bool first = at->pc == 0;
    t->start = !first || g->add ? t->c : g->start ? g->start + i * g->ldc + j : NULL;
    t->start_step = g->ldc;
    t->bias = first && g->bias ? g->bias + j : NULL;
    if (at->pc + at->kc == g->k && g->finish)
        t->with_c = (g->y ? g->y : g->x) + i * g->ldc + j;
    else if (first && !g->add && g->start != g->c)
        t->with_c = t->start;
}

/* Multiplies the block of A with one sliver of B. */
static void multiply_sliver(struct sl_gemm_block *at, int64_t j, int64_t cols, const float *b,
                            int64_t b_step) {
    const struct sl_gemm_spec *g = at->gemm;
    bool last = at->pc + at->kc == g->k;
    for (int64_t ir = 0; ir < at->mc; ir += at->mr) {
        int64_t rows = min_i64(at->mr, at->mc - ir), i = at->ic + ir;
        struct sl_gemm_tile t = {
            .kc = at->kc,
            .a = at->pack_a + ir * at->kc,
            .a_step = rows,
            .b = b,
            .b_step = b_step,
            .c = g->c + i * g->ldc + gemm_column(g, j),
            .ldc = g->ldc,
            .c_next = gemm_column(g, j + LANES) - gemm_column(g, j),
            .i = i,
            .j = j,
        };
        tile_start(at, &t, i, j);
        prefetch_next_a(&at->ahead, &t);
        prefetch_next_b(at, &t, ir / at->mr);
        if (cols % LANES || g->image % LANES)
            edge_tile(at, &t, rows, cols);
        else
            gemm_tiles[rows - 1][cols / LANES - 1](&t);
        if (last && g->finish)
            g->finish(g, i, j, rows, cols);
    }
}

void gemm_block_multiply(struct sl_gemm_block *at) {
    const struct sl_gemm_matrix *b = &at->gemm->b;
    for (int64_t jr = 0; jr < at->nc; jr += NR) {
        int64_t j = at->jc + jr, cols = min_i64(NR, at->nc - jr);
        if (at->direct_b && cols % LANES == 0)
            multiply_sliver(at, j, cols, b->at + at->pc * b->ld + j, b->ld);
        else
            multiply_sliver(at, j, cols, at->pack_b + jr * at->kc, round_up(cols, LANES));
    }
}

void gemm_part(const struct sl_gemm_spec *gemm, const struct sl_gemm_part *part, float *scratch) {
    int64_t kc = gemm_kc(gemm->k), nc = gemm_nc(kc), rows = part->m1 - part->m0;
    struct sl_gemm_block at = {
        .gemm = gemm,
        .part = *part,
        .mr = MR,
        .direct_b = rows <= MR && !gemm->b.transposed && !gemm->b_sums && !gemm->pack_b,
    };
    at.pack_b = scratch;
    at.pack_a = scratch + min_i64(round_up(part->n1 - part->n0, NR), nc) * kc;
    for (at.jc = part->n0; at.jc < part->n1; at.jc += nc) {
        at.nc = min_i64(nc, part->n1 - at.jc);
        at.sum_a = gemm->a_sums && at.jc == 0;
        for (at.pc = 0; at.pc < gemm->k; at.pc += kc) {
            at.kc = min_i64(kc, gemm->k - at.pc);
            gemm_block_pack_b(&at);
            for (at.ic = part->m0; at.ic < part->m1; at.ic += GEMM_MC) {
                at.mc = min_i64(GEMM_MC, part->m1 - at.ic);
                gemm_block_pack_a(&at);
                plan_ahead(&at, kc);
                gemm_block_multiply(&at);
            }
        }
    }
}
