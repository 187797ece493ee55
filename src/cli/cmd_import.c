/* sluice import: read another planner's input and print a summary. */
#include "cli/command.h"
#include "interop/importer.h"

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_layers *layers;
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_interop_import(&arena, args->positional[1], args->positional[0], &layers));
    if (sl_args_has(args, "--json"))
        sl_cost_layers_summary_json(layers, &text);
    else
        sl_cost_layers_summary(layers, &text);
    SL_TRY_OUT(sl_cli_print(&text));
out:
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {{0}};

const struct sl_command sl_cli_cmd_import = {
    .name = "import",
    .synopsis = "FORMAT FILE [--json]",
    .brief = "read another planner's input: piper, dnn-partitioning, pipedream",
    .detail = "Checks the file and prints a summary. 'sluice plan FILE' plans it.\n"
              "\n"
              "  sluice import piper bert32a100.json\n"
              "  sluice import pipedream vgg16.graph.txt --json",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
