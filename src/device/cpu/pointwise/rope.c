/* rope: rotates pairs of features of x [B,T,H,D] by an angle that grows with the position.
 *
 * First computes the cosines and sines of all positions into scratch [T,2,D/2], in double:
 * directly at every 64th position, and by one more rotation at each position in between. Then
 * rotates every head.
 *
 * decode_rope turns rows that begin at another position in each sample: the angles of a position have the
 * same bits, because they start from the same 64th position. */
#include "op/rope.h"
#include "device/cpu/pointwise/adding.h"
#include "device/cpu/vec.h"

enum { ROPE_STRIDE = 64 };

static int64_t rope_scratch(const struct sl_instr *instr, int threads) {
    (void)threads;
    return instr->in[0].shape.dim[1] * instr->in[0].shape.dim[3] * (int64_t)sizeof(float);
}

/* Writes the cosines and sines of pair i at positions [from, to) to the table; the first ones are
 * computed directly. All callers share this function, because two inlined copies could round
 * differently. */
static __attribute__((noinline)) void rope_angles(const struct sl_instr *instr, int64_t i,
                                                  int64_t from, int64_t to, float *table) {
    const union sl_attr *attr = instr->attr;
    int64_t d = instr->in[0].shape.dim[3];
    double step = sl_op_rope_rate(attr, i, d);
    double first = (double)(attr[SL_ROPE_OFFSET].i + from) * step;
    double c = cos(first), s = sin(first), turn_c = cos(step), turn_s = sin(step);
    float sign = attr[SL_ROPE_INVERSE].i ? -1 : 1;
    for (int64_t t = 0; t < to - from; t++) {
        table[t * d + i] = (float)c;
        table[t * d + d / 2 + i] = sign * (float)s;
        double next = c * turn_c - s * turn_s;
        s = s * turn_c + c * turn_s;
        c = next;
    }
}

static void rope_table_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t count = call->instr->in[0].shape.dim[1], d = call->instr->in[0].shape.dim[3], from, to;
    sl_device_pool_range(count, ROPE_STRIDE, thread, threads, &from, &to);
    for (int64_t t = from; t < to; t += ROPE_STRIDE)
        for (int64_t i = 0; i < d / 2; i++)
            rope_angles(call->instr, i, t, to - t < ROPE_STRIDE ? to : t + ROPE_STRIDE,
                        (float *)call->scratch + t * d);
}

static INLINE void rope_half(float *y, const float *x, const float *c, const float *s, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) {
        vf a = load_at(x, i, n), b = load_at(x + n, i, n), u = load_at(c, i, n),
           v = load_at(s, i, n);
        store_at(y, a * u - b * v, i, n);
        store_at(y + n, a * v + b * u, i, n);
    }
}

static INLINE void rope_interleaved(float *y, const float *x, const float *c, const float *s,
                                    int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = a * c[i] - b * s[i];
        y[2 * i + 1] = a * s[i] + b * c[i];
    }
}

static void rope_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const int64_t *dim = call->instr->in[0].shape.dim;
    /* decode_rope has angles for every sample */
    int64_t t = call->instr->in_count > 1 ? dim[0] * dim[1] : dim[1], h = dim[2], d = dim[3], from,
            to;
    bool half = call->instr->attr[SL_ROPE_STYLE].i == SL_ROPE_HALF;
    sl_device_pool_range(dim[0] * dim[1] * h, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *c = (const float *)call->scratch + r / h % t * d;
        const float *x = (const float *)call->in[0] + r * d;
        float *y = (float *)call->out[0] + r * d;
        (half ? rope_half : rope_interleaved)(y, x, c, c + d / 2, d / 2);
    }
}

static void k_rope(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), rope_table_part);
    run_parts(call, numel_in(call, 0), rope_part);
}

ADDING_OWN(rope, rope_scratch)

/* Computes the angles of the rows of samples [from, to). Behind them lies space for the positions
 * in between. */
static void decode_rope_table_part(void *ctx, int part, int parts) {
    const struct sl_device_cpu_call *call = ctx;
    const int64_t *dim = call->instr->in[0].shape.dim;
    const int32_t *past = call->in[1];
    int64_t n = dim[1], d = dim[3], from, to;
    float *space = (float *)call->scratch + (dim[0] * n + part * ROPE_STRIDE) * d;
    sl_device_pool_range(dim[0], 1, part, parts, &from, &to);
    for (int64_t b = from; b < to; b++)
        for (int64_t at = 0; at < n;) {
            int64_t t = past[b] + at, start = t / ROPE_STRIDE * ROPE_STRIDE,
                    end = start + ROPE_STRIDE;
            end = end < past[b] + n ? end : past[b] + n;
            for (int64_t i = 0; i < d / 2; i++)
                rope_angles(call->instr, i, start, end, space);
            memcpy((float *)call->scratch + (b * n + at) * d, space + (t - start) * d,
                   sizeof(float) * (size_t)((end - t) * d));
            at += end - t;
        }
}

static int64_t decode_rope_scratch(const struct sl_instr *instr, int threads) {
    const int64_t *dim = instr->in[0].shape.dim;
    return (dim[0] * dim[1] + (threads + 1) * ROPE_STRIDE) * dim[3] * (int64_t)sizeof(float);
}

static void k_decode_rope(const struct sl_device_cpu_call *call) {
    decode_rope_table_part((void *)call, 0, 1);
    run_parts(call, numel_in(call, 0), rope_part);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(rope_kernels)[] = {
    {ADDING_ROW(rope)},
    {"decode_rope", k_decode_rope, decode_rope_scratch},
    {0},
};
