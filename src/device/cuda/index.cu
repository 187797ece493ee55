/* gather, index_select, scatter_add, one_hot, pad, roll, flip and their gradients. Values with the
 * same index are added in the order of the indices, because one thread computes one result. */
#include "device/cuda/loops.cuh"

static __device__ __forceinline__ i64 wrapped(int32_t index, i64 size) {
    return index < 0 ? index + size : index;
}

static __global__ void gather(array y, array x, const int32_t *index, lines wide, lines thin,
                              bool add) {
    GRID_LOOP(i, thin.outer * thin.size * thin.inner) {
        i64 outer = i / (thin.size * thin.inner), inner = i % thin.inner;
        i64 row = outer * wide.size + wrapped(index[i], wide.size);
        put(y, i, get(x, row * wide.inner + inner), add);
    }
}

static sl_err k_gather(const sl_cuda_call *call) {
    i64 axis = call->instr->attr[0].i, count = call->instr->out[0].numel;
    gather<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), (const int32_t *)call->in[1],
        lines_of(&call->instr->in[0].shape, axis), lines_of(&call->instr->in[1].shape, axis),
        call->add);
    return launched(call);
}

struct scattered { /* the indices and the two shapes of a scatter */
    const int32_t *index;
    lines wide, thin;
};

/* One thread per element of y: it starts with x, or with 0 if x is absent, and adds in order all of
 * src whose index names the element. */
static __global__ void scatter(array y, array x, array src, scattered s, bool add) {
    const lines wide = s.wide, thin = s.thin;
    const int32_t *index = s.index;
    GRID_LOOP(i, wide.outer * wide.size * wide.inner) {
        i64 row = i / wide.inner % wide.size, outer = i / wide.inner / wide.size;
        float sum = x.at ? get(x, i) : 0;
        for (i64 k = 0; k < thin.size; k++) {
            i64 from = (outer * thin.size + k) * thin.inner + i % wide.inner;
            if (wrapped(index[from], wide.size) == row)
                sum += get(src, from);
        }
        put(y, i, sum, add);
    }
}

static sl_err run_scatter(const sl_cuda_call *call, array x, array src) {
    i64 axis = call->instr->attr[0].i;
    scattered s = {(const int32_t *)call->in[1], lines_of(&call->instr->out[0].shape, axis),
                   lines_of(&call->instr->in[1].shape, axis)};
    scatter<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), x, src, s, call->add);
    return launched(call);
}

static sl_err k_gather_dx(const sl_cuda_call *call) {
    return run_scatter(call, array{}, in_array(call, 0));
}
static sl_err k_scatter_add(const sl_cuda_call *call) {
    return run_scatter(call, in_array(call, 0), in_array(call, 2));
}

static __global__ void select(array y, array x, const int32_t *index, lines wide, i64 count,
                              bool add) {
    GRID_LOOP(i, wide.outer * count * wide.inner) {
        i64 row =
            i / wide.inner / count * wide.size + wrapped(index[i / wide.inner % count], wide.size);
        put(y, i, get(x, row * wide.inner + i % wide.inner), add);
    }
}

static sl_err k_index_select(const sl_cuda_call *call) {
    select<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), (const int32_t *)call->in[1],
        lines_of(&call->instr->in[0].shape, call->instr->attr[0].i), call->instr->in[1].numel,
        call->add);
    return launched(call);
}

/* One thread per column of one row of dx: it adds, in fp32, what names the row. */
static __global__ void select_dx(array dx, array dy, const int32_t *index, lines wide, i64 count,
                                 bool add) {
    GRID_LOOP(i, wide.outer * wide.size * wide.inner) {
        i64 row = i / wide.inner % wide.size, outer = i / wide.inner / wide.size;
        float sum = 0;
        for (i64 k = 0; k < count; k++)
            if (wrapped(index[k], wide.size) == row)
                sum += get(dy, (outer * count + k) * wide.inner + i % wide.inner);
        put(dx, i, sum, add);
    }
}

static sl_err k_index_select_dx(const sl_cuda_call *call) {
    select_dx<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), (const int32_t *)call->in[1],
        lines_of(&call->instr->out[0].shape, call->instr->attr[0].i), call->instr->in[1].numel,
        call->add);
    return launched(call);
}

static __global__ void one_hot(array y, const int32_t *index, i64 count, i64 size, bool add) {
    GRID_LOOP(i, count * size)
    put(y, i, wrapped(index[i / size], size) == i % size ? 1.0f : 0.0f, add);
}

static sl_err k_one_hot(const sl_cuda_call *call) {
    i64 size = call->instr->attr[0].i;
    one_hot<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), (const int32_t *)call->in[0], call->instr->in[0].numel, size,
        call->add);
    return launched(call);
}

/* ---- pad: see op/pad.c ---- */

enum { CONSTANT, REFLECT, EDGE };

struct padding {
    int rank;
    i64 x[SL_MAX_RANK], y[SL_MAX_RANK], before[SL_MAX_RANK];
    int mode;
    float value;
};

static __device__ i64 pad_place(const padding &p, i64 i) {
    i64 at = 0, stride = 1;
    for (int axis = p.rank - 1; axis >= 0; axis--) {
        i64 k = i % p.y[axis] - p.before[axis], size = p.x[axis];
        if (k < 0 || k >= size) {
            if (p.mode == CONSTANT)
                return -1;
            if (p.mode == EDGE)
                k = k < 0 ? 0 : size - 1;
            else
                k = k < 0 ? -k : 2 * (size - 1) - k;
        }
        i /= p.y[axis];
        at += k * stride;
        stride *= size;
    }
    return at;
}

static padding padding_of(const sl_cuda_call *call, const sl_shape *x, const sl_shape *y) {
    const union sl_attr *attr = call->instr->attr;
    padding p = {};
    p.rank = x->rank;
    for (int i = 0; i < x->rank; i++) {
        p.x[i] = x->dim[i];
        p.y[i] = y->dim[i];
        p.before[i] = attr[0].ints.at[i];
    }
    p.mode = (int)attr[2].i;
    p.value = (float)attr[3].f;
    return p;
}

static __global__ void pad(array y, array x, padding p, i64 count, bool add) {
    GRID_LOOP(i, count) {
        i64 at = pad_place(p, i);
        put(y, i, at < 0 ? p.value : get(x, at), add);
    }
}

static sl_err k_pad(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    pad<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0),
        padding_of(call, &call->instr->in[0].shape, &call->instr->out[0].shape), count, call->add);
    return launched(call);
}

/* Sets the places of the padded axis that show place `at` of x: `at` itself, and places in the
 * margins that mirror or repeat it. Candidate c has the places [from, to). */
static __device__ void shown(const padding &p, int axis, i64 at, int c, i64 *from, i64 *to) {
    i64 size = p.x[axis], before = p.before[axis], all = p.y[axis];
    *from = *to = 0;
    if (c == 0) {
        *from = before + at;
        *to = *from + 1;
    } else if (p.mode == EDGE && c == 1 && at == 0) {
        *to = before;
    } else if (p.mode == EDGE && c == 2 && at == size - 1) {
        *from = before + size;
        *to = all;
    } else if (p.mode == REFLECT) {
        i64 mirrored = c == 1 ? before - at : before + 2 * (size - 1) - at;
        bool there = c == 1 ? at > 0 && mirrored >= 0 : at < size - 1 && mirrored < all;
        *from = there ? mirrored : 0;
        *to = there ? mirrored + 1 : 0;
    }
}

/* One thread per element of dx: it adds the elements of dy that show it. */
static __global__ void pad_dx(array dx, array dy, padding p, i64 count, bool add) {
    int each = p.mode == CONSTANT ? 1 : 3, all = 1;
    for (int k = 0; k < p.rank; k++)
        all *= each;
    GRID_LOOP(i, count) {
        float sum = 0;
        for (int combination = 0; combination < all; combination++) {
            i64 rest = i, at[SL_MAX_RANK], from[SL_MAX_RANK], to[SL_MAX_RANK];
            int c = combination;
            bool none = false;
            for (int k = p.rank - 1; k >= 0; k--) {
                shown(p, k, rest % p.x[k], c % each, &from[k], &to[k]);
                at[k] = from[k];
                none |= from[k] >= to[k];
                rest /= p.x[k];
                c /= each;
            }
            while (!none) {
                i64 place = 0;
                for (int k = 0; k < p.rank; k++)
                    place = place * p.y[k] + at[k];
                sum += get(dy, place);
                int k = p.rank - 1;
                for (; k >= 0 && ++at[k] == to[k]; k--)
                    at[k] = from[k];
                none = k < 0;
            }
        }
        put(dx, i, sum, add);
    }
}

static sl_err k_pad_dx(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    pad_dx<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0),
        padding_of(call, &call->instr->out[0].shape, &call->instr->in[0].shape), count, call->add);
    return launched(call);
}

/* ---- roll and flip ---- */

struct moving {
    int rank;
    i64 size[SL_MAX_RANK], shift[SL_MAX_RANK];
    bool turned[SL_MAX_RANK];
};

static __global__ void move(array y, array x, moving m, i64 count, bool add) {
    GRID_LOOP(i, count) {
        i64 rest = i, at = 0, stride = 1;
        for (int axis = m.rank - 1; axis >= 0; axis--) {
            i64 size = m.size[axis], k = rest % size;
            k = m.turned[axis] ? size - 1 - k : (k - m.shift[axis] + size) % size;
            rest /= size;
            at += k * stride;
            stride *= size;
        }
        put(y, i, get(x, at), add);
    }
}

static sl_err run_move(const sl_cuda_call *call, const sl_ints *shift, const sl_ints *axes) {
    const sl_shape *x = &call->instr->in[0].shape;
    moving m = {};
    m.rank = x->rank;
    for (int i = 0; i < x->rank; i++)
        m.size[i] = x->dim[i];
    for (int a = 0; a < axes->count; a++) {
        i64 axis = axes->at[a];
        m.turned[axis] ^= shift == NULL;
        m.shift[axis] = shift ? (m.shift[axis] + shift->at[a]) % m.size[axis] : 0;
    }
    move<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), m, call->instr->out[0].numel, call->add);
    return launched(call);
}

static sl_err k_roll(const sl_cuda_call *call) {
    return run_move(call, &call->instr->attr[0].ints, &call->instr->attr[1].ints);
}
static sl_err k_flip(const sl_cuda_call *call) {
    return run_move(call, NULL, &call->instr->attr[0].ints);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_indexing[] = {
    {"flip", k_flip},
    {"gather", k_gather},
    {"gather_dx", k_gather_dx},
    {"index_select", k_index_select},
    {"index_select_dx", k_index_select_dx},
    {"one_hot", k_one_hot},
    {"pad", k_pad},
    {"pad_dx", k_pad_dx},
    {"roll", k_roll},
    {"scatter_add", k_scatter_add},
    {},
};
/* clang-format on */
