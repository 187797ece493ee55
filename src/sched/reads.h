/* Which weights each pass of a schedule reads, by stage, direction and micro-batch. This is all that
 * a run needs that executes the micro-batches one after another with the weights of a pipeline
 * (docs/design/0033).
 *
 * The schedule repeats its period, so the table has a fixed size for a run of any length. */
#ifndef SL_SCHED_READS_H
#define SL_SCHED_READS_H

#include "sched/sched.h"

/* Weight version, and steps that it is predicted beyond it. */
struct sl_read {
    int32_t version, ahead;
};

struct sl_reads_list {
    struct sl_read *at[SL_SEGMENT_COUNT];
    int64_t count[SL_SEGMENT_COUNT]; /* micro-batches; of the period: of one repetition */
};

struct sl_reads {
    const struct sl_sched *sched;
    int32_t micros;                /* per iteration, of every stage */
    struct sl_reads_list (*of)[2]; /* [stage][backward] */
    int64_t border;                /* iterations at each end, all others are alike */
    bool same;                     /* a backward pass reads what its forward pass read */
    bool newest[2]; /* [backward] all read the newest version of a serial run, not predicted */
    bool uniform;   /* all stages read the same */
};

/* Reads a lowered schedule. SL_ERR_REFUSED: replicas, stages with different micro-batch sizes, sums of
 * gradients in another order than ascending; with `statistics`, the same for forward passes. */
SL_MUST_CHECK sl_err sl_sched_reads_open(struct sl_arena *arena, const struct sl_sched *sched,
                                         bool statistics, struct sl_reads *out);

/* The weights of a pass of micro-batch `micro`, counted over the whole run. Stages without a backward
 * pass: those of the forward pass. */
struct sl_read sl_sched_read_of(const struct sl_reads *reads, int stage, bool backward,
                                int64_t micro);

/* Do two stages read the same weights in all passes? */
bool sl_sched_reads_equal(const struct sl_reads *reads, int a, int b);

/* The n-th iteration to look at if the two ends and a few iterations between stand for all; -1: there
 * are no more. */
int64_t sl_sched_reads_sample(const struct sl_reads *reads, int64_t n);

#endif
