/* sluice calibrate: fit the constants of a machine to measured steps. */
#include "cli/command.h"
#include "cli/model_file.h"
#include "sizing/calibrate.h"

static const char *const *values_of(const struct sl_args *args, struct sl_arena *arena,
                                    const char *option, int *count) {
    const char **values;
    for (*count = 0; sl_args_nth(args, option, *count);)
        ++*count;
    values = SL_NEW(arena, const char *, *count + 1);
    for (int i = 0; i < *count; i++)
        values[i] = sl_args_nth(args, option, i);
    return values;
}

static sl_err run_in(const struct sl_args *args, struct sl_arena *arena, struct sl_text *text) {
    struct sl_sizing_calibrate_request r = {.machine = sl_args_text(args, "--machine", NULL),
                                            .model = sl_args_text(args, "--model", NULL),
                                            .model_dirs = sl_cli_model_dirs(args, arena),
                                            .dtype = sl_args_text(args, "--dtype", NULL),
                                            .schedule = sl_args_text(args, "--schedule", NULL),
                                            .recompute = sl_args_text(args, "--recompute", NULL),
                                            .to = sl_args_text(args, "-o", NULL),
                                            .check = sl_args_has(args, "--check"),
                                            .json = sl_args_has(args, "--json")};
    int64_t threads = 0;
    r.steps = values_of(args, arena, "--measured", &r.step_count);
    r.sums = values_of(args, arena, "--all-reduce", &r.sum_count);
    SL_TRY(sl_args_int(args, "--vocabulary", 1, 1 << 28, &r.vocabulary));
    SL_TRY(sl_args_int(args, "--folds", 2, 1 << 16, &r.folds));
    SL_TRY(sl_args_int(args, "--threads", 1, 1024, &threads));
    r.threads = (int)threads;
    if (!r.step_count || !r.machine)
        return sl_fail(SL_ERR_USAGE, "calibrate: --measured X.csv and --machine M are needed");
    return sl_sizing_calibrate(&r, text);
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    sl_err err = run_in(args, &arena, &text);
    if (err == SL_OK)
        err = sl_cli_print(&text);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

const struct sl_command sl_cli_cmd_calibrate = {
    .name = "calibrate",
    .synopsis = "--measured X.csv --machine M [--all-reduce A-8.txt]... [-o M2.machine]",
    .brief = "fit the constants of a machine to measured steps",
    .detail =
        "Fits efficiency of products by size, traffic of attention, memory bandwidth and "
        "latencies\n"
        "of the host to steps measured in one host; of steps over several hosts, rate and latency\n"
        "of all-reduces between hosts. Prints the error on rows that were held out, and the\n"
        "machine. 'sluice sim MODEL --machine M2.machine' then predicts other steps\n"
        "(docs/calibrate.md).\n"
        "\n"
        "  sluice calibrate --measured steps.csv --machine dgx-a100 -o a100.machine\n"
        "  sluice calibrate --measured new.csv --machine a100.machine --check",
    .options =
        (const struct sl_option[]){
            {"--measured", "X.csv", "table of measured steps; again for more", true},
            {"--all-reduce", "X-N.txt", "table of all-reduces of N devices in one host", true},
            {"--machine", "M", "the machine to start from: name, file or 2x4:mem=16G,...", false},
            {"--model", "MODEL", "model with the sizes C, H, L, T, P and V (default gpt2)", false},
            {"--models", "DIR", "first directory to search for models by name", false},
            {"--vocabulary", "V", "words of the vocabulary (default 51200)", false},
            {"--dtype", "D", "type of products: fp32, fp16 or bf16 (default fp16)", false},
            {"--schedule", "S", "schedule of the pipelines (default 1f1b)", false},
            {"--recompute", "R", "stages that recompute: auto, none or all (default auto)", false},
            {"--folds", "K",
             "parts of the rows, each held out once (default 5; or all rows, below 20)", false},
            {"--check", NULL, "fit nothing; report the errors of M", false},
            {"--threads", "N", "threads (default all cores)", false},
            {"-o", "FILE", "write the fitted machine", false},
            {0}},
    .min_args = 0,
    .max_args = 0,
    .run = run,
};
