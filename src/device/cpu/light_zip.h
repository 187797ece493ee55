/* Elementwise kernels: one or two inputs of the output's shape, or broadcast to it.
 *
 * The function of an op works on vectors; k[] are numbers that are the same for all elements.
 */
#ifndef SL_DEVICE_CPU_LIGHT_ZIP_H
#define SL_DEVICE_CPU_LIGHT_ZIP_H

#include "device/cpu/light.h"

typedef vf zip(vf a, vf b, const float k[4]);
typedef void prepare(const struct sl_cpu_call *call, float k[4]);

/* y[i] = f(a[i], b[i]) for i in [0, n); without a step the first element is repeated. */
struct run {
    float *y;
    const float *a, *b;
    bool step_a, step_b, add;
    int64_t n;
};

INLINE void zip_run(struct run r, zip *f, const float k[4]) {
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

/* Input a and b of the call have the shape of output 0. */
INLINE void zip_part(void *ctx, int thread, int threads, const int input[2], zip *f, prepare *p) {
    const struct sl_cpu_call *call = ctx;
    int64_t from, to;
    float k[4] = {0};
    p(call, k);
    sl_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    struct run run = {.y = (float *)call->out[0] + from,
                      .a = (const float *)call->in[input[0]] + from,
                      .b = (const float *)call->in[input[1]] + from,
                      .step_a = true,
                      .step_b = true,
                      .add = call->add,
                      .n = to - from};
    if (from < to)
        zip_run(run, f, k);
}

static void no_numbers(const struct sl_cpu_call *call, float k[4]) {
    (void)call;
    k[0] = 0;
}

#define ZIP_OF(name, a_, b_, f, p)                                                                 \
    static void name##_part(void *ctx, int thread, int threads) {                                  \
        zip_part(ctx, thread, threads, (const int[]){a_, b_}, f, p);                               \
    }                                                                                              \
    static void k_##name(const struct sl_cpu_call *call) {                                         \
        split(call, numel_out(call, 0), name##_part);                                              \
    }
#define MAP(name, f) ZIP_OF(name, 0, 0, f, no_numbers)
#define ZIP(name, f) ZIP_OF(name, 0, 1, f, no_numbers)

/* The same with broadcasting: runs of the innermost axis, each thread a range of elements. */
INLINE void broadcast_part(void *ctx, int thread, int threads, int second, zip *f, prepare *p) {
    const struct sl_cpu_call *call = ctx;
    const struct sl_operand *in = call->instr->in;
    struct loops l = broadcast_loops(&in[0].shape, &in[second].shape, &call->instr->out[0].shape);
    int64_t n = l.size[l.rank - 1], from, to;
    bool step_a = l.stride[0][l.rank - 1] != 0, step_b = l.stride[1][l.rank - 1] != 0;
    float k[4] = {0}, *y = call->out[0];
    p(call, k);
    sl_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    while (from < to) {
        int64_t at[2], col = from % n, length = to - from < n - col ? to - from : n - col;
        loops_seek(&l, from / n, at);
        struct run run = {.y = y + from,
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
    static void k_##name(const struct sl_cpu_call *call) {                                         \
        split(call, numel_out(call, 0), name##_part);                                              \
    }

#endif
