/* sluice import: read a folder of Hugging Face, an ONNX model, another planner's input, or traces of PyTorch's profiler. */
#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/terminal.h"
#include "interop/importer.h"
#include "job/model.h"
#include "job/sailor.h"
#include "report/kineto.h"

#include <string.h>

/* Imports a model, not a planner's input. */
static sl_err import_model(const struct sl_args *args, bool hf) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_job_model_request request = {.name = args->positional[1],
                                           .dirs = sl_cli_model_dirs(args, &arena),
                                           .sizes = sl_cli_joined(args, "--set", &arena),
                                           .loss = sl_args_text(args, "--loss", NULL)};
    const char *to = sl_args_text(args, "-o", NULL);
    sl_err err =
        hf ? sl_job_model_import_hf(&request, to, &text) : sl_job_model_import(&request, to, &text);
    if (err == SL_OK)
        err = sl_cli_print(&text);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static void put_path(const struct sl_picture *p, struct sl_text *out) {
    char a[SL_HUMAN_BYTES], b[SL_HUMAN_BYTES], c[SL_HUMAN_BYTES], d[SL_HUMAN_BYTES];
    sl_text_printf(out, "critical path: passes %s, reduce and step %s, messages %s, waiting %s\n",
                   sl_human_ns(p->pass_ns, a), sl_human_ns(p->weight_ns, b),
                   sl_human_ns(p->transfer_ns, c), sl_human_ns(p->gap_ns, d));
}

static sl_err import_trace(const struct sl_args *args, struct sl_arena *arena,
                           struct sl_text *text) {
    const char *const *paths = (const char *const *)args->positional + 1;
    const char *to = sl_args_text(args, "-o", NULL);
    struct sl_picture picture;
    SL_TRY(sl_report_kineto_files(arena, paths, args->positional_count - 1, &picture));
    picture.title = paths[0];
    if (to)
        SL_TRY(sl_report_draw(to, &picture, 1));
    if (!sl_args_has(args, "--json")) {
        const struct sl_grid_opts opts = {.critical = true, .columns = sl_cli_columns()};
        sl_report_grid(&picture, &opts, text);
        put_path(&picture, text);
    } else {
        sl_report_trace(&picture, text);
    }
    return SL_OK;
}

static sl_err import_planner(const struct sl_args *args, struct sl_arena *arena,
                             struct sl_text *text) {
    const struct sl_layers *layers;
    if (sl_args_has(args, "-o"))
        return sl_fail(SL_ERR_USAGE,
                       "import: -o is for models and traces; 'sluice plan FILE' plans this one");
    SL_TRY(sl_interop_import(arena, args->positional[1], args->positional[0], &layers));
    if (sl_args_has(args, "--json"))
        sl_cost_layers_summary_json(layers, text);
    else
        sl_cost_layers_summary(layers, text);
    return SL_OK;
}

static sl_err import_sailor(const struct sl_args *args) {
    const struct sl_job_sailor_request request = {
        .files = (const char *const *)args->positional + 1,
        .file_count = args->positional_count - 1,
        .model = sl_args_text(args, "--model", NULL),
        .to = sl_args_text(args, "-o", NULL),
        .json = sl_args_has(args, "--json"),
    };
    struct sl_text text = {0};
    sl_err err = sl_job_sailor(&request, &text);
    if (err == SL_OK)
        err = sl_cli_print(&text);
    sl_text_free(&text);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    if (strcmp(args->positional[0], "sailor") == 0)
        return import_sailor(args);
    bool trace = strcmp(args->positional[0], "trace") == 0;
    if (!trace && args->positional_count > 2)
        return sl_fail(SL_ERR_USAGE, "import: one file at a time, except of traces and sailor");
    bool hf = strcmp(args->positional[0], "hf") == 0;
    if (hf || strcmp(args->positional[0], "onnx") == 0)
        return import_model(args, hf);
    sl_err err = trace ? import_trace(args, &arena, &text) : import_planner(args, &arena, &text);
    if (err == SL_OK)
        err = sl_cli_print(&text);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {
    {"--loss", "OP:OUT,TARGETS", "onnx: add a loss, for example cross_entropy:logits,labels",
     false},
    {"--model", "NAME", "sailor: the model of the plan [the one with as many layers]", false},
    {"--set", "NAME=SIZE,...", "hf, onnx: sizes of the model", true},
    {"-o", "FILE", "the model; of traces: X.trace.json, .html, .svg; of sailor: X.plan", false},
    {0},
};

const struct sl_command sl_cli_cmd_import = {
    .name = "import",
    .synopsis = "FORMAT FILE [-o MODEL] [--loss OP:OUT,TARGETS] [--set NAME=SIZE]... [--json]\n"
                "   or: sluice import trace RANK0.json RANK1.json ... [-o X.trace.json]\n"
                "   or: sluice import sailor PROFILE.json ... PLAN.json [-o X.plan]",
    .brief = "read a Hugging Face or ONNX model, another planner's input, or PyTorch traces",
    .detail =
        "Checks the file and prints a summary. 'sluice plan FILE' plans it.\n"
        "\n"
        "Formats: hf (a folder of Hugging Face), onnx, piper, dnn-partitioning, pipedream. Such "
        "a folder\n"
        "and a path that ends in .onnx can also take the place of MODEL in every command.\n"
        "Traces of PyTorch's profiler, one per rank, become "
        "one\n"
        "timeline; 'sluice report' draws it with its critical path.\n"
        "Of Sailor: forecasts the step and the memory of a plan from measured layers, next to "
        "what\n"
        "others measured; llm_info.json and network.json are found next to the files "
        "(docs/sailor.md).\n\n"
        "  sluice import hf Llama-3.2-1B -o llama.model\n"
        "  sluice import onnx net.onnx --loss cross_entropy:logits,labels -o net.model\n"
        "  sluice import piper bert32a100.json\n"
        "  sluice import trace rank-0.json rank-1.json -o run.trace.json",
    .options = options,
    .min_args = 2,
    .max_args = SL_ARGS_MAX,
    .run = run,
};
