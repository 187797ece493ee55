/* reduce_max, reduce_min, reduce_var and their gradients; argmax, argmin, cumsum, topk. One block
 * computes a result, or one thread a line. All orders are fixed. */
#include "device/cuda/loops.cuh"
#include "device/cuda/sums.cuh"

static one_loops loops_by_axes(const sl_cuda_call *call, const sl_shape *x, i64 *results) {
    bool reduced[SL_MAX_RANK] = {};
    const sl_ints *named = &call->instr->attr[0].ints;
    for (int i = 0; i < named->count; i++)
        reduced[named->at[i]] = true;
    return loops_of(axes_of(x, reduced), results);
}

static unsigned threads_for(i64 terms) { return terms <= 64 ? 32 : terms < 4096 ? 128 : 1024; }

static __device__ __forceinline__ bool exceeds(float a, float b) {
    return a > b || (isnan(a) && !isnan(b));
}

/* Returns the largest value over a block to thread 0. NaN counts as the largest. */
static __device__ float block_best(float v) {
    __shared__ float part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int h = 16; h; h /= 2) {
        float other = __shfl_xor_sync(~0u, v, h);
        v = exceeds(other, v) ? other : v;
    }
    if (lane == 0)
        part[warp] = v;
    __syncthreads();
    for (int i = 0; i < warps; i++)
        v = exceeds(part[i], v) ? part[i] : v;
    __syncthreads();
    return v;
}

static __global__ void reduce_best(array y, array x, one_loops l, float sign, bool add) {
    i64 base = kept_at(l, blockIdx.x);
    float best = -INFINITY;
    for (i64 i = threadIdx.x; i < l.count; i += blockDim.x) {
        float v = sign * get(x, base + reduced_at(l, i));
        best = exceeds(v, best) ? v : best;
    }
    best = block_best(best);
    if (threadIdx.x == 0)
        put(y, blockIdx.x, sign * best, add);
}

static sl_err best(const sl_cuda_call *call, float sign) {
    i64 results;
    one_loops l = loops_by_axes(call, &call->instr->in[0].shape, &results);
    reduce_best<<<(unsigned)results, threads_for(l.count), 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), l, sign, call->add);
    return launched(call);
}

static sl_err k_reduce_max(const sl_cuda_call *call) { return best(call, 1); }
static sl_err k_reduce_min(const sl_cuda_call *call) { return best(call, -1); }

static __global__ void share_best(array dx, array dy, array x, array y, one_loops l, bool add) {
    i64 base = kept_at(l, blockIdx.x);
    float v = get(y, blockIdx.x), ties = 0;
    for (i64 i = threadIdx.x; i < l.count; i += blockDim.x)
        ties += get(x, base + reduced_at(l, i)) == v;
    ties = block_sum(ties);
    for (i64 i = threadIdx.x; i < l.count; i += blockDim.x) {
        i64 at = base + reduced_at(l, i);
        put(dx, at, get(x, at) == v ? get(dy, blockIdx.x) / ties : 0, add);
    }
}

static sl_err k_reduce_max_dx(const sl_cuda_call *call) {
    i64 results;
    one_loops l = loops_by_axes(call, &call->instr->in[1].shape, &results);
    share_best<<<(unsigned)results, threads_for(l.count), 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1), in_array(call, 2), l, call->add);
    return launched(call);
}

static __device__ double mean_at(array x, const one_loops &l, i64 base) {
    double sum = 0;
    for (i64 i = threadIdx.x; i < l.count; i += blockDim.x)
        sum += (double)get(x, base + reduced_at(l, i));
    return block_sum_double(sum) / (double)l.count;
}

static __global__ void reduce_var(array y, array x, one_loops l, double divisor, bool add) {
    i64 base = kept_at(l, blockIdx.x);
    double mean = mean_at(x, l, base), sum = 0;
    for (i64 i = threadIdx.x; i < l.count; i += blockDim.x) {
        double off = (double)get(x, base + reduced_at(l, i)) - mean;
        sum += off * off;
    }
    sum = block_sum_double(sum);
    if (threadIdx.x == 0)
        put(y, blockIdx.x, (float)(sum / divisor), add);
}

static __global__ void var_dx(array dx, array dy, array x, one_loops l, double divisor, bool add) {
    i64 base = kept_at(l, blockIdx.x);
    double mean = mean_at(x, l, base), factor = 2 * (double)get(dy, blockIdx.x) / divisor;
    for (i64 i = threadIdx.x; i < l.count; i += blockDim.x) {
        i64 at = base + reduced_at(l, i);
        put(dx, at, (float)(factor * ((double)get(x, at) - mean)), add);
    }
}

static sl_err k_reduce_var(const sl_cuda_call *call) {
    i64 results;
    one_loops l = loops_by_axes(call, &call->instr->in[0].shape, &results);
    reduce_var<<<(unsigned)results, threads_for(l.count), 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), l, (double)(l.count - call->instr->attr[2].i),
        call->add);
    return launched(call);
}

static sl_err k_reduce_var_dx(const sl_cuda_call *call) {
    i64 results;
    one_loops l = loops_by_axes(call, &call->instr->in[1].shape, &results);
    var_dx<<<(unsigned)results, threads_for(l.count), 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1), l,
        (double)(l.count - call->instr->attr[2].i), call->add);
    return launched(call);
}

/* ---- lines of [outer, size, inner] ---- */

struct ranked {
    float key;
    i64 place;
};

/* Returns true if a comes before b: it is larger, or equal and earlier. A place below 0 stands for
 * no element. */
static __device__ __forceinline__ bool is_before(ranked a, ranked b) {
    if (a.place < 0 || b.place < 0)
        return a.place >= 0;
    return exceeds(a.key, b.key) || (!exceeds(b.key, a.key) && a.place < b.place);
}

/* Finds the first element of a line, in this order, that comes after `last`. All threads of a block
 * take part. */
static __device__ ranked first_after(array x, const lines &l, i64 line, float sign, ranked last) {
    __shared__ ranked part[32];
    ranked best = {0, -1};
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (i64 i = threadIdx.x; i < l.size; i += blockDim.x) {
        ranked r = {sign * get(x, l.at(line) + i * l.inner), i};
        if ((last.place < 0 || is_before(last, r)) && is_before(r, best))
            best = r;
    }
    for (int h = 16; h; h /= 2) {
        ranked other = {__shfl_xor_sync(~0u, best.key, h), __shfl_xor_sync(~0u, best.place, h)};
        best = is_before(other, best) ? other : best;
    }
    if (lane == 0)
        part[warp] = best;
    __syncthreads();
    for (int i = 0; i < warps; i++)
        best = is_before(part[i], best) ? part[i] : best;
    __syncthreads();
    return best;
}

/* `values` is absent for argmax. */
struct first {
    array values;
    int32_t *places;
    i64 k;
    float sign;
};

static __global__ void first_k(first f, array x, lines l, bool add) {
    i64 line = blockIdx.x;
    ranked last = {0, -1};
    for (i64 i = 0; i < f.k; i++) {
        last = first_after(x, l, line, f.sign, last);
        i64 to = (line / l.inner * f.k + i) * l.inner + line % l.inner;
        if (threadIdx.x == 0 && f.values.at)
            put(f.values, to, f.sign * last.key, add);
        if (threadIdx.x == 0)
            f.places[to] = (int32_t)last.place;
    }
}

static sl_err run_first(const sl_cuda_call *call, const first &f, i64 axis) {
    lines l = lines_of(&call->instr->in[0].shape, axis);
    first_k<<<(unsigned)(l.outer * l.inner), threads_for(l.size), 0, call->stream>>>(
        f, in_array(call, 0), l, call->add);
    return launched(call);
}

static sl_err k_argmax(const sl_cuda_call *call) {
    return run_first(call, {array{}, (int32_t *)call->out[0], 1, 1}, call->instr->attr[0].i);
}
static sl_err k_argmin(const sl_cuda_call *call) {
    return run_first(call, {array{}, (int32_t *)call->out[0], 1, -1}, call->instr->attr[0].i);
}
static sl_err k_topk(const sl_cuda_call *call) {
    const union sl_attr *attr = call->instr->attr;
    return run_first(
        call, {out_array(call, 0), (int32_t *)call->out[1], attr[0].i, attr[2].i ? 1.0f : -1.0f},
        attr[1].i);
}

static __global__ void cumsum(array y, array x, lines l, bool exclusive, bool reverse, bool add) {
    GRID_LOOP(line, l.outer * l.inner) {
        double sum = 0;
        for (i64 k = 0; k < l.size; k++) {
            i64 at = l.at(line) + (reverse ? l.size - 1 - k : k) * l.inner;
            double before = sum;
            sum += (double)get(x, at);
            put(y, at, (float)(exclusive ? before : sum), add);
        }
    }
}

static sl_err k_cumsum(const sl_cuda_call *call) {
    const union sl_attr *attr = call->instr->attr;
    lines l = lines_of(&call->instr->in[0].shape, attr[0].i);
    cumsum<<<blocks_for(l.outer * l.inner, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), l, attr[1].i, attr[2].i, call->add);
    return launched(call);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_extrema[] = {
    {"argmax", k_argmax},
    {"argmin", k_argmin},
    {"cumsum", k_cumsum},
    {"reduce_max", k_reduce_max},
    {"reduce_max_dx", k_reduce_max_dx},
    {"reduce_min", k_reduce_min},
    {"reduce_var", k_reduce_var},
    {"reduce_var_dx", k_reduce_var_dx},
    {"topk", k_topk},
    {},
};
/* clang-format on */
