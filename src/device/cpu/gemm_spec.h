/* What a product is: matrices or functions that pack them, and what happens to the result. */
#ifndef SL_DEVICE_CPU_GEMM_SPEC_H
#define SL_DEVICE_CPU_GEMM_SPEC_H

#include "device/cpu/gemm_pack.h"

/* Measured: docs/design/0008-gemm.md. */
#ifndef GEMM_KC
#define GEMM_KC 256
#define GEMM_KC_ALONE 448
#define GEMM_MC (12 * MR)
#define GEMM_B_FLOATS (320 * 1024) /* of a packed block of B */
#endif

struct gemm;
/* Copies rows of A or columns of B from `at` for k in [p, p + kc), as gemm_pack.h does. */
typedef void pack_fn(const struct gemm *gemm, const int64_t at[4], float *to);
enum { PACK_AT, PACK_COUNT, PACK_P, PACK_KC };

struct gemm {
    int64_t m, n, k;
    struct matrix a, b;
    pack_fn *pack_a, *pack_b; /* instead of the matrix, unless NULL; they know `source` */
    const void *source;
    float *c; /* [m, n], rows ldc apart */
    int64_t ldc;
    int64_t image, image_step; /* column j at j / image * image_step + j % image; image 0: at j */
    bool add;                  /* c += */
    const float *bias;         /* [n] or NULL */
    const float *start;        /* [m, n], rows ldc apart, added, or NULL; may be c */
    float *a_sums;             /* [m] (+)= sums of a over k, or NULL; needs a transposed */
    float *b_sums;             /* [n] (+)= sums of b over k, or NULL */
    bool add_sums;
    /* Called when a tile of c is complete and still near. */
    void (*finish)(const struct gemm *gemm, int64_t i, int64_t j, int64_t rows, int64_t cols);
    float *y;       /* for finish: rows ldc apart */
    const float *x; /* for finish: rows ldc apart */
};

struct part { /* rows [m0, m1), columns [n0, n1) of c */
    int64_t m0, m1, n0, n1;
};

/* A second pass over c costs more than a block that is a little too large. */
INLINE int64_t gemm_kc(int64_t k) {
    int64_t blocks = k <= GEMM_KC_ALONE ? 1 : (k + GEMM_KC - 1) / GEMM_KC;
    return most(1, (k + blocks - 1) / blocks);
}

INLINE int64_t gemm_nc(int64_t kc) { return most(NR, GEMM_B_FLOATS / kc / NR * NR); }

/* Floats of scratch for products of this size and any smaller one; a smaller k may have a larger
 * kc. */
INLINE int64_t gemm_floats(int64_t m, int64_t n, int64_t k) {
    int64_t kc = least(k, GEMM_KC_ALONE), line = 64 / 4;
    int64_t b = least(up_to(n, NR) * kc, most(NR * kc, GEMM_B_FLOATS));
    return up_to(least(m, GEMM_MC) * kc + VL, line) + up_to(b, line);
}

#endif
