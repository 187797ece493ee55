/* Elementwise kernels of up to three inputs, each broadcast to the shape of the output.
 *
 * A part is a range of elements; it is computed in runs along the innermost merged axis, where the
 * step of each input is 1 or 0.
 */
#ifndef SL_DEVICE_CPU_POINTWISE_ZIP3_H
#define SL_DEVICE_CPU_POINTWISE_ZIP3_H

#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/pointwise/loops.h"
#include "device/cpu/vec.h"

enum { ZIP3 = 3 };

struct sl_zip3 {
    int rank;
    int64_t size[SL_MAX_RANK], stride[ZIP3][SL_MAX_RANK];
};

/* Elements are 4 bytes, float or int. */
struct sl_zip3_run {
    void *y;
    const void *in[ZIP3];
    bool step[ZIP3], add;
    int64_t n;
};

static inline void zip3_axis(struct sl_zip3 *z, int64_t size, const int64_t stride[ZIP3]) {
    int last = z->rank - 1;
    bool merged = last >= 0;
    for (int i = 0; i < ZIP3 && merged; i++)
        merged = z->stride[i][last] == stride[i] * size;
    if (!merged)
        last = z->rank++;
    z->size[last] = merged ? z->size[last] * size : size;
    for (int i = 0; i < ZIP3; i++)
        z->stride[i][last] = stride[i];
}

static inline struct sl_zip3 zip3_of(const struct sl_instr *instr) {
    const struct sl_shape *wide = &instr->out[0].shape;
    struct sl_zip3 z = {0};
    int64_t stride[ZIP3][SL_MAX_RANK] = {{0}}, one[ZIP3] = {0};
    for (int i = 0; i < instr->in_count; i++)
        broadcast_strides(&instr->in[i].shape, wide, stride[i]);
    for (int axis = 0; axis < wide->rank; axis++)
        if (wide->dim[axis] != 1)
            zip3_axis(&z, wide->dim[axis],
                      (int64_t[]){stride[0][axis], stride[1][axis], stride[2][axis]});
    if (z.rank == 0)
        zip3_axis(&z, 1, one);
    return z;
}

typedef void zip3_fn(const struct sl_zip3_run *run, const struct sl_device_cpu_call *call);

static INLINE void zip3_part(void *ctx, int thread, int threads, zip3_fn *f) {
    const struct sl_device_cpu_call *call = ctx;
    const struct sl_zip3 z = zip3_of(call->instr);
    int last = z.rank - 1;
    int64_t n = z.size[last], from, to;
    sl_device_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    while (from < to) {
        int64_t col = from % n, row = from / n, at[ZIP3];
        struct sl_zip3_run run = {.y = (float *)call->out[0] + from, .add = call->add};
        run.n = to - from < n - col ? to - from : n - col;
        for (int i = 0; i < ZIP3; i++)
            at[i] = col * z.stride[i][last];
        for (int axis = last - 1; axis >= 0; axis--) {
            for (int i = 0; i < ZIP3; i++)
                at[i] += row % z.size[axis] * z.stride[i][axis];
            row /= z.size[axis];
        }
        for (int i = 0; i < ZIP3; i++) {
            run.in[i] = i < call->instr->in_count ? (const float *)call->in[i] + at[i] : NULL;
            run.step[i] = z.stride[i][last] != 0;
        }
        f(&run, call);
        from += run.n;
    }
}

/* Defines k_NAME; f computes its runs. */
#define ZIP3_OF(name, f)                                                                           \
    static void name##_part(void *ctx, int thread, int threads) {                                  \
        zip3_part(ctx, thread, threads, f);                                                        \
    }                                                                                              \
    static void k_##name(const struct sl_device_cpu_call *call) {                                  \
        run_parts(call, numel_out(call, 0), name##_part);                                          \
    }

/* `steps` says that every input has step 1. */
static INLINE vf zip3_load(const struct sl_zip3_run *r, int i, int64_t at, int64_t n, bool steps) {
    const float *x = r->in[i];
    return steps || r->step[i] ? load_n(x + at, n) : splat(x[0]);
}

typedef vf vec3_fn(vf a, vf b, vf c);

static INLINE void vec3_steps(const struct sl_zip3_run *r, vec3_fn *f, bool steps) {
    float *y = r->y;
    int64_t i = 0;
    for (; i + LANES <= r->n; i += LANES)
        put(y + i,
            f(zip3_load(r, 0, i, LANES, steps), zip3_load(r, 1, i, LANES, steps),
              zip3_load(r, 2, i, LANES, steps)),
            r->add);
    int64_t n = r->n - i;
    if (n > 0)
        put_part(y + i,
                 f(zip3_load(r, 0, i, n, steps), zip3_load(r, 1, i, n, steps),
                   zip3_load(r, 2, i, n, steps)),
                 n, r->add);
}

/* Computes a run of a function of three vectors. */
static INLINE void vec3_run(const struct sl_zip3_run *r, vec3_fn *f) {
    if (r->step[0] && r->step[1] && r->step[2])
        vec3_steps(r, f, true);
    else
        vec3_steps(r, f, false);
}

#endif
