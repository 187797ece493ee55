/* Making a chunk: private to decode/chunk.c (values, the graph) and decode/chunk_rules.c (ops). */
#ifndef SL_DECODE_CHUNK_MAKE_H
#define SL_DECODE_CHUNK_MAKE_H

#include "decode/chunk.h"

/* The position of the tokens in a tensor is stated as the product of the sizes after them. [B,T,C]:
 * C. [B,H,G*T,D]: D. Reshaping does not change this product. NONE: the tensor has its original
 * shape, with all tokens of the text. */
enum { SL_DECODE_NONE = 0, SL_DECODE_FAILED = -1 };

/* Where the tokens are in a shape: their axis, and i if the size of that axis is o * T * i. */
struct sl_decode_place {
    int axis;
    int64_t before, after;
};

struct sl_decode_maker {
    const struct sl_graph *from;
    struct sl_graph *to;
    struct sl_arena arena;
    struct sl_decode_sizes sizes;
    int64_t length, batch;        /* N, B */
    int tokens, past, last, text; /* values of `to`; text is -1 until it is needed */
    /* values of `from`: the result, and the value of which only one row is used */
    int logits, pick;
    /* [values] moves: it depends on the tokens; cheap: only ops without parameters compute it */
    bool *moves, *cheap;
    struct sl_map made; /* "value.place" -> value of `to` */
    /* the same for a dry run, which makes nothing and only finds out whether it would work */
    struct sl_map tried;
    bool dry;
    sl_err err; /* error of a node that could not be added */
    int caches;
    const struct sl_node *blocked; /* the last node that could not be made */
};

/* chunk.c. Returns the value of the chunk's graph for a value of the whole graph. */
int sl_decode_make(struct sl_decode_maker *m, int value, int64_t inner);
/* chunk_rules.c. make_node: the chunk of a node's value. copy_whole: a value with all its tokens.
 * take_rows: rows of a value that is whole. */
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
