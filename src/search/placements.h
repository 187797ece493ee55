/* Placements: the orders of devices that make a difference to a plan.
 *
 * Devices of one kind in one host are interchangeable. So are the hosts of one line of a machine
 * with one network level. Of orders that differ only by such an exchange, one is listed. */
#ifndef SL_SEARCH_PLACEMENTS_H
#define SL_SEARCH_PLACEMENTS_H

#include "search/problem.h"

struct sl_search_placements {
    int **at; /* [count][used]; the first is 0, 1, 2, ... */
    int count;
    bool complete; /* false: there are more than `max`, and only the first is listed */
};

void sl_search_placements_list(struct sl_arena *arena, const struct sl_problem *problem, int used,
                               int max, struct sl_search_placements *out);

/* Returns false if the two devices are interchangeable. */
bool sl_search_devices_differ(const struct sl_problem *problem, int device_a, int device_b);

#endif
