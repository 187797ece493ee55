/* layernorm_dw, rmsnorm_dw: dw = sum over rows r of dy (x - mean_r) rstd_r.
 *
 * The rows are cut into up to BLOCKS blocks, which depend on the shape alone. Each block is summed
 * into its own row of scratch. Then these rows are added in order, columns split over the threads.
 */
#include "device/cpu/pointwise/reduce.h"
#include "device/cpu/vec.h"

struct norm_dw {
    const struct sl_device_cpu_call *call;
    const float *dy, *x, *mean, *rstd; /* mean is NULL for rmsnorm */
    struct sl_kernel_rows rows;
    int64_t blocks;
};

static int64_t norm_dw_blocks(int64_t rows) { return rows < 8 * BLOCKS ? (rows + 7) / 8 : BLOCKS; }

/* Returns elements [i, i + LANES) of row r's term of the sum. */
static INLINE vf norm_dw_term(const struct norm_dw *job, int64_t r, int64_t i) {
    int64_t n = job->rows.n;
    float mean = job->mean ? job->mean[r] : 0;
    return load_at(job->dy + r * n, i, n) * ((load_at(job->x + r * n, i, n) - mean) * job->rstd[r]);
}

static void norm_dw_rows(const struct norm_dw *job, float *acc, int64_t first, int64_t last) {
    int64_t n = job->rows.n, r = first;
    memset(acc, 0, (size_t)n * sizeof *acc);
    for (; r + 4 <= last; r += 4)
        for (int64_t i = 0; i < n; i += LANES) {
            vf a = norm_dw_term(job, r, i) + norm_dw_term(job, r + 1, i);
            vf b = norm_dw_term(job, r + 2, i) + norm_dw_term(job, r + 3, i);
            store_at(acc, load_at(acc, i, n) + (a + b), i, n);
        }
    for (; r < last; r++)
        for (int64_t i = 0; i < n; i += LANES)
            store_at(acc, load_at(acc, i, n) + norm_dw_term(job, r, i), i, n);
}

static void norm_dw_part(void *ctx, int thread, int threads) {
    const struct norm_dw *job = ctx;
    int64_t from, to, rows = job->rows.count, each = (rows + job->blocks - 1) / job->blocks;
    sl_device_pool_range(job->blocks, 1, thread, threads, &from, &to);
    for (int64_t b = from; b < to; b++) {
        int64_t first = b * each < rows ? b * each : rows;
        int64_t last = first + each < rows ? first + each : rows;
        norm_dw_rows(job, (float *)job->call->scratch + b * job->rows.n, first, last);
    }
}

static void norm_dw(const struct sl_device_cpu_call *call, const float *mean, const float *rstd) {
    struct sl_kernel_rows rows = rows_of(&call->instr->in[1].shape);
    struct norm_dw job = {
        call, call->in[0], call->in[1], mean, rstd, rows, norm_dw_blocks(rows.count)};
    struct sl_sum_job sum = {.call = call,
                             .x = call->scratch,
                             .y = call->out[0],
                             .outer = 1,
                             .rows = job.blocks,
                             .n = rows.n,
                             .factor = 1};
    if (rows.count * rows.n < SMALL)
        norm_dw_part(&job, 0, 1);
    else
        sl_device_pool_share(call->pool, norm_dw_part, &job);
    sum_columns(&sum);
}

static void k_layernorm_dw(const struct sl_device_cpu_call *call) {
    norm_dw(call, call->in[2], call->in[3]);
}

static void k_rmsnorm_dw(const struct sl_device_cpu_call *call) {
    norm_dw(call, NULL, call->in[2]);
}

static int64_t norm_dw_scratch(const struct sl_instr *instr, int threads) {
    (void)threads;
    struct sl_kernel_rows rows = rows_of(&instr->in[1].shape);
    return norm_dw_blocks(rows.count) * rows.n * (int64_t)sizeof(float);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(norm_dw_kernels)[] = {
    {"layernorm_dw", k_layernorm_dw, norm_dw_scratch},
    {"rmsnorm_dw", k_rmsnorm_dw, norm_dw_scratch},
    {0},
};
