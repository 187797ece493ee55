/* Lowering turns the nodes of an ONNX graph into nodes of ours, with one function per family of
 * operators.
 *
 *   value of the file --> constant (konst.h)   computed while importing
 *                     --> tensor               a value of the graph under construction
 *                     --> failed               an operator that we refuse; the reason is reported
 *                                              only if something needs the value
 *
 * A lowered node whose value nobody reads is dropped at the end (prune.c), so a pattern of several
 * nodes may be replaced when its last node comes. */
#ifndef SL_ONNX_LOWER_H
#define SL_ONNX_LOWER_H

#include "base/map.h"
#include "graph/graph.h"
#include "onnx/konst.h"

struct sl_onnx_val {
    const char *name;
    enum { SL_ONNX_FAILED, SL_ONNX_KONST, SL_ONNX_TENSOR } kind;
    struct sl_onnx_konst *konst;
    bool is_param; /* a trainable initialiser, so its value is not constant */
    int id;        /* value of the graph; -1: it has none (yet) */
    int type;      /* type in the file */
    int readers;
    const struct sl_proto_node *node; /* node that computes it, or NULL */
    const char *why;                  /* why it failed */
    /* For an initialiser that torch computed from a parameter (names.c): */
    const char *title; /* the parameter's name, or NULL */
    bool turned;       /* it is the transpose of the parameter */
    const char *twin;  /* the file has this initialiser too, and the value is its transpose */
    const char *same;  /* the value is another use of this initialiser */
};

/* An initial value from the file, for a parameter or constant of the graph. */
struct sl_onnx_stored {
    const char *name; /* name in the graph */
    const struct sl_onnx_konst *konst;
    bool turned; /* the graph has the transpose */
};

struct sl_onnx_lower {
    struct sl_arena *arena;
    struct sl_proto_file *file;
    struct sl_graph *graph;
    struct sl_map names; /* value's name -> index in vals */
    SL_VEC(struct sl_onnx_val) vals;
    SL_VEC(struct sl_onnx_stored) stored;
    const struct sl_proto_node *node; /* the node that is being lowered */
    const char *batch;                /* name of the symbolic size that becomes B */
    int depth;                        /* depth of graphs inside graphs */
    int64_t folded_max;               /* most elements of computed constants */
    int64_t folded;                   /* elements of computed constants so far */
    struct sl_map used_names;         /* names in the graph */
    struct sl_map stored_names;       /* name -> index in `stored`; made when first needed */
    /* the tensor whose transpose is in `turned`; NULL: none */
    const struct sl_onnx_konst *turned_of;
    float *turned; /* the transpose */
};

/* A row of the mapping table. */
struct sl_onnx_row {
    const char *op; /* name of the ONNX operator */
    sl_err (*lower)(struct sl_onnx_lower *l, const struct sl_onnx_row *row);
    const char *ours;   /* the op that it becomes; refused if the registry lacks it; NULL: any */
    bool failed_inputs; /* it examines how its inputs were made, so these may have failed */
};
const struct sl_onnx_row *sl_onnx_row_find(const char *op);
const struct sl_onnx_row *sl_onnx_row_at(int index); /* NULL after the last */

/* Refuses the node that is being lowered. */
sl_err sl_onnx_lower_refuse(const struct sl_onnx_lower *l, const char *fmt, ...) SL_PRINTF(2, 3);

/* Makes a unique name of the graph's language from a name of the file. */
const char *sl_onnx_lower_name(struct sl_onnx_lower *l, const char *name);

/* Inputs of the node that is being lowered. */
bool sl_onnx_lower_has(const struct sl_onnx_lower *l, int input);
struct sl_onnx_val *sl_onnx_lower_val(struct sl_onnx_lower *l, int input); /* NULL: it is absent */
struct sl_onnx_val *sl_onnx_lower_named(struct sl_onnx_lower *l, const char *name);
/* Returns an input as a value of the graph; a constant becomes a parameter or state. */
SL_MUST_CHECK sl_err sl_onnx_lower_in(struct sl_onnx_lower *l, int input, int *out);
/* The same, with integers converted to floats. */
SL_MUST_CHECK sl_err sl_onnx_lower_float(struct sl_onnx_lower *l, int input, int *out);
SL_MUST_CHECK sl_err sl_onnx_lower_id(struct sl_onnx_lower *l, struct sl_onnx_val *val, int *out);
/* Returns an input as a loaded constant; `out` is NULL if it is absent. A tensor that is not
 * constant is refused. */
SL_MUST_CHECK sl_err sl_onnx_lower_konst(struct sl_onnx_lower *l, int input,
                                         const struct sl_onnx_konst **out);
/* The same, but NULL if it is not constant. */
const struct sl_onnx_konst *sl_onnx_lower_maybe(struct sl_onnx_lower *l, int input);
const struct sl_onnx_konst *sl_onnx_lower_known(struct sl_onnx_lower *l, struct sl_onnx_val *val);
/* Returns the number that the node has as a constant input. */
SL_MUST_CHECK sl_err sl_onnx_lower_number(struct sl_onnx_lower *l, int input, double *out);
const struct sl_shape *sl_onnx_lower_shape(const struct sl_onnx_lower *l, int id);
bool sl_onnx_lower_is_int(const struct sl_onnx_lower *l, int id);
SL_MUST_CHECK sl_err sl_onnx_lower_axis(const struct sl_onnx_lower *l, int64_t axis, int rank,
                                        int *out);
/* Returns a list of axes: input `input` if the node has it, else the attribute `axes`. */
SL_MUST_CHECK sl_err sl_onnx_lower_axes(struct sl_onnx_lower *l, int input, int rank,
                                        struct sl_ints *out);

/* Adds nodes to the graph. */
struct sl_onnx_emit {
    const struct sl_op *op;
    union sl_attr attr[SL_MAX_ATTR];
    unsigned given;
};
SL_MUST_CHECK sl_err sl_onnx_emit_open(const struct sl_onnx_lower *l, struct sl_onnx_emit *e,
                                       const char *op);
void sl_onnx_emit_int(struct sl_onnx_emit *e, const char *attr, int64_t value);
void sl_onnx_emit_float(struct sl_onnx_emit *e, const char *attr, double value);
void sl_onnx_emit_ints(struct sl_onnx_emit *e, const char *attr, int count, const int64_t *at);
void sl_onnx_emit_shape(struct sl_onnx_emit *e, const char *attr, const struct sl_shape *shape);
void sl_onnx_emit_choice(struct sl_onnx_emit *e, const char *attr, const char *choice);
SL_MUST_CHECK sl_err sl_onnx_emit(struct sl_onnx_lower *l, struct sl_onnx_emit *e, int count,
                                  const int *in, int *out);
/* Emit a node without attributes; with one list of axes; common steps. */
SL_MUST_CHECK sl_err sl_onnx_emit_plain(struct sl_onnx_lower *l, const char *op, int count,
                                        const int *in, int *out);
SL_MUST_CHECK sl_err sl_onnx_emit_reshape(struct sl_onnx_lower *l, int x,
                                          const struct sl_shape *shape, int *out);
SL_MUST_CHECK sl_err sl_onnx_emit_transpose(struct sl_onnx_lower *l, int x, const int *perm,
                                            int *out);
SL_MUST_CHECK sl_err sl_onnx_emit_slice(struct sl_onnx_lower *l, int x, int axis, int64_t from,
                                        int64_t to, int *out);
SL_MUST_CHECK sl_err sl_onnx_emit_scale(struct sl_onnx_lower *l, int x, double by, int *out);
SL_MUST_CHECK sl_err sl_onnx_emit_broadcast(struct sl_onnx_lower *l, int x,
                                            const struct sl_shape *shape, int *out);
/* Emits a constant scalar or tensor, filled with one value, as a state. */
SL_MUST_CHECK sl_err sl_onnx_emit_filled(struct sl_onnx_lower *l, const struct sl_shape *shape,
                                         double value, int *out);

/* Emits a constant tensor of these elements, as a state. */
SL_MUST_CHECK sl_err sl_onnx_emit_constant(struct sl_onnx_lower *l, int rank, const int64_t *dim,
                                           double *values, int *out);

/* Sets an output of the node that is being lowered, converted to integers or floats according to
 * `type`. */
void sl_onnx_lower_out(struct sl_onnx_lower *l, int output, int id, int type);
void sl_onnx_lower_out_konst(struct sl_onnx_lower *l, int output, struct sl_onnx_konst *konst);

/* Lowers all nodes of a graph, in order. */
SL_MUST_CHECK sl_err sl_onnx_lower_graph(struct sl_onnx_lower *l,
                                         const struct sl_proto_graph *graph);
void sl_onnx_lower_add(struct sl_onnx_lower *l, struct sl_onnx_val val);

/* Finds which initialisers are parameters, and their names in the framework. */
SL_MUST_CHECK sl_err sl_onnx_name_initialisers(struct sl_onnx_lower *l);

/* Adds the loss "cross_entropy:logits,labels": an op, and its inputs, which are values of the file
 * or new graph inputs. */
SL_MUST_CHECK sl_err sl_onnx_add_loss(struct sl_onnx_lower *l, const char *text);

#endif
