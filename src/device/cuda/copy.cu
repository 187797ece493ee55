/* Kernels that only move elements: transpose, slice, split, concat, broadcasts, upsample, and the
 * output of an lstm delayed by one step. Each is a loop over sizes with a stride in each tensor; over
 * eight elements at a time where the last axis is contiguous in both. Ranges of channels and
 * upsampling know images with their channels last. */
#include "device/cuda/kernels.cuh"

struct path {
    int rank;
    i64 size[SL_MAX_RANK], to[SL_MAX_RANK], from[SL_MAX_RANK];
};

static __global__ void move_float(array y, array x, path p, i64 count, float factor, bool add) {
    GRID_LOOP(i, count) {
        i64 rest = i, to = 0, from = 0;
        for (int k = p.rank - 1; k >= 0; k--) {
            i64 at = rest % p.size[k];
            rest /= p.size[k];
            to += at * p.to[k];
            from += at * p.from[k];
        }
        put(y, to, factor * get(x, from), add);
    }
}

/* The last axis counts in eights. */
template <int HALF> static __global__ void move_eights(array y, array x, path p, unsigned count) {
    y.half = x.half = HALF;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += gridDim.x * blockDim.x) {
        unsigned rest = i;
        i64 to = 0, from = 0;
        for (int k = p.rank - 1; k >= 0; k--) {
            unsigned at = rest % (unsigned)p.size[k];
            rest /= (unsigned)p.size[k];
            to += at * p.to[k];
            from += at * p.from[k];
        }
        put8(y, to, get8(x, from));
    }
}

static __global__ void move_int(int32_t *y, const int32_t *x, path p, i64 count) {
    GRID_LOOP(i, count) {
        i64 rest = i, to = 0, from = 0;
        for (int k = p.rank - 1; k >= 0; k--) {
            i64 at = rest % p.size[k];
            rest /= p.size[k];
            to += at * p.to[k];
            from += at * p.from[k];
        }
        y[to] = x[from];
    }
}

/* Merges adjacent axes that are contiguous in both tensors. */
static path merged(const path &p) {
    path out = {};
    for (int k = 0; k < p.rank; k++) {
        int last = out.rank - 1;
        if (p.size[k] == 1)
            continue;
        if (last >= 0 && out.to[last] == p.to[k] * p.size[k] &&
            out.from[last] == p.from[k] * p.size[k]) {
            out.size[last] *= p.size[k];
            out.to[last] = p.to[k];
            out.from[last] = p.from[k];
            continue;
        }
        out.size[out.rank] = p.size[k];
        out.to[out.rank] = p.to[k];
        out.from[out.rank++] = p.from[k];
    }
    return out;
}

static array offset(array a, i64 elements) {
    return {(char *)a.at + elements * (a.half ? 2 : 4), a.half};
}

struct move {
    array y, x;
    path way;
    i64 to, from; /* offset of the first element in each tensor */
    float factor;
    bool is_int;
};

/* Can it move eights? Then changes the path to count in eights. */
static bool in_eights(const move &m, path *way, array y, array x) {
    int last = way->rank - 1;
    if (last < 0 || way->to[last] != 1 || way->from[last] != 1 || way->size[last] % 8 ||
        m.factor != 1 || !y.half || y.half != x.half || !fit8(y, x))
        return false;
    i64 count = 1;
    for (int k = 0; k < last; k++) {
        count *= way->size[k];
        if (way->to[k] % 8 || way->from[k] % 8)
            return false;
    }
    if (count * way->size[last] / 8 >= (i64)1 << 31)
        return false;
    way->size[last] /= 8;
    way->to[last] = way->from[last] = 8;
    return true;
}

static i64 count_of(const path &way) {
    i64 count = 1;
    for (int k = 0; k < way.rank; k++)
        count *= way.size[k];
    return count;
}

static sl_err run_move(const sl_cuda_call *call, const move &m) {
    path way = merged(m.way);
    array y = offset(m.y, m.to), x = offset(m.x, m.from);
    bool eights = !m.is_int && !call->add && in_eights(m, &way, y, x);
    i64 count = count_of(way);
    if (eights && y.half == SL_HALF_BF16)
        move_eights<SL_HALF_BF16>
            <<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(y, x, way, (unsigned)count);
    else if (eights)
        move_eights<SL_HALF_FP16>
            <<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(y, x, way, (unsigned)count);
    else if (m.is_int)
        move_int<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
            (int32_t *)y.at, (const int32_t *)x.at, way, count);
    else
        move_float<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(y, x, way, count,
                                                                             m.factor, call->add);
    return launched(call);
}

static move move_of(const sl_cuda_call *call, int out, int in) {
    move m = {};
    m.y = out_array(call, out);
    m.x = in_array(call, in);
    m.factor = 1;
    m.is_int = call->instr->out[out].dtype == SL_INT;
    return m;
}

static void packed(const sl_shape *shape, i64 *stride) {
    i64 next = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        stride[i] = next;
        next *= shape->dim[i];
    }
}

static sl_err k_transpose(const sl_cuda_call *call) {
    const sl_shape *x = &call->instr->in[0].shape, *y = &call->instr->out[0].shape;
    move m = move_of(call, 0, 0);
    i64 from[SL_MAX_RANK];
    packed(x, from);
    packed(y, m.way.to);
    m.way.rank = y->rank;
    for (int i = 0; i < y->rank; i++) {
        m.way.size[i] = y->dim[i];
        m.way.from[i] = from[call->instr->attr[0].ints.at[i]];
    }
    return run_move(call, m);
}

static sl_err broadcast(const sl_cuda_call *call, float factor) {
    const sl_shape *x = &call->instr->in[0].shape, *y = &call->instr->out[0].shape;
    move m = move_of(call, 0, 0);
    i64 next = 1;
    m.factor = factor;
    m.way.rank = y->rank;
    packed(y, m.way.to);
    for (int i = y->rank - 1; i >= 0; i--) {
        int axis = i - (y->rank - x->rank);
        m.way.size[i] = y->dim[i];
        m.way.from[i] = axis >= 0 && x->dim[axis] == y->dim[i] ? next : 0;
        next *= axis >= 0 ? x->dim[axis] : 1;
    }
    return run_move(call, m);
}

static sl_err k_broadcast_to(const sl_cuda_call *call) { return broadcast(call, 1); }
static sl_err k_broadcast_mean(const sl_cuda_call *call) {
    return broadcast(call,
                     (float)((double)call->instr->in[0].numel / (double)call->instr->out[0].numel));
}

/* Views a tensor as [outer, size, inner], where `size` is the length of one axis. */
struct around {
    i64 outer, size, inner;
};
static around around_of(const sl_shape *shape, i64 axis, bool last) {
    around a = {1, shape->dim[axis], 1};
    if (last) { /* the axis of channels */
        a.outer = shape->dim[0] * shape->dim[2] * shape->dim[3];
        return a;
    }
    for (int i = 0; i < axis; i++)
        a.outer *= shape->dim[i];
    for (int i = (int)axis + 1; i < shape->rank; i++)
        a.inner *= shape->dim[i];
    return a;
}

/* A range of an axis: the length of the axis, and its first item. */
struct items {
    i64 size, first;
};
static sl_err move_items(const sl_cuda_call *call, move m, const around &a, i64 count, items y,
                         items x) {
    m.way = path{2, {a.outer, count * a.inner}, {y.size * a.inner, 1}, {x.size * a.inner, 1}};
    m.to = y.first * a.inner;
    m.from = x.first * a.inner;
    return run_move(call, m);
}

static sl_err k_slice(const sl_cuda_call *call) {
    const union sl_attr *attr = call->instr->attr;
    around x = around_of(&call->instr->in[0].shape, attr[0].i, call->last.in & 1);
    i64 count = attr[2].i - attr[1].i;
    return move_items(call, move_of(call, 0, 0), x, count, {count, 0}, {x.size, attr[1].i});
}

static __global__ void fill_zero(array y, i64 count) { GRID_LOOP(i, count) put(y, i, 0); }

static sl_err k_slice_dx(const sl_cuda_call *call) {
    const union sl_attr *attr = call->instr->attr;
    bool last = call->last.out & 1;
    around dx = around_of(&call->instr->out[0].shape, attr[0].i, last);
    around dy = around_of(&call->instr->in[0].shape, attr[0].i, last);
    if (!call->add)
        fill_zero<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
            out_array(call, 0), call->instr->out[0].numel);
    return move_items(call, move_of(call, 0, 0), dy, dy.size, {dx.size, attr[1].i}, {dy.size, 0});
}

static sl_err k_split(const sl_cuda_call *call) {
    around x = around_of(&call->instr->in[0].shape, call->instr->attr[0].i, false);
    i64 each = x.size / call->instr->out_count;
    for (int p = 0; p < call->instr->out_count; p++)
        SL_TRY(move_items(call, move_of(call, p, 0), x, each, {each, 0}, {x.size, p * each}));
    return SL_OK;
}

static sl_err k_concat(const sl_cuda_call *call) {
    bool last = call->last.out & 1;
    around y = around_of(&call->instr->out[0].shape, call->instr->attr[0].i, last);
    i64 to = 0;
    for (int i = 0; i < call->instr->in_count; i++) {
        around x = around_of(&call->instr->in[i].shape, call->instr->attr[0].i, last);
        SL_TRY(move_items(call, move_of(call, 0, i), x, x.size, {y.size, to}, {x.size, 0}));
        to += x.size;
    }
    return SL_OK;
}

/* Every pixel of x becomes f0 x f1 pixels of y. */
static sl_err k_upsample(const sl_cuda_call *call) {
    const int64_t *f = call->instr->attr[0].ints.at;
    const int64_t *x = call->instr->in[0].shape.dim;
    i64 width = x[3] * f[1];
    move m = move_of(call, 0, 0);
    i64 row = x[3] * x[1];
    if (call->last.in & 1) {
        m.way = path{5,
                     {x[0] * x[2], f[0], x[3], f[1], x[1]},
                     {f[0] * f[1] * row, f[1] * row, f[1] * x[1], x[1], 1},
                     {row, 0, x[1], 0, 1}};
        return run_move(call, m);
    }
    m.way = path{
        4, {x[0] * x[1] * x[2], f[0], x[3], f[1]}, {f[0] * width, width, f[1], 1}, {x[3], 0, 1, 0}};
    return run_move(call, m);
}

struct factors {
    i64 width, f0, f1; /* width of a row of dx */
};

static __global__ void upsample_dx(array dx, array dy, i64 count, factors f, bool add) {
    GRID_LOOP(i, count) {
        i64 row = i / f.width, col = i % f.width;
        float sum = 0;
        for (i64 a = 0; a < f.f0; a++)
            for (i64 b = 0; b < f.f1; b++)
                sum += get(dy, (row * f.f0 + a) * f.width * f.f1 + col * f.f1 + b);
        put(dx, i, sum, add);
    }
}

/* With the channels last: eight of a pixel per thread; `n` channels. */
static __global__ void upsample_last_dx(array dx, array dy, unsigned count, factors f, unsigned n,
                                        bool add) {
    unsigned eights = n / 8;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += gridDim.x * blockDim.x) {
        unsigned c = i % eights * 8, pixel = i / eights, col = pixel % (unsigned)f.width;
        i64 row = pixel / (unsigned)f.width, at = (i64)pixel * n + c;
        eight sum = {};
        for (i64 a = 0; a < f.f0; a++)
            for (i64 b = 0; b < f.f1; b++) {
                eight e = get8(dy, ((row * f.f0 + a) * f.width * f.f1 + col * f.f1 + b) * n + c);
                for (int k = 0; k < 8; k++)
                    sum.v[k] += e.v[k];
            }
        eight old = add ? get8(dx, at) : eight{};
        for (int k = 0; k < 8; k++)
            sum.v[k] += old.v[k];
        put8(dx, at, sum);
    }
}

static sl_err k_upsample_dx(const sl_cuda_call *call) {
    const int64_t *f = call->instr->attr[0].ints.at;
    const sl_operand *dx = &call->instr->out[0];
    if (call->last.out & 1) {
        unsigned count = (unsigned)(dx->numel / 8);
        upsample_last_dx<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
            out_array(call, 0), in_array(call, 0), count, factors{dx->shape.dim[3], f[0], f[1]},
            (unsigned)dx->shape.dim[1], call->add);
        return launched(call);
    }
    upsample_dx<<<blocks_for(dx->numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), dx->numel, factors{dx->shape.dim[3], f[0], f[1]},
        call->add);
    return launched(call);
}

struct sequence {
    i64 count, steps, h;
};

static __global__ void hprev(array out, array y, array h0, sequence z, bool add) {
    GRID_LOOP(i, z.count) {
        i64 h = z.h, j = i % h, t = i / h % z.steps, b = i / h / z.steps;
        put(out, i, t ? get(y, i - h) : h0.at ? get(h0, b * h + j) : 0, add);
    }
}

static sl_err k_lstm_hprev(const sl_cuda_call *call) {
    const sl_operand *y = &call->instr->in[0];
    hprev<<<blocks_for(y->numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1),
        sequence{y->numel, y->shape.dim[1], y->shape.dim[2]}, call->add);
    return launched(call);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_copies[] = {
    {"broadcast_mean", k_broadcast_mean},
    {"broadcast_to", k_broadcast_to},
    {"concat", k_concat},
    {"lstm_hprev", k_lstm_hprev},
    {"slice", k_slice},
    {"slice_dx", k_slice_dx},
    {"split", k_split},
    {"transpose", k_transpose},
    {"upsample", k_upsample},
    {"upsample_dx", k_upsample_dx},
    {},
};
/* clang-format on */
