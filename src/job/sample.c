/* Draws text from a trained language model. */
#include "job/sample.h"

#include "decode/draw.h"

#include <stdlib.h>
#include <string.h>

static sl_err find_ports(struct sl_job_sampler *s) {
    const struct sl_train *train = s->train;
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
    int64_t scores = s->logits->operand.numel / p->samples;
    s->context = s->tokens->operand.numel / p->samples;
    s->vocab = scores / s->context;
    if (scores != s->context * s->vocab || s->vocab < 2)
        return sl_fail(SL_ERR_REFUSED, "the output 'logits' is not one row of scores per token");
    return SL_OK;
}

static sl_err fail_empty(void) {
    return sl_fail(SL_ERR_USAGE, "`prompt`: expected at least one character");
}

static sl_err start(struct sl_job_sampler *s, const char *prompt) {
    SL_TRY(find_ports(s));
    s->window = sl_realloc(NULL, sizeof *s->window * (size_t)s->tokens->operand.numel);
    s->scores = sl_realloc(NULL, sizeof *s->scores * (size_t)s->logits->operand.numel);
    sl_tokenizer_encode(s->tokenizer, prompt, strlen(prompt), SL_TOKENIZER_MATCH, &s->text);
    for (int64_t i = 0; i < s->text.count; i++)
        if (s->text.at[i] >= s->vocab)
            return sl_fail(SL_ERR_INPUT, "the prompt has a token that the model does not know");
    return SL_OK;
}

sl_err sl_job_sampler_open(const struct sl_job *job, const char *run,
                           const struct sl_job_sample_options *options, const char *prompt,
                           struct sl_job_sampler *s) {
    *s = (struct sl_job_sampler){.options = *options};
    if (!*prompt)
        return fail_empty();
    SL_TRY(sl_job_eval_open(job, run, 1, &s->eval));
    s->train = s->eval.train;
    return start(s, prompt);
}

sl_err sl_job_sampler_open_on(struct sl_train *train, const struct sl_job_sample_options *options,
                              const char *prompt, struct sl_job_sampler *s) {
    *s = (struct sl_job_sampler){.options = *options, .train = train};
    return *prompt ? start(s, prompt) : fail_empty();
}

void sl_job_sampler_close(struct sl_job_sampler *s) {
    free(s->window);
    free(s->scores);
    SL_VEC_FREE(&s->text);
    sl_job_eval_close(&s->eval);
}

/* Computes the scores of the token after the text. */
static sl_err score(struct sl_job_sampler *s, const float **row) {
    struct sl_worker *worker = s->train->worker;
    int64_t used = s->text.count < s->context ? s->text.count : s->context;
    struct sl_worker_pass pass = {.program = sl_run_train_eval_program(s->train)};
    memset(s->window, 0, sizeof *s->window * (size_t)s->tokens->operand.numel);
    memcpy(s->window, s->text.at + s->text.count - used, sizeof *s->window * (size_t)used);
    SL_TRY(sl_run_worker_put(worker, 0, s->tokens, s->window));
    SL_TRY(sl_run_worker_pass(worker, &pass));
    SL_TRY(sl_run_worker_get(worker, 0, s->logits, s->scores));
    *row = s->scores + (used - 1) * s->vocab;
    return SL_OK;
}

sl_err sl_job_sampler_next(struct sl_job_sampler *s, struct sl_str *out) {
    const float *row;
    SL_TRY(score(s, &row));
    const struct sl_decode_draw how = {.temperature = s->options.temperature,
                                       .top = s->options.top,
                                       .top_p = s->options.top_p,
                                       .seed = s->options.seed};
    int32_t token = sl_decode_draw_token(&how, row, s->vocab, 0, s->drawn++);
    SL_PUSH(&s->text, token);
    *out = sl_tokenizer_piece(s->tokenizer, token);
    return SL_OK;
}
