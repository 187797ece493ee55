/* The inputs of a model, in the form that the data component reads. */
#ifndef SL_RUN_INPUTS_H
#define SL_RUN_INPUTS_H

#include "data/data.h"
#include "graph/graph.h"

/* Sets *out to one row per input of the graph, allocated in the arena. */
SL_MUST_CHECK sl_err sl_run_describe_inputs(struct sl_arena *arena, const struct sl_graph *graph,
                                            struct sl_data_input **out);

#endif
