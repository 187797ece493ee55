/* One option for each item, least cost, total size within a limit: the choice inside a stage.
 *
 * Exact branch and bound: items in the order of what a byte saved costs, the bound takes savings at
 * each item's best rate (for two options that is the linear relaxation), equal items are tried in
 * one order only. It answers a question, "within this cost?", and stops as soon as it knows; after
 * `SL_KNAPSACK_STEPS` steps it stops without knowing, and the two bounds on the answer say so.
 */
#ifndef SL_PEERS_KNAPSACK_H
#define SL_PEERS_KNAPSACK_H

#include "base/vec.h"

#include <stdbool.h>

enum { SL_KNAPSACK_STEPS = 2000 };

struct sl_peers_knapsack_option {
    double cost, size;
    int tag; /* the caller's */
};

struct sl_peers_knapsack_item {
    int first, count; /* of the options */
    int chosen;       /* tag; set by the solver */
};

struct sl_knapsack {
    SL_VEC(struct sl_peers_knapsack_item) items;
    SL_VEC(struct sl_peers_knapsack_option) options;
    struct sl_arena scratch;
    double least; /* of the last solve: no choice costs less */
};

void sl_peers_knapsack_clear(struct sl_knapsack *sack);
void sl_peers_knapsack_item(struct sl_knapsack *sack); /* the options that follow are its */
void sl_peers_knapsack_option(struct sl_knapsack *sack, double cost, double size, int tag);
/* Cost of a choice whose sizes add up to at most `room` and that costs at most `enough`, which is
 * left in `chosen`; INFINITY: none was found. With `enough` INFINITY any choice that fits. */
double sl_peers_knapsack_solve(struct sl_knapsack *sack, double room, double enough);
void sl_peers_knapsack_free(struct sl_knapsack *sack);

#endif
