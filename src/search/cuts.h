/* The bottleneck search: the smallest T such that every stage takes at most T.
 *
 * For one limit T a sweep visits the downsets from the full one to the empty one and builds stages
 * from the last to the first. A label on a downset says how its complement is cut: devices used,
 * and for every crossing tensor the window (micro-batches in flight) of the stages that read it.
 * The window of a new stage is its width plus the largest window of its readers, as in 1F1B
 * schedules on stage graphs (sl_schedules_gen_inflight); so the memory of a stage is known when it is
 * built. A label is dropped if another one dominates it: no more devices, no larger window.
 * Bisection finds the smallest T.
 */
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
    int devices;         /* maximum */
    int labels;          /* maximum per downset; 0: no limit */
    double tolerance;    /* of the bisection, relative; 0: to the nanosecond */
    const int *order;    /* devices, last stage first; NULL: from the last device down */
    double memory_scale; /* part of the memory that a plan may use; 0: all */
    int64_t limit;       /* ns; stop if no plan is faster than this; 0: no limit */
    bool best_only;      /* no slower plans with fewer stages */
};

struct sl_cut_found { /* plans, best bottleneck first */
    SL_VEC(struct sl_candidate) at;
    int64_t best, bound; /* bottleneck of the best; lower bound over these downsets */
    bool dropped;        /* the limit on labels was reached: `bound` is not proven */
    int64_t pairs, sweeps;
    /* If nothing fits: the unit that misses by most alone on a device, and by how much. */
    int tight_unit;
    int64_t tight_bytes;
};

/* Allocates candidates in `arena`. Nothing found: at.count == 0. `until_ns` 0: no deadline. */
void sl_search_cuts_search(struct sl_arena *arena, const struct sl_problem *problem,
                           const struct sl_search_downsets *downsets,
                           const struct sl_cut_rules *rules, int64_t until_ns,
                           struct sl_cut_found *out);

/* How many micro-batches and weight versions a schedule keeps in memory. */
struct sl_search_memory_rule {
    bool one;     /* one micro-batch per replica */
    bool all;     /* every micro-batch of the iteration; else the window */
    bool twice;   /* two versions */
    bool stashes; /* one version per step in flight */
};
struct sl_search_memory_rule sl_search_memory_rule(const char *schedule);

/* The sums of a stage. */
struct sl_cut_stage {
    int64_t f, b, step;          /* ns */
    double params, fixed;        /* bytes; fixed: gradients and optimizer state */
    double stash, in, out, work; /* bytes per sample */
    int width;
    bool recompute;
};
/* Its bytes on a worker; `window`: micro-batches in flight over all replicas. */
double sl_search_cut_bytes(const struct sl_search_memory_rule *rule, int64_t micros, int64_t size,
                           const struct sl_cut_stage *stage, int64_t window);

#endif
