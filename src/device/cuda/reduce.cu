/* Sums over axes: sum_to, reduce_sum, reduce_mean, global_avgpool, and sums over columns for other
 * kernels.
 *
 * Axes are merged into the form [kept, summed, kept, summed, ...]. Two shapes have their own
 * kernels: columns ([summed, kept], as in bias gradients) and rows ([kept, summed]). All others
 * use one block per result. All orders are fixed.
 */
#include "device/cuda/batchnorm_last.cuh"
#include "device/cuda/columns.cuh"
#include "device/cuda/loops.cuh"

static __global__ void reduce_any(array y, array x, one_loops l, float factor, bool add) {
    i64 base = 0, rest = blockIdx.x;
    for (int k = l.kept - 1; k >= 0; k--) {
        base += rest % l.kept_size[k] * l.kept_stride[k];
        rest /= l.kept_size[k];
    }
    float sum = 0;
    for (i64 i = threadIdx.x; i < l.count; i += blockDim.x) {
        i64 at = base, left = i;
        for (int k = l.summed - 1; k >= 0; k--) {
            at += left % l.size[k] * l.stride[k];
            left /= l.size[k];
        }
        sum += get(x, at);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        put(y, blockIdx.x, sum * factor, add);
}

/* One thread per result, if few elements are summed. */
static __global__ void reduce_small(array y, array x, one_loops l, i64 results, float factor,
                                    bool add) {
    GRID_LOOP(r, results) {
        i64 base = 0, rest = r;
        for (int k = l.kept - 1; k >= 0; k--) {
            base += rest % l.kept_size[k] * l.kept_stride[k];
            rest /= l.kept_size[k];
        }
        float sum = 0;
        for (i64 i = 0; i < l.count; i++) {
            i64 at = base, left = i;
            for (int k = l.summed - 1; k >= 0; k--) {
                at += left % l.size[k] * l.stride[k];
                left /= l.size[k];
            }
            sum += get(x, at);
        }
        put(y, r, sum * factor, add);
    }
}

static sl_err reduce(const sl_cuda_call *call, const bool *summed, float factor) {
    axes a = axes_of(&call->instr->in[0].shape, summed);
    array y = out_array(call, 0), x = in_array(call, 0);
    i64 results;
    one_loops l = loops_of(a, &results);
    if (a.rank == 2 && a.summed[0] && factor == 1 && a.size[1] >= 32)
        return sum_columns(call, y, a.size[0], a.size[1], load_plain{x, a.size[1], fit8(x)});
    if (l.count <= 64)
        reduce_small<<<blocks_for(results, THREADS), THREADS, 0, call->stream>>>(y, x, l, results,
                                                                                 factor, call->add);
    unsigned threads = l.count < 4096 ? 128 : 1024;
    if (l.count > 64)
        reduce_any<<<(unsigned)results, threads, 0, call->stream>>>(y, x, l, factor, call->add);
    return launched(call);
}

static sl_err k_sum_to(const sl_cuda_call *call) {
    if (call->last.in & 1) /* channels last (layout.c): sum over all axes except the channels */
        return sum_channels_last(call);
    const sl_shape *x = &call->instr->in[0].shape, *y = &call->instr->out[0].shape;
    bool summed[SL_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        int axis = i - (x->rank - y->rank);
        summed[i] = axis < 0 || y->dim[axis] != x->dim[i];
    }
    return reduce(call, summed, 1);
}

static sl_err reduce_axes(const sl_cuda_call *call, float factor) {
    bool summed[SL_MAX_RANK] = {};
    const sl_ints *named = &call->instr->attr[0].ints;
    for (int i = 0; i < named->count; i++)
        summed[named->at[i]] = true;
    return reduce(call, summed, factor);
}

static sl_err k_reduce_sum(const sl_cuda_call *call) { return reduce_axes(call, 1); }
static sl_err k_reduce_mean(const sl_cuda_call *call) {
    return reduce_axes(
        call, (float)((double)call->instr->out[0].numel / (double)call->instr->in[0].numel));
}

/* For channels last: a thread handles eight channels of a sample. */
static __global__ void mean_last(array y, array x, i64 samples, i64 plane, i64 n) {
    GRID_LOOP(i, samples * (n / 8)) {
        i64 sample = i / (n / 8), col = i % (n / 8) * 8;
        eight sum = {};
        for (i64 p = 0; p < plane; p++) {
            eight e = get8(x, (sample * plane + p) * n + col);
            for (int k = 0; k < 8; k++)
                sum.v[k] += e.v[k];
        }
        for (int k = 0; k < 8; k++)
            put(y, sample * n + col + k, sum.v[k] / (float)plane);
    }
}

static sl_err k_global_avgpool(const sl_cuda_call *call) {
    const int64_t *dim = call->instr->in[0].shape.dim;
    if (call->last.in & 1) {
        mean_last<<<blocks_for(dim[0] * dim[1] / 8, 64), 64, 0, call->stream>>>(
            out_array(call, 0), in_array(call, 0), dim[0], dim[2] * dim[3], dim[1]);
        return launched(call);
    }
    const bool summed[SL_MAX_RANK] = {false, false, true, true};
    return reduce(call, summed,
                  (float)((double)call->instr->out[0].numel / (double)call->instr->in[0].numel));
}

static i64 scratch_in(const sl_instr *instr) {
    /* the kernel is used from 32 columns on; each column gives one result */
    return column_scratch(instr->in[0].numel / instr->out[0].numel, instr->out[0].numel);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_reductions[] = {
    {"global_avgpool", k_global_avgpool},
    {"reduce_mean", k_reduce_mean},
    {"reduce_sum", k_reduce_sum, scratch_in},
    {"sum_to", k_sum_to, scratch_in, false, bn_last_bytes},
    {},
};
/* clang-format on */
