/* Losses: bce_with_logits, mse, and their gradients. cross_entropy: cross_entropy.cu. */
#include "device/cuda/sums.cuh"

/* ---- sums of many terms: partial sums of blocks, then one block; in double ---- */

enum { PARTS = 1024 };

struct mse_term {
    array x, t;
    __device__ double operator()(i64 i) const {
        double off = (double)get(x, i) - (double)get(t, i);
        return off * off;
    }
};

static __device__ float softplus_of_minus(float x) {
    return log1pf(expf(-fabsf(x))) + (x < 0 ? -x : 0);
}

struct bce_term {
    array x, t;
    float weight;
    __device__ double operator()(i64 i) const {
        float v = get(x, i), target = get(t, i), u = 1 + (weight - 1) * target;
        return (double)((1 - target) * v + u * softplus_of_minus(v));
    }
};

template <class F> static __global__ void sum_parts(double *part, i64 count, F f) {
    double sum = 0;
    GRID_LOOP(i, count) sum += f(i);
    sum = block_sum_double(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

static __global__ void sum_end(array y, const double *part, int parts, double divisor, bool add) {
    double sum = 0;
    for (int i = threadIdx.x; i < parts; i += blockDim.x)
        sum += part[i];
    sum = block_sum_double(sum);
    if (threadIdx.x == 0)
        put(y, 0, (float)(sum / divisor), add);
}

template <class F> static sl_err mean_of(const sl_cuda_call *call, i64 count, F f) {
    unsigned blocks = blocks_for(count, THREADS * 4);
    blocks = blocks < PARTS ? blocks : (unsigned)PARTS;
    double *part = (double *)call->scratch;
    sum_parts<<<blocks, THREADS, 0, call->stream>>>(part, count, f);
    sum_end<<<1, THREADS, 0, call->stream>>>(out_array(call, 0), part, (int)blocks, (double)count,
                                             call->add);
    return launched(call);
}

static sl_err k_mse(const sl_cuda_call *call) {
    return mean_of(call, call->instr->in[0].numel, mse_term{in_array(call, 0), in_array(call, 1)});
}

static sl_err k_bce(const sl_cuda_call *call) {
    return mean_of(call, call->instr->in[0].numel,
                   bce_term{in_array(call, 0), in_array(call, 1), (float)call->instr->attr[0].f});
}

static __global__ void mse_dx(array dx, array dloss, array x, array t, i64 count, bool add) {
    float factor = 2 * get(dloss, 0) / (float)count;
    GRID_LOOP(i, count) put(dx, i, factor * (get(x, i) - get(t, i)), add);
}

static sl_err k_mse_dx(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    mse_dx<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1), in_array(call, 2), count,
        call->add);
    return launched(call);
}

/* Gradient of the logits, or, if of.t.at is NULL, of the targets. */
static __global__ void bce_d(array d, array dloss, bce_term of, i64 count, bool add) {
    float each = get(dloss, 0) / (float)count, weight = of.weight;
    GRID_LOOP(i, count) {
        float v = get(of.x, i), target = of.t.at ? get(of.t, i) : 0, u = 1 + (weight - 1) * target;
        float slope =
            of.t.at ? (1 - target) - u / (1 + expf(v)) : (weight - 1) * softplus_of_minus(v) - v;
        put(d, i, each * slope, add);
    }
}

static sl_err k_bce_d(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    bce_d<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0),
        bce_term{in_array(call, 1), in_array(call, 2), (float)call->instr->attr[0].f}, count,
        call->add);
    return launched(call);
}

static i64 mean_scratch(const sl_instr *instr) {
    (void)instr;
    return PARTS * (i64)sizeof(double);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_losses[] = {
    {"bce_with_logits", k_bce, mean_scratch},
    {"bce_with_logits_dt", k_bce_d},
    {"bce_with_logits_dx", k_bce_d},
    {"mse", k_mse, mean_scratch},
    {"mse_dx", k_mse_dx},
    {},
};
/* clang-format on */
