/* Optimizer steps for CPUs with AVX2. */
#include "device/cpu/optim_rules.h"

extern const struct sl_cpu_optim sl_cpu_optim_avx2;
const struct sl_cpu_optim sl_cpu_optim_avx2 = {
    "avx2",
    sl_cpu_has_avx2,
    rules,
    norm_blocks,
};
