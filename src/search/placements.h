/* Placements: the orders of devices that differ for a plan.
 *
 * Devices of one kind in one host are interchangeable. So are hosts of one line of a machine with
 * one network level. Orders that differ only by such an exchange are listed once.
 */
#ifndef SL_SEARCH_PLACEMENTS_H
#define SL_SEARCH_PLACEMENTS_H

#include "search/problem.h"

struct sl_search_placements {
    int **at; /* [count][used]; the first is 0, 1, 2, ... */
    int count;
    bool complete; /* false: there are more than `max`; only the first is listed */
};

void sl_search_placements_list(struct sl_arena *arena, const struct sl_problem *problem, int used,
                               int max, struct sl_search_placements *out);

/* False if the two devices are interchangeable. */
bool sl_search_devices_differ(const struct sl_problem *problem, int device_a, int device_b);

#endif
