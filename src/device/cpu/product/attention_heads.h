/* The heads of attention: their sizes, their places in memory, and packing for tiles. */
#ifndef SL_DEVICE_CPU_PRODUCT_ATTENTION_HEADS_H
#define SL_DEVICE_CPU_PRODUCT_ATTENTION_HEADS_H

#include "device/cpu/product/gemm_pack.h"
#include "device/cpu/sizes.h"
#include "pass/program.h"

struct sl_attention {
    int64_t b, t, s, hq, hk, d, group; /* group is the number of query heads per key head */
    /* Elements from one position to the next; an operand may be a part of wider rows. */
    int64_t q_step, k_step, v_step, y_step, dq_step, dk_step, dv_step;
    float scale;
    bool causal;
    const int32_t *mask; /* [B,S] or NULL */
};

#define attention_of SL_ISA_NAME(attention_of)
#define heads_pack_lanes SL_ISA_NAME(heads_pack_lanes)
#define heads_pack_slivers SL_ISA_NAME(heads_pack_slivers)
#define heads_scale SL_ISA_NAME(heads_scale)
#define heads_unpack SL_ISA_NAME(heads_unpack)

/* `first` is the index of the operand q: 0, or 1 for the gradient, whose operand 0 is dy. */
struct sl_attention attention_of(const struct sl_instr *instr, int first, const void *mask);

/* Return the offset of head h of query t, or of key s, in a tensor with this step. */
static INLINE int64_t query_at(const struct sl_attention *z, int64_t b, int64_t h, int64_t t,
                               int64_t step) {
    return (b * z->t + t) * step + h * z->d;
}
static INLINE int64_t key_at(const struct sl_attention *z, int64_t b, int64_t hk, int64_t s,
                             int64_t step) {
    return (b * z->s + s) * step + hk * z->d;
}
/* Returns the number of keys that query t sees. */
static INLINE int64_t keys_of(const struct sl_attention *z, int64_t t) {
    return z->causal ? max_i64(0, min_i64(z->s, t + z->s - z->t + 1)) : z->s;
}

/* Packs rows that are `step` apart into [d, NR]. Lanes from `rows` on become 0. */
void heads_pack_lanes(const float *from, int64_t step, int64_t rows, int64_t d, float *to);
/* Packs rows into slivers of MR rows, each [d, rows]. */
void heads_pack_slivers(const float *from, int64_t step, int64_t rows, int64_t d, float *to);
/* to[i * step + k] = factor * from[k * NR + i]: from packed [d, NR] back to rows. */
void heads_unpack(const float *from, int64_t rows, int64_t d, float factor, float *to,
                  int64_t step);
void heads_scale(float *x, int64_t count, float factor);

#endif
