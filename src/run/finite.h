/* The origin of a value that is not finite. Passes do not check their values. When the gradient of a
 * step is not finite, its passes are repeated and checked instruction by instruction. */
#ifndef SL_RUN_FINITE_H
#define SL_RUN_FINITE_H

#include "base/text.h"
#include "run/worker.h"

enum sl_bad_kind {
    SL_BAD_NONE,   /* not searched, or not found */
    SL_BAD_WEIGHT, /* a weight was not finite before the step */
    SL_BAD_INPUT,  /* the data hold a value that is not finite */
    SL_BAD_OP,     /* the first instruction with such an output from finite inputs */
    SL_BAD_SUM,    /* the gradients of a parameter's uses are finite, their sum is not */
    SL_BAD_SCALE, /* the loss is finite but its scale was too large; the next step has a smaller one */
};

struct sl_bad {
    enum sl_bad_kind kind;
    int64_t micro;           /* micro-batch of the step, from 0 */
    int stage, node;         /* BAD_OP: of the graph */
    enum sl_graph_pass pass; /* BAD_OP */
    char name[SL_NAME_TEXT]; /* of the node's value, the weight, the input, the parameter */
    const char *op;          /* BAD_OP: the kernel, which may fuse several ops */
};

/* "h.0.mlp.gelu_31 (gelu, forward, stage 0, micro-batch 2) is the first ..." */
void sl_run_bad_put(struct sl_text *text, const struct sl_bad *bad);
const char *sl_run_pass_tag_name(enum sl_graph_pass pass); /* "forward", ... */

/* Are all values of an operand of this pass finite? */
SL_MUST_CHECK sl_err sl_run_finite_operand(struct sl_worker *worker,
                                           const struct sl_worker_pass *pass,
                                           const struct sl_operand *operand, bool *finite);

/* Runs a pass and checks after every instruction until one is not finite. */
SL_MUST_CHECK sl_err sl_run_finite_pass(struct sl_worker *worker, const struct sl_worker_pass *pass,
                                        struct sl_bad *bad);

/* The first weight of a version that is not finite. */
SL_MUST_CHECK sl_err sl_run_finite_weights(struct sl_worker *worker, int version,
                                           struct sl_bad *bad);
/* The first input of a slot that is not finite. */
SL_MUST_CHECK sl_err sl_run_finite_inputs(struct sl_worker *worker,
                                          const struct sl_worker_pass *pass, struct sl_bad *bad);
/* Adds the uses of every parameter and checks the sums. */
SL_MUST_CHECK sl_err sl_run_finite_sums(struct sl_worker *worker, int grad_slot,
                                        struct sl_bad *bad);

#endif
