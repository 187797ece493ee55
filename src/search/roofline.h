/* Times of units from the constants of a kind of device (docs/formats-machine.md).
 *
 *     device   |qkv|att|...        an op takes its overhead and the longer of computing and moving
 *     host     |l|l|l|l|l|...      a layer's pass takes at least as long as the launches of its
 *       ops */
#ifndef SL_SEARCH_ROOFLINE_H
#define SL_SEARCH_ROOFLINE_H

#include "search/problem.h"

struct sl_roofline {
    const struct sl_graph *graph; /* the differentiated graph */
    const struct sl_precision *precision;
    const struct sl_problem *problem;
    const int *unit_of; /* [forward node] its unit */
    /* [forward node] units of a group share the host's time; below the number of units */
    const int *group_of;
};

/* Fills f, i and w of out[unit]. */
void sl_search_roofline(struct sl_arena *arena, const struct sl_roofline *in, int64_t samples,
                        const struct sl_cost_device_kind *kind, struct sl_unit_time *out);

#endif
