/* lstm, gru, rnn: one product for the inputs of all steps, then a small product and a kernel per step.
 * All values are fp32: the results are fp32 also in 16-bit programs (pass/dtype.c), and 16-bit
 * inputs are converted in scratch.
 *
 *   scratch   [x] [w_ih] [w_hh] [h0, c0 ...], those that are needed
 *             backward: [w_hh] carry_h carry_c
 */
#include "device/cuda/gemm.h"
#include "device/cuda/kernels.cuh"

enum { X, W_IH, W_HH, BIAS_IH, BIAS_HH, H0, C0 };

struct cells {
    i64 b, t, h;
};

static i64 padded(i64 bytes) { return (bytes + 255) / 256 * 256; }

static __global__ void widen(float *y, array x, i64 count) { GRID_LOOP(i, count) y[i] = get(x, i); }

/* Returns input i as fp32. Adds the bytes of scratch that it takes to `used`. */
static const float *wide(const sl_cuda_call *call, int i, i64 *used) {
    if (!sl_dtype_is_half(call->instr->in[i].dtype))
        return (const float *)call->in[i];
    float *at = (float *)((char *)call->scratch + *used);
    i64 count = call->instr->in[i].numel;
    *used += padded(count * 4);
    widen<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(at, in_array(call, i), count);
    return at;
}

/* Computes activated gates, c and y of step t. Before, the gates hold x w_ih' + y[t-1] w_hh'. */
struct forward {
    float *gates, *c, *y;
    array bias_ih, bias_hh, c0;
    cells z;
};

static __global__ void cell(forward f, i64 t) {
    float *gates = f.gates, *c = f.c;
    cells z = f.z;
    GRID_LOOP(i, z.b * z.h) {
        i64 b = i / z.h, j = i % z.h, at = b * z.t + t;
        float g[4];
        for (int k = 0; k < 4; k++) {
            i64 row = k * z.h + j;
            float a = gates[at * 4 * z.h + row];
            a += f.bias_ih.at ? get(f.bias_ih, row) : 0;
            a += f.bias_hh.at ? get(f.bias_hh, row) : 0;
            g[k] = k == 2 ? tanhf(a) : 1 / (1 + expf(-a));
            gates[at * 4 * z.h + row] = g[k];
        }
        float before = t ? c[(at - 1) * z.h + j] : f.c0.at ? get(f.c0, b * z.h + j) : 0;
        float now = g[1] * before + g[0] * g[2];
        c[at * z.h + j] = now;
        f.y[at * z.h + j] = g[3] * tanhf(now);
    }
}

/* y[m,n] = a[m,k] w' + beta y, or a w if tb is false. The rows of a and y are `lda` and `ldy`
 * apart. */
struct product {
    const float *a, *w;
    float *y;
    i64 lda, ldy, m, n, k;
    bool tb;
    float beta;
};

static sl_err multiply(const sl_cuda_call *call, const product &p) {
    sl_gemm g;
    memset(&g, 0, sizeof g);
    g.m = p.m;
    g.n = p.n;
    g.k = p.k;
    g.lda = p.lda;
    g.ldb = p.tb ? p.k : p.n;
    g.ldy = p.ldy;
    g.tb = p.tb;
    g.batch = 1;
    g.align = ((uintptr_t)p.a | (uintptr_t)p.w | (uintptr_t)p.y) % 16 ? 4 : 16;
    sl_gemm_io io = {p.a, p.w, NULL, p.y, NULL, NULL, p.beta, call->stream};
    return sl_cuda_gemm_run(call->device, &g, &io);
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
    i64 h4 = 4 * z.h;
    SL_TRY(multiply(call, {xs, w_ih, gates, x[2], h4, z.b * z.t, h4, x[2], true, 0}));
    forward f = {gates, c, y, in_array(call, BIAS_IH), in_array(call, BIAS_HH), in_array(call, C0),
                 z};
    for (i64 t = 0; t < z.t; t++) {
        const float *h = t ? y + (t - 1) * z.h : h0;
        if (h)
            SL_TRY(multiply(call, {h, w_hh, gates + t * h4, t ? z.t * z.h : z.h, z.t * h4, z.b, h4,
                                   z.h, true, 1}));
        cell<<<blocks_for(z.b * z.h, THREADS), THREADS, 0, call->stream>>>(f, t);
    }
    return launched(call);
}

static i64 forward_scratch(const sl_instr *instr) {
    i64 bytes = 0;
    for (int i = 0; i < instr->in_count; i++)
        bytes += sl_dtype_is_half(instr->in[i].dtype) ? padded(instr->in[i].numel * 4) : 0;
    return bytes;
}

/* ---- backwards through time ---- */

enum { GATES, C, BACK_W_HH, BACK_C0, DY, DC };

struct backward {
    float *da, *carry_h, *carry_c;
    array gates, c, c0, dy, dc;
    cells z;
};

static __global__ void cell_back(backward s, i64 t) {
    cells z = s.z;
    GRID_LOOP(n, z.b * z.h) {
        i64 b = n / z.h, j = n % z.h, at = b * z.t + t, g0 = at * 4 * z.h + j, h = z.h;
        float i = get(s.gates, g0), f = get(s.gates, g0 + h), g = get(s.gates, g0 + 2 * h),
              o = get(s.gates, g0 + 3 * h);
        float squashed = tanhf(get(s.c, at * h + j));
        float before = t ? get(s.c, (at - 1) * h + j) : s.c0.at ? get(s.c0, b * h + j) : 0;
        float dh = s.carry_h[n] + (s.dy.at ? get(s.dy, at * h + j) : 0);
        float dc = s.carry_c[n] + (s.dc.at ? get(s.dc, at * h + j) : 0) +
                   dh * o * (1 - squashed * squashed);
        s.da[g0] = dc * g * i * (1 - i);
        s.da[g0 + h] = dc * before * f * (1 - f);
        s.da[g0 + 2 * h] = dc * i * (1 - g * g);
        s.da[g0 + 3 * h] = dh * squashed * o * (1 - o);
        s.carry_c[n] = dc * f;
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
    backward back = {da,
                     carry_h,
                     carry_c,
                     in_array(call, GATES),
                     in_array(call, C),
                     in_array(call, BACK_C0),
                     in_array(call, DY),
                     in_array(call, DC),
                     z};
    i64 h4 = 4 * z.h;
    for (i64 t = z.t - 1; t >= 0; t--) {
        cell_back<<<blocks_for(z.b * z.h, THREADS), THREADS, 0, call->stream>>>(back, t);
        SL_TRY(multiply(call, {da + t * h4, w_hh, carry_h, z.t * h4, z.h, z.b, z.h, h4, false, 0}));
    }
    return launched(call);
}

/* ---- gru and rnn: see op/recurrent.c ---- */

enum { PLAIN_H0 = 5 };

/* The sums with x are in gates [B,T,4H] for a gru, in y for an rnn. Those with y[t-1], without
 * bias, are in `sums` [B,P H] of scratch if `has_h`. */
struct layer {
    float *y, *gates;
    const float *sums;
    array bias_ih, bias_hh, h0;
    cells z;
    bool relu, has_h;
};

static __device__ __forceinline__ float part_h(const layer &l, i64 b, i64 j, int part, int parts) {
    i64 row = part * l.z.h + j;
    float a = l.bias_hh.at ? get(l.bias_hh, row) : 0;
    return l.has_h ? a + l.sums[b * parts * l.z.h + row] : a;
}

static __device__ __forceinline__ float part_x(const layer &l, const float *sum, int part, i64 j) {
    return sum[part * l.z.h] + (l.bias_ih.at ? get(l.bias_ih, part * l.z.h + j) : 0);
}

static __global__ void layer_cell(layer l, i64 t) {
    cells z = l.z;
    GRID_LOOP(i, z.b * z.h) {
        i64 b = i / z.h, j = i % z.h, at = b * z.t + t;
        if (!l.gates) {
            float a = part_x(l, l.y + at * z.h + j, 0, j) + part_h(l, b, j, 0, 1);
            l.y[at * z.h + j] = l.relu ? fmaxf(a, 0) : tanhf(a);
            continue;
        }
        float *g = l.gates + at * 4 * z.h + j;
        float r = 1 / (1 + expf(-(part_x(l, g, 0, j) + part_h(l, b, j, 0, 3))));
        float u = 1 / (1 + expf(-(part_x(l, g, 1, j) + part_h(l, b, j, 1, 3))));
        float m = part_h(l, b, j, 2, 3), n = tanhf(part_x(l, g, 2, j) + r * m);
        float before = t ? l.y[(at - 1) * z.h + j] : l.h0.at ? get(l.h0, b * z.h + j) : 0;
        g[0] = r;
        g[z.h] = u;
        g[2 * z.h] = n;
        g[3 * z.h] = m;
        l.y[at * z.h + j] = (1 - u) * n + u * before;
    }
}

static sl_err k_layer(const sl_cuda_call *call) {
    const int64_t *x = call->instr->in[X].shape.dim;
    cells z = {x[0], x[1], call->instr->out[0].shape.dim[2]};
    bool gru = call->instr->out_count == 2;
    i64 parts = gru ? 3 : 1, used = padded(z.b * parts * z.h * 4);
    const float *xs = wide(call, X, &used), *w_ih = wide(call, W_IH, &used);
    const float *w_hh = wide(call, W_HH, &used), *h0 = NULL;
    if (call->instr->in_count > PLAIN_H0 && call->in[PLAIN_H0])
        h0 = wide(call, PLAIN_H0, &used);
    float *sums = (float *)call->scratch, *y = (float *)call->out[0];
    float *gates = gru ? (float *)call->out[1] : NULL;
    SL_TRY(multiply(call, {xs, w_ih, gru ? gates : y, x[2], gru ? 4 * z.h : z.h, z.b * z.t,
                           parts * z.h, x[2], true, 0}));
    layer l = {y,
               gates,
               sums,
               in_array(call, BIAS_IH),
               in_array(call, BIAS_HH),
               in_array(call, PLAIN_H0),
               z,
               !gru && call->instr->attr[0].i,
               false};
    for (i64 t = 0; t < z.t; t++) {
        const float *h = t ? y + (t - 1) * z.h : h0;
        l.has_h = h != NULL;
        if (h)
            SL_TRY(multiply(call, {h, w_hh, sums, t ? z.t * z.h : z.h, parts * z.h, z.b,
                                   parts * z.h, z.h, true, 0}));
        layer_cell<<<blocks_for(z.b * z.h, THREADS), THREADS, 0, call->stream>>>(l, t);
    }
    return launched(call);
}

static i64 layer_scratch(const sl_instr *instr) {
    const int64_t *y = instr->out[0].shape.dim;
    return padded(y[0] * (instr->out_count == 2 ? 3 : 1) * y[2] * 4) + forward_scratch(instr);
}

/* carry [B,H] is the gradient that comes from the next step; `product`, in scratch, is that step's
 * dh w_hh. */
struct layer_back {
    float *dx, *dh, *carry;
    const float *product; /* NULL at the last step */
    array gates, y, dy, h0;
    cells z;
    bool relu;
};

static __global__ void layer_cell_back(layer_back s, i64 t) {
    cells z = s.z;
    i64 h = z.h;
    GRID_LOOP(i, z.b * z.h) {
        i64 b = i / h, j = i % h, at = b * z.t + t;
        float d = s.product ? s.product[i] + (s.gates.at ? s.carry[i] : 0) : 0;
        if (t < 0) {
            s.carry[i] = d;
            continue;
        }
        d += get(s.dy, at * h + j);
        if (!s.gates.at) {
            float y = get(s.y, at * h + j);
            s.dx[at * h + j] = s.relu ? (y > 0 ? d : 0) : d * (1 - y * y);
            continue;
        }
        i64 g = at * 4 * h + j, to = at * 3 * h + j;
        float r = get(s.gates, g), u = get(s.gates, g + h), n = get(s.gates, g + 2 * h);
        float m = get(s.gates, g + 3 * h);
        float before = t ? get(s.y, (at - 1) * h + j) : s.h0.at ? get(s.h0, b * h + j) : 0;
        float dn = d * (1 - u) * (1 - n * n);
        s.dx[to] = s.dh[to] = dn * m * r * (1 - r);
        s.dx[to + h] = s.dh[to + h] = d * (before - n) * u * (1 - u);
        s.dx[to + 2 * h] = dn;
        s.dh[to + 2 * h] = dn * r;
        s.carry[i] = d * u;
    }
}

static sl_err run_layer_back(const sl_cuda_call *call, layer_back s, int w) {
    i64 rows_ = call->instr->out[0].shape.dim[2], used = padded(s.z.b * s.z.h * 4);
    float *product = (float *)call->scratch;
    const float *w_hh = wide(call, w, &used);
    for (i64 t = s.z.t - 1; t >= -1; t--) {
        s.product = t + 1 < s.z.t ? product : NULL;
        if (s.product)
            SL_TRY(multiply(call, {s.dh + (t + 1) * rows_, w_hh, product, s.z.t * rows_, s.z.h,
                                   s.z.b, s.z.h, rows_, false, 0}));
        layer_cell_back<<<blocks_for(s.z.b * s.z.h, THREADS), THREADS, 0, call->stream>>>(s, t);
    }
    return launched(call);
}

/* Inputs: gates, y, w_hh, dy, h0 (optional). */
static sl_err k_gru_dgates(const sl_cuda_call *call) {
    const int64_t *y = call->instr->in[1].shape.dim;
    return run_layer_back(call,
                          {(float *)call->out[0],
                           (float *)call->out[1],
                           (float *)call->out[2],
                           NULL,
                           in_array(call, 0),
                           in_array(call, 1),
                           in_array(call, 3),
                           in_array(call, 4),
                           {y[0], y[1], y[2]},
                           false},
                          2);
}

/* Inputs: y, w_hh, dy. */
static sl_err k_rnn_dgates(const sl_cuda_call *call) {
    const int64_t *y = call->instr->in[0].shape.dim;
    return run_layer_back(call,
                          {(float *)call->out[0],
                           (float *)call->out[0],
                           (float *)call->out[1],
                           NULL,
                           array{},
                           in_array(call, 0),
                           in_array(call, 2),
                           array{},
                           {y[0], y[1], y[2]},
                           call->instr->attr[0].i != 0},
                          1);
}

static i64 back_scratch(const sl_instr *instr) {
    const sl_operand *dh0 = &instr->out[instr->out_count - 1];
    return padded(dh0->numel * 4) + forward_scratch(instr);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_lstms[] = {
    {"gru", k_layer, layer_scratch},
    {"gru_dgates", k_gru_dgates, back_scratch},
    {"lstm", k_lstm, forward_scratch},
    {"lstm_dgates", k_lstm_dgates, forward_scratch},
    {"rnn", k_layer, layer_scratch},
    {"rnn_dgates", k_rnn_dgates, back_scratch},
    {},
};
/* clang-format on */
