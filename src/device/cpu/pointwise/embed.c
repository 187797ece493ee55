/* embed, embed_bag and the gradients of their tables.
 *
 * A table's gradient adds rows of dy in the order of the indices. The columns are split over
 * threads, and every thread reads all indices. Narrow tables split their rows instead.
 */
#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/vec.h"

enum { BAG_SUM, BAG_MEAN, BAG_CONCAT };

static void embed_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const int32_t *index = call->in[1];
    int64_t rows = call->instr->in[0].shape.dim[0], n = call->instr->in[0].shape.dim[1], from, to;
    sl_device_pool_range(numel_in(call, 1), 1, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++) {
        SL_ASSERT(index[i] >= 0 && index[i] < rows);
        memcpy((float *)call->out[0] + i * n, (const float *)call->in[0] + index[i] * n,
               (size_t)n * sizeof(float));
    }
}

static void k_embed(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), embed_part);
}

static void embed_bag_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_kernel_rows bags = rows_of(&call->instr->in[1].shape);
    int64_t rows = call->instr->in[0].shape.dim[0], n = call->instr->in[0].shape.dim[1], from, to;
    float factor = call->instr->attr[0].i == BAG_MEAN ? 1.0f / (float)bags.n : 1;
    sl_device_pool_range(bags.count, 1, thread, threads, &from, &to);
    for (int64_t b = from; b < to; b++) {
        const int32_t *index = (const int32_t *)call->in[1] + b * bags.n;
        float *y = (float *)call->out[0] + b * n;
        for (int64_t k = 0; k < bags.n; k++)
            SL_ASSERT(index[k] >= 0 && index[k] < rows);
        for (int64_t i = 0; i < n; i += LANES) {
            vf sum = {0};
            for (int64_t k = 0; k < bags.n; k++)
                sum += load_at((const float *)call->in[0] + index[k] * n, i, n);
            store_at(y, sum * factor, i, n);
        }
    }
}

static void k_embed_bag(const struct sl_device_cpu_call *call) {
    bool concat = call->instr->attr[0].i == BAG_CONCAT;
    run_parts(call, numel_out(call, 0), concat ? embed_part : embed_bag_part);
}

/* Index i belongs to row i / share of dy. */
struct embed_dw {
    const struct sl_device_cpu_call *call;
    int64_t count, n, rows, share;
    float factor;
    int64_t padding; /* row of the table that gets no gradient; -1: none */
    bool by_column;
};

static void clear_part(void *ctx, int thread, int threads) {
    const struct embed_dw *job = ctx;
    int64_t from, to;
    sl_device_pool_range(job->rows * job->n, GRAIN, thread, threads, &from, &to);
    memset((float *)job->call->out[0] + from, 0, (size_t)(to - from) * sizeof(float));
}

static void embed_dw_part(void *ctx, int thread, int threads) {
    const struct embed_dw *job = ctx;
    const int32_t *index = job->call->in[1];
    int64_t left = 0, right = job->n, top = 0, bottom = job->rows;
    if (job->by_column)
        sl_device_pool_range(job->n, 16, thread, threads, &left, &right);
    else
        sl_device_pool_range(job->rows, 1, thread, threads, &top, &bottom);
    for (int64_t i = 0; i < job->count && left < right; i++) {
        SL_ASSERT(index[i] >= 0 && index[i] < job->rows);
        if (index[i] < top || index[i] >= bottom || index[i] == job->padding)
            continue;
        float *dw = (float *)job->call->out[0] + index[i] * job->n;
        const float *dy = (const float *)job->call->in[0] + i / job->share * job->n;
        for (int64_t j = left; j < right; j += LANES)
            store_at(dw, load_at(dw, j, right) + job->factor * load_at(dy, j, right), j, right);
    }
}

static void embed_dw(struct embed_dw *job) {
    const struct sl_device_cpu_call *call = job->call;
    job->by_column = job->n >= 16 * sl_device_pool_threads(call->pool);
    if (job->rows * job->n + job->count * job->n < SMALL) {
        if (!call->add)
            clear_part(job, 0, 1);
        embed_dw_part(job, 0, 1);
        return;
    }
    if (!call->add)
        sl_device_pool_share(call->pool, clear_part, job);
    sl_device_pool_run(call->pool, embed_dw_part, job);
}

static void k_embed_dw(const struct sl_device_cpu_call *call) {
    const int64_t *table = call->instr->out[0].shape.dim;
    embed_dw(&(struct embed_dw){call, numel_in(call, 1), table[1], table[0], 1, 1,
                                call->instr->attr[1].i, false});
}

static void k_embed_bag_dw(const struct sl_device_cpu_call *call) {
    const int64_t *table = call->instr->out[0].shape.dim;
    int64_t mode = call->instr->attr[1].i, bag = rows_of(&call->instr->in[1].shape).n;
    embed_dw(&(struct embed_dw){
        .call = call,
        .count = numel_in(call, 1),
        .n = table[1],
        .rows = table[0],
        .share = mode == BAG_CONCAT ? 1 : bag,
        .factor = mode == BAG_MEAN ? 1.0f / (float)bag : 1,
        .padding = -1,
    });
}

const struct sl_device_cpu_kernel SL_ISA_NAME(embed_kernels)[] = {
    {"embed", k_embed, NULL},
    {"embed_bag", k_embed_bag, NULL},
    {"embed_bag_dw", k_embed_bag_dw, NULL},
    {"embed_dw", k_embed_dw, NULL},
    {0},
};
