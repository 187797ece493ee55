/* Lowering: the nodes of an ONNX graph become nodes of ours, one function per family of operators.
 *
 *   value of the file --> constant (konst.h)   computed while importing
 *                     --> tensor               a value of the graph under construction
 *                     --> failed               an operator that we refuse; the reason is reported
 *                                              only if something needs the value
 *
 * A lowered node whose value nobody reads is dropped at the end (prune.c), so a pattern of several
 * nodes may be replaced when its last node comes.
 */
#ifndef SL_ONNX_LOWER_H
#define SL_ONNX_LOWER_H

#include "base/map.h"
#include "graph/graph.h"
#include "onnx/konst.h"

struct sl_onnx_val {
    const char *name;
    enum { SL_ONNX_FAILED, SL_ONNX_KONST, SL_ONNX_TENSOR } kind;
    struct sl_onnx_konst *konst;
    bool is_param; /* a trainable initialiser: its value is not constant */
    int id;        /* in the graph; -1: not there (yet) */
    int type;      /* the file's */
    int readers;
    const struct sl_proto_node *node; /* that computes it, or NULL */
    const char *why;                  /* failed */
    /* Of an initialiser that torch computed from a parameter (names.c): */
    const char *title; /* the parameter's name, or NULL */
    bool turned;       /* it is the parameter's transpose */
    const char *twin;  /* it is the transpose of this initialiser, which the file has too */
    const char *same;  /* it is this other initialiser again */
};

/* An initial value that comes from the file: a parameter or constant of the graph. */
struct sl_onnx_stored {
    const char *name; /* in the graph */
    const struct sl_onnx_konst *konst;
    bool turned; /* the graph has the transpose */
};

struct sl_onnx_lower {
    struct sl_arena *arena;
    struct sl_proto_file *file;
    struct sl_graph *graph;
    struct sl_map names; /* of values: index in vals */
    SL_VEC(struct sl_onnx_val) vals;
    SL_VEC(struct sl_onnx_stored) stored;
    const struct sl_proto_node *node;      /* being lowered */
    const char *batch;                     /* the name of the symbolic size that is B */
    int depth;                             /* of graphs inside graphs */
    int64_t folded_max;                    /* of them */
    int64_t folded;                        /* elements of constants computed so far */
    struct sl_map used_names;              /* names in the graph */
    struct sl_map stored_names;            /* of `stored`, made when first asked for */
    const struct sl_onnx_konst *turned_of; /* the tensor in `turned`, NULL: none */
    float *turned;                         /* its transpose */
};

/* A row of the mapping table. */
struct sl_onnx_row {
    const char *op; /* ONNX's name */
    sl_err (*lower)(struct sl_onnx_lower *l, const struct sl_onnx_row *row);
    const char *ours;   /* the op that it becomes; refused where the registry has none. NULL: any */
    bool failed_inputs; /* it looks at how its inputs were made: they may have failed */
};
const struct sl_onnx_row *sl_onnx_row_find(const char *op);
const struct sl_onnx_row *sl_onnx_row_at(int index); /* NULL after the last */

/* Refuses the node being lowered. */
sl_err sl_onnx_lower_refuse(const struct sl_onnx_lower *l, const char *fmt, ...) SL_PRINTF(2, 3);

/* A name of the graph's language made of a name of the file; unique. */
const char *sl_onnx_lower_name(struct sl_onnx_lower *l, const char *name);

/* Inputs of the node being lowered. */
bool sl_onnx_lower_has(const struct sl_onnx_lower *l, int input);
struct sl_onnx_val *sl_onnx_lower_val(struct sl_onnx_lower *l, int input); /* NULL: absent */
struct sl_onnx_val *sl_onnx_lower_named(struct sl_onnx_lower *l, const char *name);
/* As a value of the graph; a constant becomes a parameter or state. */
SL_MUST_CHECK sl_err sl_onnx_lower_in(struct sl_onnx_lower *l, int input, int *out);
/* The same as floats: whole numbers are converted. */
SL_MUST_CHECK sl_err sl_onnx_lower_float(struct sl_onnx_lower *l, int input, int *out);
SL_MUST_CHECK sl_err sl_onnx_lower_id(struct sl_onnx_lower *l, struct sl_onnx_val *val, int *out);
/* As a loaded constant; `out` is NULL if it is absent. A tensor is refused. */
SL_MUST_CHECK sl_err sl_onnx_lower_konst(struct sl_onnx_lower *l, int input,
                                         const struct sl_onnx_konst **out);
/* The same, NULL also where it is no constant. */
const struct sl_onnx_konst *sl_onnx_lower_maybe(struct sl_onnx_lower *l, int input);
const struct sl_onnx_konst *sl_onnx_lower_known(struct sl_onnx_lower *l, struct sl_onnx_val *val);
/* One number that the node has as a constant input. */
SL_MUST_CHECK sl_err sl_onnx_lower_number(struct sl_onnx_lower *l, int input, double *out);
const struct sl_shape *sl_onnx_lower_shape(const struct sl_onnx_lower *l, int id);
bool sl_onnx_lower_is_int(const struct sl_onnx_lower *l, int id);
SL_MUST_CHECK sl_err sl_onnx_lower_axis(const struct sl_onnx_lower *l, int64_t axis, int rank,
                                        int *out);
/* A list of axes: input `input` if the node has it, else the attribute `axes`. */
SL_MUST_CHECK sl_err sl_onnx_lower_axes(struct sl_onnx_lower *l, int input, int rank,
                                        struct sl_ints *out);

/* Nodes of the graph. */
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
/* Without attributes; with one axis list; common steps. */
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
/* A constant scalar or tensor filled with one value, as a state. */
SL_MUST_CHECK sl_err sl_onnx_emit_filled(struct sl_onnx_lower *l, const struct sl_shape *shape,
                                         double value, int *out);

/* A constant tensor of these elements, as a state. */
SL_MUST_CHECK sl_err sl_onnx_emit_constant(struct sl_onnx_lower *l, int rank, const int64_t *dim,
                                           double *values, int *out);

/* Outputs of the node being lowered; converted to whole numbers or floats, as `type` says. */
void sl_onnx_lower_out(struct sl_onnx_lower *l, int output, int id, int type);
void sl_onnx_lower_out_konst(struct sl_onnx_lower *l, int output, struct sl_onnx_konst *konst);

/* All nodes of a graph, in order. */
SL_MUST_CHECK sl_err sl_onnx_lower_graph(struct sl_onnx_lower *l,
                                         const struct sl_proto_graph *graph);
void sl_onnx_lower_add(struct sl_onnx_lower *l, struct sl_onnx_val val);

/* Which initialisers are parameters, and the names that they had in the framework. */
SL_MUST_CHECK sl_err sl_onnx_name_initialisers(struct sl_onnx_lower *l);

/* "cross_entropy:logits,labels": the op, its inputs: values of the file or new graph inputs. */
SL_MUST_CHECK sl_err sl_onnx_add_loss(struct sl_onnx_lower *l, const char *text);

#endif
