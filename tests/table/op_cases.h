/* The table of op cases: the inputs every op is tested with, and the harness that runs one case.
 *
 * A case is declarative: shapes as text ("B,3,7", "" is a scalar), a role per input, attributes as
 * "name=value name=value". The same rows feed the finite-difference test, the shape tests and the
 * PyTorch fixtures, so a row is written once. Rows live in op_cases_<group>.c, one group per file;
 * sl_op_groups in op_cases.c lists the groups.
 *
 *   data --+                          dy weights --+
 *          add -> x --> [ op ] --> y ------------ mul -> reduce_sum -> loss
 *   shift -+            ^
 *   (scalar parameter)  param, int, state
 *
 * The scalar parameter added to a data input makes autodiff produce the gradient of x. Its own
 * gradient is sum_to(dx); the harness reads dx, the input of that sum.
 */
#ifndef SL_TESTS_OP_CASES_H
#define SL_TESTS_OP_CASES_H

#include "op/registry.h"

enum sl_case_role {
    SL_CASE_END,
    SL_CASE_DATA,  /* float activation; its gradient must be tagged I */
    SL_CASE_PARAM, /* parameter; its gradient must be tagged W if the op also reads data */
    SL_CASE_CONST, /* float input for which the op has no gradient */
    SL_CASE_STATE, /* running statistics */
    SL_CASE_INT,
    SL_CASE_MASK,   /* ints 0 or 1; rows alternate: ending in zeros, all ones, mixed, all zeros */
    SL_CASE_SLOTS,  /* ints: a permutation, every fifth is -1 instead */
    SL_CASE_RANGES, /* ints [3,2]: 0 2, 2 2, 2 4 */
    SL_CASE_ABSENT, /* optional input left out */
};

static inline bool sl_case_is_int(enum sl_case_role role) {
    return role == SL_CASE_INT || role == SL_CASE_MASK || role == SL_CASE_SLOTS ||
           role == SL_CASE_RANGES;
}

struct sl_case_input {
    enum sl_case_role role;
    const char *shape;
    /* Floats: distinct values, evenly spaced over (low, high) and shuffled; never 0 for a symmetric
     * range. The spacing exceeds the step of the differences, so no kink or tie is crossed. */
    double low, high;
    int64_t below; /* ints: in [0, below) */
    int64_t mark;  /* ints: every third value is this (an ignore index); 0: none */
};

#define SL_X(shape_) SL_XR(shape_, -1.5, 1.5)
#define SL_XR(shape_, low_, high_)                                                                 \
    { SL_CASE_DATA, shape_, low_, high_, 0, 0 }
#define SL_W(shape_) SL_WR(shape_, -1.5, 1.5)
#define SL_WR(shape_, low_, high_)                                                                 \
    { SL_CASE_PARAM, shape_, low_, high_, 0, 0 }
#define SL_C(shape_, low_, high_)                                                                  \
    { SL_CASE_CONST, shape_, low_, high_, 0, 0 }
#define SL_S(shape_, low_, high_)                                                                  \
    { SL_CASE_STATE, shape_, low_, high_, 0, 0 }
#define SL_I(shape_, below_)                                                                       \
    { SL_CASE_INT, shape_, 0, 0, below_, 0 }
#define SL_IM(shape_, below_, mark_)                                                               \
    { SL_CASE_INT, shape_, 0, 0, below_, mark_ }
#define SL_M(shape_)                                                                               \
    { SL_CASE_MASK, shape_, 0, 0, 2, 0 }
#define SL_P(shape_)                                                                               \
    { SL_CASE_SLOTS, shape_, 0, 0, 0, 0 }
#define SL_R(shape_)                                                                               \
    { SL_CASE_RANGES, shape_, 0, 0, 0, 0 }
#define SL_ABSENT                                                                                  \
    { SL_CASE_ABSENT, "", 0, 0, 0, 0 }

enum { SL_CASE_MAX_IN = 10 };

struct sl_op_case {
    const char *op, *label; /* the case is named op.label: "gelu.erf" */
    struct sl_case_input in[SL_CASE_MAX_IN];
    const char *attrs; /* NULL: all defaults */
    int outputs;       /* number of outputs that reach the loss; 0: only the first */
};

/* Inputs that an op must refuse; the error message contains both texts. */
struct sl_op_error {
    const char *op;
    struct sl_case_input in[SL_CASE_MAX_IN];
    const char *attrs;
    const char *expect[2];
};

struct sl_op_group {
    const char *name; /* tests/fixtures/op_<name>.safetensors */
    const struct sl_op_case *cases;
    int case_count;
    const struct sl_op_error *errors;
    int error_count;
};

extern const struct sl_op_group *const sl_op_groups[];
extern const int sl_op_group_count;

/* One case, built, differentiated and filled for a micro-batch of B samples. */
struct sl_trial {
    const struct sl_op_case *the;
    const struct sl_op *op;
    struct sl_graph *graph;
    struct sl_ref_run *run;
    int node;           /* of the op; the first one if the op is made of others */
    int out, out_count; /* its outputs */
    union sl_attr attr[SL_MAX_ATTR];
    int source[SL_CASE_MAX_IN]; /* the array that tests change: data input or parameter */
    int value[SL_CASE_MAX_IN];  /* the op's input, -1: absent */
    int grad[SL_CASE_MAX_IN];   /* value that holds the gradient, -1: none */
    int weights[SL_MAX_OUT];    /* input that holds d loss / d output, -1: output not used */
    int in_count;
};

typedef const struct sl_op *sl_find_op(struct sl_str name);

SL_MUST_CHECK sl_err sl_trial_open(struct sl_trial *trial, const struct sl_op_case *the,
                                   int64_t batch, sl_find_op *find);
void sl_trial_close(struct sl_trial *trial);
/* Run the forward pass and return the loss; run the backward pass. */
double sl_trial_forward(struct sl_trial *trial);
void sl_trial_backward(struct sl_trial *trial);
const struct sl_array *sl_trial_array(const struct sl_trial *trial, int value);

/* Largest difference between gradients and central differences, relative to the largest entry of
 * each tensor. On SL_ERR_REFUSED the message names the input without gradient. Afterwards the
 * backward pass has run. */
SL_MUST_CHECK sl_err sl_trial_check(struct sl_trial *trial, double *worst);
/* Check that every gradient exists and that its nodes have the right tags. */
SL_MUST_CHECK sl_err sl_trial_check_tags(const struct sl_trial *trial);

/* Parse a shape "B,3,7" and attributes "axis=1 approx=erf". */
SL_MUST_CHECK sl_err sl_case_shape(const char *text, struct sl_shape *out);
SL_MUST_CHECK sl_err sl_case_attrs(const struct sl_op *op, const char *text,
                                   union sl_attr attr[SL_MAX_ATTR]);
/* Add the inputs of a case to a graph (float data as plain inputs) and apply the op. */
SL_MUST_CHECK sl_err sl_case_apply(struct sl_graph *graph, const struct sl_op *op,
                                   const struct sl_case_input *in, const char *attrs);
/* Element `index` of a float input of `count` elements, rounded to fp32 so that every precision
 * starts from the same numbers. */
double sl_case_float(const struct sl_case_input *in, uint64_t stream, int64_t index, int64_t count);

#endif
