/* The model graph: values and nodes in topological order, parameters, losses and, after
 * autodiff, the backward nodes, each tagged I or W.
 *
 *   inputs, params, states --> F nodes --> losses          (built by a reader or the C API)
 *                               |  ^
 *   seeds (d loss) --> I nodes -+  |  (activations they read are ordinary inputs of the node)
 *                  `-> W nodes -> parameter gradients, one per use
 *
 * Invariants: a node's inputs are produced by earlier nodes; values and nodes are never removed;
 * F nodes come before all backward nodes. A graph is mutable while it is built and frozen after
 * sl_graph_check (and sl_graph_autodiff, which only appends). */
#ifndef SL_GRAPH_GRAPH_H
#define SL_GRAPH_GRAPH_H

#include "base/lex.h"
#include "base/map.h"
#include "base/vec.h"
#include "graph/hook.h"
#include "graph/op.h"

enum sl_value_kind {
    SL_VALUE_INPUT,
    SL_VALUE_PARAM,
    SL_VALUE_STATE, /* kept from micro-batch to micro-batch, not trained (running statistics) */
    SL_VALUE_SEED,  /* d total / d loss: an input of the backward pass */
    SL_VALUE_NODE,  /* produced by a node */
};

enum sl_graph_pass { SL_PASS_F, SL_PASS_I, SL_PASS_W };

struct sl_value {
    enum sl_value_kind kind;
    enum sl_dtype dtype;
    struct sl_shape shape;
    int node, slot; /* SL_VALUE_NODE: the node that makes it, and the number of the output */
    int index;      /* other kinds: index in inputs, params, states or losses */
};

struct sl_node {
    const struct sl_op *op;
    const int *in; /* value ids; -1: an optional input that is absent */
    const int *out;
    int in_count, out_count;
    const union sl_attr *attr; /* one per row of op->attrs */
    enum sl_graph_pass pass;
    int of;   /* backward node: the forward node whose gradient this is a part of; F: -1 */
    int sums; /* an addition of gradients: the forward value that they belong to; others: -1 */
    bool back, trains; /* F, after autodiff: it has gradient nodes; some are of parameters */
    const char *scope; /* scope, "h.3.attn"; "" at the top level */
    struct sl_pos pos; /* position in the model file; line 0: none */
};

struct sl_input {
    const char *name;
    int value;
    int64_t below; /* int inputs: values are in [0, below) or the loss's ignore value; 0: any */
};

/* SL_INIT_STORED: from the file that the model names, under the name of the tensor */
enum sl_init_kind { SL_INIT_CONST, SL_INIT_NORMAL, SL_INIT_UNIFORM, SL_INIT_STORED };

struct sl_init {
    enum sl_init_kind kind;
    double a, b; /* const: a; normal: mean b, standard deviation a; uniform: from a to b */
};

/* The whole tensor of which this graph has a part: axis `axis` consists of `parts` runs, and the
 * part is shard `shard` of `shards` of each run. Packed q, k, v have 3 runs. */
struct sl_part_of {
    const char *name;      /* name of the whole tensor */
    struct sl_shape shape; /* shape of the whole tensor */
    int axis, parts, shard, shards;
};

struct sl_param { /* a parameter or a state */
    const char *name;
    int value;
    struct sl_init init;
    bool frozen;                      /* the parameter is not trained and has no gradient */
    const struct sl_part_of *part_of; /* NULL: this is the whole tensor */
    bool echo; /* another shard has the same parameter: it counts once in norms and checkpoints */
};

struct sl_loss {
    const char *name;
    int value; /* a scalar: mean over the counted items of the micro-batch */
    double weight;
    int seed;        /* after autodiff: value id of its seed */
    int count_input; /* graph input whose valid items count; -1: samples count */
    int64_t ignore;  /* input value that does not count; INT64_MIN: all count */
    bool echo;       /* another shard computes the same loss: reports count it once */
};

struct sl_output {
    const char *name;
    int value;
};

struct sl_update { /* after a forward pass, the state takes this value */
    int state;     /* index in states */
    int value;
};

/* One use of one parameter, with its gradient per micro-batch. Gradients of a use are summed over
 * micro-batches in ascending order; the uses of a parameter are summed in this order. */
struct sl_param_grad {
    int param;       /* index in params */
    int node, input; /* the forward node that uses it, and at which input */
    int value;
};

struct sl_size { /* a size of the model text, for reports and checkpoints */
    const char *name;
    double value;
};

/* The source of stored initial values. `read` gives elements [from, from + count) of a tensor;
 * calls do not overlap, and those for one tensor start at 0 and ascend. */
struct sl_stored_values {
    void *ctx;
    /* Does this tensor start with a stored value, whatever its initialiser is? NULL: none does. */
    bool (*has)(void *ctx, const char *name);
    sl_err (*read)(void *ctx, const char *name, int64_t from, int64_t count, float *out);
    void (*close)(void *ctx);
};

struct sl_graph {
    struct sl_arena arena;
    const char *name, *brief;
    const char *weights; /* file with stored initial values, or NULL */
    const char *folder;  /* folder with weights that all parameters start from, or NULL */
    struct sl_stored_values stored; /* read NULL: not opened. sl_graph_close closes it */
    SL_VEC(struct sl_value) values;
    SL_VEC(struct sl_node) nodes;
    int forward_count; /* nodes [0, forward_count) are F; valid after autodiff */
    SL_VEC(struct sl_input) inputs;
    SL_VEC(struct sl_param) params;
    SL_VEC(struct sl_param) states;
    SL_VEC(struct sl_loss) losses;
    SL_VEC(struct sl_output) outputs;
    SL_VEC(struct sl_update) updates;
    SL_VEC(struct sl_param_grad) grads; /* after autodiff, sorted by (param, node, input) */
    SL_VEC(struct sl_size) sizes;
    struct sl_map names; /* inputs, params and states: name -> value */
    const struct sl_op *(*find_op)(struct sl_str name); /* finds an op in the registry */
    bool eval, checked, differentiated; /* eval: without dropout, with running statistics */
    struct sl_graph_hook hook;          /* used while the graph is built; after NULL: no hook */
    int stream_count;                   /* random streams 0 .. stream_count - 1 are in use */
    int64_t node_limit;                 /* a larger model is refused */
};

/* Building a graph. `find_op` is sl_op_find of op/registry.h. */
struct sl_graph *sl_graph_open(const char *name, const struct sl_op *(*find_op)(struct sl_str));
void sl_graph_close(struct sl_graph *graph);

SL_MUST_CHECK sl_err sl_graph_input(struct sl_graph *graph, const char *name, enum sl_dtype dtype,
                                    struct sl_shape shape, int64_t below, int *out);
SL_MUST_CHECK sl_err sl_graph_param(struct sl_graph *graph, const char *name, struct sl_shape shape,
                                    struct sl_init init, int *out);
SL_MUST_CHECK sl_err sl_graph_state(struct sl_graph *graph, const char *name, struct sl_shape shape,
                                    struct sl_init init, int *out);

/* A node to add. attr NULL: all attributes have their defaults. */
struct sl_node_spec {
    const struct sl_op *op;
    int in_count;
    const int *in;
    const union sl_attr *attr;
    const char *scope;
    struct sl_pos pos;
};

/* Adds a node; *first_out is its first output, and its other outputs follow. */
SL_MUST_CHECK sl_err sl_graph_node(struct sl_graph *graph, const struct sl_node_spec *spec,
                                   int *first_out);
/* A short form of sl_graph_node for C programs, with an op by name. */
SL_MUST_CHECK sl_err sl_graph_apply(struct sl_graph *graph, const char *op, int in_count,
                                    const int *in, const union sl_attr *attr, int *first_out);
SL_MUST_CHECK sl_err sl_graph_loss(struct sl_graph *graph, const char *name, int value,
                                   double weight);
SL_MUST_CHECK sl_err sl_graph_output(struct sl_graph *graph, const char *name, int value);

/* Checks topological order, types, that there is at least one scalar loss, and that every parameter
 * reaches a loss. */
SL_MUST_CHECK sl_err sl_graph_check(struct sl_graph *graph);

/* Appends the backward nodes; may be called once. */
SL_MUST_CHECK sl_err sl_graph_autodiff(struct sl_graph *graph);

const struct sl_value *sl_graph_value(const struct sl_graph *graph, int value);
/* Returns [values] the value whose memory each value uses: the source of a view, or itself. */
int *sl_graph_sources(struct sl_arena *arena, const struct sl_graph *graph);
/* Writes "h.3.attn.matmul_17", or the name of an input, parameter or state, into `out`. */
enum { SL_NAME_TEXT = 256 };
const char *sl_graph_value_name(const struct sl_graph *graph, int value, char out[SL_NAME_TEXT]);
void sl_graph_view(const struct sl_graph *graph, const struct sl_node *node, int64_t batch,
                   struct sl_op_view *view);
double sl_graph_node_flops(const struct sl_graph *graph, const struct sl_node *node, int64_t batch);

#endif
