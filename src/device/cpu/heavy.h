/* The heavy kernels of one instruction set; included by one file per set, which names the table. */
#include "device/cpu/attention_grad.h"
#include "device/cpu/matmul.h"

extern const struct sl_cpu_kernel HEAVY_TABLE[];

const struct sl_cpu_kernel HEAVY_TABLE[] = {
    {"attention", attention, attention_scratch},
    {"attention_dqkv", attention_dqkv, attention_dqkv_scratch},
    MATMUL_ROWS,
    {0},
};
