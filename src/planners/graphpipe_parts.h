/* The parts of a model that GraphPipe's partitioner composes stages from. Private to graphpipe*.c.
 *
 * A part copies a node of the series-parallel tree. Two things keep the search small:
 *     small parallel parts become opaque (they stay in one stage), such as the q, k and v
 *     projections of one attention layer;
 *     children of a long series are grouped, cut where few bytes cross.
 */
#ifndef SL_SEARCH_GRAPHPIPE_PARTS_H
#define SL_SEARCH_GRAPHPIPE_PARTS_H

#include "planners/graphpipe.h"
#include "search/cuts.h"

enum {
    SL_PLANNERS_GRAPHPIPE_RUNS = 96, /* children of a series */
    SL_PLANNERS_GRAPHPIPE_SUBSETS =
        7, /* branches of which every subset is a stage; of more: neighbours */
};

/* The best solution of a sub-problem. */
struct sl_planners_graphpipe_entry {
    int16_t window; /* at its source */
    int16_t cut;    /* last stage: its first child, or its set of branches; -1: a parallel part */
    int16_t width;  /* of that stage, or devices of that part */
};

struct sl_planners_graphpipe_part {
    enum sl_sp_kind kind; /* SL_SP_LEAF: opaque */
    const struct sl_planners_graphpipe_part **children;
    int child_count;
    const int *units; /* in topological order */
    int unit_count;
    struct sl_cut_stage *stages; /* series: [from][to]; parallel: [stage set]; leaf: one */
    bool *known;                 /* of stages */
    struct sl_planners_graphpipe_entry *memo; /* [position][window behind][devices] */
};

/* Is a set of branches a bit mask? Of many branches it is a range of neighbours. */
static inline bool
sl_planners_graphpipe_has_subsets(const struct sl_planners_graphpipe_part *part) {
    return part->child_count <= SL_PLANNERS_GRAPHPIPE_SUBSETS;
}

/* NULL if there are no units. */
const struct sl_planners_graphpipe_part *
sl_planners_graphpipe_parts(struct sl_arena *arena, const struct sl_problem *problem,
                            const struct sl_sp_tree *tree, int size);

/* Sums over a set of units: times on the slowest kind of device, bytes, traffic. inside[u]: is unit
 * u in the set? */
void sl_planners_graphpipe_sums(const struct sl_problem *problem,
                                const struct sl_planners_graphpipe_rules *rules, const bool *inside,
                                const int *units, int count, struct sl_cut_stage *out);

#endif
