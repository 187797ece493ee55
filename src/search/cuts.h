/* The bottleneck search finds the smallest T for which a plan has no stage that takes longer
 * than T.
 *
 * For one limit T a sweep visits the downsets from the full one to the empty one and builds stages
 * from the last to the first. A label on a downset describes one way to cut the units outside
 * it: the number of devices used and, for every crossing tensor, the window (micro-batches in
 * flight) of the stages that read it. The window of a new stage is its width plus the largest
 * window of its readers, as in 1F1B schedules on stage graphs (sl_schedules_gen_inflight); so
 * the memory of a stage is known when it is built. A label is dropped if another one dominates
 * it, that is, needs no more devices and no larger window. Bisection finds the smallest T. */
#ifndef SL_SEARCH_CUTS_H
#define SL_SEARCH_CUTS_H

#include "base/vec.h"
#include "search/candidate.h"
#include "search/downsets.h"

/* The search space of a planner. */
struct sl_cut_rules {
    bool sequential; /* the stages form a chain */
    bool doubling;   /* widths are powers of two */
    enum sl_recompute recompute;
    const char *schedule;
    int size;
    int devices;      /* most devices */
    int labels;       /* most labels per downset; 0: no limit */
    double tolerance; /* relative tolerance of the bisection; 0: to the nanosecond */
    const int *order; /* devices, those of the last stage first; NULL: from the last device down */
    double memory_scale; /* part of the memory that a plan may use; 0: all */
    int64_t limit;       /* ns; the search stops if no plan is faster; 0: no limit */
    bool best_only;      /* do not add slower plans with fewer stages */
};

struct sl_cut_found { /* the plans found, best bottleneck first */
    SL_VEC(struct sl_candidate) at;
    /* best: bottleneck of the best plan; bound: lower bound over these downsets */
    int64_t best, bound;
    bool dropped; /* a limit on labels was reached, so `bound` is not proven */
    int64_t pairs, sweeps;
    /* If nothing fits: the unit that exceeds the memory of a device by most when it is alone there,
     * and by how much. */
    int tight_unit;
    int64_t tight_bytes;
};

/* Runs the search and allocates candidates in `arena`; at.count is 0 if it finds none. `until_ns`
 * 0: no deadline. */
void sl_search_cuts_search(struct sl_arena *arena, const struct sl_problem *problem,
                           const struct sl_search_downsets *downsets,
                           const struct sl_cut_rules *rules, int64_t until_ns,
                           struct sl_cut_found *out);

/* How many micro-batches and weight versions a schedule keeps in memory. */
struct sl_search_memory_rule {
    bool one;     /* one micro-batch per replica is stashed */
    bool all;     /* every micro-batch of the iteration is stashed; else as many as the window */
    bool twice;   /* there are two weight versions */
    bool stashes; /* there is one weight version per step in flight */
};
struct sl_search_memory_rule sl_search_memory_rule(const char *schedule);

/* Sums over the units of a stage. */
struct sl_cut_stage {
    int64_t f, b, step;          /* ns */
    double params, fixed;        /* bytes; fixed: gradients and optimizer state */
    double stash, in, out, work; /* bytes per sample */
    int width;
    bool recompute;
};
/* Returns the bytes of the stage on a worker; `window`: micro-batches in flight over all
 * replicas. */
double sl_search_cut_bytes(const struct sl_search_memory_rule *rule, int64_t micros, int64_t size,
                           const struct sl_cut_stage *stage, int64_t window);

#endif
