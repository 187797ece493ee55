/* argmax, argmin, cumsum and topk along one axis of [outer, size, inner]. */
#include "device/cpu/pointwise/adding.h"
#include "device/cpu/pointwise/lines.h"

#include <math.h>
#include <stdlib.h>

/* ---- argmax, argmin ---- */

/* Returns the first place of the largest sign * x; NaN counts as the largest. */
static int64_t best_place(const float *x, int64_t size, int64_t step, float sign) {
    int64_t best = 0;
    for (int64_t k = 0; k < size && !isnan(x[best * step]); k++)
        if (!(sign * x[k * step] <= sign * x[best * step]))
            best = k;
    return best;
}

/* For a contiguous line: finds the block with the maximum first, then its place in the block. */
static int64_t best_in_run(const float *x, int64_t size, float sign) {
    enum { BLOCK = 8 * LANES };
    int64_t block = 0, i = 0;
    float best = -INFINITY;
    for (; i + BLOCK <= size; i += BLOCK) {
        vf m = load(x + i) * sign, bad = load(x + i);
        for (int k = 1; k < 8; k++) {
            vf v = load(x + i + k * LANES);
            m = vmax(m, v * sign);
            bad += v;
        }
        float top = max_lanes(m), sum = sum_lanes(bad);
        if (isnan(sum)) /* the line holds a NaN, or infinities of both signs */
            return best_place(x, size, 1, sign);
        if (top > best) {
            best = top;
            block = i;
        }
    }
    int64_t end = block + BLOCK < size ? block + BLOCK : size;
    int64_t place = block + best_place(x + block, end - block, 1, sign);
    for (; i < size; i++)
        if (!isnan(x[place]) && !(sign * x[i] <= sign * x[place]))
            place = i;
    return place;
}

static INLINE void arg_part(void *ctx, int thread, int threads, float sign) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_lines l = lines_of(&call->instr->in[0].shape, call->instr->attr[0].i);
    const float *x = call->in[0];
    int32_t *y = call->out[0];
    int64_t from, to;
    sl_device_pool_range(l.outer * l.inner, 16, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const float *line = x + i / l.inner * l.size * l.inner + i % l.inner;
        y[i] = (int32_t)(l.inner == 1 ? best_in_run(line, l.size, sign)
                                      : best_place(line, l.size, l.inner, sign));
    }
}

static void argmax_part(void *ctx, int thread, int threads) { arg_part(ctx, thread, threads, 1); }
static void argmin_part(void *ctx, int thread, int threads) { arg_part(ctx, thread, threads, -1); }

static void k_argmax(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), argmax_part);
}
static void k_argmin(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), argmin_part);
}

/* ---- cumsum: sums in double ---- */

enum { COLUMNS = 256 };

/* Handles columns [0, n) of one item; n is at most COLUMNS. */
static void cumsum_columns(const struct sl_device_cpu_call *call, const struct sl_lines *l,
                           int64_t at, int64_t n) {
    const float *x = (const float *)call->in[0] + at;
    float *y = (float *)call->out[0] + at;
    bool exclusive = call->instr->attr[1].i, reverse = call->instr->attr[2].i;
    double sum[COLUMNS] = {0};
    for (int64_t k = 0; k < l->size; k++) {
        int64_t row = (reverse ? l->size - 1 - k : k) * l->inner;
        for (int64_t j = 0; j < n; j++) {
            double before = sum[j];
            sum[j] += (double)x[row + j];
            y[row + j] = (call->add ? y[row + j] : 0) + (float)(exclusive ? before : sum[j]);
        }
    }
}

/* Lines that advance together, because each addition waits for the one before. */
enum { LINES = 8 };

/* Handles `count` lines that are contiguous in memory. */
static INLINE void cumsum_lines(const struct sl_device_cpu_call *call, int64_t first, int64_t size,
                                int count) {
    const float *x = (const float *)call->in[0] + first * size;
    float *y = (float *)call->out[0] + first * size;
    bool exclusive = call->instr->attr[1].i, reverse = call->instr->attr[2].i;
    double sum[LINES] = {0};
    for (int64_t k = 0; k < size; k++)
        for (int i = 0; i < count; i++) {
            int64_t at = i * size + (reverse ? size - 1 - k : k);
            double before = sum[i];
            sum[i] += (double)x[at];
            y[at] = (call->add ? y[at] : 0) + (float)(exclusive ? before : sum[i]);
        }
}

static void cumsum_runs_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_lines l = lines_of(&call->instr->in[0].shape, call->instr->attr[0].i);
    int64_t from, to;
    sl_device_pool_range(l.outer, LINES, thread, threads, &from, &to);
    for (; from + LINES <= to; from += LINES)
        cumsum_lines(call, from, l.size, LINES);
    for (; from < to; from++)
        cumsum_lines(call, from, l.size, 1);
}

static void cumsum_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_lines l = lines_of(&call->instr->in[0].shape, call->instr->attr[0].i);
    int64_t chunks = (l.inner + COLUMNS - 1) / COLUMNS, from, to;
    sl_device_pool_range(l.outer * chunks, 1, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++) {
        int64_t column = i % chunks * COLUMNS, left = l.inner - column;
        cumsum_columns(call, &l, i / chunks * l.size * l.inner + column,
                       left < COLUMNS ? left : COLUMNS);
    }
}

static void k_cumsum(const struct sl_device_cpu_call *call) {
    bool runs = lines_of(&call->instr->in[0].shape, call->instr->attr[0].i).inner == 1;
    run_parts(call, numel_in(call, 0), runs ? cumsum_runs_part : cumsum_part);
}

/* ---- topk ---- */

/* Up to this k the best are kept in an ordered list; for a larger k all are sorted. */
enum { FEW = 64 };

struct ranked {
    float key; /* a larger key ranks higher */
    int32_t place;
};

static bool is_before(struct ranked a, struct ranked b) {
    if (isnan(a.key) || isnan(b.key))
        return isnan(a.key) && (!isnan(b.key) || a.place < b.place);
    return a.key > b.key || (a.key == b.key && a.place < b.place);
}

static int compare_ranked(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    return is_before(*x, *y) ? -1 : is_before(*y, *x);
}

/* Places only grow, so a later element with an equal key does not displace an earlier one. */
static void keep_best(struct ranked *best, int64_t k, const float *x, const struct sl_lines *l,
                      float sign) {
    int64_t count = 0;
    for (int64_t i = 0; i < l->size; i++) {
        struct ranked r = {sign * x[i * l->inner], (int32_t)i};
        if (count == k && r.key <= best[k - 1].key)
            continue;
        if (count == k && !is_before(r, best[k - 1]))
            continue;
        int64_t at = count < k ? count++ : k - 1;
        for (; at > 0 && is_before(r, best[at - 1]); at--)
            best[at] = best[at - 1];
        best[at] = r;
    }
}

static void topk_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const union sl_attr *attr = call->instr->attr;
    struct sl_lines l = lines_of(&call->instr->in[0].shape, attr[1].i);
    float sign = attr[2].i ? 1 : -1, *values = call->out[0];
    struct ranked few[FEW], *best = few;
    int64_t from, to, k = attr[0].i;
    if (k > FEW)
        best = (struct ranked *)call->scratch + thread * l.size;
    sl_device_pool_range(l.outer * l.inner, 1, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const float *x = (const float *)call->in[0] + i / l.inner * l.size * l.inner + i % l.inner;
        if (k > FEW) {
            for (int64_t j = 0; j < l.size; j++)
                best[j] = (struct ranked){sign * x[j * l.inner], (int32_t)j};
            qsort(best, (size_t)l.size, sizeof *best, compare_ranked);
        } else {
            keep_best(best, k, x, &l, sign);
        }
        for (int64_t j = 0; j < k; j++) {
            int64_t at = (i / l.inner * k + j) * l.inner + i % l.inner;
            values[at] = sign * best[j].key;
            ((int32_t *)call->out[1])[at] = best[j].place;
        }
    }
}

static void k_topk(const struct sl_device_cpu_call *call) {
    if (numel_in(call, 0) < SMALL)
        topk_part((void *)call, 0, 1);
    else /* without guests: each part uses the scratch of its thread */
        sl_device_pool_run(call->pool, topk_part, (void *)call);
}

static int64_t topk_scratch(const struct sl_instr *instr, int threads) {
    int64_t size = instr->in[0].shape.dim[instr->attr[1].i];
    return instr->attr[0].i > FEW ? threads * size * (int64_t)sizeof(struct ranked) : 0;
}

ADDING_OWN(topk, topk_scratch)

const struct sl_device_cpu_kernel SL_ISA_NAME(order_kernels)[] = {
    {"argmax", k_argmax, NULL},
    {"argmin", k_argmin, NULL},
    {"cumsum", k_cumsum, NULL},
    {ADDING_ROW(topk)},
    {0},
};
