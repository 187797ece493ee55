/* Slivers of A and B: copies that the innermost loop reads contiguously.
 *
 *   A: [kc][rows], rows <= MR          B: [kc][nv * LANES], columns past the matrix are 0
 *
 * For either layout of a matrix, the copy of A or that of B is a transposition, which is done in
 * registers. Stores of A are LANES wide: row k + 1 overwrites what row k stored past its end, so
 * a buffer of A needs LANES more floats. */
#ifndef SL_DEVICE_CPU_PRODUCT_GEMM_PACK_H
#define SL_DEVICE_CPU_PRODUCT_GEMM_PACK_H

#include "device/cpu/product/gemm_tile.h"

struct sl_gemm_matrix { /* element (i, j) is at i * ld + j; if `transposed`, at j * ld + i */
    const float *at;
    int64_t ld;
    bool transposed;
};

#define gemm_pack_a SL_ISA_NAME(gemm_pack_a)
#define gemm_pack_b SL_ISA_NAME(gemm_pack_b)
#define gemm_pack_panels SL_ISA_NAME(gemm_pack_panels)
#define gemm_pack_turned SL_ISA_NAME(gemm_pack_turned)

/* to[k * step + i] = from[i * ld + k] for i < rows <= LANES, k < kc. Lanes from `rows` up to LANES
 * become 0, or anything if the next k overwrites them (step == rows). */
void gemm_pack_turned(const float *from, int64_t ld, int64_t rows, int64_t kc, float *to,
                      int64_t step);
/* Packs rows [i, i + rows) and k in [p, p + kc) of an A that is not transposed. */
void gemm_pack_a(const struct sl_gemm_matrix *a, int64_t i, int64_t rows, int64_t p, int64_t kc,
                 float *to);
/* Packs columns [j, j + cols), cols <= NR, and k in [p, p + kc) of B. */
void gemm_pack_b(const struct sl_gemm_matrix *b, int64_t j, int64_t cols, int64_t p, int64_t kc,
                 float *to);
/* Packs `panels` whole panels of a B that is not transposed, from column j on, to to[panel * kc *
 * NR + ...]. Copies row by row, so that the matrix is read contiguously. */
void gemm_pack_panels(const struct sl_gemm_matrix *b, int64_t j, int64_t panels, int64_t p,
                      int64_t kc, float *to);

#endif
