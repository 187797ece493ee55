/* sluice model: check a model and say what it is. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/model_file.h"

static void put_placeholder(struct sl_text *text, const struct sl_graph *graph) {
    sl_text_printf(text, "%s: %lld nodes\n", graph->name, (long long)graph->nodes.count);
}

static sl_err run(const struct sl_args *args) {
    struct sl_graph *graph = NULL;
    struct sl_text text = {0};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_model_open(args, args->positional[0], false, &graph));
    SL_TRY_OUT(sl_graph_autodiff(graph));
    if (sl_args_has(args, "--print"))
        sl_model_write(graph, &text);
    else if (sl_args_has(args, "--dot"))
        sl_model_write_dot(graph, &text);
    else
        put_placeholder(&text, graph);
    SL_TRY_OUT(sl_print(&text));
out:
    sl_text_free(&text);
    sl_graph_close(graph);
    return err;
}

static const struct sl_option options[] = {
    SL_MODEL_OPTIONS,
    {"--print", NULL, "write the model back with every shape", false},
    {"--dot", NULL, "draw it for Graphviz", false},
    {0},
};

const struct sl_command sl_cmd_model = {
    .name = "model",
    .synopsis = "MODEL [--set K=V]... [--print|--dot|--json]",
    .brief = "check a model; parameters, flops, bytes, shapes",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
