/* The oracle of planners on small graphs: every sequence of stages, every replication, every choice
 * of options, priced by plain sums. At most 12 layers. */
#ifndef SL_TEST_PLAN_BRUTE_H
#define SL_TEST_PLAN_BRUTE_H

#include "peers/peers.h"

/* The least objective, or INFINITY when nothing fits. */
double sl_brute_piper(const struct sl_layers *layers, const struct sl_peers_query *query);
/* Layers 2i and 2i + 1 are the forward and backward part of one colour. */
double sl_brute_dnnpart(const struct sl_layers *layers, const struct sl_peers_query *query);
/* One source. */
double sl_brute_pipedream(const struct sl_layers *layers, const struct sl_peers_query *query);

#endif
