/* Imports an ONNX file: makes a graph in our language, and the initial values of its tensors.
 *
 *   sl_onnx_import -> imported.graph (frozen; write it as text) -> sl_onnx_imported_close
 *
 * The file's symbolic batch size becomes B. Arithmetic on shapes, and constant conditions, are
 * computed during the import. If the result of a node that is not supported is needed, the error
 * gives its name, its operator and the nearest operator. */
#ifndef SL_ONNX_IMPORT_H
#define SL_ONNX_IMPORT_H

#include "graph/graph.h"

struct sl_proto_file;

struct sl_onnx_options {
    const char *loss; /* "cross_entropy:logits,labels"; NULL: the file's own loss */
    const char *sets; /* "seq=128": values of symbolic sizes other than the batch; NULL: none */
    int64_t folded;   /* most elements of computed constants; 0: the default */
    bool forward;     /* the graph needs no loss, only outputs (tests of the forward pass) */
};

struct sl_onnx_imported {
    struct sl_graph *graph;      /* checked */
    struct sl_onnx_lower *lower; /* names and initial values */
};

SL_MUST_CHECK sl_err sl_onnx_import(const char *path, const struct sl_onnx_options *options,
                                    struct sl_onnx_imported *out);
/* The same for an open file, which it takes over. */
SL_MUST_CHECK sl_err sl_onnx_import_file(struct sl_proto_file *file,
                                         const struct sl_onnx_options *options,
                                         struct sl_onnx_imported *out);
void sl_onnx_imported_close(struct sl_onnx_imported *imported); /* imported may be {0} */

/* Gives the initial values to `graph` and takes over `imported`, which becomes {0}; its own graph
 * stays open if it is another one. */
void sl_onnx_attach(struct sl_onnx_imported *imported, struct sl_graph *graph);

/* Writes the initial values to a safetensors file. */
SL_MUST_CHECK sl_err sl_onnx_write_weights(const struct sl_onnx_imported *imported,
                                           const char *path);

#endif
