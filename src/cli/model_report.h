/* What a model is, for people and as JSON. */
#ifndef SL_CLI_MODEL_REPORT_H
#define SL_CLI_MODEL_REPORT_H

#include "graph/graph.h"

/* The graph must be differentiated. */
void sl_cli_model_report(const struct sl_graph *graph, struct sl_text *text);
void sl_cli_model_report_json(const struct sl_graph *graph, struct sl_text *text);

/* "124.4M", "8.03B": as people count parameters. */
const char *sl_cli_human_params(double count, char out[SL_HUMAN_BYTES]);

#endif
