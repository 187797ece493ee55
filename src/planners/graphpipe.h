/* GraphPipe's partitioner (Jeon et al. 2025, sec. 5 and algorithm 1).
 *
 * A stage graph is composed like the model itself (graph/series_parallel.h):
 *     one stage    any run of a series, or any set of branches of a parallel part, on w devices;
 *                  a run that follows a parallel part may begin with the tail of one branch
 *     series       a decomposition of a prefix, then one of the rest
 *     parallel     decompositions of the branches, each on its own devices
 *
 *     bisection over T, the time of the slowest stage for the whole batch
 *       -> dynamic program from the sink to the source: is there a stage graph whose stages all
 *          take at most T and fit? Among those, the one with the fewest samples in flight at its
 *          source.
 *
 * Each stage has a configuration: the size of its micro-batches and k of its kFkB schedule. Its
 * samples in flight follow from those of its successors (sl_schedules_row_need), and fix its
 * memory; so successors are solved first.
 *
 * Choices that the paper leaves open: widths are powers of two; devices may stay idle; whole
 * micro-batches go to replicas in turn, as everywhere in Sluice. */
#ifndef SL_PLANNERS_GRAPHPIPE_H
#define SL_PLANNERS_GRAPHPIPE_H

#include "graph/series_parallel.h"
#include "search/candidate.h"

struct sl_planners_graphpipe_config {
    int size;  /* index into problem->sizes */
    int group; /* k of kFkB */
};

struct sl_planners_graphpipe_rules {
    const char *schedule;
    /* The configurations that stages choose from. The paper's default is one size and k = 1. */
    const struct sl_planners_graphpipe_config *configs;
    int config_count;
    double memory_scale; /* the part of the memory that a plan may use; 0: all */
    double tolerance;    /* relative tolerance of the bisection; 0: to the nanosecond */
    int labels;          /* most solutions kept per sub-problem; 0: all */
    int64_t until_ns;    /* deadline by sl_clock_ns; 0: none */
};

struct sl_planners_graphpipe_found {
    bool found;
    struct sl_candidate c;
    int64_t bottleneck; /* time per iteration of the slowest stage, in ns */
    int64_t in_flight;  /* most samples in flight on the source stages */
    int64_t states;     /* number of stages that were evaluated */
    bool dropped;       /* a limit ended the search early, so there may be better plans */
};

/* Solves the problem; `tree` is the tree of problem->dag. Allocates the candidate in `arena`. */
void sl_planners_graphpipe_solve(struct sl_arena *arena, const struct sl_problem *problem,
                                 const struct sl_sp_tree *tree,
                                 const struct sl_planners_graphpipe_rules *rules,
                                 struct sl_planners_graphpipe_found *out);

#endif
