/* Division of matrix products over the threads of a worker: by parts of c, by whole products of a
 * batch, or all threads on one product. */
#include "device/cpu/product/gemm.h"

#include "device/cpu/product/gemm_amx.h"
#include "device/cpu/product/gemm_block.h"
#include "device/cpu/product/gemm_joint.h"

static bool amx_suits(int64_t m, int64_t k) { return gemm_amx && gemm_amx->suits(m, k); }

/* Chooses the rows x columns of the grid of threads that minimizes the work of the slowest thread:
 * products and packing. */
static void thread_grid(int64_t m, int64_t n, int threads, int *rows, int *cols) {
    double best = INFINITY;
    for (int r = 1; r <= threads; r++) {
        if (threads % r)
            continue;
        int64_t c = threads / r, high = (m + r - 1) / r, units = (n + LANES - 1) / LANES;
        int64_t wide = (units + c - 1) / c * LANES;
        double cost = (double)high * (double)wide + 12.0 * (double)(high + wide);
        if (cost < best) {
            best = cost;
            *rows = r;
            *cols = (int)c;
        }
    }
}

static struct sl_gemm_part thread_part(const struct sl_gemm_spec *g, int thread, int threads) {
    struct sl_gemm_part part;
    int rows = 1, cols = threads;
    thread_grid(g->m, g->n, threads, &rows, &cols);
    sl_device_pool_range(g->m, 1, thread / cols, rows, &part.m0, &part.m1);
    sl_device_pool_range(g->n, LANES, thread % cols, cols, &part.n0, &part.n1);
    return part;
}

int64_t gemm_scratch(int64_t m, int64_t n, int64_t k, int64_t count, int threads) {
    int rows = 1, cols = 1;
    if (amx_suits(m, k))
        return count < threads ? round_up(gemm_amx->floats(m, n, k, threads) / threads + 1, LINE)
                               : gemm_amx->part_floats(m, n, k);
    if (joint_joins(m, count, threads))
        return joint_floats(m, n, k, threads);
    if (count < threads)
        thread_grid(m, n, threads, &rows, &cols);
    return gemm_floats((m + rows - 1) / rows, (n + cols - 1) / cols + LANES, k);
}

int64_t gemm_part_floats(int64_t m, int64_t n, int64_t k) {
    int64_t amx = gemm_amx ? gemm_amx->part_floats(m, n, k) : 0;
    return max_i64(gemm_floats(m, n, k), amx);
}

void gemm_run_part(const struct sl_gemm_spec *g, const struct sl_gemm_part *part, float *scratch) {
    if (amx_suits(g->m, g->k) && (!g->pack_b || g->m >= AMX_CHANNELS))
        gemm_amx->product(g, part, NULL, scratch);
    else
        gemm_part(g, part, scratch);
}

static struct sl_gemm_spec product_at(const struct sl_gemm_batch *batch, int64_t index) {
    struct sl_gemm_spec g = batch->gemm;
    g.a.at += index * batch->a_step;
    g.b.at += index * batch->b_step;
    g.c += index * batch->c_step;
    g.start = g.start ? g.start + index * batch->c_step : NULL;
    g.x = g.x ? g.x + index * batch->c_step : NULL;
    g.y = g.y ? g.y + index * batch->c_step : NULL;
    return g;
}

/* Number of pieces of a thread's part; with pieces, idle threads of other workers can help. There
 * are few, because each piece packs both its sides. */
static int gemm_cuts(const struct sl_gemm_spec *g, const struct sl_device_pool *pool) {
    enum { ALONE = 4, WITH_OTHERS = 2, LEAST_SIDE = 128 };
    int threads = sl_device_pool_threads(pool);
    struct sl_gemm_part part = thread_part(g, 0, threads);
    int64_t side = max_i64(part.m1 - part.m0, part.n1 - part.n0);
    if (!sl_device_pool_lends(pool))
        return 1;
    return (int)max_i64(1, min_i64(threads > 1 ? WITH_OTHERS : ALONE, side / LEAST_SIDE));
}

/* Returns a piece of a thread's part, which is cut along its longer side. */
static struct sl_gemm_part gemm_piece(const struct sl_gemm_spec *g, int64_t piece, int threads,
                                      int cuts) {
    struct sl_gemm_part part = thread_part(g, (int)(piece / cuts), threads);
    int64_t m0 = part.m0, n0 = part.n0, rows = part.m1 - m0, cols = part.n1 - n0;
    int cut = (int)(piece % cuts);
    if (cols >= rows) {
        sl_device_pool_range(cols, NR, cut, cuts, &part.n0, &part.n1);
        part.n0 += n0;
        part.n1 += n0;
    } else {
        sl_device_pool_range(rows, MR, cut, cuts, &part.m0, &part.m1);
        part.m0 += m0;
        part.m1 += m0;
    }
    return part;
}

static void gemm_thread(void *ctx, int thread, int threads) {
    const struct sl_gemm_batch *batch = ctx;
    float *scratch =
        sl_device_pool_scratch(batch->pool, batch->scratch, 4 * batch->scratch_step, thread);
    int64_t per = batch->cuts ? (int64_t)threads * batch->cuts : 1;
    for (int64_t i; (i = sl_device_pool_take(batch->pool, batch->count * per, thread)) >= 0;) {
        struct sl_gemm_spec g = product_at(batch, i / per);
        struct sl_gemm_part part = {0, g.m, 0, g.n};
        if (batch->cuts)
            part = gemm_piece(&g, i % per, threads, batch->cuts);
        if (part.m0 < part.m1 && part.n0 < part.n1)
            gemm_run_part(&g, &part, scratch);
    }
}

/* Computes one product after the other, each by all threads. */
static void gemm_run_jointly(struct sl_device_pool *pool, const struct sl_gemm_batch *batch,
                             bool amx) {
    for (int64_t i = 0; i < batch->count; i++) {
        struct sl_gemm_spec one = product_at(batch, i);
        if (amx)
            gemm_amx->product(&one, &(struct sl_gemm_part){0, one.m, 0, one.n}, pool,
                              batch->scratch);
        else
            joint_product(&one, pool, batch->scratch);
    }
}

void gemm_run(struct sl_device_pool *pool, struct sl_gemm_batch *batch) {
    const struct sl_gemm_spec *g = &batch->gemm;
    int threads = sl_device_pool_threads(pool);
    bool amx = amx_suits(g->m, g->k);
    bool few = batch->count < (threads == 1 && sl_device_pool_lends(pool) ? 4 : threads);
    batch->scratch_step = gemm_scratch(g->m, g->n, g->k, batch->count, threads);
    batch->pool = pool;
    batch->cuts = few ? gemm_cuts(g, pool) : 0;
    if (amx ? batch->count < threads : joint_joins(g->m, batch->count, threads))
        gemm_run_jointly(pool, batch, amx);
    else
        sl_device_pool_run_pieces(pool, 4 * batch->scratch_step, gemm_thread, batch);
}
