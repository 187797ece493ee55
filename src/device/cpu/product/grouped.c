/* grouped_matmul and its gradient: one product per expert, of the rows that the expert has in this
 * micro-batch. Since the number of rows is known only at run time, products are cut into pieces of
 * at most ROWS rows, and scratch is that of the largest piece. */
#include "device/cpu/kernels.h"
#include "device/cpu/product/gemm.h"
#include "device/cpu/sizes.h"

#include <string.h>

enum { ROWS = 512 };

/* Scratch of products whose m (k if `by_k`) is any number up to ROWS. */
static int64_t piece_scratch(int64_t rows, int64_t m, int64_t n, bool by_k, int threads) {
    int64_t max = 0;
    for (int64_t r = 1; r <= min_i64(rows, ROWS); r++)
        max = max_i64(max,
                      by_k ? gemm_scratch(m, n, r, 1, threads) : gemm_scratch(r, n, m, 1, threads));
    return 4 * threads * max;
}

static void clear_rows(const struct sl_device_cpu_call *call, int64_t from, int64_t to, int64_t n) {
    if (from < to && !call->add)
        memset((float *)call->out[0] + from * n, 0, (size_t)((to - from) * n) * sizeof(float));
}

static void grouped_matmul(const struct sl_device_cpu_call *call) {
    const int64_t *x = call->instr->in[0].shape.dim, *w = call->instr->in[1].shape.dim;
    const int32_t *ranges = call->in[2];
    int64_t k = x[1], n = call->instr->out[0].shape.dim[1], done = 0;
    bool tb = call->instr->attr[0].i;
    for (int64_t e = 0; e < w[0]; e++) {
        clear_rows(call, done, ranges[2 * e], n);
        for (int64_t r = ranges[2 * e]; r < ranges[2 * e + 1]; r += ROWS) {
            struct sl_gemm_batch batch = {
                .gemm = {.m = min_i64(ROWS, ranges[2 * e + 1] - r),
                         .n = n,
                         .k = k,
                         .a = {(const float *)call->in[0] + r * k, k, false},
                         .b = {(const float *)call->in[1] + e * k * n, tb ? k : n, tb},
                         .c = (float *)call->out[0] + r * n,
                         .ldc = n,
                         .add = call->add},
                .count = 1,
                .scratch = call->scratch,
            };
            gemm_run(call->pool, &batch);
        }
        done = ranges[2 * e + 1];
    }
    clear_rows(call, done, x[0], n);
}

static int64_t grouped_scratch(const struct sl_instr *instr, int threads) {
    return piece_scratch(instr->in[0].shape.dim[0], instr->in[0].shape.dim[1],
                         instr->out[0].shape.dim[1], false, threads);
}

/* dw[e] = a' b, summed over the rows of expert e. */
static void grouped_matmul_dw(const struct sl_device_cpu_call *call) {
    const int64_t *dw = call->instr->out[0].shape.dim;
    const int32_t *ranges = call->in[2];
    int64_t m = dw[1], n = dw[2];
    for (int64_t e = 0; e < dw[0]; e++) {
        if (ranges[2 * e] == ranges[2 * e + 1])
            clear_rows(call, e * m, (e + 1) * m, n);
        for (int64_t r = ranges[2 * e]; r < ranges[2 * e + 1]; r += ROWS) {
            struct sl_gemm_batch batch = {
                .gemm = {.m = m,
                         .n = n,
                         .k = min_i64(ROWS, ranges[2 * e + 1] - r),
                         .a = {(const float *)call->in[0] + r * m, m, true},
                         .b = {(const float *)call->in[1] + r * n, n, false},
                         .c = (float *)call->out[0] + e * m * n,
                         .ldc = n,
                         .add = call->add || r > ranges[2 * e]},
                .count = 1,
                .scratch = call->scratch,
            };
            gemm_run(call->pool, &batch);
        }
    }
}

static int64_t grouped_dw_scratch(const struct sl_instr *instr, int threads) {
    return piece_scratch(instr->in[0].shape.dim[0], instr->out[0].shape.dim[1],
                         instr->out[0].shape.dim[2], true, threads);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(grouped_kernels)[] = {
    {"grouped_matmul", grouped_matmul, grouped_scratch},
    {"grouped_matmul_dw", grouped_matmul_dw, grouped_dw_scratch},
    {0},
};
