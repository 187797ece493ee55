/* A row of stages along the heaviest path through the graph, and whether it may end within a limit
 * (bound.h says why that is a bound). Inside of bound.c.
 */
#ifndef SL_SEARCH_CHAIN_H
#define SL_SEARCH_CHAIN_H

#include "search/cuts.h"

/* Sums over the units in front of each place on the path. */
struct sl_chain_place {
    int64_t f, i, w, step;
    double params, fixed, stash; /* bytes; stash per sample */
};

struct sl_chain_ring { /* the fastest reduction over w devices, at best */
    double bandwidth;
    int64_t latency_ns;
};

struct sl_chain_lane {         /* the path with one micro-batch size */
    struct sl_chain_place *at; /* [count + 1] */
    int64_t micros, size;
};

struct sl_chain {
    const struct sl_problem *p;
    struct sl_chain_lane *lanes; /* sizes that a stage may have */
    int lane_count;
    struct sl_chain_place *front; /* [count + 1] what the units in front of a place take at least */
    double *in; /* [count] bytes per sample that a stage reads which begins here or before, but
                   not at the first unit, at least */
    int count, *left; /* [devices + 1] the first unit of the longest row they can take */
    bool sync, split;
    struct sl_search_memory_rule rule;
    bool windowed;       /* it is known how many micro-batches are in flight */
    double memory;       /* of the largest device */
    double version_rate; /* sl_search_version_rate */
    struct sl_chain_ring *ring;
    struct { /* the largest tie on the path, its first and last place: a stage pays that has the
                last and not the first; whoever has the first might have both with more units */
        int first, last;
        int64_t ns;
    } tie;
};

/* The least over all kinds of devices. */
struct sl_unit_time sl_search_least_time(const struct sl_problem *p, int size, int unit);

/* `sizes` micro-batch sizes from `first` on, from which every stage may choose. */
void sl_search_chain_open(struct sl_arena *arena, const struct sl_problem *p, const char *schedule,
                          int first, int sizes, struct sl_chain *out);
/* May a step of `limit` be possible? */
bool sl_search_chain_may_be(const struct sl_chain *c, int64_t limit);
/* The smallest step that may be possible, when it is below `best`; else `best`. `low`: nothing is
 * faster. */
int64_t sl_search_chain_bound(const struct sl_chain *c, int64_t low, int64_t best);

#endif
