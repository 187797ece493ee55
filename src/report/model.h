/* Report of a model: sizes, inputs, outputs, costs, structure, largest tensors. */
#ifndef SL_REPORT_MODEL_H
#define SL_REPORT_MODEL_H

#include "graph/graph.h"

/* Append the report as text, or as JSON (docs/formats.md). The graph must be differentiated. */
void sl_report_model(const struct sl_graph *graph, struct sl_text *text);
void sl_report_model_json(const struct sl_graph *graph, struct sl_text *text);

/* Writes a parameter count with a suffix: "124.4M", "8.03B". */
const char *sl_report_human_params(double count, char out[SL_HUMAN_BYTES]);

#endif
