/* sluice sample: continue prompts with a trained language model. */
#include "base/json.h"
#include "base/log.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/job_options.h"
#include "hf/folder.h"
#include "job/sample.h"
#include "use/generate.h"

#include <stdlib.h>
#include <string.h>

enum { PROMPTS = 4096, PROMPT_BYTES = 64 << 20, STOPS = 16 };

struct request {
    const struct sl_args *args;
    struct sl_arena arena;
    struct sl_job job;
    struct sl_decode_draw draw;
    const char **prompts;
    int prompt_count;
    const char *stops[STOPS];
    int stop_count;
    int64_t tokens, chunk, stages, batch;
};

/* ---- reading the request ---- */

/* Reads one prompt per line; a line that begins with " is a JSON string. */
static sl_err read_prompts(struct request *r, const char *path) {
    char *text = NULL;
    size_t length;
    sl_err err = SL_OK;
    SL_TRY(sl_file_read(path, PROMPT_BYTES, &text, &length));
    for (char *at = text, *end = text + length; at < end && err == SL_OK;) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        size_t size = (size_t)(stop - at);
        if (r->prompt_count == PROMPTS)
            err = sl_fail(SL_ERR_INPUT, "%s: more than %d prompts", path, PROMPTS);
        else if (*at == '"') {
            struct sl_json_in json;
            sl_json_read(&json, path, at, size);
            err = sl_json_take_string(&json, &r->arena, &r->prompts[r->prompt_count++]);
        } else if (size > 0) {
            r->prompts[r->prompt_count++] = sl_arena_dup(&r->arena, at, size);
        }
        at = stop + 1;
    }
    free(text);
    return err;
}

static sl_err read_request(const struct sl_args *args, struct request *r) {
    const char *file = sl_args_text(args, "--prompts", NULL), *text;
    r->prompts = SL_NEW(&r->arena, const char *, PROMPTS);
    for (int i = 0; (text = sl_args_nth(args, "--prompt", i)) != NULL; i++) {
        if (i == PROMPTS)
            return sl_fail(SL_ERR_USAGE, "--prompt: more than %d", PROMPTS);
        r->prompts[r->prompt_count++] = text;
    }
    if (file)
        SL_TRY(read_prompts(r, file));
    if (!r->prompt_count && file)
        return sl_fail(SL_ERR_INPUT, "%s has no prompts", file);
    if (!r->prompt_count)
        r->prompts[r->prompt_count++] = "\n";
    for (int i = 0; (text = sl_args_nth(args, "--stop", i)) != NULL; i++) {
        if (i == STOPS || !*text)
            return sl_fail(SL_ERR_USAGE, "--stop: at most %d texts, none of them empty", STOPS);
        r->stops[r->stop_count++] = text;
    }
    SL_TRY(sl_cli_job_fill(args, &r->job));
    SL_TRY(sl_args_int(args, "--tokens", 0, 1 << 24, &r->tokens));
    SL_TRY(sl_args_int(args, "--top", 0, INT64_MAX, &r->draw.top));
    SL_TRY(sl_args_double(args, "--top-p", 0, 1, &r->draw.top_p));
    SL_TRY(sl_args_int(args, "--sample-seed", 0, INT64_MAX, &r->draw.seed));
    SL_TRY(sl_args_double(args, "--temperature", 0, 100, &r->draw.temperature));
    SL_TRY(sl_args_int(args, "--chunk", 1, 1 << 20, &r->chunk));
    SL_TRY(sl_args_int(args, "--stages", 1, 4096, &r->stages));
    return sl_args_int(args, "--together", 1, PROMPTS, &r->batch);
}

/* ---- results ---- */

static void put_result(struct sl_json_out *json, const char *prompt, struct sl_str bytes,
                       int64_t tokens) {
    struct sl_text text = {0};
    sl_text_put_bytes(&text, bytes.at, bytes.length);
    for (size_t i = 0; i < text.length; i++) /* a JSON text cannot contain a byte 0 */
        text.at[i] = text.at[i] ? text.at[i] : (char)0xff;
    sl_json_put_string(json, "prompt", prompt);
    sl_json_put_string(json, "text", text.length ? text.at : "");
    sl_json_put_int(json, "tokens", tokens);
    sl_text_free(&text);
}

struct output {
    const struct request *request;
    struct sl_text text;
    struct sl_json_out json;
    bool as_json, alone; /* alone: print the only text while it grows */
};

static sl_err print_now(struct output *o) {
    sl_err err = o->text.length ? sl_cli_print(&o->text) : SL_OK;
    o->text.length = 0;
    return err;
}

static sl_err on_text(void *ctx, int text, struct sl_str bytes) {
    struct output *o = ctx;
    (void)text;
    sl_text_put_bytes(&o->text, bytes.at, bytes.length);
    return print_now(o);
}

static void open_output(struct output *o) {
    const struct request *r = o->request;
    sl_text_put(&o->text, "");
    o->json = (struct sl_json_out){.text = &o->text, .indent = 2};
    if (o->as_json) {
        sl_json_open(&o->json, '{');
        sl_json_put_string(&o->json, "run", r->args->positional[0]);
        if (!o->alone) {
            sl_json_key(&o->json, "texts");
            sl_json_open(&o->json, '[');
        }
    } else if (o->alone) {
        sl_text_put(&o->text, r->prompts[0]);
    }
}

static void put_one(struct output *o, int number, struct sl_str bytes, int64_t tokens) {
    const char *prompt = o->request->prompts[number];
    if (o->as_json && !o->alone)
        sl_json_open(&o->json, '{');
    if (o->as_json)
        put_result(&o->json, prompt, bytes, tokens);
    if (o->as_json && !o->alone)
        sl_json_close(&o->json, '}');
    if (!o->as_json && !o->alone) {
        sl_text_printf(&o->text, "---- %d ----\n%s", number + 1, prompt);
        sl_text_put_bytes(&o->text, bytes.at, bytes.length);
    }
    if (!o->as_json)
        sl_text_put(&o->text, "\n");
}

static void close_output(struct output *o) {
    if (!o->as_json)
        return;
    if (!o->alone)
        sl_json_close(&o->json, ']');
    sl_json_close(&o->json, '}');
    sl_text_put(&o->text, "\n");
}

/* ---- with cached keys ---- */

static sl_err write_some(struct request *r, struct sl_use_generator *g, struct output *o, int first,
                         int count) {
    struct sl_decode_writer writer = {0};
    struct sl_decode_writing how = {.gen = g->gen,
                                    .chunk = r->chunk,
                                    .tokenizer = g->tokenizer,
                                    .draw = r->draw,
                                    .tokens = r->tokens,
                                    .stops = r->stops,
                                    .stop_count = r->stop_count,
                                    .on_text = o->alone && !o->as_json ? on_text : NULL,
                                    .ctx = o};
    const char **prompts = SL_NEW(&r->arena, const char *, r->batch);
    sl_err err = SL_OK;
    for (int i = 0; i < r->batch; i++) /* unused places repeat the last prompt */
        prompts[i] = r->prompts[first + (i < count ? i : count - 1)];
    how.first = first;
    SL_TRY_OUT(sl_decode_writer_open(&how, prompts, (int)r->batch, &writer));
    SL_TRY_OUT(print_now(o));
    sl_decode_writer_limit(&writer, count);
    while (writer.open > 0)
        SL_TRY_OUT(sl_decode_writer_step(&writer));
    for (int i = 0; i < count; i++) {
        const struct sl_decode_text *t = &writer.texts[i];
        put_one(o, first + i, (struct sl_str){t->bytes.at, t->bytes.length}, t->drawn);
    }
out:
    sl_decode_writer_close(&writer);
    return err;
}

static sl_err write_cached(struct request *r, struct output *o) {
    struct sl_use_generator generator;
    struct sl_use_generate how = {.from = r->args->positional[0],
                                  .model_dirs = sl_cli_model_dirs(r->args, &r->arena),
                                  .stages = r->stages,
                                  .chunk = r->chunk};
    sl_err err = SL_OK;
    r->batch = r->prompt_count < r->batch ? r->prompt_count : r->batch;
    how.batch = r->batch;
    SL_TRY_OUT(sl_use_generator_open(&r->job, &how, &generator));
    r->chunk = r->chunk < sl_decode_sizes(generator.gen).context
                   ? r->chunk
                   : sl_decode_sizes(generator.gen).context;
    open_output(o);
    for (int at = 0; at < r->prompt_count; at += (int)r->batch) {
        int left = r->prompt_count - at;
        SL_TRY_OUT(write_some(r, &generator, o, at, left < (int)r->batch ? left : (int)r->batch));
        if (!o->as_json)
            SL_TRY_OUT(print_now(o));
    }
    close_output(o);
    SL_TRY_OUT(print_now(o));
out:
    sl_use_generator_close(&generator);
    return err;
}

/* ---- without cached keys: every token reads the whole text again ---- */

static sl_err write_plain(struct request *r, struct output *o) {
    struct sl_job_sample_options options = {r->draw.temperature, r->draw.top, r->draw.top_p,
                                            r->draw.seed};
    struct sl_job_sampler sampler = {0};
    struct sl_text all = {0};
    sl_err err = SL_OK;
    sl_text_put(&all, "");
    SL_TRY_OUT(
        sl_job_sampler_open(&r->job, r->args->positional[0], &options, r->prompts[0], &sampler));
    open_output(o);
    for (int64_t i = 0; i < r->tokens; i++) {
        struct sl_str bytes;
        SL_TRY_OUT(sl_job_sampler_next(&sampler, &bytes));
        sl_text_put_bytes(&all, bytes.at, bytes.length);
        if (!o->as_json)
            SL_TRY_OUT(on_text(o, 0, bytes));
    }
    put_one(o, 0, (struct sl_str){all.at, all.length}, r->tokens);
    close_output(o);
    SL_TRY_OUT(print_now(o));
out:
    sl_text_free(&all);
    sl_job_sampler_close(&sampler);
    return err;
}

/* Writes the texts. A run that cannot use cached keys writes one text without them. */
static sl_err write_texts(struct request *r) {
    struct output o = {
        .request = r, .as_json = sl_args_has(r->args, "--json"), .alone = r->prompt_count == 1};
    bool plain =
        o.alone && r->stages == 1 && r->stop_count == 0 && !sl_hf_is_folder(r->args->positional[0]);
    sl_err err = write_cached(r, &o);
    if (err == SL_ERR_REFUSED && plain && o.text.length == 0) {
        char *why = sl_arena_printf(&r->arena, "%s", sl_err_message());
        err = write_plain(r, &o);
        if (err == SL_OK)
            sl_log_note("written without cached keys, which is slower: %s", why);
    }
    sl_text_free(&o.text);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct request r = {.args = args,
                        .draw = {.temperature = 0.8, .top = 40, .seed = 1},
                        .tokens = 200,
                        .chunk = 64,
                        .stages = 1,
                        .batch = 16};
    sl_job_init(&r.job);
    sl_err err = read_request(args, &r);
    if (err == SL_OK)
        err = write_texts(&r);
    sl_job_free(&r.job);
    sl_arena_free(&r.arena);
    return err;
}

static const struct sl_option options[] = {
    {"--prompt", "TEXT", "begin of a text (default: a line break)", true},
    {"--prompts", "FILE", "begins of texts, one per line, as they are or as JSON strings", false},
    {"--tokens", "N", "number of tokens (default 200)", false},
    {"--temperature", "X", "randomness; 0: always the most probable token (default 0.8)", false},
    {"--top", "K", "draw from the K most probable tokens, 0 for all (default 40)", false},
    {"--top-p", "P", "draw from the fewest tokens with this probability (default 1)", false},
    {"--stop", "TEXT", "end before this text", true},
    {"--sample-seed", "S", "seed of the draws (default 1)", false},
    {"--chunk", "N", "tokens of a prompt that are read at a time (default 64)", false},
    {"--together", "N", "texts that grow together (default 16)", false},
    {"--stages", "N", "cut the model into N stages (default 1)", false},
    {"--tokenizer", "PATH", "tokenizer (default: the run's)", false},
    {"--set", "NAME=SIZE,...", "of a folder of Hugging Face: sizes of the model", true},
    {"--threads", "T", "threads of a worker (default: the run's)", false},
    {"--device", "D", "see 'sluice list devices' (default: the run's)", false},
    {0},
};

const struct sl_command sl_cli_cmd_sample = {
    .name = "sample",
    .synopsis = "RUN|DIR [--prompt TEXT]... [--tokens N] [--temperature X]",
    .brief = "generate text with a trained language model",
    .detail =
        "Keeps keys and values of earlier tokens, so that a token costs one token. Its scores have "
        "the\n"
        "bits of training on the same text. DIR is a folder of Hugging Face.\n"
        "\n"
        "  sluice sample run --prompt 'static int ' --tokens 400 --temperature 0.6\n"
        "  sluice sample run --prompts questions.txt --stop '\\n\\n' --json",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
