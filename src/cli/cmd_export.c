/* sluice export: write a plan, or the weights of a run, in the format of another system. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/model_file.h"
#include "job/export.h"
#include "use/export.h"

#include <string.h>

#define TARGETS "automodel, csv, dot, gguf, hf, json, megatron, onnx, peft or torchtitan"

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
        return sl_fail(SL_ERR_USAGE, "export: --to " TARGETS);
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

/* ---- weights ---- */

static const struct {
    const char *name;
    enum sl_st_dtype dtype;
} dtypes[] = {{"fp32", SL_ST_F32}, {"bf16", SL_ST_BF16}, {"fp16", SL_ST_F16}};

static sl_err parse_dtype(const char *name, enum sl_st_dtype *out) {
    for (int i = 0; i < SL_COUNT(dtypes); i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = dtypes[i].dtype;
            return SL_OK;
        }
    return sl_fail(SL_ERR_USAGE, "--dtype: expected fp32, bf16 or fp16, found '%s'", name);
}

static sl_err export_weights(const struct sl_args *args, const struct sl_use_target *row) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_use_export request = {
        .from = args->positional[0],
        .to = args->positional_count > 1 ? args->positional[1] : sl_args_text(args, "-o", NULL),
        .source = sl_args_text(args, "--source", NULL),
        .model_dirs = sl_cli_model_dirs(args, &arena),
    };
    const char *shard = sl_args_text(args, "--shard-size", "5GB");
    sl_err err = SL_OK;
    if (!request.to)
        SL_TRY_OUT(sl_fail(SL_ERR_USAGE, "export: where to? 'sluice export RUN --to %s %s'",
                           row->name, "OUT"));
    SL_TRY_OUT(parse_dtype(sl_args_text(args, "--dtype", "fp32"), &request.dtype));
    SL_TRY_OUT(sl_parse_bytes(shard, "--shard-size", &request.shard_bytes));
    if (request.shard_bytes < 1)
        SL_TRY_OUT(
            sl_fail(SL_ERR_USAGE, "--shard-size: expected 1 byte or more, found '%s'", shard));
    SL_TRY_OUT(row->write(&request, &text));
    if (sl_args_has(args, "--json")) {
        struct sl_json_out json = {.text = &text, .indent = 2};
        text.length = 0;
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "target", row->name);
        sl_json_put_string(&json, "written", request.to);
        sl_json_close(&json, '}');
        sl_text_put(&text, "\n");
    }
    SL_TRY_OUT(sl_cli_print(&text));
out:
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const char *target = sl_args_text(args, "--to", NULL);
    const struct sl_use_target *row = target ? sl_use_target_find(target) : NULL;
    if (row)
        return export_weights(args, row);
    if (args->positional_count > 1)
        return sl_fail(SL_ERR_USAGE, "export: one plan at a time; -o names the output file");
    struct sl_job_export_request request = {
        .plan_file = args->positional[0],
        .target = target,
        .model = sl_args_text(args, "--model", NULL),
        .model_dirs = sl_cli_model_dirs(args, &arena),
        .sizes = sl_cli_joined(args, "--set", &arena),
        .freeze = sl_cli_joined(args, "--freeze", &arena),
        .lora = sl_args_text(args, "--lora", NULL),
        .schedule = sl_args_text(args, "--schedule", NULL),
        .comms = sl_args_has(args, "--comms"),
    };
    sl_err err = write_text(args, &request, &text);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {
    {"--to", "TARGET", TARGETS, false},
    {"-o", "FILE", "output file (default: standard output); hf: the folder", false},
    {"--model", "MODEL", "model, if the name in the plan does not find it", false},
    SL_MODEL_OPTIONS,
    {"--schedule", "S", "schedule (default: the plan's)", false},
    {"--batch", "B", "batch (default: the plan's)", false},
    {"--comms", NULL, "csv: include sends and receives", false},
    {"--dtype", "T", "gguf, hf: fp32 (default), bf16 or fp16", false},
    {"--shard-size", "BYTES", "hf: largest file of weights (default 5GB)", false},
    {"--source", "DIR", "gguf, hf: folder of config.json and tokenizer (default: run's)", false},
    {0},
};

const struct sl_command sl_cli_cmd_export = {
    .name = "export",
    .synopsis = "X.plan --to TARGET [-o FILE]\n"
                "   or: sluice export RUN|DIR --to hf OUTDIR [--dtype T] [--shard-size BYTES]\n"
                "   or: sluice export RUN|DIR --to gguf|onnx FILE",
    .brief = "write a plan or the weights of a run for another system",
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
        "hf writes the newest weights of a run as a folder of Hugging Face: config.json and\n"
        "tokenizer of the folder that the run started from, and the weights under their names\n"
        "there, adapters merged. peft writes the adapters alone, gguf a file for llama.cpp (gpt2,\n"
        "llama, mistral, qwen2, qwen3), and onnx the newest weights as a graph that computes its\n"
        "outputs, with the names of its inputs, outputs and parameters (docs/onnx.md).\n"
        "\n"
        "  sluice export run --to hf my-model --dtype bf16\n"
        "  sluice export run --to onnx my-model.onnx\n"
        "  sluice export gpt.plan --to megatron\n"
        "  sluice export gpt.plan --to dot -o gpt.dot && dot -Tsvg gpt.dot -o gpt.svg",
    .options = options,
    .min_args = 1,
    .max_args = 2,
    .run = run,
};
