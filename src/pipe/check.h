/* Is a pipeline the same as one worker, bit for bit? Where stages have replicas or micro-batches of
 * their own sizes, one worker means the same stages in one thread (run/serial.h). Both run the same
 * steps on the same data; then weights, statistics, optimizer state and losses are compared. When
 * they differ, both run again step by step, to find the first step, and in it the first stage and
 * tensor. */
#ifndef SL_PIPE_CHECK_H
#define SL_PIPE_CHECK_H

#include "pipe/pipe.h"

struct sl_check_config {
    struct sl_pipe_config pipe; /* pipe.train->steps are run; stall_ns is the check's own */
    /* For tests: called when a pipeline has been opened (twice when steps are searched). NULL:
     * none. */
    void (*opened)(void *ctx, struct sl_pipe *pipe);
    void *ctx;
};

enum sl_check_kind {
    SL_CHECK_SAME,
    SL_CHECK_WEIGHT,
    SL_CHECK_STATE,
    SL_CHECK_OPTIM,
    SL_CHECK_LOSS
};

struct sl_check_report {
    int64_t tensors, elements; /* compared */
    enum sl_check_kind kind;   /* what differs first; SAME: nothing does */
    int64_t step;              /* from 1; 0: not in runs of single steps */
    int stage;                 /* -1: a loss */
    const char *tensor;        /* name in the model, or of the loss; lives as long as the graph */
    int64_t element;
    double pipe, one; /* its values */
};

/* SL_OK whether they differ or not. SL_ERR_REFUSED for asynchronous schedules, which differ by design.
 */
SL_MUST_CHECK sl_err sl_pipe_check(const struct sl_check_config *config,
                                   struct sl_check_report *report);

#endif
