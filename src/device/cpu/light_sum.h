/* Sums over axes. The order of every sum is fixed by the shape, not by the number of threads.
 *
 * Axes are merged until kept (K) and summed (R) ones alternate, then:
 *
 *   [R,K]     rows of 8 are added up, then to the total; columns are split over threads,
 *             narrow ones in up to BLOCKS blocks of rows, whose sums are added in order
 *   [K,R]     each row on its own        [R,K,R] the rows of a channel, in double
 *   [K,R,K]   as [R,K] for each item     other   each element of the result walks what it sums
 */
#ifndef SL_DEVICE_CPU_LIGHT_SUM_H
#define SL_DEVICE_CPU_LIGHT_SUM_H

#include "device/cpu/light.h"

enum { BLOCKS = 64, NARROW = 512, CHUNK = 512 };

/* acc[0, n) = sum of `rows` rows of x, which lie `stride` apart; n <= CHUNK. */
static void sum_rows(float *acc, const float *x, int64_t rows, int64_t stride, int64_t n) {
    int64_t r = 0, whole = n - n % LANES;
    memset(acc, 0, (size_t)n * sizeof *acc);
    for (; r + 8 <= rows; r += 8) {
        const float *p = x + r * stride;
        for (int64_t j = 0; j < whole; j += LANES) {
            vf a = load(p + j) + load(p + stride + j);
            vf b = load(p + 2 * stride + j) + load(p + 3 * stride + j);
            vf c = load(p + 4 * stride + j) + load(p + 5 * stride + j);
            vf d = load(p + 6 * stride + j) + load(p + 7 * stride + j);
            store(acc + j, load(acc + j) + ((a + b) + (c + d)));
        }
        for (int64_t k = 0; k < 8 && whole < n; k++)
            copy_run(acc + whole, p + k * stride + whole, n - whole, true);
    }
    for (; r < rows; r++)
        copy_run(acc, x + r * stride, n, true);
}

/* What is summed, as [outer, rows, n] -> [outer, n]. */
struct sum_job {
    const struct sl_cpu_call *call;
    const float *x;
    float *y, *partial;
    int64_t outer, rows, n, blocks;
    float factor;
};

static void put_sums(const struct sum_job *job, float *y, const float *acc, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        y[j] = (job->call->add ? y[j] : 0) + acc[j] * job->factor;
}

static void columns_part(void *ctx, int thread, int threads) {
    const struct sum_job *job = ctx;
    int64_t from, to;
    float acc[CHUNK];
    sl_pool_range(job->n, GRAIN, thread, threads, &from, &to);
    for (int64_t o = 0; o < job->outer; o++)
        for (int64_t j = from; j < to; j += CHUNK) {
            int64_t n = to - j < CHUNK ? to - j : CHUNK;
            sum_rows(acc, job->x + o * job->rows * job->n + j, job->rows, job->n, n);
            put_sums(job, job->y + o * job->n + j, acc, n);
        }
}

static void blocks_part(void *ctx, int thread, int threads) {
    const struct sum_job *job = ctx;
    int64_t from, to, each = (job->rows + job->blocks - 1) / job->blocks;
    sl_pool_range(job->blocks, 1, thread, threads, &from, &to);
    for (int64_t b = from; b < to; b++) {
        int64_t first = b * each < job->rows ? b * each : job->rows;
        int64_t rows = job->rows - first < each ? job->rows - first : each;
        sum_rows(job->partial + b * job->n, job->x + first * job->n, rows, job->n, job->n);
    }
}

static void items_part(void *ctx, int thread, int threads) {
    const struct sum_job *job = ctx;
    int64_t from, to;
    float acc[CHUNK];
    sl_pool_range(job->outer, 1, thread, threads, &from, &to);
    for (int64_t o = from; o < to; o++) {
        sum_rows(acc, job->x + o * job->rows * job->n, job->rows, job->n, job->n);
        put_sums(job, job->y + o * job->n, acc, job->n);
    }
}

static void rows_part(void *ctx, int thread, int threads) {
    const struct sum_job *job = ctx;
    int64_t from, to;
    sl_pool_range(job->outer, 1, thread, threads, &from, &to);
    for (int64_t o = from; o < to; o++) {
        float sum = sum_run(job->x + o * job->rows, job->rows);
        put_sums(job, job->y + o, &sum, 1);
    }
}

static void sum_split(struct sum_job *job, part *body) {
    if (job->outer * job->rows * job->n < SMALL)
        body(job, 0, 1);
    else
        sl_pool_share(job->call->pool, body, job);
}

static int64_t sum_scratch(const struct sl_instr *instr, int threads) {
    (void)instr;
    (void)threads;
    return (int64_t)BLOCKS * NARROW * (int64_t)sizeof(float);
}

/* A long column or a narrow matrix: blocks of rows, their sums in scratch, added in order. */
static void sum_narrow(struct sum_job *job) {
    float acc[NARROW];
    job->partial = job->call->scratch;
    job->blocks = job->rows < 8 * BLOCKS ? (job->rows + 7) / 8 : BLOCKS;
    sum_split(job, blocks_part);
    sum_rows(acc, job->partial, job->blocks, job->n, job->n);
    put_sums(job, job->y, acc, job->n);
}

/* One long run is summed as rows of NARROW; what is left over comes last. */
static void sum_all(struct sum_job *job, int64_t count) {
    int64_t whole = count / NARROW * NARROW;
    float acc[NARROW] = {0}, total;
    job->partial = job->call->scratch;
    job->outer = 1;
    job->n = NARROW;
    job->rows = whole / NARROW;
    job->blocks = job->rows < 8 * BLOCKS ? (job->rows + 7) / 8 : BLOCKS;
    if (job->rows > 0) {
        sum_split(job, blocks_part);
        sum_rows(acc, job->partial, job->blocks, NARROW, NARROW);
    }
    total = sum_run(acc, NARROW) + sum_run(job->x + whole, count - whole);
    put_sums(job, job->y, &total, 1);
}

static void sum_items(struct sum_job *job) {
    if (job->n == 1 && job->outer == 1)
        sum_all(job, job->rows);
    else if (job->n == 1)
        sum_split(job, rows_part);
    else if (job->outer == 1 && job->n <= NARROW)
        sum_narrow(job);
    else if (job->n > CHUNK)
        sum_split(job, columns_part);
    else
        sum_split(job, items_part);
}

#endif
