/* Matrix products on AMX, for instruction sets that have it. */
#ifndef SL_DEVICE_CPU_PRODUCT_GEMM_AMX_H
#define SL_DEVICE_CPU_PRODUCT_GEMM_AMX_H

#include "device/cpu/product/gemm.h"

struct sl_gemm_amx {
    /* Returns true if products with m rows and sums over k are computed on AMX. */
    bool (*suits)(int64_t m, int64_t k);
    /* Floats of scratch: for a product by all threads, and for a part by one thread. */
    int64_t (*floats)(int64_t m, int64_t n, int64_t k, int threads);
    int64_t (*part_floats)(int64_t m, int64_t n, int64_t k);
    /* Computes a part of c. With pool NULL, this thread computes it alone. */
    void (*product)(const struct sl_gemm_spec *g, const struct sl_gemm_part *part,
                    struct sl_device_pool *pool, float *scratch);
};

/* NULL if the instruction set has no AMX. */
#if SL_ISA_AMX_PARTS
extern const struct sl_gemm_amx SL_ISA_NAME(gemm_amx_row);
static const struct sl_gemm_amx *const gemm_amx = &SL_ISA_NAME(gemm_amx_row);
#else
static const struct sl_gemm_amx *const gemm_amx = NULL;
#endif

#endif
