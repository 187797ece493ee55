/* Kernels that run on any CPU. */
#include "device/cpu/cpu.h"

const struct sl_cpu_kernel sl_cpu_kernels_any[] = {
    {0},
};
