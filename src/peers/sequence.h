/* The dependency graph of imported layers. */
#ifndef SL_PEERS_SEQUENCE_H
#define SL_PEERS_SEQUENCE_H

#include "cost/layers.h"
#include "graph/ideals.h"

struct sl_dag sl_peers_dag(struct sl_arena *arena, const struct sl_layers *layers);

#endif
