/* c = a b, computed by all threads of a worker together. */
#ifndef SL_DEVICE_CPU_PRODUCT_GEMM_JOINT_H
#define SL_DEVICE_CPU_PRODUCT_GEMM_JOINT_H

#include "device/cpu/product/gemm.h"

#define joint_floats SL_ISA_NAME(joint_floats)
#define joint_joins SL_ISA_NAME(joint_joins)
#define joint_product SL_ISA_NAME(joint_product)

/* Returns true if `count` products of m rows are computed this way: few products, enough rows per
 * thread. */
bool joint_joins(int64_t m, int64_t count, int threads);
/* Floats of scratch per thread. */
int64_t joint_floats(int64_t m, int64_t n, int64_t k, int threads);
/* `scratch` is the scratch of all threads. */
void joint_product(const struct sl_gemm_spec *g, struct sl_device_pool *pool, float *scratch);

#endif
