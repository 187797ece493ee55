/* The heads of attention: their sizes, their places in memory, and packing for tiles. */
#include "device/cpu/product/attention_heads.h"

#include "device/cpu/vec_transpose.h"

/* Returns the number of elements from one position to the next of an operand [B,T,H,D]. */
static int64_t step_of(const struct sl_operand *operand) {
    return operand->row ? operand->row : operand->shape.dim[2] * operand->shape.dim[3];
}

struct sl_attention attention_of(const struct sl_instr *instr, int first, const void *mask) {
    const int64_t *q = instr->in[first].shape.dim, *k = instr->in[first + 1].shape.dim;
    return (struct sl_attention){
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

void heads_unpack(const float *from, int64_t rows, int64_t d, float factor, float *to,
                  int64_t step) {
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t k = 0; k < d; k += LANES) {
            vf x[LANES];
            for (int r = 0; r < LANES; r++)
                x[r] = k + r < d ? load(from + (k + r) * NR + i) * factor : (vf){0};
            transpose(x);
            for (int64_t r = 0; r < min_i64(LANES, rows - i); r++)
                store_n(to + (i + r) * step + k, x[r], d - k);
        }
}

void heads_pack_lanes(const float *from, int64_t step, int64_t rows, int64_t d, float *to) {
    for (int64_t v = 0; v < NR; v += LANES)
        gemm_pack_turned(from + min_i64(v, rows) * step, step, max_i64(0, min_i64(LANES, rows - v)),
                         d, to + v, NR);
}

void heads_scale(float *x, int64_t count, float factor) {
    for (int64_t i = 0; i < count; i++)
        x[i] *= factor;
}

void heads_pack_slivers(const float *from, int64_t step, int64_t rows, int64_t d, float *to) {
    for (int64_t i = 0; i < rows; i += MR) {
        int64_t high = min_i64(MR, rows - i);
        gemm_pack_turned(from + i * step, step, high, d, to + i * d, high);
    }
}
