/* Tables of steps and all-reduces from other sources.
 *
 *     # GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,
 *         tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)
 *     size(B),count,type,time(ns),busbw(GB/s),...
 *
 * Columns are found by their names; others are ignored. */
#ifndef SL_COST_MEASURED_H
#define SL_COST_MEASURED_H

#include "base/arena.h"
#include "base/err.h"

#include <stdint.h>

enum { SL_MEASURED_ROWS = 1 << 16, SL_MEASURED_BYTES = 16 << 20 };

struct sl_measured_step {
    int line;
    int64_t devices, batch, micro, hidden, heads, layers, sequence, tp, dp, pp;
    double seconds;
};

struct sl_measured_sum {
    double bytes, seconds;
};

/* SL_ERR_INPUT with file:line if the table is wrong. */
SL_MUST_CHECK sl_err sl_cost_measured_steps(struct sl_arena *arena, const char *file,
                                            const char *text, size_t length,
                                            const struct sl_measured_step **out, int *count);
SL_MUST_CHECK sl_err sl_cost_measured_sums(struct sl_arena *arena, const char *file,
                                           const char *text, size_t length,
                                           const struct sl_measured_sum **out, int *count);

#endif
