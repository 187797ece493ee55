/* Multiple-choice knapsack: chooses one option per item, with least cost and total size within a
 * limit.
 *
 * Exact branch and bound. Items are sorted by cost per byte saved. The bound takes savings at each
 * item's best rate (the linear relaxation, for two options). Equal items are tried in one order
 * only. The solver decides whether a given cost is possible, and then stops. After
 * SL_KNAPSACK_STEPS steps it stops undecided; then the lower bound `least` differs from the
 * result. */
#ifndef SL_PEERS_KNAPSACK_H
#define SL_PEERS_KNAPSACK_H

#include "base/vec.h"

#include <stdbool.h>

enum { SL_KNAPSACK_STEPS = 2000 };

struct sl_peers_knapsack_option {
    double cost, size;
    int tag; /* any number that the caller chooses */
};

struct sl_peers_knapsack_item {
    int first, count; /* options of the item */
    int chosen;       /* tag of the chosen option */
};

struct sl_knapsack {
    SL_VEC(struct sl_peers_knapsack_item) items;
    SL_VEC(struct sl_peers_knapsack_option) options;
    struct sl_arena scratch;
    double least; /* lower bound on the cost, set by the last solve */
};

void sl_peers_knapsack_clear(struct sl_knapsack *sack);
void sl_peers_knapsack_item(struct sl_knapsack *sack); /* the options added next belong to it */
void sl_peers_knapsack_option(struct sl_knapsack *sack, double cost, double size, int tag);
/* Finds a choice with total size at most `room` and cost at most `enough` (INFINITY: any cost).
 * Returns its cost and sets `chosen` of every item. Returns INFINITY if it finds none. */
double sl_peers_knapsack_solve(struct sl_knapsack *sack, double room, double enough);
void sl_peers_knapsack_free(struct sl_knapsack *sack);

#endif
