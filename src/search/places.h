/* Which devices: the orders of devices that differ for a plan.
 *
 * Devices of one kind in one host are alike, and so are hosts of one line of a machine with one
 * network; an order that only exchanges what is alike is listed once.
 */
#ifndef SL_SEARCH_PLACES_H
#define SL_SEARCH_PLACES_H

#include "search/problem.h"

struct sl_places {
    int **at; /* [count][used]; the first is 0, 1, 2, ... */
    int count;
    bool complete; /* else there are more, and only the first is listed */
};

void sl_search_places_list(struct sl_arena *arena, const struct sl_problem *problem, int used,
                           int max, struct sl_places *out);

/* Would a plan see a difference if the two changed places? */
bool sl_search_places_differ(const struct sl_problem *problem, int device_a, int device_b);

#endif
