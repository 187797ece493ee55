/* sluice export: write a plan in the format of another system. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/model_file.h"
#include "job/export.h"

static sl_err print_json(const char *target, const char *exported) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "target", target);
    sl_json_put_string(&json, "text", exported);
    sl_json_close(&json, '}');
    sl_text_put(&text, "\n");
    sl_err err = sl_cli_print(&text);
    sl_text_free(&text);
    return err;
}

static sl_err write_text(const struct sl_args *args, struct sl_job_export_request *request,
                         struct sl_text *text) {
    const char *path = sl_args_text(args, "-o", "-");
    if (!request->target)
        return sl_fail(SL_ERR_USAGE,
                       "export: --to automodel, csv, dot, json, megatron or torchtitan");
    SL_TRY(sl_args_int(args, "--batch", 1, INT64_MAX >> 16, &request->batch));
    SL_TRY(sl_job_export(request, text));
    if (!sl_args_has(args, "--json"))
        return sl_file_write(path, text->at, text->length);
    if (sl_args_has(args, "-o")) {
        SL_TRY(sl_file_write(path, text->at, text->length));
        return sl_cli_print_written(args, "-o");
    }
    return print_json(request->target, text->at);
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_job_export_request request = {
        .plan_file = args->positional[0],
        .target = sl_args_text(args, "--to", NULL),
        .model = sl_args_text(args, "--model", NULL),
        .model_dirs = sl_cli_model_dirs(args, &arena),
        .sizes = sl_cli_model_sizes(args, &arena),
        .schedule = sl_args_text(args, "--schedule", NULL),
        .comms = sl_args_has(args, "--comms"),
    };
    sl_err err = write_text(args, &request, &text);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {
    {"--to", "TARGET", "automodel, csv, dot, json, megatron or torchtitan", false},
    {"-o", "FILE", "output file (default: standard output)", false},
    {"--model", "MODEL", "model, if the name in the plan does not find it", false},
    SL_MODEL_OPTIONS,
    {"--schedule", "S", "csv: schedule (default: the plan's)", false},
    {"--batch", "B", "csv: batch (default: the plan's)", false},
    {"--comms", NULL, "csv: include sends and receives", false},
    {0},
};

const struct sl_command sl_cli_cmd_export = {
    .name = "export",
    .synopsis = "X.plan --to TARGET [-o FILE]",
    .brief = "write a plan for another system",
    .detail =
        "automodel    a part of a recipe of NeMo Automodel, with the modules of every stage\n"
        "csv          the schedule in the format of PyTorch's pipelining\n"
        "dot          a picture for Graphviz\n"
        "json         all facts of the plan\n"
        "megatron     options of Megatron-LM with the layout string\n"
        "torchtitan   the modules of every stage\n"
        "\n"
        "automodel, megatron and torchtitan cut between layers, so make the plan with 'sluice\n"
        "plan --whole-layers'. A plan that a target cannot express is refused with the reason.\n"
        "\n"
        "  sluice export gpt.plan --to megatron\n"
        "  sluice export gpt.plan --to dot -o gpt.dot && dot -Tsvg gpt.dot -o gpt.svg",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
