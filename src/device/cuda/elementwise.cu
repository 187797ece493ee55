/* Elementwise kernels: y = f(x), and dx = f(dy, x or y); eight elements per thread. They may work
 * in place: the same thread reads an element before it writes it. */
#include "device/cuda/activation.cuh"

#define LAMBDA 1.0507009873554804934f
#define ALPHA 1.6732632423543772848f

FUNCTION(f_exp, x, y, expf(x))
FUNCTION(f_exp_dx, dy, y, dy *y)
FUNCTION(f_relu, x, y, x < 0 ? 0 : x)
FUNCTION(f_relu_dx, dy, y, y > 0 ? dy : 0)
FUNCTION(f_sigmoid, x, y, sigmoid_of(x))
FUNCTION(f_sigmoid_dx, dy, y, dy *y *(1 - y))
FUNCTION(f_tanh, x, y, tanhf(x))
FUNCTION(f_tanh_dx, dy, y, dy *(1 - y * y))
FUNCTION(f_selu, x, y, LAMBDA *(x > 0 ? x : ALPHA * expm1f(x)))
FUNCTION(f_selu_dx, dy, x, dy *LAMBDA *(x > 0 ? 1 : ALPHA * expf(x)))
FUNCTION(f_scale, x, y, x *n.f)
FUNCTION(f_copy, x, y, x)
FUNCTION(f_add, a, b, a + b)
FUNCTION(f_sub, a, b, a - b)
FUNCTION(f_mul, a, b, a *b)

/* Maps eight elements at a time. b.at may be NULL. HALF is the type of all arrays, a template
 * parameter so that loads can overlap. MIXED says that each array has its own type. */
enum { MIXED = -1 };
template <class F, int HALF>
static __global__ void map8(array y, array a, array b, i64 count, number n, bool add) {
    i64 eights = count / 8;
    if (HALF != MIXED)
        y.half = a.half = b.half = HALF;
    GRID_LOOP(i, eights) {
        eight u = get8(a, 8 * i), v = u, out;
        if (b.at)
            v = get8(b, 8 * i);
        if (add)
            out = get8(y, 8 * i);
        for (int k = 0; k < 8; k++) {
            float f = F::of(u.v[k], v.v[k], n);
            out.v[k] = add ? out.v[k] + f : f;
        }
        put8(y, 8 * i, out);
    }
    i64 tail = 8 * eights + (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (tail < count)
        put(y, tail, F::of(get(a, tail), b.at ? get(b, tail) : 0, n), add);
}

template <class F>
static __global__ void map1(array y, array a, array b, i64 count, number n, bool add) {
    GRID_LOOP(i, count)
    put(y, i, F::of(get(a, i), b.at ? get(b, i) : 0, n), add);
}

template <class F>
static sl_err map(const sl_cuda_call *call, array y, array a, array b, i64 count, number n) {
    unsigned blocks = blocks_for(count, THREADS * 8);
    int half = half_of_all(y, a, b);
    if (fit8(y, a, b) && half == SL_HALF_BF16)
        map8<F, SL_HALF_BF16><<<blocks, THREADS, 0, call->stream>>>(y, a, b, count, n, call->add);
    else if (fit8(y, a, b))
        map8<F, MIXED><<<blocks, THREADS, 0, call->stream>>>(y, a, b, count, n, call->add);
    else
        map1<F><<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(y, a, b, count, n,
                                                                          call->add);
    return launched(call);
}

template <class F> static sl_err k_map(const sl_cuda_call *call) {
    number n = {0, call->instr->attr ? (int)call->instr->attr[0].i : 0};
    return map<F>(call, out_array(call, 0), in_array(call, 0), in_array(call, 1),
                  call->instr->out[0].numel, n);
}

static sl_err k_scale(const sl_cuda_call *call) {
    return map<f_scale>(call, out_array(call, 0), in_array(call, 0), array{},
                        call->instr->out[0].numel, number{(float)call->instr->attr[0].f, 0});
}

/* Copies the bytes if both dtypes are equal, else converts. */
static sl_err k_copy(const sl_cuda_call *call) {
    const sl_operand *in = &call->instr->in[0], *out = &call->instr->out[0];
    if (in->dtype == out->dtype && !call->add) {
        i64 bytes = out->numel * (sl_dtype_is_half(out->dtype) ? 2 : 4);
        return call->out[0] == call->in[0]
                   ? SL_OK
                   : SL_CUDA(cudaMemcpyAsync(call->out[0], call->in[0], bytes,
                                             cudaMemcpyDeviceToDevice, call->stream));
    }
    return map<f_copy>(call, out_array(call, 0), in_array(call, 0), array{}, out->numel, number{});
}

/* ---- tensors at the border of a tensor-parallel region (op/shard.c) ---- */

static sl_err k_shard_fan(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    for (int i = 0; i < call->instr->out_count; i++)
        if (call->out[i] && call->out[i] != call->in[0])
            SL_TRY(
                map<f_copy>(call, out_array(call, i), in_array(call, 0), array{}, count, number{}));
    return SL_OK;
}

static sl_err k_shard_sum(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    array y = out_array(call, 0);
    sl_cuda_call adding = *call;
    adding.add = true;
    SL_TRY(k_copy(call));
    for (int i = 1; i < call->instr->in_count; i++)
        SL_TRY(map<f_copy>(&adding, y, in_array(call, i), array{}, count, number{}));
    return SL_OK;
}

/* ---- two tensors with broadcasting ---- */

struct walk { /* sizes of y, and strides of a and b, which are 0 along axes where these repeat */
    int rank;
    i64 size[SL_MAX_RANK], a[SL_MAX_RANK], b[SL_MAX_RANK];
};

static void strides_in(const sl_shape *narrow, const sl_shape *wide, i64 *out) {
    i64 next = 1;
    for (int i = wide->rank - 1; i >= 0; i--) {
        int axis = i - (wide->rank - narrow->rank);
        out[i] = axis >= 0 && narrow->dim[axis] == wide->dim[i] ? next : 0;
        next *= axis >= 0 ? narrow->dim[axis] : 1;
    }
}

template <class F>
static __global__ void zip_walk(array y, array a, array b, walk w, i64 count, bool add) {
    GRID_LOOP(i, count) {
        i64 rest = i, at_a = 0, at_b = 0;
        for (int k = w.rank - 1; k >= 0; k--) {
            i64 at = rest % w.size[k];
            rest /= w.size[k];
            at_a += at * w.a[k];
            at_b += at * w.b[k];
        }
        put(y, i, F::of(get(a, at_a), get(b, at_b), number{}), add);
    }
}

/* For a `b` that repeats along `a`: a bias, or positions that are added to every sample. */
template <class F>
static __global__ void zip_period(array y, array a, array b, i64 count, i64 period, bool add) {
    GRID_LOOP(i, count / 8) {
        eight u = get8(a, 8 * i), v = get8(b, 8 * i % period), out;
        if (add)
            out = get8(y, 8 * i);
        for (int k = 0; k < 8; k++) {
            float f = F::of(u.v[k], v.v[k], number{});
            out.v[k] = add ? out.v[k] + f : f;
        }
        put8(y, 8 * i, out);
    }
}

static bool is_period(const sl_operand *a, const sl_operand *b, const sl_operand *y) {
    int shift = y->shape.rank - b->shape.rank;
    if (a->numel != y->numel || b->numel % 8)
        return false;
    for (int i = 0; i < b->shape.rank; i++)
        if (b->shape.dim[i] != y->shape.dim[i + shift])
            return false;
    return true;
}

template <class F> static sl_err k_zip(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
    const sl_operand *a = &instr->in[0], *b = &instr->in[1], *y = &instr->out[0];
    array ya = out_array(call, 0), aa = in_array(call, 0), ba = in_array(call, 1);
    if (a->numel == y->numel && b->numel == y->numel)
        return map<F>(call, ya, aa, ba, y->numel, number{});
    if (is_period(a, b, y) && fit8(ya, aa, ba)) {
        zip_period<F><<<blocks_for(y->numel, THREADS * 8), THREADS, 0, call->stream>>>(
            ya, aa, ba, y->numel, b->numel, call->add);
        return launched(call);
    }
    walk w = {y->shape.rank};
    for (int i = 0; i < w.rank; i++)
        w.size[i] = y->shape.dim[i];
    strides_in(&a->shape, &y->shape, w.a);
    strides_in(&b->shape, &y->shape, w.b);
    zip_walk<F><<<blocks_for(y->numel, THREADS), THREADS, 0, call->stream>>>(ya, aa, ba, w,
                                                                             y->numel, call->add);
    return launched(call);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_elementwise[] = {
    {"add", k_zip<f_add>},
    {"exp", k_map<f_exp>},
    {"exp_dx", k_map<f_exp_dx>},
    {"gelu", k_map<f_gelu>},
    {"gelu_dx", k_map<f_gelu_dx>},
    {"identity", k_copy},
    {"mul", k_zip<f_mul>},
    {"relu", k_map<f_relu>},
    {"relu_dx", k_map<f_relu_dx>},
    {"reshape", k_copy},
    {"scale", k_scale},
    {"selu", k_map<f_selu>},
    {"selu_dx", k_map<f_selu_dx>},
    {"shard_enter", k_shard_fan},
    {"shard_fan", k_shard_fan},
    {"shard_sum", k_shard_sum},
    {"sigmoid", k_map<f_sigmoid>},
    {"sigmoid_dx", k_map<f_sigmoid_dx>},
    {"silu", k_map<f_silu>},
    {"silu_dx", k_map<f_silu_dx>},
    {"sub", k_zip<f_sub>},
    {"tanh", k_map<f_tanh>},
    {"tanh_dx", k_map<f_tanh_dx>},
    {},
};
/* clang-format on */
