/* Shapes with a symbolic micro-batch.
 *
 * Each size is `dim[i]`, multiplied by B if bit i of `batch` is set. B is the number of samples
 * of a micro-batch and stays unknown until a program is compiled: [B,T,C] flattened is [B*T,C]. */
#ifndef SL_GRAPH_SHAPE_H
#define SL_GRAPH_SHAPE_H

#include "base/text.h"

enum { SL_MAX_RANK = 6 };

/* Most elements of a tensor per sample; keeps every product inside int64. */
#define SL_MAX_NUMEL ((int64_t)1 << 48)

struct sl_shape {
    int rank;
    unsigned batch; /* bit i: dim[i] is multiplied by B */
    int64_t dim[SL_MAX_RANK];
};

/* One size of a shape. */
struct sl_dim {
    int64_t n;
    bool batch;
};

struct sl_dim sl_graph_shape_dim(const struct sl_shape *shape, int axis); /* axis may be negative */
void sl_graph_shape_set(struct sl_shape *shape, int axis, struct sl_dim dim);
bool sl_graph_shape_equal(const struct sl_shape *a, const struct sl_shape *b);
bool sl_graph_dim_equal(struct sl_dim a, struct sl_dim b);

/* numel: elements for a micro-batch of `batch` samples; batch 1: elements per sample. */
int64_t sl_graph_shape_numel(const struct sl_shape *shape, int64_t batch);
/* Returns the product of sizes as one dim; at most one of them may contain B. */
struct sl_dim sl_graph_shape_product(const struct sl_shape *shape, int from, int to);
/* Returns the shape with a number instead of B. */
struct sl_shape sl_graph_shape_at(const struct sl_shape *shape, int64_t batch);

/* Checks that at most one size contains B, that sizes are positive, and that their product is at
 * most SL_MAX_NUMEL. */
SL_MUST_CHECK sl_err sl_graph_shape_check(const struct sl_shape *shape);

/* Broadcasts as numpy does; SL_ERR_INPUT with both shapes if that is impossible. */
SL_MUST_CHECK sl_err sl_graph_shape_broadcast(const struct sl_shape *a, const struct sl_shape *b,
                                              struct sl_shape *out);

/* Writes "[B,128,64]" into `out` and returns it. */
enum { SL_SHAPE_TEXT = 160 };
const char *sl_graph_shape_text(const struct sl_shape *shape, char out[SL_SHAPE_TEXT]);

/* Makes a shape from rank, batch bits and sizes: SL_SHAPE(2, 1, 5, 7) is [B*5,7]. */
#define SL_SHAPE(rank_, batch_, ...)                                                               \
    ((struct sl_shape){.rank = (rank_), .batch = (batch_), .dim = {__VA_ARGS__}})

#endif
