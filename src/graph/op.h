/* The op interface: what a node computes, its shape, its cost, its gradient and its reference.
 *
 * An op is one const struct in one file of op/, listed in op/registry.c. Gradients are per input:
 * grad(g, i) emits nodes that compute the gradient of input i from the gradients of the outputs.
 * Because each input is asked for on its own, autodiff can tag every backward node I (gradient of
 * an activation) or W (gradient of a parameter), and dead gradient work is never emitted. Two
 * inputs may ask for the same node (an lstm's gates): equal nodes are emitted once.
 */
#ifndef SL_GRAPH_OP_H
#define SL_GRAPH_OP_H

#include "graph/op_kind.h"
#include "graph/shape.h"

struct sl_graph;
struct sl_node;
struct sl_op;

/* float: fp32 or fp64, chosen when a program is built; bf16, fp16: of operands of programs only */
enum sl_dtype { SL_FLOAT, SL_INT, SL_BF16, SL_FP16, SL_DTYPES };
static inline bool sl_dtype_is_half(enum sl_dtype dtype) {
    return dtype == SL_BF16 || dtype == SL_FP16;
}

enum { SL_MAX_IN = 64, SL_MAX_OUT = 8, SL_MAX_ATTR = 8 };

/* Attributes: a row per attribute in the op, a value per row in the node. */
enum sl_attr_kind {
    SL_ATTR_INT,
    SL_ATTR_FLOAT,
    SL_ATTR_BOOL, /* stored in .i */
    SL_ATTR_ENUM, /* stored in .i: index into choices */
    SL_ATTR_INTS,
    SL_ATTR_SHAPE, /* sizes that may hold B */
};

struct sl_ints {
    int count;
    int64_t at[SL_MAX_RANK];
};

union sl_attr {
    int64_t i;
    double f;
    struct sl_ints ints;
    struct sl_shape shape;
};

struct sl_attr_desc {
    const char *name; /* a row {0} ends the table */
    enum sl_attr_kind kind;
    const char *fallback; /* text of the default value; NULL: must be given */
    const char *choices;  /* SL_ATTR_ENUM: "tanh|erf" */
};

/* Shape inference: fill out[] from in[]; out_count is set by the op. */
struct sl_infer {
    const struct sl_op *op;
    int in_count;
    struct sl_shape in[SL_MAX_IN];
    enum sl_dtype in_dtype[SL_MAX_IN];
    bool present[SL_MAX_IN];         /* optional inputs may be absent */
    union sl_attr attr[SL_MAX_ATTR]; /* may be normalised (negative axes) */
    int out_count;
    struct sl_shape out[SL_MAX_OUT];
    enum sl_dtype out_dtype[SL_MAX_OUT]; /* SL_FLOAT unless set */
};

/* "matmul: inner sizes differ: ..." */
sl_err sl_graph_infer_fail(const struct sl_infer *infer, const char *fmt, ...) SL_PRINTF(2, 3);

/* What an op sees of itself when it is asked for cost, with B put in. */
struct sl_op_view {
    const union sl_attr *attr;
    int in_count, out_count;
    struct sl_shape in[SL_MAX_IN], out[SL_MAX_OUT]; /* rank 0 and dim[0] == 0: absent */
    bool present[SL_MAX_IN];
};

/* Gradient of one node; see sl_grad_* below. */
struct sl_grad {
    struct sl_graph *graph;
    int node;      /* forward node */
    const int *in; /* its inputs, -1 = absent */
    const int *out;
    const int *dout; /* gradient of each output, -1 = none flows */
    const union sl_attr *attr;
    int first_emitted; /* backward nodes of this forward node start here */
    sl_err err;        /* sticky */
};

/* Emit a node of the named op and return its first output (-1 after an error). `attr` may be NULL
 * when all attributes have defaults; it has one entry per row of the op's table. */
int sl_graph_grad_emit(struct sl_grad *grad, const char *op, int in_count, const int *in,
                       const union sl_attr *attr);
/* Input i of the forward node, -1 when it is absent (also when the node has fewer inputs). */
int sl_graph_grad_input(const struct sl_grad *grad, int i);
/* Output `slot` of the node that produced `value`. */
int sl_graph_grad_output(const struct sl_grad *grad, int value, int slot);
/* Shapes of values while emitting. */
const struct sl_shape *sl_graph_grad_shape(const struct sl_grad *grad, int value);

/* A dense array for reference kernels: double for float tensors, int32_t for int tensors. */
struct sl_array {
    struct sl_shape shape; /* B put in */
    double *f;
    int32_t *i;
};

struct sl_ref {
    const union sl_attr *attr;
    int in_count, out_count;
    struct sl_array in[SL_MAX_IN]; /* absent: f == NULL and i == NULL */
    struct sl_array out[SL_MAX_OUT];
    uint64_t seed;        /* of this step, for dropout */
    int64_t first_sample; /* number of the first sample of this micro-batch in the whole run */
    int64_t samples;      /* of this micro-batch: the B that was put in */
};

struct sl_node_spec;

struct sl_op {
    const char *name;
    const char *brief;                /* one line */
    const char *inputs;               /* "x w bias?" ; '?' optional, last one "xs*": any number */
    const char *outputs;              /* "y" or "y mean rstd": only the first is seen by models
                                         unless they take several */
    int grad_outputs;                 /* gradients flow through the first so many, 0: one; others
                                         are kept for the backward pass, no loss may read them */
    const struct sl_attr_desc *attrs; /* ends with {0}, or NULL */
    bool internal;                    /* emitted by gradients only, not for model files */
    bool is_view;                     /* output 0 is input 0 with another shape */
    bool is_split;                    /* outputs are the parts of input 0 */
    enum sl_join join;
    enum sl_layer_kind layer;
    enum sl_divide divide;
    bool collective;    /* with fewer inputs than attribute 0 says: the runner adds the terms of all
                        shards to output 0, in the order of shards */
    unsigned exact_out; /* outputs (bits) that stay fp32 in programs of 16 bits */
    unsigned strided_in, strided_out; /* operands (bits) that may be parts of wider rows */
    sl_err (*infer)(struct sl_infer *infer);
    double (*flops)(const struct sl_op_view *view);
    double (*bytes)(const struct sl_op_view *view); /* traffic; NULL: elements in + out, 4 bytes */
    double (*seconds)(
        const struct sl_op_view *view); /* a stated time; NULL, < 0: by flops, bytes */
    bool plan_only; /* has a cost and no arithmetic: no kernels, no ref; cannot be trained */
    int (*grad)(struct sl_grad *grad, int input); /* value id or -1: no gradient; NULL: none */
    void (*ref)(const struct sl_ref *ref);
    /* An op made of others: adds their nodes in the place of its own, after infer has accepted the
     * inputs; *out is the value of its only output. *out = -1: the op is a node after all. An op
     * that never is one has no flops, grad and ref. */
    sl_err (*expand)(struct sl_graph *graph, const struct sl_node_spec *spec, int *out);
    /* An op whose evaluation differs from training (dropout, batchnorm): the name of the op that
     * replaces it in an evaluation graph; it takes the same inputs and attributes. */
    const char *eval_op;
    /* After a forward pass, the state at input `in` takes the value of output `out`. */
    int update_count;
    struct {
        int out, in;
    } updates[2];
    /* Losses: which input says how many items count, -1 = samples. Valid only when is_loss. */
    bool is_loss;
    int count_input, count_attr; /* attr: the value to ignore, -1 = none */
};

/* Attributes by text, for readers and writers. */
int sl_graph_op_attr_count(const struct sl_op *op);
int sl_graph_op_find_attr(const struct sl_op *op, struct sl_str name); /* -1 when absent */
/* The defaults; SL_ERR_INPUT names an attribute that must be given and was not (`given` bits). */
SL_MUST_CHECK sl_err sl_graph_op_defaults(const struct sl_op *op, unsigned given,
                                          union sl_attr attr[SL_MAX_ATTR]);
/* Index of a choice of an enum, -1 when unknown. */
int sl_graph_attr_choice(const struct sl_attr_desc *desc, struct sl_str name);
void sl_graph_attr_put(struct sl_text *text, const struct sl_attr_desc *desc,
                       const union sl_attr *attr);
/* A number as the model language reads it: whole numbers beyond 2^48 are floats there, -0 is 0. */
void sl_graph_attr_put_float(struct sl_text *text, double value);
bool sl_graph_attr_equal(const struct sl_attr_desc *desc, const union sl_attr *a,
                         const union sl_attr *b);

/* Inputs by position: required and total count ("x w bias?" -> 2, 3; "xs*" -> 1, SL_MAX_IN). */
void sl_graph_op_arity(const struct sl_op *op, int *least, int *max);
/* Position of a named input, -1 when absent. */
int sl_graph_op_find_input(const struct sl_op *op, struct sl_str name);
int sl_graph_op_output_count(const struct sl_op *op);

#endif
