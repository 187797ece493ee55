/* Optimizer steps for any CPU. */
#include "device/cpu/optim_rules.h"

extern const struct sl_cpu_optim sl_cpu_optim_any;
const struct sl_cpu_optim sl_cpu_optim_any = {
    "any",
    sl_cpu_has_any,
    rules,
    norm_blocks,
};
