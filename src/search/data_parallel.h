/* Data parallelism in closed form: the time of a step if every device holds the model, for
 * several ways to sum gradients.
 *
 *     ring           2 (n-1)/n bytes over the slowest link of one ring of n devices
 *     hierarchical   2 (g-1)/g bytes over the links of a host of g devices, and
 *                    2 (h-1)/h bytes over the links between h hosts
 *     overlapped     sums of later layers run under the backward pass of earlier ones, as in
 *                    PyTorch DDP: only the excess, and the sum of the first layer, are exposed
 *
 * This is the baseline of papers. A real run sums as the machine's transport does, after the
 * last pass. */
#ifndef SL_SEARCH_DATA_PARALLEL_H
#define SL_SEARCH_DATA_PARALLEL_H

#include "search/candidate.h"

struct sl_search_all_reduce {
    const char *name; /* "ring", "hierarchical" */
    bool overlapped;
    int64_t reduce_ns, step_ns;
};

enum { SL_SEARCH_ALL_REDUCES = 4 };

/* Returns the time to sum `bytes` over the first `width` devices, first within and then between
 * hosts. */
int64_t sl_search_hierarchical_ns(const struct sl_machine *machine, int width, double bytes);

/* Computes all ways for a candidate of one stage with replicas, whose simulated step is step_ns.
 * Returns their number; 0: the candidate has several stages, or no replicas. */
int sl_search_all_reduces(const struct sl_candidate_detail *detail, int64_t step_ns,
                          struct sl_search_all_reduce out[SL_SEARCH_ALL_REDUCES]);

#endif
