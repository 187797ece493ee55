/* A check compares a pipeline with its reference, bit for bit.
 *
 *   run both, same steps, same data -> compare weights, statistics, optimizer state, losses, and
 *               the norms, learning rates, loss scales and skipped steps of the log
 *   different?  run both step by step -> the first step, stage and tensor that differ
 *
 * The reference is one worker. It is the same stages in one thread (run/serial.h), adding in the
 * order of the schedule, if stages have replicas or different micro-batch sizes, or if the schedule
 * adds in another order than one worker. For an asynchronous schedule that thread also keeps all
 * weight versions. */
#ifndef SL_PIPE_CHECK_H
#define SL_PIPE_CHECK_H

#include "pipe/pipe.h"

struct sl_check_config {
    /* the check runs pipe.train->steps steps and sets its own stall_ns */
    struct sl_pipe_config pipe;
    /* Of an expanded plan: the graph of all its shards for one worker, differentiated
     * (sl_shard_rewrite, together). */
    const struct sl_graph *together;
    /* For tests: called when a pipeline has been opened, so twice if single steps are compared.
     * NULL: no call. */
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
    double pipe, one; /* the two values that differ */
};

/* Returns SL_OK whether or not they differ. Returns SL_ERR_REFUSED for an asynchronous schedule
 * with a feature that the reference lacks. For asynchronous schedules it does not search for the
 * first step. */
SL_MUST_CHECK sl_err sl_pipe_check(const struct sl_check_config *config,
                                   struct sl_check_report *report);

/* check_text.c. Both append the report: put as text, only if nothing differs; json as JSON. */
void sl_pipe_check_put(const struct sl_check_config *config, const struct sl_check_report *report,
                       struct sl_text *text);
void sl_pipe_check_json(const struct sl_check_config *config, const struct sl_check_report *report,
                        struct sl_text *text);
/* Returns SL_ERR_REFUSED if something differs; the message names the tensor, step and stage. */
SL_MUST_CHECK sl_err sl_pipe_check_verdict(const struct sl_check_config *config,
                                           const struct sl_check_report *report);

#endif
