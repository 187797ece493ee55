/* The heavy kernels of one instruction set; included by one file per set, which names the table. */
#include "device/cpu/attention_grad.h"
#include "device/cpu/conv2d_dw.h"
#include "device/cpu/lstm_grad.h"
#include "device/cpu/matmul.h"

extern const struct sl_cpu_kernel HEAVY_TABLE[];

const struct sl_cpu_kernel HEAVY_TABLE[] = {
    {"attention", attention, attention_scratch},
    {"attention_dqkv", attention_dqkv, attention_dqkv_scratch},
    {"conv2d", conv2d, conv2d_scratch},
    {"conv2d_dw", conv2d_dw, conv2d_dw_scratch},
    {"conv2d_dx", conv2d_dx, conv2d_dx_scratch},
    {"lstm", lstm, lstm_scratch},
    {"lstm_dgates", lstm_dgates, lstm_dgates_scratch},
    {"lstm_hprev", lstm_hprev, NULL},
    MATMUL_ROWS,
    {0},
};
