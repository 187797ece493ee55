/* The state of a rewriting pass, which reads graph `from` and writes graph `to`. A pattern
 * function gets a node of `from`. It either leaves *out at -1, or emits nodes in `to` and sets
 * *out to the value that replaces output 0. */
#ifndef SL_REWRITE_FUSE_H
#define SL_REWRITE_FUSE_H

#include "rewrite/rewrite.h"

struct sl_rewrite {
    const struct sl_graph *from;
    struct sl_graph *to;
    const struct sl_rewrite_constants *constants;
    int *map;     /* [values of from] the value in `to` */
    int *readers; /* [values of from] number of nodes, losses and outputs that read it */
    bool changed;
};

typedef sl_err sl_rewrite_pattern(struct sl_rewrite *f, const struct sl_node *node, int *out);

/* Returns the node that makes a value if it is an op of this name, else NULL. */
const struct sl_node *sl_rewrite_made_by(const struct sl_rewrite *f, int value, const char *op);
bool sl_rewrite_is(const struct sl_node *node, const char *op);
/* shape in `from` */
const struct sl_shape *sl_rewrite_shape(const struct sl_rewrite *f, int value);
/* Return attributes by name. */
int64_t sl_rewrite_int(const struct sl_node *node, const char *attr);
double sl_rewrite_float(const struct sl_node *node, const char *attr);
const struct sl_ints *sl_rewrite_ints(const struct sl_node *node, const char *attr);

/* A constant tensor of `from`, seen through reshape, broadcast_to and casts. */
struct sl_rewrite_constant {
    struct sl_shape shape; /* shape of the state; its last axis is the value's last axis */
    const double *f;       /* NULL: every element is `all` */
    double all;
};
bool sl_rewrite_constant(const struct sl_rewrite *f, int value, struct sl_rewrite_constant *out);
/* at returns element [row, column] of the last two axes; the other axes must have size 1
 * (is_matrix). */
bool sl_rewrite_is_matrix(const struct sl_rewrite_constant *c);
double sl_rewrite_at(const struct sl_rewrite_constant *c, int64_t row, int64_t column);
/* Returns one number: that of a state whose elements are all equal. */
bool sl_rewrite_number(const struct sl_rewrite *f, int value, double *out);
/* Are they equal within a relative 1e-6? Numbers in files are rounded to fp32. */
bool sl_rewrite_near(double a, double b);

/* For an op that commutes: returns the input that an `op` makes, and sets *other to the other
 * input. */
const struct sl_node *sl_rewrite_side(const struct sl_rewrite *f, const struct sl_node *node,
                                      const char *op, int *other);

/* Emit nodes in `to`; their inputs are values of `to`. */
SL_MUST_CHECK sl_err sl_rewrite_emit(struct sl_rewrite *f, const char *op, int count, const int *in,
                                     const union sl_attr *attr, int *out);
SL_MUST_CHECK sl_err sl_rewrite_reshape(struct sl_rewrite *f, int x, const struct sl_shape *shape,
                                        int *out);
SL_MUST_CHECK sl_err sl_rewrite_transpose(struct sl_rewrite *f, int x, const int *perm, int *out);

extern sl_rewrite_pattern sl_rewrite_views, sl_rewrite_transposes, sl_rewrite_scales,
    sl_rewrite_broadcasts, sl_rewrite_guard, sl_rewrite_silu, sl_rewrite_gelu_erf,
    sl_rewrite_gelu_tanh, sl_rewrite_layernorm, sl_rewrite_rmsnorm, sl_rewrite_groupnorm,
    sl_rewrite_rope, sl_rewrite_attention, sl_rewrite_heads;

#endif
