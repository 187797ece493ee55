/* sluice sample: text from a trained language model, one token after another. */
#include "cli/command.h"

#include "base/json.h"
#include "base/rng.h"
#include "cli/run_dir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sampler {
    struct sl_run_dir *dir;
    const struct sl_program_port *tokens, *logits;
    const struct sl_tokenizer *tokenizer;
    int64_t context, vocab;
    int32_t *window; /* [context] */
    float *scores;   /* [context, vocab] */
    double temperature;
    int64_t top, seed;
};

static sl_err open_sampler(struct sampler *s) {
    const struct sl_train *train = s->dir->train;
    const struct sl_program *p = train->worker->programs[sl_run_train_eval_program(train)];
    const struct sl_graph *graph = train->config.graph;
    for (int i = 0; i < p->inputs.count; i++)
        if (strcmp(graph->inputs.at[p->inputs.at[i].index].name, "tokens") == 0)
            s->tokens = &p->inputs.at[i];
    s->logits = sl_run_train_find_output(train, "logits");
    s->tokenizer = sl_data_tokenizer(train->config.data);
    if (!s->tokens || !s->logits || !s->tokenizer)
        return sl_fail(SL_ERR_REFUSED,
                       "this run cannot write text: that takes an input 'tokens', an output "
                       "'logits' and a tokenizer (text data)");
    s->context = s->tokens->operand.numel;
    s->vocab = s->logits->operand.numel / s->context;
    if (s->logits->operand.numel != s->context * s->vocab || s->vocab < 2)
        return sl_fail(SL_ERR_REFUSED, "the output 'logits' is not one row of scores per token");
    s->window = calloc((size_t)s->context, sizeof *s->window);
    s->scores = sl_realloc(NULL, sizeof *s->scores * (size_t)s->logits->operand.numel);
    return SL_OK;
}

static int compare_down(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The score of the top-th best token: what is below it is not drawn. */
static float cut_of(const struct sampler *s, const float *row) {
    if (s->top <= 0 || s->top >= s->vocab)
        return -INFINITY;
    float *sorted = sl_realloc(NULL, sizeof *sorted * (size_t)s->vocab);
    memcpy(sorted, row, sizeof *sorted * (size_t)s->vocab);
    qsort(sorted, (size_t)s->vocab, sizeof *sorted, compare_down);
    float cut = sorted[s->top - 1];
    free(sorted);
    return cut;
}

static int32_t draw(const struct sampler *s, const float *row, int64_t index) {
    int64_t best = 0;
    for (int64_t k = 1; k < s->vocab; k++)
        if (row[k] > row[best])
            best = k;
    if (s->temperature <= 0)
        return (int32_t)best;
    float cut = cut_of(s, row);
    double sum = 0;
    for (int64_t k = 0; k < s->vocab; k++)
        sum += row[k] >= cut ? exp(((double)row[k] - (double)row[best]) / s->temperature) : 0;
    double left = sum * sl_rng_uniform((uint64_t)s->seed, 99, (uint64_t)index);
    for (int64_t k = 0; k < s->vocab; k++) {
        left -= row[k] >= cut ? exp(((double)row[k] - (double)row[best]) / s->temperature) : 0;
        if (left < 0)
            return (int32_t)k;
    }
    return (int32_t)best;
}

/* Scores behind the last of `count` tokens. */
static sl_err score(struct sampler *s, const struct sl_tokens *tokens, const float **row) {
    struct sl_worker *worker = s->dir->train->worker;
    int64_t used = tokens->count < s->context ? tokens->count : s->context;
    struct sl_pass pass = {.program = sl_run_train_eval_program(s->dir->train)};
    memset(s->window, 0, sizeof *s->window * (size_t)s->context);
    memcpy(s->window, tokens->at + tokens->count - used, sizeof *s->window * (size_t)used);
    SL_TRY(sl_run_worker_put(worker, 0, s->tokens, s->window));
    SL_TRY(sl_run_worker_pass(worker, &pass));
    SL_TRY(sl_run_worker_get(worker, 0, s->logits, s->scores));
    *row = s->scores + (used - 1) * s->vocab;
    return SL_OK;
}

/* In JSON a byte 0 would end the text. */
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

/* Token by token as they come; as JSON at the end. */
static sl_err write_text(struct sampler *s, const struct sl_args *args, const char *prompt,
                         int64_t count) {
    struct sl_tokens tokens = {0};
    struct sl_text text = {0}, said = {0};
    const float *row;
    bool as_json = sl_args_has(args, "--json");
    sl_err err = SL_OK;
    sl_data_tokenizer_encode(s->tokenizer, prompt, strlen(prompt), true, &tokens);
    sl_text_put(&text, as_json ? "" : prompt);
    for (int64_t i = 0; i < tokens.count; i++)
        if (tokens.at[i] >= s->vocab)
            SL_TRY_OUT(sl_fail(SL_ERR_INPUT, "the prompt has a token the model does not know"));
    for (int64_t i = 0; i < count; i++) {
        SL_TRY_OUT(score(s, &tokens, &row));
        int32_t token = draw(s, row, i);
        SL_PUSH(&tokens, token);
        struct sl_str bytes = sl_data_tokenizer_decode(s->tokenizer, token);
        sl_text_put_bytes(&text, bytes.at, bytes.length);
        if (as_json)
            continue;
        SL_TRY_OUT(sl_cli_print(&text));
        text.length = 0;
    }
    if (as_json)
        put_json(&said, args->positional[0], prompt, &text, count);
    else
        sl_text_put(&text, "\n");
    SL_TRY_OUT(sl_cli_print(as_json ? &said : &text));
out:
    sl_text_free(&said);
    SL_VEC_FREE(&tokens);
    sl_text_free(&text);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_run_dir dir = {0};
    struct sampler s = {.dir = &dir, .temperature = 0.8, .top = 40, .seed = 1};
    int64_t count = 200;
    const char *prompt = sl_args_text(args, "--prompt", "\n");
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_args_int(args, "--tokens", 0, 1 << 24, &count));
    SL_TRY_OUT(sl_args_int(args, "--top", 0, INT64_MAX, &s.top));
    SL_TRY_OUT(sl_args_int(args, "--sample-seed", 0, INT64_MAX, &s.seed));
    SL_TRY_OUT(sl_args_double(args, "--temperature", 0, 100, &s.temperature));
    if (!*prompt)
        SL_TRY_OUT(sl_fail(SL_ERR_USAGE, "--prompt: give at least one character"));
    SL_TRY_OUT(sl_cli_run_dir_open(args, args->positional[0], 1, &dir));
    SL_TRY_OUT(open_sampler(&s));
    SL_TRY_OUT(write_text(&s, args, prompt, count));
out:
    free(s.window);
    free(s.scores);
    sl_cli_run_dir_close(&dir);
    return err;
}

static const struct sl_option options[] = {
    {"--prompt", "TEXT", "what the text begins with", false},
    {"--tokens", "N", "tokens to write (default 200)", false},
    {"--temperature", "X", "0: always the likeliest (default 0.8)", false},
    {"--top", "K", "draw from the K likeliest, 0 for all (default 40)", false},
    {"--sample-seed", "S", "of the draws (default 1)", false},
    {"--threads", "T", "threads of the worker", false},
    {"--device", "D", "see 'sluice list devices'", false},
    {0},
};

const struct sl_command sl_cli_cmd_sample = {
    .name = "sample",
    .synopsis = "RUN [--prompt TEXT] [--tokens N] [--temperature X]",
    .brief = "text from a trained language model",
    .detail = "  sluice sample run --prompt 'static int ' --tokens 400 --temperature 0.6",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
