/* The chain bound (bound.h): can stages along the heaviest path of the graph meet a limit? Private
 * to bound.c. */
#ifndef SL_SEARCH_CHAIN_H
#define SL_SEARCH_CHAIN_H

#include "search/cuts.h"

/* Sums over the units before a position on the path. */
struct sl_chain_sums {
    int64_t f, i, w, step;
    double params, fixed, stash; /* bytes; stash: bytes per sample */
};

struct sl_chain_ring { /* bandwidth of the fastest possible reduction over w devices */
    double bandwidth;
    int64_t latency_ns;
};

struct sl_chain_lane {        /* sums along the path at one micro-batch size */
    struct sl_chain_sums *at; /* [count + 1] */
    int64_t micros, size;
};

struct sl_chain {
    const struct sl_problem *p;
    struct sl_chain_lane *lanes; /* one per micro-batch size that a stage may have */
    int lane_count;
    struct sl_chain_sums *front; /* [count + 1] least sums of all lanes */
    /* [count] lower bound on the bytes per sample that a stage reads if it begins at this unit or
     * before it, but not at the first unit */
    double *in;
    int count;
    /* [devices + 1] first unit of the longest part at the end of the path that this many devices
     * can run */
    int *left;
    bool sync, split;
    struct sl_search_memory_rule rule;
    bool windowed;       /* sl_search_schedule_windowed holds, and all stages have one size */
    double memory;       /* bytes of the largest device */
    double version_rate; /* sl_search_version_rate */
    struct sl_chain_ring *ring;
    /* the largest tie on the path. A stage that has its last unit but not its first pays for it; a
     * stage with the first unit may hold both ends. */
    struct {
        int first, last;
        int64_t ns;
    } tie;
};

/* Prepares the bound for stages that may choose from `sizes` micro-batch sizes, the first of which
 * is `first`. */
void sl_search_chain_open(struct sl_arena *arena, const struct sl_problem *p, const char *schedule,
                          int first, int sizes, struct sl_chain *out);
/* Returns false if no plan has a step of at most `limit`. */
bool sl_search_chain_is_feasible(const struct sl_chain *c, int64_t limit);
/* Returns the smallest feasible limit if it is below `best`, else `best`. `low` is a known lower
 * bound. */
int64_t sl_search_chain_bound(const struct sl_chain *c, int64_t low, int64_t best);

#endif
