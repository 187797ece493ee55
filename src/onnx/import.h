/* Import of an ONNX file: a graph in our language, and the initial values of its tensors.
 *
 *   sl_onnx_import -> imported.graph (frozen; write it as text) -> sl_onnx_imported_close
 *
 * The file's symbolic batch size becomes B. Arithmetic on shapes and constant conditions are
 * computed. A node that is not supported is refused by name, operator and nearest operator, unless
 * nothing needs its result.
 */
#ifndef SL_ONNX_IMPORT_H
#define SL_ONNX_IMPORT_H

#include "graph/graph.h"

struct sl_proto_file;

struct sl_onnx_options {
    const char *loss; /* "cross_entropy:logits,labels", NULL: the file's own */
    const char *sets; /* "seq=128": sizes with names other than the batch; NULL: none */
    int64_t folded;   /* limit of elements of computed constants; 0: the default */
    bool forward;     /* no loss is needed: outputs only (tests of the forward pass) */
};

struct sl_onnx_imported {
    struct sl_graph *graph;      /* checked */
    struct sl_onnx_lower *lower; /* names and initial values */
};

SL_MUST_CHECK sl_err sl_onnx_import(const char *path, const struct sl_onnx_options *options,
                                    struct sl_onnx_imported *out);
/* The same from an open file, which it takes over. */
SL_MUST_CHECK sl_err sl_onnx_import_file(struct sl_proto_file *file,
                                         const struct sl_onnx_options *options,
                                         struct sl_onnx_imported *out);
void sl_onnx_imported_close(struct sl_onnx_imported *imported); /* {0} is allowed */

/* Gives the graph its initial values and takes over `imported`, which becomes {0}, except for the
 * graph itself if it is another one. */
void sl_onnx_attach(struct sl_onnx_imported *imported, struct sl_graph *graph);

/* Writes the initial values to a safetensors file. */
SL_MUST_CHECK sl_err sl_onnx_write_weights(const struct sl_onnx_imported *imported,
                                           const char *path);

#endif
