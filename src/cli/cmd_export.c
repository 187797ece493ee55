/* sluice export: write a plan in the format of another system. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/model_file.h"
#include "interop/exporter.h"
#include "plan/model.h"

#include <stdlib.h>

struct job {
    struct sl_arena arena;
    struct sl_graph *graph;
    const struct sl_exporter *row;
    struct sl_export what;
};

static sl_err read_plan(const char *path, struct job *job) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, (int64_t)1 << 30, &text, &length));
    sl_err err = sl_plan_read(&job->arena, path, text, length, &job->what.plan);
    free(text);
    return err;
}

/* Opens the model named by the plan, or --model. */
static sl_err open_graph(const struct sl_args *args, struct job *job) {
    const struct sl_plan *plan = job->what.plan;
    const char *model = sl_args_text(args, "--model", plan->model);
    if (!model || !plan->node_count)
        return sl_fail(SL_ERR_REFUSED,
                       "%s: the plan names no model, and %s needs the names of its layers; "
                       "give --model M",
                       args->positional[0], job->row->name);
    SL_TRY(sl_cli_model_open(args, model, false, &job->graph));
    SL_TRY(sl_graph_autodiff(job->graph));
    int *stage_of = SL_NEW(&job->arena, int, job->graph->forward_count + 1);
    SL_TRY(sl_plan_stage_of(plan, job->graph, stage_of));
    job->what.graph = job->graph;
    job->what.stage_of = stage_of;
    return SL_OK;
}

static sl_err open_sched(const struct sl_args *args, struct job *job) {
    const struct sl_plan *plan = job->what.plan;
    struct sl_sched_opts opts = {.schedule = sl_args_text(args, "--schedule", plan->schedule),
                                 .batch = plan->batch};
    SL_TRY(sl_args_int(args, "--batch", 1, INT64_MAX >> 16, &opts.batch));
    if (!opts.schedule || !opts.batch)
        return sl_fail(SL_ERR_USAGE, "export: this plan names no %s; give %s",
                       opts.schedule ? "batch" : "schedule",
                       opts.schedule ? "--batch B" : "--schedule S");
    return sl_sched_build(&job->arena, plan, &opts, &job->what.sched);
}

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

static sl_err run_job(const struct sl_args *args, struct job *job, struct sl_text *text) {
    const char *to = sl_args_text(args, "--to", NULL), *path = sl_args_text(args, "-o", "-");
    if (!to)
        return sl_fail(SL_ERR_USAGE, "export: --to csv, dot, json, megatron or torchtitan");
    SL_TRY(sl_interop_exporter_find(to, &job->row));
    SL_TRY(read_plan(args->positional[0], job));
    if (job->row->needs_graph)
        SL_TRY(open_graph(args, job));
    if (job->row->needs_sched)
        SL_TRY(open_sched(args, job));
    job->what.comms = sl_args_has(args, "--comms");
    SL_TRY(job->row->write(&job->what, text));
    if (!sl_args_has(args, "--json"))
        return sl_file_write(path, text->at, text->length);
    if (sl_args_has(args, "-o")) {
        SL_TRY(sl_file_write(path, text->at, text->length));
        return sl_cli_print_written(args, "-o");
    }
    return print_json(job->row->name, text->at);
}

static sl_err run(const struct sl_args *args) {
    struct job job = {0};
    struct sl_text text = {0};
    sl_err err = run_job(args, &job, &text);
    sl_text_free(&text);
    sl_graph_close(job.graph);
    sl_arena_free(&job.arena);
    return err;
}

static const struct sl_option options[] = {
    {"--to", "TARGET", "csv, dot, json, megatron or torchtitan", false},
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
        "csv is the schedule as PyTorch's pipelining reads it, dot a picture for Graphviz, json\n"
        "everything the plan says. megatron prints options of Megatron-LM with the layout string,\n"
        "torchtitan the modules of every stage; both cut between layers, so plan for them with\n"
        "'sluice plan --whole-layers'. What a target cannot say is refused with the reason.\n\n"
        "  sluice export gpt.plan --to megatron\n"
        "  sluice export gpt.plan --to dot -o gpt.dot && dot -Tsvg gpt.dot -o gpt.svg",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
