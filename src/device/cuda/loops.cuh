/* Loops over the kept and over the reduced axes of a tensor. */
#ifndef SL_DEVICE_CUDA_LOOPS_CUH
#define SL_DEVICE_CUDA_LOOPS_CUH

#include "device/cuda/kernels.cuh"

struct axes { /* axes after merging, the innermost last */
    int rank;
    i64 size[SL_MAX_RANK];
    bool summed[SL_MAX_RANK];
};

static inline axes axes_of(const sl_shape *x, const bool *summed) {
    axes a = {};
    for (int i = 0; i < x->rank; i++) {
        if (x->dim[i] == 1)
            continue;
        if (a.rank && a.summed[a.rank - 1] == summed[i]) {
            a.size[a.rank - 1] *= x->dim[i];
            continue;
        }
        a.size[a.rank] = x->dim[i];
        a.summed[a.rank++] = summed[i];
    }
    if (!a.rank)
        a = {1, {1}, {true}};
    return a;
}

struct one_loops { /* for one result: strides in x of the kept and of the summed axes */
    int kept, summed;
    i64 kept_size[SL_MAX_RANK], kept_stride[SL_MAX_RANK];
    i64 size[SL_MAX_RANK], stride[SL_MAX_RANK];
    i64 count; /* number of summed elements */
};

/* Return the offset in x of result r, and that of its reduced element i relative to it. */
static __device__ __forceinline__ i64 kept_at(const one_loops &l, i64 r) {
    i64 base = 0;
    for (int k = l.kept - 1; k >= 0; k--) {
        base += r % l.kept_size[k] * l.kept_stride[k];
        r /= l.kept_size[k];
    }
    return base;
}
static __device__ __forceinline__ i64 reduced_at(const one_loops &l, i64 i) {
    i64 at = 0;
    for (int k = l.summed - 1; k >= 0; k--) {
        at += i % l.size[k] * l.stride[k];
        i /= l.size[k];
    }
    return at;
}

static inline one_loops loops_of(const axes &a, i64 *results) {
    one_loops l = {};
    i64 stride = 1;
    l.count = *results = 1;
    for (int i = a.rank - 1; i >= 0; i--) {
        if (a.summed[i])
            l.count *= a.size[i];
        else
            *results *= a.size[i];
    }
    for (int i = 0; i < a.rank; i++) {
        i64 *size = a.summed[i] ? l.size : l.kept_size;
        size[a.summed[i] ? l.summed++ : l.kept++] = a.size[i];
    }
    int kept = l.kept, summed = l.summed;
    for (int i = a.rank - 1; i >= 0; i--) {
        if (a.summed[i])
            l.stride[--summed] = stride;
        else
            l.kept_stride[--kept] = stride;
        stride *= a.size[i];
    }
    return l;
}

/* Views a tensor as [outer, size, inner] around one axis. */
struct lines {
    i64 outer, size, inner;
    __device__ i64 at(i64 line) const { return line / inner * size * inner + line % inner; }
};

static inline lines lines_of(const sl_shape *shape, i64 axis) {
    lines l = {1, shape->dim[axis], 1};
    for (int i = 0; i < shape->rank; i++)
        if (i != axis)
            *(i < axis ? &l.outer : &l.inner) *= shape->dim[i];
    return l;
}

#endif
