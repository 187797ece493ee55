/* Is a pipeline the same as one worker, bit for bit? Where stages have replicas or micro-batches of
 * their own sizes, one worker means the same stages in one thread (run/serial.h). Both run the same
 * steps on the same data; then weights, statistics, optimizer state and losses are compared. When
 * they differ, both run again step by step, to find the first step, and in it the first stage and
 * tensor. */
#ifndef SL_PIPE_CHECK_H
#define SL_PIPE_CHECK_H

#include "pipe/pipe.h"

struct sl_check_config {
    const struct sl_train_config *train; /* train->steps are run */
    const struct sl_plan *plan;
    const int *stage_of; /* [forward nodes] */
    const char *schedule;
    int64_t slack;        /* see sl_sched_opts */
    struct sl_comm *comm; /* NULL: threads of this process */
    enum sl_bind_mode bind;
    bool lend; /* see sl_pipe_config */
    /* For tests that want to see a check fail: called when a pipeline has been opened (twice when
     * steps are searched), and by worker threads before every action. NULL: nothing. */
    void (*opened)(void *ctx, struct sl_pipe *pipe);
    sl_err (*on_action)(void *ctx, int worker, int64_t action);
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
