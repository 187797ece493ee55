/* batchnorm over [B,C,...]: one block per channel for the sums, then an elementwise kernel.
 * batchnorm_last.cu serves images with their channels last. */
#include "device/cuda/batchnorm_last.cuh"
#include "device/cuda/kernels.cuh"

struct channels {
    i64 count, inner, n; /* number of channels, of elements in a plane, of elements in a channel */
};

static channels channels_of(const sl_shape *x) {
    channels z = {x->dim[1], 1, 0};
    for (int i = 2; i < x->rank; i++)
        z.inner *= x->dim[i];
    z.n = x->dim[0] * z.inner;
    return z;
}

static __device__ __forceinline__ i64 place(const channels &z, i64 c, i64 i) {
    return (i / z.inner * z.count + c) * z.inner + i % z.inner;
}

struct bn {
    array x, w, b, running_mean, running_var, y, mean, rstd, new_mean, new_var;
    channels z;
    float eps, momentum;
};

static __global__ void bn_channel(bn a) {
    i64 c = blockIdx.x;
    float n = (float)a.z.n, sum = 0, square = 0;
    for (i64 i = threadIdx.x; i < a.z.n; i += blockDim.x)
        sum += get(a.x, place(a.z, c, i));
    float mean = block_sum(sum) / n;
    for (i64 i = threadIdx.x; i < a.z.n; i += blockDim.x) {
        float off = get(a.x, place(a.z, c, i)) - mean;
        square += off * off;
    }
    float var = block_sum(square) / n, rstd = 1 / sqrtf(var + a.eps);
    float w = get(a.w, c), b = get(a.b, c);
    for (i64 i = threadIdx.x; i < a.z.n; i += blockDim.x) {
        i64 at = place(a.z, c, i);
        put(a.y, at, (get(a.x, at) - mean) * rstd * w + b);
    }
    if (threadIdx.x != 0)
        return;
    float old_mean = get(a.running_mean, c), old_var = get(a.running_var, c);
    float unbiased = a.z.n > 1 ? var * n / (n - 1) : old_var;
    put(a.mean, c, mean);
    put(a.rstd, c, rstd);
    put(a.new_mean, c, (1 - a.momentum) * old_mean + a.momentum * mean);
    put(a.new_var, c, (1 - a.momentum) * old_var + a.momentum * unbiased);
}

static sl_err k_batchnorm(const sl_cuda_call *call) {
    bn a = {in_array(call, 0),
            in_array(call, 1),
            in_array(call, 2),
            in_array(call, 3),
            in_array(call, 4),
            out_array(call, 0),
            out_array(call, 1),
            out_array(call, 2),
            out_array(call, 3),
            out_array(call, 4),
            channels_of(&call->instr->in[0].shape),
            (float)call->instr->attr[0].f,
            (float)call->instr->attr[1].f};
    if (call->last.in & 1)
        return bn_last(call);
    bn_channel<<<(unsigned)a.z.count, 512, 0, call->stream>>>(a);
    return launched(call);
}

struct bn_grad {
    array dy, x, w, mean, rstd, out;
    channels z;
    bool dx, add; /* computes dx if `dx`, else dw */
};

static __global__ void bn_back(bn_grad a) {
    i64 c = blockIdx.x;
    float mean = get(a.mean, c), rstd = get(a.rstd, c), n = (float)a.z.n, sum = 0, dot = 0;
    for (i64 i = threadIdx.x; i < a.z.n; i += blockDim.x) {
        i64 at = place(a.z, c, i);
        float dy = get(a.dy, at);
        sum += dy;
        dot += dy * (get(a.x, at) - mean) * rstd;
    }
    sum = block_sum(sum);
    dot = block_sum(dot);
    if (!a.dx) {
        if (threadIdx.x == 0)
            put(a.out, c, dot, a.add);
        return;
    }
    float w = get(a.w, c);
    for (i64 i = threadIdx.x; i < a.z.n; i += blockDim.x) {
        i64 at = place(a.z, c, i);
        float hat = (get(a.x, at) - mean) * rstd;
        put(a.out, at, w * rstd * (get(a.dy, at) - sum / n - hat * dot / n), a.add);
    }
}

static sl_err run_back(const sl_cuda_call *call, const bn_grad &a) {
    bn_back<<<(unsigned)a.z.count, 512, 0, call->stream>>>(a);
    return launched(call);
}

static sl_err k_batchnorm_dx(const sl_cuda_call *call) {
    if (call->last.in & 1)
        return bn_last_dx(call);
    return run_back(call, bn_grad{in_array(call, 0), in_array(call, 1), in_array(call, 2),
                                  in_array(call, 3), in_array(call, 4), out_array(call, 0),
                                  channels_of(&call->instr->in[1].shape), true, call->add});
}

static sl_err k_batchnorm_dw(const sl_cuda_call *call) {
    if (call->last.in & 1)
        return bn_last_dw(call);
    return run_back(call, bn_grad{in_array(call, 0), in_array(call, 1), array{}, in_array(call, 2),
                                  in_array(call, 3), out_array(call, 0),
                                  channels_of(&call->instr->in[1].shape), false, call->add});
}

/* ---- fused calls: their parts run one after the other, unless channels are last ---- */

struct part { /* one part of a fused call: its kernel, its inputs, its outputs from `out` on */
    const char *kernel;
    int in[5], in_count, out, out_count;
};

struct part_call {
    sl_instr instr;
    sl_operand in[5];
    sl_cuda_call call;
};

static void open_part(part_call *p, const sl_cuda_call *call, const part &which) {
    p->instr = *call->instr;
    p->call = *call;
    p->call.instr = &p->instr;
    p->instr.kernel = which.kernel;
    p->instr.in = p->in;
    p->instr.in_count = which.in_count;
    p->instr.out = call->instr->out + which.out;
    p->instr.out_count = which.out_count;
    p->call.last = {};
    for (int i = 0; i < which.in_count; i++) {
        int from = which.in[i];
        p->in[i] = from < 0 ? call->instr->out[0] : call->instr->in[from];
        p->call.in[i] = from < 0 ? call->out[0] : call->in[from];
    }
    for (int i = 0; i < which.out_count; i++)
        p->call.out[i] = call->out[which.out + i];
    p->call.add = which.out > 0 && call->add;
}

static sl_err run_parts(const sl_cuda_call *call, const part *parts, int count) {
    for (int i = 0; i < count; i++) {
        part_call p;
        open_part(&p, call, parts[i]);
        SL_TRY(sl_cuda_find(parts[i].kernel)->run(&p.call));
    }
    return SL_OK;
}

/* dx may overwrite dy or x, so it comes last. */
static const part grad_parts[] = {{"batchnorm_dw", {0, 1, 3, 4}, 4, 1, 1},
                                  {"sum_to", {0}, 1, 2, 1},
                                  {"batchnorm_dx", {0, 1, 2, 3, 4}, 5, 0, 1}};
/* Index -1 is the first output, as the part before left it. */
static const part relu_parts[] = {
    {"batchnorm", {0, 1, 2, 3, 4}, 5, 0, 5}, {"add", {-1, 5}, 2, 0, 1}, {"relu", {-1}, 1, 0, 1}};

/* The same after relu_dx, which writes to the place of dx. dx may overwrite dy. */
static const part relu_grad_parts[] = {{"relu_dx", {0, 6}, 2, 0, 1},
                                       {"batchnorm_dw", {-1, 1, 3, 4}, 4, 1, 1},
                                       {"sum_to", {-1}, 1, 2, 1},
                                       {"batchnorm_dx", {-1, 1, 2, 3, 4}, 5, 0, 1}};

static sl_err k_batchnorm_grad(const sl_cuda_call *call) {
    return call->last.in & 1 ? bn_last_grad(call) : run_parts(call, grad_parts, 3);
}

static sl_err k_batchnorm_relu_grad(const sl_cuda_call *call) {
    return call->last.in & 1 ? bn_last_grad(call) : run_parts(call, relu_grad_parts, 4);
}

static sl_err k_batchnorm_relu(const sl_cuda_call *call) {
    if (call->last.in & 1)
        return bn_last(call);
    SL_TRY(run_parts(call, relu_parts, 1));
    bool sums = call->instr->in_count > 5;
    return run_parts(call, relu_parts + (sums ? 1 : 2), sums ? 2 : 1);
}

static i64 grad_scratch(const sl_instr *instr) { /* bytes of the scratch of sum_to */
    return column_scratch(instr->in[0].numel / instr->in[2].numel, instr->in[2].numel);
}

/* ---- with fixed statistics ---- */

struct fixed { /* if mean.at is NULL, computes dx from dy */
    array y, x, w, b, mean, var;
    channels z;
    float eps;
    bool add;
};

static __global__ void bn_eval(fixed f, i64 count) {
    GRID_LOOP(i, count) {
        i64 c = i / f.z.inner % f.z.count;
        float factor = get(f.w, c) / sqrtf(get(f.var, c) + f.eps), x = get(f.x, i);
        put(f.y, i, f.mean.at ? (x - get(f.mean, c)) * factor + get(f.b, c) : x * factor, f.add);
    }
}

static sl_err run_eval(const sl_cuda_call *call, const fixed &f) {
    i64 count = call->instr->in[0].numel;
    bn_eval<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(f, count);
    return launched(call);
}

static sl_err k_batchnorm_eval(const sl_cuda_call *call) {
    return run_eval(call, fixed{out_array(call, 0), in_array(call, 0), in_array(call, 1),
                                in_array(call, 2), in_array(call, 3), in_array(call, 4),
                                channels_of(&call->instr->in[0].shape),
                                (float)call->instr->attr[0].f, call->add});
}

static sl_err k_batchnorm_eval_dx(const sl_cuda_call *call) {
    return run_eval(call, fixed{out_array(call, 0), in_array(call, 0), in_array(call, 1), array{},
                                array{}, in_array(call, 2), channels_of(&call->instr->in[0].shape),
                                (float)call->instr->attr[0].f, call->add});
}

static __global__ void bn_eval_dw(fixed f, array dy) {
    i64 c = blockIdx.x;
    float m = get(f.mean, c), rstd = 1 / sqrtf(get(f.var, c) + f.eps), sum = 0;
    for (i64 i = threadIdx.x; i < f.z.n; i += blockDim.x) {
        i64 at = place(f.z, c, i);
        sum += get(dy, at) * (get(f.x, at) - m) * rstd;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        put(f.y, c, sum, f.add);
}

static sl_err k_batchnorm_eval_dw(const sl_cuda_call *call) {
    channels z = channels_of(&call->instr->in[1].shape);
    fixed f = {out_array(call, 0), in_array(call, 1), array{}, array{},
               in_array(call, 2),  in_array(call, 3), z,       (float)call->instr->attr[0].f,
               call->add};
    bn_eval_dw<<<(unsigned)z.count, 512, 0, call->stream>>>(f, in_array(call, 0));
    return launched(call);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_batchnorms[] = {
    {"batchnorm", k_batchnorm, NULL, false, bn_last_bytes},
    {"batchnorm_dw", k_batchnorm_dw, NULL, false, bn_last_bytes},
    {"batchnorm_dx", k_batchnorm_dx, NULL, false, bn_last_bytes},
    {"batchnorm_eval", k_batchnorm_eval},
    {"batchnorm_eval_dw", k_batchnorm_eval_dw},
    {"batchnorm_eval_dx", k_batchnorm_eval_dx},
    {"batchnorm_grad", k_batchnorm_grad, grad_scratch, false, bn_last_bytes},
    {"batchnorm_relu", k_batchnorm_relu, NULL, false, bn_last_bytes},
    {"batchnorm_relu_grad", k_batchnorm_relu_grad, grad_scratch, false, bn_last_bytes},
    {},
};
/* clang-format on */
