#include "decode/writer.h"

#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

static sl_err encode(struct sl_decode_writer *w, int i, const char *prompt) {
    struct sl_tokens *tokens = &w->texts[i].tokens;
    if (!*prompt)
        return sl_fail(SL_ERR_USAGE, "`prompt`: expected at least one character");
    sl_tokenizer_encode(w->how.tokenizer, prompt, strlen(prompt), true, tokens);
    for (int64_t k = 0; k < tokens->count; k++)
        if (tokens->at[k] >= w->sizes.vocab)
            return sl_fail(SL_ERR_INPUT, "the prompt has a token that the model does not know");
    int64_t over = tokens->count - w->sizes.context;
    w->texts[i].first = over > 0 ? over : 0;
    sl_text_put(&w->texts[i].bytes, "");
    return SL_OK;
}

sl_err sl_decode_writer_open(const struct sl_decode_writing *how, const char *const *prompts,
                             int count, struct sl_decode_writer *w) {
    *w = (struct sl_decode_writer){.how = *how, .sizes = sl_decode_sizes(how->gen), .count = count};
    size_t batch = (size_t)count, rows = batch * (size_t)how->chunk;
    w->texts = calloc(batch, sizeof *w->texts);
    w->tokens = calloc(rows, sizeof *w->tokens);
    w->past = calloc(batch, sizeof *w->past);
    w->counts = calloc(batch, sizeof *w->counts);
    w->window = calloc(batch * (size_t)w->sizes.context, sizeof *w->window);
    w->logits = calloc(batch * (size_t)w->sizes.vocab, sizeof *w->logits);
    if (!w->texts || !w->tokens || !w->past || !w->counts || !w->window || !w->logits)
        sl_out_of_memory(rows);
    for (int i = 0; i < count; i++) {
        SL_TRY(encode(w, i, prompts[i]));
        w->texts[i].done = how->tokens <= 0;
        w->open += !w->texts[i].done;
    }
    return SL_OK;
}

void sl_decode_writer_limit(struct sl_decode_writer *w, int count) {
    for (int i = count; i < w->count; i++) {
        w->open -= !w->texts[i].done;
        w->texts[i].done = true;
    }
}

void sl_decode_writer_close(struct sl_decode_writer *w) {
    for (int i = 0; w->texts && i < w->count; i++) {
        SL_VEC_FREE(&w->texts[i].tokens);
        sl_text_free(&w->texts[i].bytes);
    }
    free(w->texts);
    free(w->tokens);
    free(w->past);
    free(w->counts);
    free(w->window);
    free(w->logits);
}

/* ---- stop strings ---- */

static size_t longest_stop(const struct sl_decode_writing *how) {
    size_t longest = 0;
    for (int i = 0; i < how->stop_count; i++)
        longest = strlen(how->stops[i]) > longest ? strlen(how->stops[i]) : longest;
    return longest;
}

/* If a stop string ends in the new bytes, cuts the text before the first one. */
static void find_stop(const struct sl_decode_writing *how, struct sl_decode_text *t,
                      size_t before) {
    for (size_t at = t->told; at < t->bytes.length; at++)
        for (int i = 0; i < how->stop_count; i++) {
            size_t length = strlen(how->stops[i]);
            if (!length || at + length > t->bytes.length || at + length <= before ||
                memcmp(t->bytes.at + at, how->stops[i], length) != 0)
                continue;
            t->bytes.length = at;
            t->bytes.at[at] = 0;
            t->done = t->stopped = true;
            return;
        }
}

/* ---- steps ---- */

static int64_t left_of(const struct sl_decode_text *t) {
    return t->tokens.count - t->first - t->past;
}

/* If the window is full, continues with its second half. */
static void slide(const struct sl_decode_writer *w, struct sl_decode_text *t) {
    if (t->past < w->sizes.context)
        return;
    t->first = t->tokens.count - (w->sizes.context + 1) / 2;
    t->past = 0;
}

static void fill(struct sl_decode_writer *w, int64_t length) {
    int64_t context = w->sizes.context;
    memset(w->window, 0, sizeof *w->window * (size_t)(w->count * context));
    for (int i = 0; i < w->count; i++) {
        const struct sl_decode_text *t = &w->texts[i];
        int64_t left = t->done ? 0 : left_of(t), count = left < length ? left : length;
        const int32_t *from = t->tokens.at + t->first;
        w->counts[i] = (int32_t)count;
        w->past[i] = (int32_t)(t->past < context ? t->past : 0);
        memcpy(w->tokens + i * length, from + t->past, sizeof *from * (size_t)count);
        memcpy(w->window + i * context, from, sizeof *from * (size_t)(t->past + count));
    }
}

static sl_err tell(struct sl_decode_writer *w, int i) {
    struct sl_decode_text *t = &w->texts[i];
    size_t held = longest_stop(&w->how), end = t->bytes.length;
    if (!t->done && held > 1)
        end = end > t->told + held - 1 ? end - (held - 1) : t->told;
    if (end <= t->told || !w->how.on_text)
        return SL_OK;
    struct sl_str bytes = {t->bytes.at + t->told, end - t->told};
    t->told = end;
    return w->how.on_text(w->how.ctx, i, bytes);
}

static sl_err draw(struct sl_decode_writer *w, int i) {
    struct sl_decode_text *t = &w->texts[i];
    size_t before = t->bytes.length;
    int32_t token = sl_decode_draw_token(&w->how.draw, w->logits + i * w->sizes.vocab,
                                         w->sizes.vocab, w->how.first + i, t->drawn++);
    struct sl_str piece = sl_tokenizer_piece(w->how.tokenizer, token);
    SL_PUSH(&t->tokens, token);
    sl_text_put_bytes(&t->bytes, piece.at, piece.length);
    t->done = t->drawn >= w->how.tokens;
    find_stop(&w->how, t, before);
    w->open -= t->done;
    slide(w, t);
    return tell(w, i);
}

sl_err sl_decode_writer_step(struct sl_decode_writer *w) {
    int64_t most = 1;
    for (int i = 0; i < w->count; i++)
        if (!w->texts[i].done && left_of(&w->texts[i]) > most)
            most = left_of(&w->texts[i]);
    int64_t length = most < w->how.chunk ? most : w->how.chunk;
    fill(w, length);
    SL_TRY(sl_decode_step(
        w->how.gen, &(struct sl_decode_tokens){length, w->tokens, w->past, w->counts, w->window},
        w->logits));
    for (int i = 0; i < w->count; i++) {
        struct sl_decode_text *t = &w->texts[i];
        if (t->done)
            continue;
        t->past += w->counts[i];
        if (left_of(t) == 0)
            SL_TRY(draw(w, i));
    }
    return SL_OK;
}
