/* The graph of imported layers as the planners see it. */
#ifndef SL_SEARCH_SEQUENCE_H
#define SL_SEARCH_SEQUENCE_H

#include "cost/layers.h"
#include "search/ideals.h"

struct sl_dag sl_layers_dag(struct sl_arena *arena, const struct sl_layers *layers);

#endif
