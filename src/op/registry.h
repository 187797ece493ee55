/* The table of ops, and an interpreter that runs a graph with their reference kernels. */
#ifndef SL_OP_REGISTRY_H
#define SL_OP_REGISTRY_H

#include "graph/graph.h"

/* All ops in alphabetical order. */
extern const struct sl_op *const sl_op_rows[];
extern const int sl_op_count;

/* The operator of ONNX and the function of PyTorch that compute the same; NULL: none. By row. */
struct sl_op_names {
    const char *onnx, *torch;
};
extern const struct sl_op_names sl_op_names[];

const struct sl_op *sl_op_find(struct sl_str name);
/* The op name nearest to `name` that model files may use, or NULL. */
const char *sl_op_nearest(const char *name);

/* Reference run: every value of a graph as a double (or int32) array, for one micro-batch. */
struct sl_ref_run {
    const struct sl_graph *graph;
    int64_t batch;
    uint64_t seed;
    int64_t first_sample;
    struct sl_array *arrays; /* [values], allocated */
    struct sl_arena arena;
};

/* Arrays are zero; parameters and states get their initial values (seed, name). */
struct sl_ref_run *sl_op_ref_open(const struct sl_graph *graph, int64_t batch, uint64_t seed);
void sl_op_ref_close(struct sl_ref_run *run);
/* Run nodes [from, to). A seed holds the weight of its loss unless the caller sets it. */
void sl_op_ref_nodes(struct sl_ref_run *run, int64_t from, int64_t to);
/* Sum over losses of weight x value. */
double sl_op_ref_loss(const struct sl_ref_run *run);

/* The initial value of element `index` of a parameter: a pure function, independent of layout. */
double sl_op_init_value(const struct sl_init *init, uint64_t seed, uint64_t stream, int64_t index);

#endif
