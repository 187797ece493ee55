/* Export of a graph and its values to an ONNX file that any runtime can compute.
 *
 * Inputs, outputs and parameters keep their names, parameters their shapes; the batch is the symbolic
 * size "batch". Nodes that only a loss needs are left out. If the file would exceed 2 GiB, the
 * limit of the format, the parameters are in a second file, PATH.data. */
#ifndef SL_EMIT_EXPORT_H
#define SL_EMIT_EXPORT_H

#include "graph/graph.h"

/* Exports `graph`, which is an evaluation graph with stored values. Appends a line that says what
 * was written. SL_ERR_REFUSED names an op that ONNX lacks. */
SL_MUST_CHECK sl_err sl_emit_onnx(const struct sl_graph *graph, const char *path,
                                  struct sl_text *summary);

enum { SL_EMIT_OPSET = 20 };

#endif
