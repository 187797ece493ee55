/* sluice model: check a model and print its report. */
#include "cli/command.h"
#include "cli/model_file.h"
#include "report/model.h"

static sl_err check_form(const struct sl_args *args) {
    int forms =
        sl_args_has(args, "--print") + sl_args_has(args, "--dot") + sl_args_has(args, "--json");
    return forms <= 1
               ? SL_OK
               : sl_fail(SL_ERR_USAGE, "model: --print, --dot and --json exclude one another");
}

static sl_err run(const struct sl_args *args) {
    struct sl_graph *graph = NULL;
    struct sl_text text = {0};
    sl_err err = SL_OK;
    SL_TRY_OUT(check_form(args));
    SL_TRY_OUT(sl_cli_model_open(args, args->positional[0], sl_args_has(args, "--eval"), &graph));
    SL_TRY_OUT(sl_graph_autodiff(graph));
    if (sl_args_has(args, "--print"))
        sl_graph_model_write(graph, &text);
    else if (sl_args_has(args, "--dot"))
        sl_graph_model_write_dot(graph, &text);
    else if (sl_args_has(args, "--json"))
        sl_report_model_json(graph, &text);
    else
        sl_report_model(graph, &text);
    SL_TRY_OUT(sl_cli_print(&text));
out:
    sl_text_free(&text);
    sl_graph_close(graph);
    return err;
}

static const struct sl_option options[] = {
    SL_MODEL_OPTIONS,
    {"--print", NULL, "print the model, one op per line, with all shapes", false},
    {"--dot", NULL, "print a graph for Graphviz", false},
    {"--eval", NULL, "the model in evaluation: no dropout, running statistics", false},
    {0},
};

const struct sl_command sl_cli_cmd_model = {
    .name = "model",
    .synopsis = "MODEL [--set K=V,...]... [--print|--dot|--json]",
    .brief = "check a model; parameters, flops, bytes, shapes",
    .detail =
        "MODEL is a name ('sluice list models') or the path of a file. docs/formats.md describes\n"
        "the model language.\n"
        "\n"
        "  sluice model gpt2\n"
        "  sluice model gpt2 --set L=4,C=128 --json\n"
        "  sluice model resnet18 --dot | dot -Tsvg >resnet18.svg",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
