/* The heavy kernels of one instruction set; included by one file per set, which names the table. */
#include "device/cpu/matmul.h"

extern const struct sl_cpu_kernel HEAVY_TABLE[];

const struct sl_cpu_kernel HEAVY_TABLE[] = {
    MATMUL_ROWS,
    {0},
};
