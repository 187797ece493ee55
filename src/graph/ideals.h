/* Downsets (order ideals) of a DAG as bitsets: the cuts of a pipeline.
 *
 * A downset contains every predecessor of its members. A sequence of stages is a chain of
 * downsets from the empty to the full one; a stage is the difference of two neighbours in it.
 * Wide graphs have too many downsets to list: sl_graph_ideals_build stops at `max`, and the
 * caller cuts one topological order instead. */
#ifndef SL_GRAPH_IDEALS_H
#define SL_GRAPH_IDEALS_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

struct sl_dag {
    int count;
    const int *in_at, *in;   /* the predecessors of i are in[in_at[i]] .. in[in_at[i + 1] - 1] */
    const int *out_at, *out; /* successors, in the same form */
};

struct sl_ideals {
    int nodes, words; /* words: number of 64-bit words per set */
    int count;
    uint64_t *sets; /* [count][words] */
};

struct sl_dag_edge {
    int from, to;
};

struct sl_dag sl_graph_dag_build(struct sl_arena *arena, int nodes, const struct sl_dag_edge *edges,
                                 int count);
/* Finds a depth-first topological order, which stays on a branch as long as it can. False: there is
 * a cycle. */
bool sl_graph_dag_order(struct sl_arena *arena, const struct sl_dag *dag, int *order);

/* Lists all downsets. False: there are more than `max`. */
bool sl_graph_ideals_build(struct sl_arena *arena, const struct sl_dag *dag, int max,
                           struct sl_ideals *out);
/* Lists the count + 1 prefixes of an order. */
void sl_graph_ideals_chain(struct sl_arena *arena, int nodes, const int *order,
                           struct sl_ideals *out);

/* Sorts the downsets by (sum of `value` over the members, number of members), so that supersets
 * come later. Returns the sums in the new order. Values must not be negative. */
double *sl_graph_ideals_sort(struct sl_arena *arena, struct sl_ideals *ideals, const double *value);
/* Returns the sum of `value` over the members of each set. */
double *sl_graph_ideals_sum(struct sl_arena *arena, const struct sl_ideals *ideals,
                            const double *value);

static inline const uint64_t *sl_ideal(const struct sl_ideals *ideals, int i) {
    return ideals->sets + (int64_t)i * ideals->words;
}

static inline bool sl_bit(const uint64_t *set, int i) { return set[i >> 6] >> (i & 63) & 1; }

static inline bool sl_subset(const uint64_t *small, const uint64_t *large, int words) {
    for (int w = 0; w < words; w++)
        if (small[w] & ~large[w])
            return false;
    return true;
}

#endif
