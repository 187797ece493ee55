/* A series-parallel tree shows how the order of a DAG is composed (Valdes, Tarjan and Lawler
 * 1982).
 *
 *     leaf      one vertex
 *     series    children one after another: each vertex of a child precedes all of the next child
 *     parallel  children without a path between them
 *
 *     a -> b -> d, a -> c -> d     is     series(a, parallel(b, c), d)
 *
 * The tree describes the order, so an edge that follows from other paths (a skip connection) does
 * not disturb it. An order that contains an N (a < c, b < c, b < d and no other relation among the
 * four) has no such tree. It is extended: vertices up to some level precede all later ones. This
 * only delays vertices, so the computation stays the same; `added` counts the new relations. */
#ifndef SL_GRAPH_SERIES_PARALLEL_H
#define SL_GRAPH_SERIES_PARALLEL_H

#include "graph/ideals.h"

enum sl_sp_kind { SL_SP_LEAF, SL_SP_SERIES, SL_SP_PARALLEL };

struct sl_sp {
    enum sl_sp_kind kind;
    int vertex;                          /* vertex of a leaf */
    const struct sl_sp *const *children; /* at least two; no child has its parent's kind */
    int child_count;
    const int *vertices; /* all vertices below it, child after child: a topological order */
    int vertex_count;
};

struct sl_sp_tree {
    const struct sl_sp *root; /* NULL: there are no vertices */
    /* number of relations added because the order is not series-parallel; 0: it is */
    int64_t added;
    int example[4]; /* a, b, c, d of one N, if `added` > 0 */
};

/* Builds the tree in the arena; takes count^2 / 8 bytes meanwhile. The DAG must have no cycle. */
void sl_graph_sp_build(struct sl_arena *arena, const struct sl_dag *dag, struct sl_sp_tree *out);

#endif
