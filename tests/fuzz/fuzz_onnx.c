/* ONNX: the reader and the import. What is accepted makes a graph whose text reads back. */
#include "fuzz/meter.h"
#include "graph/model.h"
#include "onnx/import.h"
#include "op/registry.h"
#include "proto/proto.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The flat text of an imported graph is a model of the same nodes. */
static void check_text(const struct sl_graph *graph) {
    struct sl_text text = {0}, again = {0};
    struct sl_graph *copy;
    const struct sl_model_options options = {
        .find_op = sl_op_find, .nearest_op = sl_op_nearest, .node_limit = 4 << 20};
    sl_graph_model_write(graph, &text);
    if (sl_graph_model_read("fuzz", text.at, text.length, &options, &copy) != SL_OK)
        abort();
    sl_graph_model_write(copy, &again);
    if (strcmp(text.at, again.at) != 0)
        abort();
    sl_graph_close(copy);
    sl_text_free(&text);
    sl_text_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const losses[] = {NULL, "cross_entropy:y,labels", "mse:y,targets"};
    struct sl_proto_file *file;
    struct sl_onnx_imported imported;
    if (size < 1 || sl_proto_parse("fuzz", data + 1, size - 1, &file) != SL_OK)
        return 0;
    struct sl_onnx_options options = {
        .loss = losses[data[0] % 3], .sets = "seq=4", .folded = 1 << 16};
    if (sl_onnx_import_file(file, &options, &imported) == SL_OK)
        check_text(imported.graph);
    sl_onnx_imported_close(&imported);
    return 0;
}
