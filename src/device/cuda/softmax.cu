/* softmax, log_softmax over the last axis, and their gradients: one block per row. */
#include "device/cuda/kernels.cuh"

static unsigned row_threads(i64 n) { return n <= 64 ? 32 : n <= 1024 ? 128 : 512; }

template <bool log_of> static __global__ void softmax_rows(array y, array x, i64 n, bool add) {
    i64 base = (i64)blockIdx.x * n;
    float max = -INFINITY, sum = 0;
    for (i64 j = threadIdx.x; j < n; j += blockDim.x)
        max = fmaxf(max, get(x, base + j));
    max = block_max(max);
    for (i64 j = threadIdx.x; j < n; j += blockDim.x)
        sum += expf(get(x, base + j) - max);
    sum = block_sum(sum);
    float log_sum = logf(sum);
    for (i64 j = threadIdx.x; j < n; j += blockDim.x) {
        float v = get(x, base + j) - max;
        put(y, base + j, log_of ? v - log_sum : expf(v) / sum, add);
    }
}

/* softmax: dx = y (dy - sum dy y). log_softmax: dx = dy - exp(y) sum dy. */
template <bool log_of>
static __global__ void softmax_dx_rows(array dx, array dy, array y, i64 n, bool add) {
    i64 base = (i64)blockIdx.x * n;
    float sum = 0;
    for (i64 j = threadIdx.x; j < n; j += blockDim.x)
        sum += get(dy, base + j) * (log_of ? 1 : get(y, base + j));
    sum = block_sum(sum);
    for (i64 j = threadIdx.x; j < n; j += blockDim.x) {
        float d = get(dy, base + j), v = get(y, base + j);
        put(dx, base + j, log_of ? d - expf(v) * sum : v * (d - sum), add);
    }
}

template <bool log_of> static sl_err k_softmax(const sl_cuda_call *call) {
    rows z = rows_of(call->instr->in[0]);
    softmax_rows<log_of><<<(unsigned)z.count, row_threads(z.n), 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), z.n, call->add);
    return launched(call);
}

template <bool log_of> static sl_err k_softmax_dx(const sl_cuda_call *call) {
    rows z = rows_of(call->instr->in[0]);
    softmax_dx_rows<log_of><<<(unsigned)z.count, row_threads(z.n), 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1), z.n, call->add);
    return launched(call);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_softmaxes[] = {
    {"log_softmax", k_softmax<true>},
    {"log_softmax_dx", k_softmax_dx<true>},
    {"softmax", k_softmax<false>},
    {"softmax_dx", k_softmax_dx<false>},
    {},
};
/* clang-format on */
