/* Elementwise kernels: one or two inputs of the output's shape, or broadcast to it.
 *
 * The function of an op works on vectors; k[] are numbers that are the same for all elements.
 */
#ifndef SL_DEVICE_CPU_LIGHT_ZIP_H
#define SL_DEVICE_CPU_LIGHT_ZIP_H

#include "device/cpu/light.h"

typedef vf zip(vf a, vf b, const float k[4]);
typedef void prepare(const struct sl_cpu_call *call, float k[4]);

/* y[i] = f(a[i], b[i]) for i in [0, n); a step of 0 repeats the first element. */
INLINE void zip_run(const struct sl_cpu_call *call, float *y, const float *const in[2],
                    const bool step[2], int64_t n, zip *f, const float k[4]) {
    const float *a = in[0], *b = in[1];
    vf a0 = splat(step[0] ? 0 : a[0]), b0 = splat(step[1] ? 0 : b[0]);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        put(y + i, f(step[0] ? load(a + i) : a0, step[1] ? load(b + i) : b0, k), call->add);
    if (i == n)
        return;
    vf va = step[0] ? load_part(a + i, n - i) : a0, vb = step[1] ? load_part(b + i, n - i) : b0;
    put_part(y + i, f(va, vb, k), n - i, call->add);
}

/* Input a and b of the call have the shape of output 0. */
INLINE void zip_part(void *ctx, int thread, int threads, const int input[2], zip *f, prepare *p) {
    const struct sl_cpu_call *call = ctx;
    int64_t from, to;
    float k[4] = {0};
    p(call, k);
    sl_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    const float *const in[2] = {(const float *)call->in[input[0]] + from,
                                (const float *)call->in[input[1]] + from};
    zip_run(call, (float *)call->out[0] + from, in, (const bool[]){true, true}, to - from, f, k);
}

static void no_numbers(const struct sl_cpu_call *call, float k[4]) {
    (void)call;
    (void)k;
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
    bool step[2] = {l.stride[0][l.rank - 1] != 0, l.stride[1][l.rank - 1] != 0};
    float k[4] = {0}, *y = call->out[0];
    p(call, k);
    sl_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    while (from < to) {
        int64_t at[2], col = from % n, run = to - from < n - col ? to - from : n - col;
        loops_seek(&l, from / n, at);
        const float *const x[2] = {(const float *)call->in[0] + at[0] + (step[0] ? col : 0),
                                   (const float *)call->in[second] + at[1] + (step[1] ? col : 0)};
        if (step[0] && step[1])
            zip_run(call, y + from, x, (const bool[]){true, true}, run, f, k);
        else
            zip_run(call, y + from, x, step, run, f, k);
        from += run;
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
