/* Finds the origin of a value that is not finite. Passes do not check their values. When the
 * gradient of a step is not finite, its passes are repeated and checked instruction by
 * instruction. */
#ifndef SL_RUN_FINITE_H
#define SL_RUN_FINITE_H

#include "base/text.h"
#include "run/worker.h"

enum sl_bad_kind {
    SL_BAD_NONE,   /* no search was made, or it found nothing */
    SL_BAD_WEIGHT, /* a weight was not finite before the step */
    SL_BAD_INPUT,  /* the data hold a value that is not finite */
    /* the first instruction with a value that is not finite in its output and finite inputs */
    SL_BAD_OP,
    SL_BAD_SUM, /* the gradients of a parameter's uses are finite, their sum is not */
    /* the loss is finite but its scale was too large; the next step has a smaller scale */
    SL_BAD_SCALE,
};

struct sl_bad {
    enum sl_bad_kind kind;
    int64_t micro;           /* index of the micro-batch in the step, from 0 */
    int stage, node;         /* SL_BAD_OP: stage; index of the graph node */
    enum sl_graph_pass pass; /* SL_BAD_OP: pass of the instruction */
    char name[SL_NAME_TEXT]; /* name of the node's value, or of the weight, input or parameter */
    const char *op;          /* SL_BAD_OP: the kernel, which may fuse several ops */
};

/* Writes "h.0.mlp.gelu_31 (gelu, forward, stage 0, micro-batch 2) is the first ...". */
void sl_run_bad_put(struct sl_text *text, const struct sl_bad *bad);
const char *sl_run_pass_tag_name(enum sl_graph_pass pass); /* "forward", ... */

/* Are all values of an operand of this pass finite? */
SL_MUST_CHECK sl_err sl_run_finite_operand(struct sl_worker *worker,
                                           const struct sl_worker_pass *pass,
                                           const struct sl_operand *operand, bool *finite);

/* Runs a pass and checks the outputs after every instruction, up to the first that is not
 * finite. */
SL_MUST_CHECK sl_err sl_run_finite_pass(struct sl_worker *worker, const struct sl_worker_pass *pass,
                                        struct sl_bad *bad);

/* Finds the first weight of a version that is not finite. */
SL_MUST_CHECK sl_err sl_run_finite_weights(struct sl_worker *worker, int version,
                                           struct sl_bad *bad);
/* Finds the first input of a slot that is not finite. */
SL_MUST_CHECK sl_err sl_run_finite_inputs(struct sl_worker *worker,
                                          const struct sl_worker_pass *pass, struct sl_bad *bad);
/* Adds the uses of every parameter and checks that the sums are finite. */
SL_MUST_CHECK sl_err sl_run_finite_sums(struct sl_worker *worker, int grad_slot,
                                        struct sl_bad *bad);

#endif
