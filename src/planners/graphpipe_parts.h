/* The parts of a model that GraphPipe's partitioner composes stages from, and the labels of its
 * dynamic program. Private to graphpipe*.c.
 *
 * A part copies a node of the series-parallel tree. Two things keep the search small:
 *     small parallel parts become opaque (they stay in one stage), such as the q, k and v
 *     projections of one attention layer;
 *     children of a long series are grouped, cut where few bytes cross.
 */
#ifndef SL_PLANNERS_GRAPHPIPE_PARTS_H
#define SL_PLANNERS_GRAPHPIPE_PARTS_H

#include "planners/graphpipe.h"
#include "search/cuts.h"

enum {
    SL_PLANNERS_GRAPHPIPE_RUNS = 96, /* most children of a series */
    SL_PLANNERS_GRAPHPIPE_SUBSETS =
        7, /* up to this many branches, every subset may be a stage; of more, only neighbours */
};

struct sl_planners_graphpipe_part;

/* The units of one stage: children of a part, and perhaps the tail of a branch before them. */
struct sl_planners_graphpipe_piece {
    const struct sl_planners_graphpipe_part *part;
    /* of a series: its children [from, to); of a parallel part: a set of branches as in
     * sl_planners_graphpipe_holds */
    int from, to;
    /* branch of child from - 1 of the series whose tail belongs to the stage too; -1: none */
    int branch;
    int tail; /* first child of that tail in its branch */
};

/* A partial solution: the stages of everything from some place on to the sink of its part. */
struct sl_planners_graphpipe_label {
    const struct sl_planners_graphpipe_label *next; /* the other pieces; NULL: none */
    /* decomposition of the first piece; NULL: the first piece is one stage */
    const struct sl_planners_graphpipe_label *inner;
    struct sl_planners_graphpipe_piece piece; /* the first piece */
    int config, width, devices; /* config, width: of that stage; devices: of all stages */
    /* [configs + 1] the in-flight samples that a stage before these needs with each configuration;
     * last, those of the source stages of this label. */
    int64_t need[];
};

/* A list of labels in which none dominates another: each has fewer devices or less need
 * somewhere. */
struct sl_planners_graphpipe_list {
    struct sl_planners_graphpipe_label **at;
    int count, room;
};

/* Adds a copy of `label` unless a label in the list is as good, and removes labels that are no
 * better. False: the list already has `max` labels (0: no limit). */
bool sl_planners_graphpipe_insert(struct sl_arena *arena, struct sl_planners_graphpipe_list *list,
                                  const struct sl_planners_graphpipe_label *label, int needs,
                                  int max);

/* The solutions of a part from some place on, for one need of its successors. */
struct sl_planners_graphpipe_solved {
    const struct sl_planners_graphpipe_solved *next;
    int place, tail;
    const int64_t *behind;
    const struct sl_planners_graphpipe_list *list;
};

struct sl_planners_graphpipe_part {
    enum sl_sp_kind kind; /* SL_SP_LEAF: the part is opaque */
    const struct sl_planners_graphpipe_part **children;
    int child_count;
    const int *units; /* units in topological order */
    int unit_count;
    /* sums of stages, per [size]; of a series: [from][to]; of a parallel part: [set of branches] */
    struct sl_cut_stage *stages;
    bool *known; /* which entries of `stages` have been computed */
    /* series: [end] least time in ns of the passes of children [0, end) for a batch */
    double *ahead;
    /* parallel part: sums of stages that begin with the tail of a branch: [run][tail_at[branch] +
     * tail][size] */
    struct sl_cut_stage *tails;
    bool *tails_known;
    int *tail_at, tail_count; /* tail_count 0: there are too many tails */
    const struct sl_planners_graphpipe_solved *solved;
};

/* Is a set of branches represented as a bit mask? If there are many branches, it is a range of
 * neighbours. */
static inline bool
sl_planners_graphpipe_has_subsets(const struct sl_planners_graphpipe_part *part) {
    return part->child_count <= SL_PLANNERS_GRAPHPIPE_SUBSETS;
}

/* Enumerates the sets of branches that may form a stage: those that contain the first branch of
 * `all`. Returns the set after `set`, or 0 after the last one. With many branches, `all` is the
 * first remaining branch, and `set` the first branch after the set. */
int sl_planners_graphpipe_next_set(const struct sl_planners_graphpipe_part *part, int all, int set);
/* The set of all branches; and the first set to try. */
int sl_planners_graphpipe_whole(const struct sl_planners_graphpipe_part *part);
int sl_planners_graphpipe_first_set(const struct sl_planners_graphpipe_part *part, int all);
/* Sets of branches: `without` removes `set` from `all`, `lowest` returns the first branch of `all`,
 * `holds` returns true if the branch is in the set. */
int sl_planners_graphpipe_without(const struct sl_planners_graphpipe_part *part, int all, int set);
int sl_planners_graphpipe_lowest(const struct sl_planners_graphpipe_part *part, int all);
bool sl_planners_graphpipe_holds(const struct sl_planners_graphpipe_part *part, int all, int set,
                                 int branch);

/* Makes the parts; NULL if there are no units. */
const struct sl_planners_graphpipe_part *
sl_planners_graphpipe_parts(struct sl_arena *arena, const struct sl_problem *problem,
                            const struct sl_sp_tree *tree, int size);

#endif
