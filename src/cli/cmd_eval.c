/* sluice eval: loss and accuracy of a run's newest weights. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/job_options.h"
#include "use/eval.h"

#include <math.h>

static void put_report(struct sl_text *text, const struct sl_args *args,
                       const struct sl_use_eval_report *all) {
    const struct sl_eval_report *r = &all->report;
    if (sl_args_has(args, "--json")) {
        struct sl_json_out json = {.text = text, .indent = 2};
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "run", args->positional[0]);
        sl_json_put_double(&json, "loss", r->loss);
        sl_json_put_double(&json, "accuracy", r->accuracy);
        sl_json_put_int(&json, "samples", r->samples);
        sl_json_put_int(&json, "available", all->available);
        sl_json_close(&json, '}');
        sl_text_put(text, "\n");
        return;
    }
    sl_text_printf(text, "loss       %.6f\nperplexity %.4f\n", r->loss, exp(r->loss));
    if (!isnan(r->accuracy))
        sl_text_printf(text, "accuracy   %.2f%%\n", 100 * r->accuracy);
    sl_text_printf(text, "samples    %lld of %lld\n", (long long)r->samples,
                   (long long)all->available);
}

static sl_err run(const struct sl_args *args) {
    struct sl_job job;
    struct sl_arena arena = {0};
    struct sl_use_eval_report all;
    struct sl_text text = {0};
    int64_t samples = INT64_MAX;
    struct sl_job_host host = {.model_dirs = sl_cli_model_dirs(args, &arena)};
    sl_err err = SL_OK;
    sl_job_init(&job);
    SL_TRY_OUT(sl_cli_job_fill(args, &job));
    SL_TRY_OUT(sl_args_int(args, "--samples", 1, INT64_MAX, &samples));
    SL_TRY_OUT(sl_use_eval(&job, args->positional[0], &host, samples, &all));
    put_report(&text, args, &all);
    SL_TRY_OUT(sl_cli_print(&text));
out:
    sl_text_free(&text);
    sl_job_free(&job);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {
    {"--samples", "N", "validation samples to use (default: all)", false},
    {"--data", "SOURCE", "data source (default: the run's)", false},
    {"--tokenizer", "PATH", "tokenizer (default: the run's)", false},
    {"--images", "O", "size and scale of pictures, as in 'train' (default: the run's)", false},
    {"--batch", "B", "samples at a time (default: the run's micro-batch)", false},
    {"--set", "NAME=SIZE,...", "of a folder of Hugging Face: sizes of the model", true},
    {"--validation", "F", "fraction or number of samples held out (default: the run's)", false},
    {"--threads", "T", "threads of the worker (default: the run's)", false},
    {"--device", "D", "see 'sluice list devices' (default: the run's)", false},
    {0},
};

const struct sl_command sl_cli_cmd_eval = {
    .name = "eval",
    .synopsis = "RUN|DIR [--samples N] [--data F] [--validation F]",
    .brief = "evaluate a trained run: loss and accuracy",
    .detail = "Evaluates the weights of the latest checkpoint, or of a folder of Hugging Face, on "
              "held-out\n"
              "samples, and prints how many of them.\n"
              "\n"
              "  sluice eval run --samples 4096",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
