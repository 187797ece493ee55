/* The branch structure of a forward graph: where it is a chain and where it has parallel
 * branches.
 *
 *        cut                segment                 cut
 *         o --+-- component: nodes that hang -- +--- o      every path from the inputs to the
 *             +-- together                    --+           losses passes through every cut
 *         `----- skip edge: bypasses the others -----'
 *
 * Only nodes that depend on an input and on a parameter and reach a loss carry the structure. A
 * side node (label, mask, sliced parameter) belongs to the owner of its first reader. The source
 * of a skip edge dominates another input of its target; such an edge does not constrain the
 * order and is ignored. A skip edge is long if it bypasses other residual additions, or if it
 * bypasses weights and ends in a concat (U-Net). Other skip edges are plain (residual additions,
 * gates). Components are divided recursively. */
#ifndef SL_GRAPH_BRANCH_H
#define SL_GRAPH_BRANCH_H

#include "graph/graph.h"

struct sl_component {
    int segment;
    int *nodes; /* nodes that carry the structure, in order */
    int node_count;
    int side_count; /* number of side nodes that belong to them */
    int weighted;   /* number of nodes that read a parameter */
    int layers[SL_LAYER_KINDS];
    int64_t parameters; /* number of elements; each parameter counts once */
    double flops;       /* forward flops per sample */
};

struct sl_segment {
    int from, to;     /* nodes; -1: the inputs (from), the losses (to) */
    int parent;       /* component that it is a part of; -1: the trunk */
    int level;        /* depth; 0: a segment of the trunk */
    int first, count; /* its components; count 1: no cut divides it further */
};

struct sl_skip {
    int from, to; /* nodes at its ends */
    int length;   /* number of nodes on the longest path that it bypasses */
    bool is_long;
};

struct sl_branches {
    const int *cuts; /* nodes that are cuts of the trunk, in order */
    int cut_count, node_count, side_count;
    const struct sl_segment *segments; /* segments that are not empty, parents first */
    const struct sl_component *components;
    const struct sl_skip *skips; /* sorted by target */
    int segment_count, component_count, skip_count, long_skip_count;
};

/* Finds the structure in time n log n in the number of nodes; the result is in the arena. */
const struct sl_branches *sl_graph_branches(const struct sl_graph *graph, struct sl_arena *arena);

/* Writes one line of text per finding: "4 parallel branches (8 attention layers each) joined by
 * concat". */
void sl_graph_branches_put(const struct sl_graph *graph, const struct sl_branches *branches,
                           struct sl_text *text);

#endif
