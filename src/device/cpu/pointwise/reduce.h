/* Sums over the rows of a matrix, for kernels that reduce. */
#ifndef SL_DEVICE_CPU_POINTWISE_REDUCE_H
#define SL_DEVICE_CPU_POINTWISE_REDUCE_H

#include "device/cpu/pointwise/kernel.h"

/* Largest number of blocks of rows that are summed separately. */
enum { BLOCKS = 64 };

/* Sums x [outer, rows, n] to y [outer, n]. */
struct sl_sum_job {
    const struct sl_device_cpu_call *call;
    const float *x;
    float *y, *partial;
    int64_t outer, rows, n, blocks;
    float factor;
};

#define sum_columns SL_ISA_NAME(sum_columns)

/* Splits the columns over threads. Adds to y if the call adds. */
void sum_columns(struct sl_sum_job *job);

#endif
