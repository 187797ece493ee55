/* lstm: one product for the inputs of all steps, then one small product and one kernel per step.
 * Everything is fp32: lstm's results stay so in bf16 programs (pass/dtype.c), and inputs that are
 * bf16 are widened in scratch.
 *
 *   scratch   [x] [w_ih] [w_hh] [h0, c0 ...]   as far as they are bf16;   backward: [w_hh] carry_h carry_c
 */
#include "device/cuda/gemm.h"
#include "device/cuda/kernels.cuh"

enum { X, W_IH, W_HH, BIAS_IH, BIAS_HH, H0, C0 };

struct cells {
    i64 b, t, h;
};

static i64 padded(i64 bytes) { return (bytes + 255) / 256 * 256; }

static __global__ void widen(float *y, array x, i64 count) { GRID_LOOP(i, count) y[i] = get(x, i); }

/* Input i as fp32; `used` bytes of scratch are taken. */
static const float *wide(const sl_cuda_call *call, int i, i64 *used) {
    if (call->instr->in[i].dtype != SL_BF16)
        return (const float *)call->in[i];
    float *at = (float *)((char *)call->scratch + *used);
    i64 count = call->instr->in[i].numel;
    *used += padded(count * 4);
    widen<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(at, in_array(call, i), count);
    return at;
}

/* gates (activated), c and y of step t; gates hold x w_ih' + y[t-1] w_hh' */
static __global__ void cell(float *gates, float *c, float *y, array bias_ih, array bias_hh,
                            array c0, cells z, i64 t) {
    GRID_LOOP(i, z.b * z.h) {
        i64 b = i / z.h, j = i % z.h, at = b * z.t + t;
        float g[4];
        for (int k = 0; k < 4; k++) {
            i64 row = k * z.h + j;
            float a = gates[at * 4 * z.h + row];
            a += bias_ih.at ? get(bias_ih, row) : 0;
            a += bias_hh.at ? get(bias_hh, row) : 0;
            g[k] = k == 2 ? tanhf(a) : 1 / (1 + expf(-a));
            gates[at * 4 * z.h + row] = g[k];
        }
        float before = t ? c[(at - 1) * z.h + j] : c0.at ? get(c0, b * z.h + j) : 0;
        float now = g[1] * before + g[0] * g[2];
        c[at * z.h + j] = now;
        y[at * z.h + j] = g[3] * tanhf(now);
    }
}

/* y[rows, n] (+)= a[rows, k] w', rows of a and y `lda` and `ldy` apart */
static sl_err rows_product(const sl_cuda_call *call, const float *a, i64 lda, const float *w,
                           bool tb, float *y, i64 ldy, i64 rows_, i64 n, i64 k, float beta) {
    sl_gemm g;
    memset(&g, 0, sizeof g);
    g.m = rows_;
    g.n = n;
    g.k = k;
    g.lda = lda;
    g.ldb = tb ? k : n;
    g.ldy = ldy;
    g.tb = tb;
    g.batch = 1;
    g.align = ((uintptr_t)a | (uintptr_t)w | (uintptr_t)y) % 16 ? 4 : 16;
    sl_gemm_io io = {a, w, NULL, y, NULL, NULL, beta, call->stream};
    return sl_gemm_run(call->device, &g, &io);
}

static sl_err k_lstm(const sl_cuda_call *call) {
    const int64_t *x = call->instr->in[X].shape.dim;
    cells z = {x[0], x[1], call->instr->out[0].shape.dim[2]};
    i64 used = 0;
    const float *xs = wide(call, X, &used), *w_ih = wide(call, W_IH, &used);
    const float *w_hh = wide(call, W_HH, &used);
    bool has_h0 = call->instr->in_count > H0 && call->in[H0];
    const float *h0 = has_h0 ? wide(call, H0, &used) : NULL;
    float *y = (float *)call->out[0], *c = (float *)call->out[1], *gates = (float *)call->out[2];
    SL_TRY(rows_product(call, xs, x[2], w_ih, true, gates, 4 * z.h, z.b * z.t, 4 * z.h, x[2], 0));
    for (i64 t = 0; t < z.t; t++) {
        const float *h = t ? y + (t - 1) * z.h : h0;
        if (h)
            SL_TRY(rows_product(call, h, t ? z.t * z.h : z.h, w_hh, true, gates + t * 4 * z.h,
                                z.t * 4 * z.h, z.b, 4 * z.h, z.h, 1));
        cell<<<blocks_for(z.b * z.h, THREADS), THREADS, 0, call->stream>>>(
            gates, c, y, in_array(call, BIAS_IH), in_array(call, BIAS_HH), in_array(call, C0), z,
            t);
    }
    return launched(call);
}

static i64 forward_scratch(const sl_instr *instr) {
    i64 bytes = 0;
    for (int i = 0; i < instr->in_count; i++)
        bytes += instr->in[i].dtype == SL_BF16 ? padded(instr->in[i].numel * 4) : 0;
    return bytes;
}

/* ---- backwards through time ---- */

enum { GATES, C, BACK_W_HH, BACK_C0, DY, DC };

static __global__ void cell_back(float *da, float *carry_h, float *carry_c, array gates, array c,
                                 array c0, array dy, array dc_in, cells z, i64 t) {
    GRID_LOOP(n, z.b * z.h) {
        i64 b = n / z.h, j = n % z.h, at = b * z.t + t, g0 = at * 4 * z.h + j, h = z.h;
        float i = get(gates, g0), f = get(gates, g0 + h), g = get(gates, g0 + 2 * h),
              o = get(gates, g0 + 3 * h);
        float squashed = tanhf(get(c, at * h + j));
        float before = t ? get(c, (at - 1) * h + j) : c0.at ? get(c0, b * h + j) : 0;
        float dh = carry_h[n] + (dy.at ? get(dy, at * h + j) : 0);
        float dc = carry_c[n] + (dc_in.at ? get(dc_in, at * h + j) : 0) +
                   dh * o * (1 - squashed * squashed);
        da[g0] = dc * g * i * (1 - i);
        da[g0 + h] = dc * before * f * (1 - f);
        da[g0 + 2 * h] = dc * i * (1 - g * g);
        da[g0 + 3 * h] = dh * squashed * o * (1 - o);
        carry_c[n] = dc * f;
    }
}

static sl_err k_lstm_dgates(const sl_cuda_call *call) {
    const int64_t *dim = call->instr->in[C].shape.dim;
    cells z = {dim[0], dim[1], dim[2]};
    i64 used = 0;
    const float *w_hh = wide(call, BACK_W_HH, &used);
    float *da = (float *)call->out[0], *carry_h = (float *)call->out[1];
    float *carry_c = (float *)call->out[2];
    size_t bytes = (size_t)(z.b * z.h) * sizeof(float);
    SL_TRY(SL_CUDA(cudaMemsetAsync(carry_h, 0, bytes, call->stream)));
    SL_TRY(SL_CUDA(cudaMemsetAsync(carry_c, 0, bytes, call->stream)));
    for (i64 t = z.t - 1; t >= 0; t--) {
        cell_back<<<blocks_for(z.b * z.h, THREADS), THREADS, 0, call->stream>>>(
            da, carry_h, carry_c, in_array(call, GATES), in_array(call, C), in_array(call, BACK_C0),
            in_array(call, DY), in_array(call, DC), z, t);
        SL_TRY(rows_product(call, da + t * 4 * z.h, z.t * 4 * z.h, w_hh, false, carry_h, z.h, z.b,
                            z.h, 4 * z.h, 0));
    }
    return launched(call);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_lstms[] = {
    {"lstm", k_lstm, forward_scratch},
    {"lstm_dgates", k_lstm_dgates, forward_scratch},
    {},
};
/* clang-format on */
