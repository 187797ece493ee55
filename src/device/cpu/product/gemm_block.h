/* One block of a matrix product: packing, tiles, prefetching, for one thread.
 *
 *   for jc in columns by NC                             B block [KC, NC] packed: L2
 *     for pc in k by KC         (order of summation)
 *       for ic in rows by MC                            A block [MC, KC] packed: L2
 *         for jr by NR                                  B sliver [KC, NR]: L1
 *           for ir by MR                                tile in registers
 *
 * KC depends on k alone and k is never divided among threads: neither the number of threads nor the
 * partition changes a bit of the result.
 */
#ifndef SL_DEVICE_CPU_PRODUCT_GEMM_BLOCK_H
#define SL_DEVICE_CPU_PRODUCT_GEMM_BLOCK_H

#include "device/cpu/product/gemm.h"
#include "device/cpu/sizes.h"

/* Measured: docs/design/0008-gemm.md. */
enum {
    GEMM_KC = 256,
    GEMM_KC_ALONE = 448,
    GEMM_MC = 12 * MR,
    GEMM_B_FLOATS = 320 * 1024, /* floats of a packed block of B */
};

/* Returns the length of the blocks of k, which depends on k alone. A second pass over c costs more
 * than a block that is slightly too large. */
static INLINE int64_t gemm_kc(int64_t k) {
    int64_t blocks = k <= GEMM_KC_ALONE ? 1 : (k + GEMM_KC - 1) / GEMM_KC;
    return max_i64(1, (k + blocks - 1) / blocks);
}

static INLINE int64_t gemm_nc(int64_t kc) { return max_i64(NR, GEMM_B_FLOATS / kc / NR * NR); }

/* Floats of scratch for products of this size or smaller; a smaller k may have a larger kc. */
static INLINE int64_t gemm_floats(int64_t m, int64_t n, int64_t k) {
    int64_t kc = min_i64(k, GEMM_KC_ALONE), line = 64 / 4;
    int64_t b = min_i64(round_up(n, NR) * kc, max_i64(NR * kc, GEMM_B_FLOATS));
    return round_up(min_i64(m, GEMM_MC) * kc + LANES, line) + round_up(b, line);
}

/* The next block of A, as rows in memory. Each tile prefetches one piece of it. */
struct sl_gemm_ahead {
    const float *at; /* NULL: nothing to prefetch */
    int64_t ld, rows, pieces;
    bool transposed;
    int64_t next; /* piece to prefetch */
};

/* The block that the loops are at. */
struct sl_gemm_block {
    const struct sl_gemm_spec *gemm;
    struct sl_gemm_part part;
    int64_t jc, nc, pc, kc, ic, mc;
    float *pack_a, *pack_b;
    bool direct_b;                /* B is read in place, not packed */
    int64_t mr;                   /* rows of a tile */
    bool sum_a;                   /* packing A also adds to a_sums */
    struct sl_gemm_matrix next_b; /* next panel of B; its `at` is NULL if there is none */
    struct sl_gemm_ahead ahead;
};

/* Returns the offset of column j of c in its row. */
static INLINE int64_t gemm_column(const struct sl_gemm_spec *g, int64_t j) {
    return g->image ? j / g->image * g->image_step + j % g->image : j;
}

#define gemm_block_look_ahead SL_ISA_NAME(gemm_block_look_ahead)
#define gemm_block_multiply SL_ISA_NAME(gemm_block_multiply)
#define gemm_block_pack_a SL_ISA_NAME(gemm_block_pack_a)
#define gemm_block_pack_b SL_ISA_NAME(gemm_block_pack_b)
#define gemm_part SL_ISA_NAME(gemm_part)

/* Pack the current block of A or B, and add to its sums over k. */
void gemm_block_pack_a(const struct sl_gemm_block *at);
void gemm_block_pack_b(const struct sl_gemm_block *at);
/* Tells that the next block of A has rows from i on and k from p on. */
void gemm_block_look_ahead(struct sl_gemm_block *at, int64_t i, int64_t p, int64_t rows,
                           int64_t cols);
/* Multiplies the packed block of A with the packed block of B. */
void gemm_block_multiply(struct sl_gemm_block *at);
/* Computes all blocks of a part of c. `scratch` has gemm_floats(rows, columns, k) floats. */
void gemm_part(const struct sl_gemm_spec *gemm, const struct sl_gemm_part *part, float *scratch);

#endif
