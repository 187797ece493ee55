/* Elementwise kernels: one or two inputs that have the shape of the output or broadcast to it.
 *
 * An op is a function f(a, b, k) of vectors; k holds numbers that are equal for all elements.
 */
#ifndef SL_DEVICE_CPU_POINTWISE_ZIP_H
#define SL_DEVICE_CPU_POINTWISE_ZIP_H

#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/pointwise/loops.h"
#include "device/cpu/vec.h"

typedef vf zip_fn(vf a, vf b, const float k[4]);
typedef void numbers_fn(const struct sl_device_cpu_call *call, float k[4]);

/* y[i] = f(a[i], b[i]) for i in [0, n). An input without step gives element 0. */
struct sl_zip_run {
    float *y;
    const float *a, *b;
    bool step_a, step_b, add;
    int64_t n;
};

static INLINE void zip_run(struct sl_zip_run r, zip_fn *f, const float k[4]) {
    vf a0 = splat(r.step_a ? 0 : r.a[0]), b0 = splat(r.step_b ? 0 : r.b[0]);
    int64_t i = 0;
    for (; i + LANES <= r.n; i += LANES)
        put(r.y + i, f(r.step_a ? load(r.a + i) : a0, r.step_b ? load(r.b + i) : b0, k), r.add);
    if (i == r.n)
        return;
    vf a = r.step_a ? load_part(r.a + i, r.n - i) : a0;
    vf b = r.step_b ? load_part(r.b + i, r.n - i) : b0;
    put_part(r.y + i, f(a, b, k), r.n - i, r.add);
}

/* Inputs input[0] and input[1] of the call have the shape of output 0. */
static INLINE void zip_part(void *ctx, int thread, int threads, const int input[2], zip_fn *f,
                            numbers_fn *p) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t from, to;
    float k[4] = {0};
    p(call, k);
    sl_device_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    struct sl_zip_run run = {.y = (float *)call->out[0] + from,
                             .a = (const float *)call->in[input[0]] + from,
                             .b = (const float *)call->in[input[1]] + from,
                             .step_a = true,
                             .step_b = true,
                             .add = call->add,
                             .n = to - from};
    if (from < to)
        zip_run(run, f, k);
}

static inline void no_numbers(const struct sl_device_cpu_call *call, float k[4]) {
    (void)call;
    k[0] = 0;
}

/* Head of a function f(a, b, k) for ZIP_OF and BROADCAST_OF. */
#define FN(name)                                                                                   \
    inline vf name(__attribute__((unused)) vf a, __attribute__((unused)) vf b,                     \
                   __attribute__((unused)) const float k[4])

/* Defines the kernel k_NAME. */
#define ZIP_OF(name, a_, b_, f, p)                                                                 \
    static void name##_part(void *ctx, int thread, int threads) {                                  \
        zip_part(ctx, thread, threads, (const int[]){a_, b_}, f, p);                               \
    }                                                                                              \
    static void k_##name(const struct sl_device_cpu_call *call) {                                  \
        run_parts(call, numel_out(call, 0), name##_part);                                          \
    }
#define MAP(name, f) ZIP_OF(name, 0, 0, f, no_numbers)
#define ZIP(name, f) ZIP_OF(name, 0, 1, f, no_numbers)

/* With broadcasting: a part is a range of elements, computed in runs along the innermost axis. */
static INLINE void broadcast_part(void *ctx, int thread, int threads, int second, zip_fn *f,
                                  numbers_fn *p) {
    const struct sl_device_cpu_call *call = ctx;
    const struct sl_operand *in = call->instr->in;
    struct sl_kernel_loops l =
        broadcast_loops(&in[0].shape, &in[second].shape, &call->instr->out[0].shape);
    int64_t n = l.size[l.rank - 1], from, to;
    bool step_a = l.stride[0][l.rank - 1] != 0, step_b = l.stride[1][l.rank - 1] != 0;
    float k[4] = {0}, *y = call->out[0];
    p(call, k);
    sl_device_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    while (from < to) {
        int64_t at[2], col = from % n, length = to - from < n - col ? to - from : n - col;
        loops_seek(&l, from / n, at);
        struct sl_zip_run run = {.y = y + from,
                                 .a = (const float *)call->in[0] + at[0] + (step_a ? col : 0),
                                 .b = (const float *)call->in[second] + at[1] + (step_b ? col : 0),
                                 .step_a = true,
                                 .step_b = true,
                                 .add = call->add,
                                 .n = length};
        if (step_a && step_b) {
            zip_run(run, f, k);
        } else {
            run.step_a = step_a;
            run.step_b = step_b;
            zip_run(run, f, k);
        }
        from += length;
    }
}

#define BROADCAST_OF(name, b_, f, p)                                                               \
    static void name##_part(void *ctx, int thread, int threads) {                                  \
        broadcast_part(ctx, thread, threads, b_, f, p);                                            \
    }                                                                                              \
    static void k_##name(const struct sl_device_cpu_call *call) {                                  \
        run_parts(call, numel_out(call, 0), name##_part);                                          \
    }

#endif
