/* Matrix products c = a b over the threads of a worker.
 *
 *   struct sl_gemm_spec   one product: matrices or functions that pack them, use of the result
 *   struct sl_gemm_batch  several products of equal size
 *   gemm_run              computes a batch: divides it over threads (gemm.c). A thread computes
 *                         a part (gemm_block.c), or all threads compute one product together
 *                         (gemm_joint.c, gemm_amx.c)
 *   gemm_run_part         computes a part of c on the calling thread, for kernels that divide
 *                         their work themselves
 *
 * Sizes of blocks and their measurement: docs/design/0008-gemm.md. */
#ifndef SL_DEVICE_CPU_PRODUCT_GEMM_H
#define SL_DEVICE_CPU_PRODUCT_GEMM_H

#include "device/cpu/cpu.h"
#include "device/cpu/product/gemm_pack.h"

struct sl_gemm_spec;
/* Packs rows of A or columns of B, from index at[PACK_AT] on, for k in [p, p + kc), into a sliver
 * (gemm_pack.h). */
typedef void pack_fn(const struct sl_gemm_spec *gemm, const int64_t at[4], float *to);
enum { PACK_AT, PACK_COUNT, PACK_P, PACK_KC };

struct sl_gemm_spec {
    int64_t m, n, k;
    struct sl_gemm_matrix a, b;
    pack_fn *pack_a, *pack_b; /* used instead of a and b if not NULL; they read `source` */
    const void *source;
    float *c; /* [m, n], rows ldc apart */
    int64_t ldc;
    /* column j is at j / image * image_step + j % image; if image is 0, at j */
    int64_t image, image_step;
    bool add;           /* adds to c */
    const float *bias;  /* [n] or NULL */
    const float *start; /* [m, n] with rows ldc apart: added to the product; may be c; NULL: none */
    float *a_sums;      /* [m]: receives the sums of a over k, or NULL; a must be transposed */
    float *b_sums;      /* [n]: receives the sums of b over k, or NULL */
    bool add_sums;
    /* Called when a tile of c is complete and still in a cache. NULL: not called. */
    void (*finish)(const struct sl_gemm_spec *gemm, int64_t i, int64_t j, int64_t rows,
                   int64_t cols);
    float *y;       /* for finish; its rows are ldc apart */
    const float *x; /* for finish; its rows are ldc apart */
};

struct sl_gemm_part { /* rows [m0, m1), columns [n0, n1) of c */
    int64_t m0, m1, n0, n1;
};

struct sl_gemm_batch {
    struct sl_gemm_spec gemm; /* the first product */
    int64_t count;
    int64_t a_step, b_step, c_step; /* floats from one product to the next */
    float *scratch;                 /* threads * scratch_step */
    int64_t scratch_step;
    struct sl_device_pool *pool;
    int cuts; /* pieces of a thread's part; 0: each piece is a whole product */
};

#define gemm_run SL_ISA_NAME(gemm_run)
#define gemm_run_part SL_ISA_NAME(gemm_run_part)
#define gemm_part_floats SL_ISA_NAME(gemm_part_floats)
#define gemm_scratch SL_ISA_NAME(gemm_scratch)

/* Computes a batch. Sets its scratch_step, pool and cuts. */
void gemm_run(struct sl_device_pool *pool, struct sl_gemm_batch *batch);
/* Floats of scratch that a thread needs for gemm_run. */
int64_t gemm_scratch(int64_t m, int64_t n, int64_t k, int64_t count, int threads);

/* Computes one part of c. `scratch` has gemm_part_floats floats, for a part of this size or
 * larger. */
void gemm_run_part(const struct sl_gemm_spec *g, const struct sl_gemm_part *part, float *scratch);
int64_t gemm_part_floats(int64_t m, int64_t n, int64_t k);

/* Least number of rows with which AMX pays for packed images. With fewer rows packing costs more
 * than AMX saves. */
enum { AMX_CHANNELS = 96 };

#endif
