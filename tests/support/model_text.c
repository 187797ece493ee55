#include "support/model_text.h"

#include "graph/model.h"
#include "op/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

struct sl_graph *model_of_text(const char *text) {
    struct sl_model_options options = {.find_op = sl_op_find, .nearest_op = sl_op_nearest};
    struct sl_graph *graph = NULL;
    if (sl_graph_model_read("test.model", text, strlen(text), &options, &graph) != SL_OK ||
        sl_graph_autodiff(graph) != SL_OK)
        fail_msg("%s", sl_err_message());
    return graph;
}
