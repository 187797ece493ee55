/* The table of ops, and an interpreter that runs a graph with their reference kernels. */
#ifndef SL_OP_REGISTRY_H
#define SL_OP_REGISTRY_H

#include "graph/graph.h"

/* All ops in alphabetical order. */
extern const struct sl_op *const sl_op_rows[];
extern const int sl_op_count;

/* Per row: the ONNX operator and the PyTorch function that compute the same; NULL: none. */
struct sl_op_names {
    const char *onnx, *torch;
};
extern const struct sl_op_names sl_op_names[];

const struct sl_op *sl_op_find(struct sl_str name);
/* Returns the op name nearest to `name` that model files may use, or NULL. */
const char *sl_op_nearest(const char *name);

/* A reference run: holds every value of a graph as a double (or int32) array, for one
 * micro-batch. */
struct sl_ref_run {
    const struct sl_graph *graph;
    int64_t batch;
    uint64_t seed;
    int64_t first_sample;
    struct sl_array *arrays; /* [values] allocated arrays */
    struct sl_arena arena;
};

/* Opens a run: arrays are zero, parameters and states have their initial values (seed, name). */
struct sl_ref_run *sl_op_ref_open(const struct sl_graph *graph, int64_t batch, uint64_t seed);
void sl_op_ref_close(struct sl_ref_run *run);
/* Runs nodes [from, to). A seed holds the weight of its loss unless the caller sets it. */
void sl_op_ref_nodes(struct sl_ref_run *run, int64_t from, int64_t to);
/* Returns the sum over losses of weight x value. */
double sl_op_ref_loss(const struct sl_ref_run *run);

/* Returns the initial value of element `index` of a parameter: a pure function, independent of the
 * layout. */
double sl_op_init_value(const struct sl_init *init, uint64_t seed, uint64_t stream, int64_t index);

#endif
