/* A check compares a pipeline with its reference, bit for bit.
 *
 *   run both, same steps, same data -> compare weights, statistics, optimizer state, losses, and
 *               the norms, learning rates, loss scales and skipped steps of the log
 *   different?  run both step by step -> the first step, stage and tensor that differ
 *
 * The reference is one worker. If stages have replicas or different micro-batch sizes, or the schedule
 * adds in another order, it is the same stages in one thread, which adds in the same order; of an
 * asynchronous schedule it also keeps the weight versions (run/serial.h). */
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
    SL_CHECK_LOSS,
    SL_CHECK_LOG /* another number that a step reports */
};

struct sl_check_report {
    bool ordered;              /* the reference is one worker, else the stages in one thread: */
    bool other_order;          /* that of the schedule; else that of one worker */
    bool stale;                /* with all weight versions: the schedule is asynchronous */
    int64_t tensors, elements; /* compared */
    enum sl_check_kind kind;   /* first difference; SAME: none */
    int64_t step;              /* from 1; 0: single steps showed no difference */
    int stage;                 /* -1: a loss or another number of the log */
    const char *tensor;        /* name in the model, or of the number; lives as long as the graph */
    int64_t element;
    double pipe, one; /* the two values */
};

/* SL_OK whether they differ or not. SL_ERR_REFUSED for asynchronous schedules with what their
 * reference lacks. Differences of these are not searched step by step. */
SL_MUST_CHECK sl_err sl_pipe_check(const struct sl_check_config *config,
                                   struct sl_check_report *report);

/* check_text.c. Append the report as text (only if nothing differs), or as JSON. */
void sl_pipe_check_put(const struct sl_check_config *config, const struct sl_check_report *report,
                       struct sl_text *text);
void sl_pipe_check_json(const struct sl_check_config *config, const struct sl_check_report *report,
                        struct sl_text *text);
/* SL_ERR_REFUSED if something differs; the message names what, when and where. */
SL_MUST_CHECK sl_err sl_pipe_check_verdict(const struct sl_check_config *config,
                                           const struct sl_check_report *report);

#endif
