/* Writes a graph as the nodes of an ONNX file, with one function per family of our ops.
 *
 *   sl_emit_onnx -> for each node that an output needs: row of ops.c -> sl_emit_put ...
 *
 * A function gets the names of the node's inputs (sl_emit_in), puts nodes of ONNX, and sets the
 * names of the outputs (sl_emit_set). Attributes set with sl_emit_with_... belong to the node
 * that is put next. Integers are int64 in the file, and the batch is a symbolic size. After the
 * first error nothing is written. */
#ifndef SL_EMIT_OUT_H
#define SL_EMIT_OUT_H

#include "base/map.h"
#include "graph/graph.h"

struct sl_emit_names {
    int count;
    const char **at;
};

struct sl_emit {
    struct sl_arena arena;
    const struct sl_graph *graph;
    const struct sl_node *node; /* the node that is being written */
    const char *scope;          /* names of values of this node begin with it */
    const char **names;         /* [values] name in the file; NULL: not written */
    bool *needed;               /* [values] does an output of the file need it? */
    struct sl_map used;         /* names that the file uses */
    struct sl_map constants;    /* bytes of a small constant -> index in constant_names */
    SL_VEC(const char *) constant_names;
    struct sl_text nodes; /* encoded nodes */
    struct sl_text attrs; /* encoded attributes of the next node */
    int64_t node_count;
    const char *batch; /* int64 [1], the number of samples; NULL: not needed so far */
    sl_err err;
};

/* Facts about the node that is being written. An absent input has the name "". */
const char *sl_emit_in(const struct sl_emit *o, int input);
bool sl_emit_has(const struct sl_emit *o, int input);
const struct sl_shape *sl_emit_shape(const struct sl_emit *o, int input);
const struct sl_shape *sl_emit_result(const struct sl_emit *o, int output);
const union sl_attr *sl_emit_attr(const struct sl_emit *o, const char *name);
bool sl_emit_is_read(const struct sl_emit *o, int output);
void sl_emit_set(struct sl_emit *o, int output, const char *name);
void sl_emit_refuse(struct sl_emit *o, const char *fmt, ...) SL_PRINTF(2, 3);

/* Set attributes of the next node. */
void sl_emit_with_int(struct sl_emit *o, const char *name, int64_t value);
void sl_emit_with_float(struct sl_emit *o, const char *name, double value);
void sl_emit_with_text(struct sl_emit *o, const char *name, const char *value);
/* Adds an attribute that is a list of one text. */
void sl_emit_with_texts(struct sl_emit *o, const char *name, const char *value);
void sl_emit_with_ints(struct sl_emit *o, const char *name, int count, const int64_t *at);

/* Adds a node with one output, or with `out_count`; returns or sets their names. */
const char *sl_emit_put(struct sl_emit *o, const char *op, int in_count, const char *const *in);
void sl_emit_put_many(struct sl_emit *o, const char *op, struct sl_emit_names in,
                      struct sl_emit_names out);
#define SL_EMIT_PUT(o, op, ...)                                                                    \
    sl_emit_put(o, op, (int)SL_COUNT(((const char *[]){__VA_ARGS__})),                             \
                (const char *[]){__VA_ARGS__})

/* Write constants: a list, one number, a table. */
const char *sl_emit_put_ints(struct sl_emit *o, int count, const int64_t *at);
const char *sl_emit_put_int(struct sl_emit *o, int64_t value);   /* a list of one */
const char *sl_emit_put_number(struct sl_emit *o, double value); /* a scalar */
const char *sl_emit_put_table(struct sl_emit *o, int rank, const int64_t *dim, const float *values);
const char *sl_emit_put_places(struct sl_emit *o, int rank, const int64_t *dim,
                               const int64_t *values);

/* Write common steps. */
enum { SL_EMIT_TO_FLOAT = 1, SL_EMIT_TO_INT = 7, SL_EMIT_TO_BOOL = 9 };
const char *sl_emit_put_cast(struct sl_emit *o, const char *x, int type);
const char *sl_emit_put_shaped(struct sl_emit *o, const char *x, const struct sl_shape *shape);
const char *sl_emit_put_turned(struct sl_emit *o, const char *x, int count, const int64_t *perm);
/* Takes [from, to) of an axis. */
const char *sl_emit_put_slice(struct sl_emit *o, const char *x, int64_t axis, int64_t from,
                              int64_t to);
const char *sl_emit_put_reduce(struct sl_emit *o, const char *op, const char *x,
                               const struct sl_ints *axes, bool keep);
/* Returns `n` times the number of samples, or `n`, as int64 [1]. */
const char *sl_emit_put_size(struct sl_emit *o, struct sl_dim size);
const char *sl_emit_put_wide(struct sl_emit *o, const char *x, const struct sl_shape *from,
                             const struct sl_shape *to);

/* A row of the table: how an op is written. */
struct sl_emit_row {
    const struct sl_op *op;
    void (*write)(struct sl_emit *o, const char *onnx);
    const char *onnx; /* the ONNX operator, if the function serves several */
};
const struct sl_emit_row *sl_emit_row_find(const struct sl_op *op); /* NULL: there is none */

#endif
