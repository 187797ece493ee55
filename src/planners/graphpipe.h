/* GraphPipe's partitioner (Jeon et al. 2025, sec. 5 and algorithm 1).
 *
 * A stage graph is composed like the model itself (graph/series_parallel.h):
 *     one stage    any run of a series, or any set of branches of a parallel part, on w devices
 *     series       a decomposition of a prefix, then one of the rest
 *     parallel     decompositions of the branches, on devices of their own
 *
 *     bisection over T, the time of the slowest stage
 *       -> dynamic program from the sink to the source: is there a stage graph whose stages all
 *          take at most T and fit? Among those, the one with the smallest window at its source.
 *
 * The window of a stage is its number of micro-batches in flight: its width plus the largest window
 * of its successors. It fixes the memory of the stage, so successors are solved first.
 *
 * Choices that the paper leaves open: widths are powers of two; devices may stay idle; replicas
 * take turns in whole micro-batches, as everywhere in Sluice. The paper's defaults hold: 1F1B, and
 * one micro-batch size for all stages.
 */
#ifndef SL_SEARCH_GRAPHPIPE_H
#define SL_SEARCH_GRAPHPIPE_H

#include "graph/series_parallel.h"
#include "search/candidate.h"

struct sl_planners_graphpipe_rules {
    const char *schedule;
    int size;            /* index into problem->sizes */
    double memory_scale; /* part of the memory that a plan may use; 0: all */
    double tolerance;    /* of the bisection, relative; 0: to the nanosecond */
    int64_t until_ns;    /* deadline by sl_clock_ns; 0: none */
};

struct sl_planners_graphpipe_found {
    bool found;
    struct sl_candidate c;
    int64_t bottleneck; /* ns per iteration of the slowest stage */
    int window;         /* of the source stages */
    int64_t states;     /* sub-problems solved */
};

/* `tree` is that of problem->dag. Allocates the candidate in `arena`. */
void sl_planners_graphpipe_solve(struct sl_arena *arena, const struct sl_problem *problem,
                                 const struct sl_sp_tree *tree,
                                 const struct sl_planners_graphpipe_rules *rules,
                                 struct sl_planners_graphpipe_found *out);

#endif
