/* gather, index_select, scatter_add, one_hot and their gradients.
 *
 * Values with the same index are added in the order of the indices: a thread owns whole items
 * (outer), or some columns (inner) of all items, and reads every index. */
#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/pointwise/lines.h"

static INLINE int64_t place(int32_t index, int64_t size) {
    int64_t at = index < 0 ? index + size : index;
    SL_ASSERT(at >= 0 && at < size);
    return at;
}

/* `thin` has the shape of the indices, `wide` that of x. */
struct gather {
    const struct sl_device_cpu_call *call;
    struct sl_lines wide, thin;
    const int32_t *index;
    const float *from;
    float *to;
};

static struct gather gather_of(const struct sl_device_cpu_call *call, const struct sl_shape *wide) {
    int64_t axis = call->instr->attr[0].i;
    return (struct gather){.call = call,
                           .wide = lines_of(wide, axis),
                           .thin = lines_of(&call->instr->in[1].shape, axis),
                           .index = call->in[1],
                           .to = call->out[0]};
}

static void gather_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct gather g = gather_of(call, &call->instr->in[0].shape);
    int64_t rows = g.thin.outer * g.thin.size, n = g.thin.inner, from, to;
    sl_device_pool_range(rows, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to;) {
        int64_t item = r / g.thin.size, end = (item + 1) * g.thin.size;
        const float *x = (const float *)call->in[0] + item * g.wide.size * n;
        for (end = end < to ? end : to; r < end; r++)
            for (int64_t j = 0; j < n; j++) {
                float value = x[place(g.index[r * n + j], g.wide.size) * n + j];
                g.to[r * n + j] = call->add ? g.to[r * n + j] + value : value;
            }
    }
}

static void k_gather(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), gather_part);
}

/* to[index] += from, for lines [first, last) of outer x inner. */
static void scatter_lines(const struct gather *g, int64_t first, int64_t last) {
    int64_t n = g->thin.inner, size = g->thin.size;
    for (int64_t o = first / n; o * n < last; o++) {
        int64_t left = first > o * n ? first - o * n : 0;
        int64_t right = last < (o + 1) * n ? last - o * n : n;
        const int32_t *index = g->index + o * size * n;
        const float *in = g->from + o * size * n;
        float *out = g->to + o * g->wide.size * n;
        for (int64_t k = 0; n == 1 && k < size; k++)
            out[place(index[k], g->wide.size)] += in[k];
        for (int64_t k = 0; n > 1 && k < size; k++)
            for (int64_t j = left; j < right; j++)
                out[place(index[k * n + j], g->wide.size) * n + j] += in[k * n + j];
    }
}

static void scatter_part(void *ctx, int thread, int threads) {
    const struct gather *g = ctx;
    int64_t from, to;
    sl_device_pool_range(g->wide.outer * g->wide.inner, 1, thread, threads, &from, &to);
    if (from < to)
        scatter_lines(g, from, to);
}

static void start_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    bool scatter = call->instr->in_count == 3;
    int64_t from, to;
    sl_device_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    float *y = (float *)call->out[0] + from;
    const float *x = scatter ? (const float *)call->in[0] + from : NULL;
    if (x && x != y)
        copy_run(y, x, to - from, call->add);
    else if (!x && !call->add)
        memset(y, 0, (size_t)(to - from) * sizeof *y);
}

static void scatter(const struct sl_device_cpu_call *call, const float *from) {
    struct gather g = gather_of(call, &call->instr->out[0].shape);
    g.from = from;
    run_parts(call, numel_out(call, 0), start_part);
    if (numel_in(call, 1) < SMALL)
        scatter_part(&g, 0, 1);
    else
        sl_device_pool_share(call->pool, scatter_part, &g);
}

static void k_gather_dx(const struct sl_device_cpu_call *call) { scatter(call, call->in[0]); }
static void k_scatter_add(const struct sl_device_cpu_call *call) { scatter(call, call->in[2]); }

/* ---- index_select: whole rows of `inner` ---- */

static void select_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_lines x = lines_of(&call->instr->in[0].shape, call->instr->attr[0].i);
    const int32_t *index = call->in[1];
    int64_t count = numel_in(call, 1), from, to;
    sl_device_pool_range(x.outer * count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        int64_t row = r / count * x.size + place(index[r % count], x.size);
        copy_run((float *)call->out[0] + r * x.inner, (const float *)call->in[0] + row * x.inner,
                 x.inner, call->add);
    }
}

static void k_index_select(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), select_part);
}

/* Threads own items, or columns of all items if there are few, so that each sum keeps its order. */
static void select_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_lines x = lines_of(&call->instr->out[0].shape, call->instr->attr[0].i);
    const int32_t *index = call->in[1];
    bool by_item = x.outer >= threads;
    int64_t count = numel_in(call, 1), first = 0, last = x.outer, left = 0, right = x.inner;
    if (by_item)
        sl_device_pool_range(x.outer, 1, thread, threads, &first, &last);
    else
        sl_device_pool_range(x.inner, 16, thread, threads, &left, &right);
    for (int64_t o = first; o < last && left < right; o++)
        for (int64_t k = 0; k < count; k++)
            copy_run(
                (float *)call->out[0] + (o * x.size + place(index[k], x.size)) * x.inner + left,
                (const float *)call->in[0] + (o * count + k) * x.inner + left, right - left, true);
}

static void k_index_select_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), start_part);
    run_parts(call, numel_in(call, 0), select_dx_part);
}

static void one_hot_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const int32_t *index = call->in[0];
    int64_t size = call->instr->attr[0].i, from, to;
    sl_device_pool_range(numel_in(call, 0), 1, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++) {
        float *y = (float *)call->out[0] + i * size;
        int64_t at = index[i] < 0 ? index[i] + size : index[i];
        if (!call->add)
            memset(y, 0, (size_t)size * sizeof *y);
        if (at >= 0 && at < size)
            y[at] += 1;
    }
}

static void k_one_hot(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), one_hot_part);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(index_kernels)[] = {
    {"gather", k_gather, NULL},
    {"gather_dx", k_gather_dx, NULL},
    {"index_select", k_index_select, NULL},
    {"index_select_dx", k_index_select_dx, NULL},
    {"one_hot", k_one_hot, NULL},
    {"scatter_add", k_scatter_add, NULL},
    {0},
};
