/* The parts of a model that GraphPipe's partitioner composes stages from, and the labels of its
 * dynamic program. Private to graphpipe*.c.
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

struct sl_planners_graphpipe_part;

/* The units of one stage. */
struct sl_planners_graphpipe_piece {
    const struct sl_planners_graphpipe_part *part;
    int from, to; /* of a series: its children [from, to); of a parallel part: as in
                   * sl_planners_graphpipe_holds */
    int branch;   /* also the tail of this branch of child from - 1 of the series; -1: none */
    int tail;     /* its first child in that branch */
};

/* A partial solution: stages of everything from some place to the sink of its part. */
struct sl_planners_graphpipe_label {
    const struct sl_planners_graphpipe_label *next;  /* the rest; NULL: there is none */
    const struct sl_planners_graphpipe_label *inner; /* first piece: decomposed so; NULL: a stage */
    struct sl_planners_graphpipe_piece piece;        /* that stage */
    int config, width, devices; /* width: of that stage; devices: of all stages */
    /* [configs + 1] in-flight samples that a stage before these needs with each configuration; and
     * those of the source stages here. */
    int64_t need[];
};

/* No label of a list dominates another: fewer devices or less need somewhere. */
struct sl_planners_graphpipe_list {
    struct sl_planners_graphpipe_label **at;
    int count, room;
};

/* Adds a copy of `label` unless one in the list is as good; removes those that are no better. False:
 * the list has `max` labels already (0: no limit). */
bool sl_planners_graphpipe_insert(struct sl_arena *arena, struct sl_planners_graphpipe_list *list,
                                  const struct sl_planners_graphpipe_label *label, int needs,
                                  int max);

/* Solutions of a part, up to some place, for one need of its successors. */
struct sl_planners_graphpipe_solved {
    const struct sl_planners_graphpipe_solved *next;
    int place, tail;
    const int64_t *behind;
    const struct sl_planners_graphpipe_list *list;
};

struct sl_planners_graphpipe_part {
    enum sl_sp_kind kind; /* SL_SP_LEAF: opaque */
    const struct sl_planners_graphpipe_part **children;
    int child_count;
    const int *units; /* in topological order */
    int unit_count;
    struct sl_cut_stage *stages; /* [size] of series: [from][to]; of parallel: [stage set] */
    bool *known;                 /* of stages */
    double *ahead; /* series: [end] least ns of the passes of children [0, end) for a batch */
    /* Parallel: stages that begin with a tail of a branch, [run][tail_at[branch] + tail][size]. */
    struct sl_cut_stage *tails;
    bool *tails_known;
    int *tail_at, tail_count; /* tail_count 0: too many */
    const struct sl_planners_graphpipe_solved *solved;
};

/* Is a set of branches a bit mask? Of many branches it is a range of neighbours. */
static inline bool
sl_planners_graphpipe_has_subsets(const struct sl_planners_graphpipe_part *part) {
    return part->child_count <= SL_PLANNERS_GRAPHPIPE_SUBSETS;
}

/* Sets of branches that may form a stage. Of many branches: `all` is the first branch left, and
 * `set` the first one after the set. The next set after `set` that contains the first branch of
 * `all`; 0: that was the last one. */
int sl_planners_graphpipe_next_set(const struct sl_planners_graphpipe_part *part, int all, int set);
/* All branches. */
int sl_planners_graphpipe_whole(const struct sl_planners_graphpipe_part *part);
int sl_planners_graphpipe_first_set(const struct sl_planners_graphpipe_part *part, int all);
/* `all` without `set`; the first branch of `all`; is the branch in the set? */
int sl_planners_graphpipe_without(const struct sl_planners_graphpipe_part *part, int all, int set);
int sl_planners_graphpipe_lowest(const struct sl_planners_graphpipe_part *part, int all);
bool sl_planners_graphpipe_holds(const struct sl_planners_graphpipe_part *part, int all, int set,
                                 int branch);

/* NULL if there are no units. */
const struct sl_planners_graphpipe_part *
sl_planners_graphpipe_parts(struct sl_arena *arena, const struct sl_problem *problem,
                            const struct sl_sp_tree *tree, int size);

#endif
