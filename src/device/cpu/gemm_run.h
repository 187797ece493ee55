/* A product over the threads of a worker: a grid of parts, or whole products of a batch. */
#ifndef SL_DEVICE_CPU_GEMM_RUN_H
#define SL_DEVICE_CPU_GEMM_RUN_H

#include "device/cpu/gemm_amx.h"
#include "device/cpu/gemm_joint.h"

struct gemm_batch {
    struct gemm gemm; /* the first one */
    int64_t count;
    int64_t a_step, b_step, c_step; /* from one product to the next */
    float *scratch;                 /* threads * scratch_step */
    int64_t scratch_step;
    struct sl_pool *pool;
    int cuts; /* of the part of a thread: pieces; 0: whole products are pieces */
};

/* Rows x columns of the grid of threads: what the slowest thread multiplies and packs. */
static void gemm_grid(int64_t m, int64_t n, int threads, int *rows, int *cols) {
    double best = INFINITY;
    for (int r = 1; r <= threads; r++) {
        if (threads % r)
            continue;
        int64_t c = threads / r, high = (m + r - 1) / r, units = (n + VL - 1) / VL;
        int64_t wide = (units + c - 1) / c * VL;
        double cost = (double)high * (double)wide + 12.0 * (double)(high + wide);
        if (cost < best) {
            best = cost;
            *rows = r;
            *cols = (int)c;
        }
    }
}

static struct part gemm_share(const struct gemm *g, int thread, int threads) {
    struct part part;
    int rows = 1, cols = threads;
    gemm_grid(g->m, g->n, threads, &rows, &cols);
    sl_pool_range(g->m, 1, thread / cols, rows, &part.m0, &part.m1);
    sl_pool_range(g->n, VL, thread % cols, cols, &part.n0, &part.n1);
    return part;
}

/* Floats of scratch per thread. */
static int64_t gemm_scratch(int64_t m, int64_t n, int64_t k, int64_t count, int threads) {
    int rows = 1, cols = 1;
    if (amx_suits(m, k))
        return count < threads ? up_to(amx_floats(m, n, k, threads) / threads + 1, LINE)
                               : amx_part_floats(m, n, k);
    if (gemm_joins(m, count, threads))
        return joint_floats(m, n, k, threads);
    if (count < threads)
        gemm_grid(m, n, threads, &rows, &cols);
    return gemm_floats((m + rows - 1) / rows, (n + cols - 1) / cols + VL, k);
}

/* Scratch and product of a part by one thread, for kernels that divide their work themselves. */
INLINE int64_t part_floats(int64_t m, int64_t n, int64_t k) {
    return most(gemm_floats(m, n, k), amx_part_floats(m, n, k));
}

/* Images are packed once per group of channels: with few of these, packing for AMX costs more than
 * its tiles save. */
enum { AMX_CHANNELS = 96 };

static void part_run(const struct gemm *g, const struct part *part, float *scratch) {
    if (amx_suits(g->m, g->k) && (!g->pack_b || g->m >= AMX_CHANNELS))
        amx_product(g, part, NULL, scratch);
    else
        gemm_part(g, part, scratch);
}

static struct gemm gemm_at_index(const struct gemm_batch *batch, int64_t index) {
    struct gemm g = batch->gemm;
    g.a.at += index * batch->a_step;
    g.b.at += index * batch->b_step;
    g.c += index * batch->c_step;
    return g;
}

/* In how many pieces the part of a thread is cut. Every piece packs both its sides: not more than
 * others need to help. */
static int gemm_cuts(const struct gemm *g, const struct sl_pool *pool) {
    enum { ALONE = 4, WITH_OTHERS = 2, LEAST_SIDE = 128 };
    int threads = sl_pool_threads(pool);
    struct part part = gemm_share(g, 0, threads);
    int64_t side = most(part.m1 - part.m0, part.n1 - part.n0);
    if (!sl_pool_lends(pool))
        return 1;
    return (int)most(1, least(threads > 1 ? WITH_OTHERS : ALONE, side / LEAST_SIDE));
}

/* Along the longer side of the thread's part. */
static struct part gemm_piece(const struct gemm *g, int64_t piece, int threads, int cuts) {
    struct part part = gemm_share(g, (int)(piece / cuts), threads);
    int64_t m0 = part.m0, n0 = part.n0, rows = part.m1 - m0, cols = part.n1 - n0;
    int cut = (int)(piece % cuts);
    if (cols >= rows) {
        sl_pool_range(cols, NR, cut, cuts, &part.n0, &part.n1);
        part.n0 += n0;
        part.n1 += n0;
    } else {
        sl_pool_range(rows, MR, cut, cuts, &part.m0, &part.m1);
        part.m0 += m0;
        part.m1 += m0;
    }
    return part;
}

static void gemm_thread(void *ctx, int thread, int threads) {
    const struct gemm_batch *batch = ctx;
    float *scratch = sl_pool_scratch(batch->pool, batch->scratch, 4 * batch->scratch_step, thread);
    int64_t per = batch->cuts ? (int64_t)threads * batch->cuts : 1;
    for (int64_t i; (i = sl_pool_take(batch->pool, batch->count * per, thread)) >= 0;) {
        struct gemm g = gemm_at_index(batch, i / per);
        struct part part = {0, g.m, 0, g.n};
        if (batch->cuts)
            part = gemm_piece(&g, i % per, threads, batch->cuts);
        if (part.m0 < part.m1 && part.n0 < part.n1)
            part_run(&g, &part, scratch);
    }
}

/* One after the other, each by all threads. */
static void gemm_run_jointly(struct sl_pool *pool, const struct gemm_batch *batch, bool amx) {
    for (int64_t i = 0; i < batch->count; i++) {
        struct gemm one = gemm_at_index(batch, i);
        if (amx)
            amx_product(&one, &(struct part){0, one.m, 0, one.n}, pool, batch->scratch);
        else
            joint_product(&one, pool, batch->scratch);
    }
}

static void gemm_run(struct sl_pool *pool, struct gemm_batch *batch) {
    const struct gemm *g = &batch->gemm;
    int threads = sl_pool_threads(pool);
    bool amx = amx_suits(g->m, g->k);
    bool few = batch->count < (threads == 1 && sl_pool_lends(pool) ? 4 : threads);
    batch->scratch_step = gemm_scratch(g->m, g->n, g->k, batch->count, threads);
    batch->pool = pool;
    batch->cuts = few ? gemm_cuts(g, pool) : 0;
    if (amx ? batch->count < threads : gemm_joins(g->m, batch->count, threads))
        gemm_run_jointly(pool, batch, amx);
    else
        sl_pool_run_pieces(pool, 4 * batch->scratch_step, gemm_thread, batch);
}

#endif
