/* Making a chunk: private to decode/chunk.c (values, the graph) and decode/chunk_rules.c (ops). */
#ifndef SL_DECODE_CHUNK_MAKE_H
#define SL_DECODE_CHUNK_MAKE_H

#include "decode/chunk.h"

/* Where the tokens are in a tensor: the product of the sizes behind them. [B,T,C]: C. [B,H,G*T,D]: D.
 * Reshaping does not change it. NONE: all tokens of the text, in a tensor with the original shape. */
enum { SL_DECODE_NONE = 0, SL_DECODE_FAILED = -1 };

struct sl_decode_place { /* of the tokens in a shape: axis, and i in an axis of o * T * i */
    int axis;
    int64_t before, after;
};

struct sl_decode_maker {
    const struct sl_graph *from;
    struct sl_graph *to;
    struct sl_arena arena;
    struct sl_decode_sizes sizes;
    int64_t length, batch;        /* N, B */
    int tokens, past, last, text; /* values of `to`; text: -1 until it is needed */
    int logits, pick;    /* of `from`: the result, and the value of which one row goes on */
    bool *moves, *cheap; /* [values] depends on the tokens; by ops without parameters */
    struct sl_map made;  /* "value.place" -> value of `to` */
    struct sl_map tried; /* the same in a dry run, which makes nothing: would it work? */
    bool dry;
    sl_err err; /* of a node that could not be added */
    int caches;
    const struct sl_node *blocked; /* the node that refused last */
};

/* chunk.c: the value of the chunk graph for a value of the whole one. */
int sl_decode_make(struct sl_decode_maker *m, int value, int64_t inner);
/* chunk_rules.c: the chunk of a node's value; all tokens of a value; rows of a value that is whole. */
int sl_decode_make_node(struct sl_decode_maker *m, int value, const struct sl_node *node,
                        int64_t inner);
int sl_decode_copy_whole(struct sl_decode_maker *m, const struct sl_node *node, int slot);
int sl_decode_cache_value(struct sl_decode_maker *m, int value);
int sl_decode_take_rows(struct sl_decode_maker *m, int value, int64_t inner);
int sl_decode_add_node(struct sl_decode_maker *m, const struct sl_op *op, int count, const int *in,
                       const union sl_attr *attr, const char *scope);

static inline const struct sl_shape *sl_decode_shape_of(const struct sl_decode_maker *m,
                                                        int value) {
    return &sl_graph_value(m->from, value)->shape;
}

static inline const struct sl_node *sl_decode_node_of(const struct sl_decode_maker *m, int value) {
    const struct sl_value *v = sl_graph_value(m->from, value);
    return v->kind == SL_VALUE_NODE ? &m->from->nodes.at[v->node] : NULL;
}

#endif
