/* sluice sample: generate text with a trained language model, one token after another. */
#include "cli/command.h"

#include "base/json.h"
#include "cli/job_options.h"
#include "job/sample.h"

/* A JSON text cannot hold a byte 0. */
static void put_json(struct sl_text *text, const char *run, const char *prompt,
                     struct sl_text *written, int64_t tokens) {
    struct sl_json_out json = {.text = text, .indent = 2};
    for (size_t i = 0; i < written->length; i++)
        if (!written->at[i])
            written->at[i] = (char)0xff;
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "run", run);
    sl_json_put_string(&json, "prompt", prompt);
    sl_json_put_string(&json, "text", written->length ? written->at : "");
    sl_json_put_int(&json, "tokens", tokens);
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}

/* Prints each token when it is drawn; with --json all of them at the end. */
static sl_err write_text(struct sl_job_sampler *s, const struct sl_args *args, const char *prompt,
                         int64_t count) {
    struct sl_text text = {0}, json = {0};
    bool as_json = sl_args_has(args, "--json");
    sl_err err = SL_OK;
    sl_text_put(&text, as_json ? "" : prompt);
    for (int64_t i = 0; i < count; i++) {
        struct sl_str bytes;
        SL_TRY_OUT(sl_job_sampler_next(s, &bytes));
        sl_text_put_bytes(&text, bytes.at, bytes.length);
        if (as_json)
            continue;
        SL_TRY_OUT(sl_cli_print(&text));
        text.length = 0;
    }
    if (as_json)
        put_json(&json, args->positional[0], prompt, &text, count);
    else
        sl_text_put(&text, "\n");
    SL_TRY_OUT(sl_cli_print(as_json ? &json : &text));
out:
    sl_text_free(&json);
    sl_text_free(&text);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_job_sample_options options = {.temperature = 0.8, .top = 40, .seed = 1};
    struct sl_job_sampler sampler = {0};
    struct sl_job job;
    int64_t count = 200;
    const char *prompt = sl_args_text(args, "--prompt", "\n");
    sl_err err = SL_OK;
    sl_job_init(&job);
    SL_TRY_OUT(sl_cli_job_fill(args, &job));
    SL_TRY_OUT(sl_args_int(args, "--tokens", 0, 1 << 24, &count));
    SL_TRY_OUT(sl_args_int(args, "--top", 0, INT64_MAX, &options.top));
    SL_TRY_OUT(sl_args_int(args, "--sample-seed", 0, INT64_MAX, &options.seed));
    SL_TRY_OUT(sl_args_double(args, "--temperature", 0, 100, &options.temperature));
    SL_TRY_OUT(sl_job_sampler_open(&job, args->positional[0], &options, prompt, &sampler));
    SL_TRY_OUT(write_text(&sampler, args, prompt, count));
out:
    sl_job_sampler_close(&sampler);
    sl_job_free(&job);
    return err;
}

static const struct sl_option options[] = {
    {"--prompt", "TEXT", "begin of the text (default: a line break)", false},
    {"--tokens", "N", "number of tokens (default 200)", false},
    {"--temperature", "X", "randomness; 0: always the most probable token (default 0.8)", false},
    {"--top", "K", "draw from the K most probable tokens, 0 for all (default 40)", false},
    {"--sample-seed", "S", "seed of the draws (default 1)", false},
    {"--threads", "T", "threads of the worker (default: the run's)", false},
    {"--device", "D", "see 'sluice list devices' (default: the run's)", false},
    {0},
};

const struct sl_command sl_cli_cmd_sample = {
    .name = "sample",
    .synopsis = "RUN [--prompt TEXT] [--tokens N] [--temperature X]",
    .brief = "generate text with a trained language model",
    .detail = "  sluice sample run --prompt 'static int ' --tokens 400 --temperature 0.6",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
