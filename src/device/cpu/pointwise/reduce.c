/* sum_to, reduce_sum, reduce_mean: sums over axes. The order of every sum depends on the shape, not
 * on the number of threads.
 *
 * Axes are merged until kept (K) and summed (R) ones alternate. The pattern selects the method:
 *
 *   [R,K]     adds rows in groups of 8, each group to the total. Threads divide the columns; if
 *             there are few columns, up to BLOCKS blocks of rows, whose sums are added in order
 *   [K,R]     sums each row on its own
 *   [K,R,K]   as [R,K], for each item
 *   other     for each element of the result, walks over its terms, in double */
#include "device/cpu/pointwise/reduce.h"
#include "device/cpu/pointwise/loops.h"
#include "device/cpu/pointwise/runs.h"

enum { NARROW = 512, CHUNK = 512 };

/* acc[0, n) = the sum of `rows` rows of x, `stride` floats apart. n is at most CHUNK. */
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

static void put_sums(const struct sl_sum_job *job, float *y, const float *acc, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        y[j] = (job->call->add ? y[j] : 0) + acc[j] * job->factor;
}

static void columns_part(void *ctx, int thread, int threads) {
    const struct sl_sum_job *job = ctx;
    int64_t from, to;
    float acc[CHUNK];
    sl_device_pool_range(job->n, GRAIN, thread, threads, &from, &to);
    for (int64_t o = 0; o < job->outer; o++)
        for (int64_t j = from; j < to; j += CHUNK) {
            int64_t n = to - j < CHUNK ? to - j : CHUNK;
            sum_rows(acc, job->x + o * job->rows * job->n + j, job->rows, job->n, n);
            put_sums(job, job->y + o * job->n + j, acc, n);
        }
}

static void blocks_part(void *ctx, int thread, int threads) {
    const struct sl_sum_job *job = ctx;
    int64_t from, to, each = (job->rows + job->blocks - 1) / job->blocks;
    sl_device_pool_range(job->blocks, 1, thread, threads, &from, &to);
    for (int64_t b = from; b < to; b++) {
        int64_t first = b * each < job->rows ? b * each : job->rows;
        int64_t rows = job->rows - first < each ? job->rows - first : each;
        sum_rows(job->partial + b * job->n, job->x + first * job->n, rows, job->n, job->n);
    }
}

static void items_part(void *ctx, int thread, int threads) {
    const struct sl_sum_job *job = ctx;
    int64_t from, to;
    float acc[CHUNK];
    sl_device_pool_range(job->outer, 1, thread, threads, &from, &to);
    for (int64_t o = from; o < to; o++) {
        sum_rows(acc, job->x + o * job->rows * job->n, job->rows, job->n, job->n);
        put_sums(job, job->y + o * job->n, acc, job->n);
    }
}

static void rows_part(void *ctx, int thread, int threads) {
    const struct sl_sum_job *job = ctx;
    int64_t from, to;
    sl_device_pool_range(job->outer, 1, thread, threads, &from, &to);
    for (int64_t o = from; o < to; o++) {
        float sum = sum_run(job->x + o * job->rows, job->rows);
        put_sums(job, job->y + o, &sum, 1);
    }
}

static void sum_split(struct sl_sum_job *job, part_fn *body) {
    if (job->outer * job->rows * job->n < SMALL)
        body(job, 0, 1);
    else
        sl_device_pool_share(job->call->pool, body, job);
}

void sum_columns(struct sl_sum_job *job) { sum_split(job, columns_part); }

static int64_t sum_scratch(const struct sl_instr *instr, int threads) {
    (void)instr;
    (void)threads;
    return (int64_t)BLOCKS * NARROW * (int64_t)sizeof(float);
}

/* For a long column or a narrow matrix: sums blocks of rows into scratch, then adds the blocks in
 * order. */
static void sum_narrow(struct sl_sum_job *job) {
    float acc[NARROW];
    job->partial = job->call->scratch;
    job->blocks = job->rows < 8 * BLOCKS ? (job->rows + 7) / 8 : BLOCKS;
    sum_split(job, blocks_part);
    sum_rows(acc, job->partial, job->blocks, job->n, job->n);
    put_sums(job, job->y, acc, job->n);
}

/* Sums one long run of floats as rows of NARROW; adds the remainder last. */
static void sum_all(struct sl_sum_job *job, int64_t count) {
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

static void sum_items(struct sl_sum_job *job) {
    if (job->n == 1 && job->outer == 1)
        sum_all(job, job->rows);
    else if (job->n == 1)
        sum_split(job, rows_part);
    else if (job->outer == 1 && job->n <= NARROW)
        sum_narrow(job);
    else if (job->n > CHUNK)
        sum_columns(job);
    else
        sum_split(job, items_part);
}

/* For any other pattern of axes: loops over the kept axes and over the summed ones. */
struct walk_job {
    struct sl_sum_job *job;
    struct sl_kernel_loops kept, summed;
};

static void walk_part(void *ctx, int thread, int threads) {
    const struct walk_job *w = ctx;
    int64_t from, to, count = 1, each = 1, base[2], at[2];
    for (int i = 0; i < w->kept.rank; i++)
        count *= w->kept.size[i];
    for (int i = 0; i < w->summed.rank; i++)
        each *= w->summed.size[i];
    sl_device_pool_range(count, 1, thread, threads, &from, &to);
    int inner = w->summed.rank - 1;
    int64_t last = w->summed.size[inner], step = w->summed.stride[0][inner];
    for (int64_t o = from; o < to; o++) {
        int64_t n = w->kept.size[w->kept.rank - 1];
        double sum = 0;
        loops_seek(&w->kept, o / n, base);
        base[0] += o % n * w->kept.stride[0][w->kept.rank - 1];
        for (int64_t r = 0; r < each / last; r++) {
            loops_seek(&w->summed, r, at);
            const float *x = w->job->x + base[0] + at[0];
            if (step == 1)
                sum += (double)sum_run(x, last);
            else
                for (int64_t i = 0; i < last; i++)
                    sum += (double)x[i * step];
        }
        put_sums(w->job, w->job->y + o, (const float[]){(float)sum}, 1);
    }
}

/* y = factor times the sum of x over the axes where `narrow` has size 1. */
static void sum_to_shape(const struct sl_device_cpu_call *call, const struct sl_shape *narrow,
                         float factor) {
    const struct sl_shape *wide = &call->instr->in[0].shape;
    struct sl_sum_job job = {.call = call, .x = call->in[0], .y = call->out[0], .factor = factor};
    struct walk_job walk = {&job, {0}, {0}};
    int64_t stride[SL_MAX_RANK], size[SL_MAX_RANK + 2] = {1, 1, 1},
                                                    next = sl_graph_shape_numel(wide, 1);
    int count = 0; /* axes alternate: kept, summed, kept, ... */
    broadcast_strides(narrow, wide, stride);
    for (int i = 0; i < wide->rank; i++) {
        bool summed = stride[i] == 0;
        next /= wide->dim[i];
        if (wide->dim[i] == 1)
            continue;
        loops_add(summed ? &walk.summed : &walk.kept, wide->dim[i], next, 0);
        if (summed == (count % 2 == 0))
            size[++count] = 1;
        size[count] *= wide->dim[i];
    }
    loops_close(&walk.summed);
    loops_close(&walk.kept);
    job.outer = size[0];
    job.rows = size[1];
    job.n = size[2];
    if (count <= 2)
        sum_items(&job);
    else if (sl_graph_shape_numel(wide, 1) < SMALL)
        walk_part(&walk, 0, 1);
    else
        sl_device_pool_share(call->pool, walk_part, &walk);
}

static void k_sum_to(const struct sl_device_cpu_call *call) {
    sum_to_shape(call, &call->instr->out[0].shape, 1);
}

static void reduce(const struct sl_device_cpu_call *call, float factor) {
    struct sl_shape narrow = call->instr->in[0].shape;
    const struct sl_ints *axes = &call->instr->attr[0].ints;
    for (int i = 0; i < axes->count; i++)
        narrow.dim[axes->at[i]] = 1;
    sum_to_shape(call, &narrow, factor);
}

static void k_reduce_sum(const struct sl_device_cpu_call *call) { reduce(call, 1); }

static void k_reduce_mean(const struct sl_device_cpu_call *call) {
    reduce(call, (float)numel_out(call, 0) / (float)numel_in(call, 0));
}

const struct sl_device_cpu_kernel SL_ISA_NAME(reduce_kernels)[] = {
    {"reduce_mean", k_reduce_mean, sum_scratch},
    {"reduce_sum", k_reduce_sum, sum_scratch},
    {"sum_to", k_sum_to, sum_scratch},
    {0},
};
