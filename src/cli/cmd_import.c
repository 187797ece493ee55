/* sluice import: read another planner's input, or traces of PyTorch's profiler. */
#include "cli/command.h"
#include "cli/terminal.h"
#include "interop/importer.h"
#include "report/kineto.h"

#include <string.h>

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
    if (args->positional_count > 2)
        return sl_fail(SL_ERR_USAGE, "import: one file at a time, except of traces");
    if (sl_args_has(args, "-o"))
        return sl_fail(SL_ERR_USAGE, "import: -o is for traces; 'sluice plan FILE' plans this one");
    SL_TRY(sl_interop_import(arena, args->positional[1], args->positional[0], &layers));
    if (sl_args_has(args, "--json"))
        sl_cost_layers_summary_json(layers, text);
    else
        sl_cost_layers_summary(layers, text);
    return SL_OK;
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    bool trace = strcmp(args->positional[0], "trace") == 0;
    sl_err err = trace ? import_trace(args, &arena, &text) : import_planner(args, &arena, &text);
    if (err == SL_OK)
        err = sl_cli_print(&text);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {
    {"-o", "FILE", "of traces: write X.trace.json, X.html, X.svg or X.txt", false}, {0}};

const struct sl_command sl_cli_cmd_import = {
    .name = "import",
    .synopsis = "FORMAT FILE [--json]\n   or: sluice import trace RANK0.json RANK1.json ... -o "
                "X.trace.json",
    .brief = "read another planner's input, or a PyTorch trace",
    .detail =
        "Checks a file of piper, dnn-partitioning or pipedream and prints a summary. 'sluice\n"
        "plan FILE' plans it. Of traces of PyTorch's profiler, one per rank, it makes one\n"
        "timeline: 'sluice report' draws it with its critical path.\n\n"
        "  sluice import piper bert32a100.json\n"
        "  sluice import trace rank-0.json rank-1.json -o run.trace.json\n"
        "  sluice report run.trace.json -o run.html",
    .options = options,
    .min_args = 2,
    .max_args = SL_ARGS_MAX,
    .run = run,
};
