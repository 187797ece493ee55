/* The op interface: the shape, cost, gradient and reference kernel of a kind of node.
 *
 * An op is one const struct in one file of op/, listed in op/registry.c. Gradients are per input:
 * grad(g, i) emits nodes that compute the gradient of input i from the gradients of the outputs.
 * Because grad is called for each input, autodiff can tag every backward node I (gradient of an
 * activation) or W (gradient of a parameter), and no unused gradient is emitted. Two inputs may
 * need the same node (the gates of an lstm): equal nodes are emitted once. */
#ifndef SL_GRAPH_OP_H
#define SL_GRAPH_OP_H

#include "graph/op_kind.h"
#include "graph/shape.h"

struct sl_graph;
struct sl_node;
struct sl_op;

/* SL_FLOAT: fp32 or fp64, chosen when a program is built. SL_BF16, SL_FP16: only operands of
 * programs. */
enum sl_dtype { SL_FLOAT, SL_INT, SL_BF16, SL_FP16, SL_DTYPES };
static inline bool sl_dtype_is_half(enum sl_dtype dtype) {
    return dtype == SL_BF16 || dtype == SL_FP16;
}

enum { SL_MAX_IN = 64, SL_MAX_OUT = 8, SL_MAX_ATTR = 8 };

/* Kinds of attributes. The op has a row per attribute; a node has a value per row. */
enum sl_attr_kind {
    SL_ATTR_INT,
    SL_ATTR_FLOAT,
    SL_ATTR_BOOL, /* stored in .i */
    SL_ATTR_ENUM, /* stored in .i: index into choices */
    SL_ATTR_INTS,
    SL_ATTR_SHAPE, /* a shape whose sizes may contain B */
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
    const char *fallback; /* text of the default value; NULL: the attribute must be given */
    const char *choices;  /* SL_ATTR_ENUM: "tanh|erf" */
};

/* Shape inference: an op fills out[] from in[] and sets out_count. */
struct sl_infer {
    const struct sl_op *op;
    int in_count;
    struct sl_shape in[SL_MAX_IN];
    enum sl_dtype in_dtype[SL_MAX_IN];
    bool present[SL_MAX_IN];         /* false: an optional input is absent */
    union sl_attr attr[SL_MAX_ATTR]; /* the op may normalise them (negative axes) */
    int out_count;
    struct sl_shape out[SL_MAX_OUT];
    enum sl_dtype out_dtype[SL_MAX_OUT]; /* SL_FLOAT unless set */
};

/* Fails with a message such as "matmul: inner sizes differ: ...". */
sl_err sl_graph_infer_fail(const struct sl_infer *infer, const char *fmt, ...) SL_PRINTF(2, 3);

/* What an op sees of a node when it computes its cost; B has been replaced by a number. */
struct sl_op_view {
    const union sl_attr *attr;
    int in_count, out_count;
    /* rank 0 and dim[0] == 0: the operand is absent */
    struct sl_shape in[SL_MAX_IN], out[SL_MAX_OUT];
    bool present[SL_MAX_IN];
};

/* The gradient of one node; see sl_graph_grad_* below. */
struct sl_grad {
    struct sl_graph *graph;
    int node;      /* the forward node */
    const int *in; /* inputs of that node; -1: absent */
    const int *out;
    const int *dout; /* gradient of each output; -1: it has none */
    const union sl_attr *attr;
    int first_emitted; /* the backward nodes of this forward node start here */
    sl_err err;        /* the first error; it stays */
};

/* Emits a node of the named op and returns its first output (-1 after an error). `attr` NULL: all
 * attributes have their defaults; otherwise it has one entry per row of the op's table. */
int sl_graph_grad_emit(struct sl_grad *grad, const char *op, int in_count, const int *in,
                       const union sl_attr *attr);
/* Returns input i of the forward node; -1 if it is absent or the node has fewer inputs. */
int sl_graph_grad_input(const struct sl_grad *grad, int i);
/* Returns output `slot` of the node that produced `value`. */
int sl_graph_grad_output(const struct sl_grad *grad, int value, int slot);
/* Returns the shape of a value while nodes are emitted. */
const struct sl_shape *sl_graph_grad_shape(const struct sl_grad *grad, int value);

/* A dense array for reference kernels: double for float tensors, int32_t for int tensors. */
struct sl_array {
    struct sl_shape shape; /* B has been replaced by a number */
    double *f;
    int32_t *i;
};

struct sl_ref {
    const union sl_attr *attr;
    int in_count, out_count;
    struct sl_array in[SL_MAX_IN]; /* of an absent input, f == NULL and i == NULL */
    struct sl_array out[SL_MAX_OUT];
    uint64_t seed;        /* seed of this step, for dropout */
    int64_t first_sample; /* number of the first sample of this micro-batch in the whole run */
    int64_t samples;      /* samples of this micro-batch: the number for B */
};

struct sl_node_spec;

struct sl_op {
    const char *name;
    const char *brief;  /* one line for lists */
    const char *inputs; /* "x w bias?"; '?': optional; a last one "xs*": any number */
    /* "y" or "y mean rstd"; a model sees only the first unless it assigns several */
    const char *outputs;
    /* gradients flow through this many outputs, from the first on; 0: one. The others are kept for
     * the backward pass, and no loss may read them */
    int grad_outputs;
    const struct sl_attr_desc *attrs; /* ends with {0}, or NULL */
    bool internal;                    /* only gradients emit it; model files cannot use it */
    bool is_view;                     /* output 0 is input 0 with another shape */
    bool is_split;                    /* output i is part i of input 0 */
    enum sl_join join;
    enum sl_layer_kind layer;
    enum sl_divide divide;
    /* if it has fewer inputs than attribute 0 says, the runner adds the terms of all shards to
     * output 0, in the order of shards */
    bool collective;
    unsigned exact_out;               /* bit i: output i stays fp32 in programs of 16 bits */
    unsigned strided_in, strided_out; /* bit i: operand i may be a part of wider rows */
    sl_err (*infer)(struct sl_infer *infer);
    double (*flops)(const struct sl_op_view *view);
    double (*bytes)(
        const struct sl_op_view *view); /* bytes moved; NULL: 4 per element of in, out */
    double (*seconds)(
        const struct sl_op_view *view); /* a stated time; NULL or < 0: computed from flops and
                                         * bytes */
    /* it has a cost but no arithmetic: no kernels and no ref, so it cannot be trained */
    bool plan_only;
    /* returns a value id, or -1: no gradient; NULL: the op has no gradient */
    int (*grad)(struct sl_grad *grad, int input);
    void (*ref)(const struct sl_ref *ref);
    /* For an op made of other ops: adds their nodes instead of its own, after infer has accepted
     * the inputs; *out is the value of its only output. *out = -1: in this case the op is a node.
     * An op that is never a node has no flops, grad and ref. */
    sl_err (*expand)(struct sl_graph *graph, const struct sl_node_spec *spec, int *out);
    /* For an op whose evaluation differs from training (dropout, batchnorm): name of the op that
     * replaces it in an evaluation graph. That op takes the same inputs and attributes. */
    const char *eval_op;
    /* After a forward pass, the state at input `in` takes the value of output `out`. */
    int update_count;
    struct {
        int out, in;
    } updates[2];
    /* For losses (is_loss): the input that says how many items count; -1: samples count. */
    bool is_loss;
    int count_input, count_attr; /* count_attr: attribute with the value to ignore; -1: none */
};

/* Attributes as text, for readers and writers. */
int sl_graph_op_attr_count(const struct sl_op *op);
/* returns -1 if there is none */
int sl_graph_op_find_attr(const struct sl_op *op, struct sl_str name);
/* Fills in defaults. SL_ERR_INPUT names an attribute that has none and was not given (bits of
 * `given`). */
SL_MUST_CHECK sl_err sl_graph_op_defaults(const struct sl_op *op, unsigned given,
                                          union sl_attr attr[SL_MAX_ATTR]);
/* Returns the index of a choice of an enum; -1: unknown. */
int sl_graph_attr_choice(const struct sl_attr_desc *desc, struct sl_str name);
void sl_graph_attr_put(struct sl_text *text, const struct sl_attr_desc *desc,
                       const union sl_attr *attr);
/* Writes a number as the model language reads it: integers beyond 2^48 are floats there, and -0 is
 * 0. */
void sl_graph_attr_put_float(struct sl_text *text, double value);
bool sl_graph_attr_equal(const struct sl_attr_desc *desc, const union sl_attr *a,
                         const union sl_attr *b);

/* Returns how many inputs are required and how many are possible ("x w bias?" -> 2, 3; "xs*" -> 1,
 * SL_MAX_IN). */
void sl_graph_op_arity(const struct sl_op *op, int *least, int *max);
/* Returns the position of a named input; -1: there is none. */
int sl_graph_op_find_input(const struct sl_op *op, struct sl_str name);
int sl_graph_op_output_count(const struct sl_op *op);

#endif
