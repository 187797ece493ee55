/* Export of a graph and its values to an ONNX file that any runtime can compute.
 *
 * Inputs, outputs and parameters keep their names, parameters their shapes; the batch is the symbolic
 * size "batch". What only a loss needs is left out. Files beyond 2 GiB, the limit of the format, have
 * their parameters beside them, in PATH.data.
 */
#ifndef SL_EMIT_EXPORT_H
#define SL_EMIT_EXPORT_H

#include "graph/graph.h"

/* `graph`: built for evaluation, with stored values. Appends a line that says what was written.
 * SL_ERR_REFUSED names the op that ONNX lacks. */
SL_MUST_CHECK sl_err sl_emit_onnx(const struct sl_graph *graph, const char *path,
                                  struct sl_text *summary);

enum { SL_EMIT_OPSET = 20 };

#endif
