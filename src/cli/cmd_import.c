/* sluice import: read another planner's input and print a summary. */
#include "cli/command.h"
#include "cli/model_file.h"
#include "interop/importer.h"
#include "job/model.h"

#include <string.h>

/* A model, not a planner's input. */
static sl_err import_onnx(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_job_model_request request = {.name = args->positional[1],
                                           .sizes = sl_cli_model_sizes(args, &arena),
                                           .loss = sl_args_text(args, "--loss", NULL)};
    sl_err err = sl_job_model_import(&request, sl_args_text(args, "-o", NULL), &text);
    if (err == SL_OK)
        err = sl_cli_print(&text);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_layers *layers;
    sl_err err = SL_OK;
    if (strcmp(args->positional[0], "onnx") == 0)
        return import_onnx(args);
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

static const struct sl_option options[] = {
    {"--loss", "OP:OUT,TARGETS", "onnx: add a loss, for example cross_entropy:logits,labels",
     false},
    {"--set", "NAME=SIZE,...", "onnx: sizes with names other than the batch size", true},
    {"-o", "FILE", "onnx: write the model, and its initial values beside it", false},
    {0},
};

const struct sl_command sl_cli_cmd_import = {
    .name = "import",
    .synopsis = "FORMAT FILE [-o MODEL] [--loss OP:OUT,TARGETS] [--set NAME=SIZE]... [--json]",
    .brief = "read an ONNX model, or another planner's input",
    .detail = "Checks the file and prints a summary. 'sluice plan FILE' plans it.\n"
              "\n"
              "Formats: onnx, piper, dnn-partitioning, pipedream. A path that ends in .onnx can "
              "also take the\n"
              "place of MODEL in every command.\n\n"
              "  sluice import onnx net.onnx --loss cross_entropy:logits,labels -o net.model\n"
              "  sluice import piper bert32a100.json\n"
              "  sluice import pipedream vgg16.graph.txt --json",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
