/* What attention and its gradient share: sizes, places, and packing of heads. */
#ifndef SL_DEVICE_CPU_ATTENTION_SIZES_H
#define SL_DEVICE_CPU_ATTENTION_SIZES_H

#include "device/cpu/gemm_pack.h"

struct attention {
    int64_t b, t, s, hq, hk, d, group; /* group: query heads per key head */
    /* From one position to the next: q, k, v and their gradients may be parts of wider rows. */
    int64_t q_step, k_step, v_step, y_step, dq_step, dk_step, dv_step;
    float scale;
    bool causal;
    const int32_t *mask; /* [B,S] or NULL */
};

/* Elements from one position to the next of an operand [B,T,H,D]. */
static int64_t step_of(const struct sl_operand *operand) {
    return operand->row ? operand->row : operand->shape.dim[2] * operand->shape.dim[3];
}

static struct attention attention_of(const struct sl_instr *instr, int first, const void *mask) {
    const int64_t *q = instr->in[first].shape.dim, *k = instr->in[first + 1].shape.dim;
    return (struct attention){
        .b = q[0],
        .t = q[1],
        .s = k[1],
        .hq = q[2],
        .hk = k[2],
        .d = q[3],
        .group = q[2] / k[2],
        .q_step = step_of(&instr->in[first]),
        .k_step = step_of(&instr->in[first + 1]),
        .v_step = step_of(&instr->in[first + 2]),
        .y_step = q[2] * q[3],
        .dq_step = first ? step_of(&instr->out[0]) : 0,
        .dk_step = first ? step_of(&instr->out[1]) : 0,
        .dv_step = first ? step_of(&instr->out[2]) : 0,
        .scale = (float)instr->attr[1].f,
        .causal = instr->attr[0].i != 0,
        .mask = mask,
    };
}

/* Where head h of query t or key s lies in a tensor with this step. */
INLINE int64_t query_at(const struct attention *z, int64_t b, int64_t h, int64_t t, int64_t step) {
    return (b * z->t + t) * step + h * z->d;
}
INLINE int64_t key_at(const struct attention *z, int64_t b, int64_t hk, int64_t s, int64_t step) {
    return (b * z->s + s) * step + hk * z->d;
}
/* Keys that causality leaves to queries up to t. */
INLINE int64_t keys_of(const struct attention *z, int64_t t) {
    return z->causal ? most(0, least(z->s, t + z->s - z->t + 1)) : z->s;
}

/* to[i * step + k] = factor from[k * NR + i]: a packed [d, NR] back into rows. */
static void unpack_turned(const float *from, int64_t rows, int64_t d, float factor, float *to,
                          int64_t step) {
    for (int64_t i = 0; i < rows; i += VL)
        for (int64_t k = 0; k < d; k += VL) {
            vf x[VL];
            for (int r = 0; r < VL; r++)
                x[r] = k + r < d ? load(from + (k + r) * NR + i) * factor : (vf){0};
            transpose(x);
            for (int64_t r = 0; r < least(VL, rows - i); r++)
                store_n(to + (i + r) * step + k, x[r], d - k);
        }
}

/* [d, NR] of rows that lie `step` apart; lanes past `rows` are 0. */
static void pack_lanes(const float *from, int64_t step, int64_t rows, int64_t d, float *to) {
    for (int64_t v = 0; v < NR; v += VL)
        pack_turned(from + least(v, rows) * step, step, most(0, least(VL, rows - v)), d, to + v,
                    NR);
}

static void scale_by(float *x, int64_t count, float factor) {
    for (int64_t i = 0; i < count; i++)
        x[i] *= factor;
}

/* Slivers of MR rows, each [d, rows]. */
static void pack_slivers(const float *from, int64_t step, int64_t rows, int64_t d, float *to) {
    for (int64_t i = 0; i < rows; i += MR) {
        int64_t high = least(MR, rows - i);
        pack_turned(from + i * step, step, high, d, to + i * d, high);
    }
}

#endif
