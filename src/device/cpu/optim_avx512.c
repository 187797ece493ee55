/* Optimizer steps for CPUs with AVX-512. */
#include "device/cpu/optim_rules.h"

extern const struct sl_cpu_optim sl_cpu_optim_avx512;
const struct sl_cpu_optim sl_cpu_optim_avx512 = {
    "avx512",
    sl_cpu_has_avx512,
    rules,
    norm_blocks,
};
