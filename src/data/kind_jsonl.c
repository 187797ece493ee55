/* JSON Lines: an object per line, with `text` or with `messages` of a conversation.
 *
 *   padded (default)  a sample is one text; a longer text continues in the next sample
 *   packed            the texts one after the other, cut into samples
 *
 *   stream  a0 a1 a2 | b0 b1 b2 b3 |      T = 4     tokens   a0 a1 a2 -     b0 b1 b2 b3
 *                                         padded    targets  a1 a2 -  -     b1 b2 b3 -
 *
 * The first token of a text is never a target, so no loss leaks from one text to the next. Of a
 * conversation, only the answers of the assistant are targets. Opening encodes all texts, in parallel.
 */
#include "base/par.h"
#include "base/vec.h"
#include "data/source.h"
#include "tokenizer/chat.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 256 };

#define TARGET 0x80000000u /* bit in the stream: this token is a target */

struct sample {
    int64_t first;
    int32_t count;
};

struct line_set {
    uint32_t *stream; /* token ids, with TARGET */
    int64_t tokens, targets, texts;
    struct sample *sample; /* [data->total] */
    int32_t pad;
    bool packed;
};

struct text {           /* one line of the file */
    struct sl_str text; /* its text, or its messages */
    struct sl_tokenizer_message *message;
    int64_t message_count;
    struct sl_tokens ids, targets;
    sl_err err;
    char reason[300];
    const char *file;
    int64_t line;
};

struct reader {
    struct sl_data *data;
    const struct sl_data_spec *spec;
    struct line_set *set;
    int64_t length; /* T */
    struct sl_tokenizer_chat chat;
    bool has_chat;
    int32_t eos;
    struct sl_arena arena; /* arena for one batch of lines */
    struct text text[BATCH];
    int count;
    SL_VEC(uint32_t) stream;
    SL_VEC(struct sample) samples;
};

/* ---- lines ---- */

static sl_err read_message(struct sl_json_in *json, struct sl_arena *arena,
                           struct sl_tokenizer_message *out) {
    bool has_role = false, has_content = false;
    if (json->event != SL_JSON_OBJECT)
        return sl_json_fail(json, "expected a message: {\"role\": ..., \"content\": ...}");
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        struct sl_str key = json->string;
        SL_TRY(sl_json_next(json));
        bool is_role = sl_str_is(key, "role"), is_content = sl_str_is(key, "content");
        if ((is_role || is_content) && json->event != SL_JSON_STRING)
            return sl_json_fail(json, "'%.*s' of a message must be a string", (int)key.length,
                                key.at);
        if (is_role && !sl_tokenizer_chat_role(json->string, &out->role))
            return sl_json_fail(json, "role '%.*s' is not known; known: system, user, assistant",
                                (int)json->string.length, json->string.at);
        if (is_content)
            out->content = sl_json_unescape_str(json, arena);
        if (sl_str_is(key, "tool_calls") && json->event != SL_JSON_NULL)
            return sl_json_fail(json, "tool_calls are not supported");
        has_role |= is_role;
        has_content |= is_content;
        SL_TRY(sl_json_skip(json));
    }
    return has_role && has_content ? SL_OK : sl_json_fail(json, "a message needs role and content");
}

static sl_err read_messages(struct sl_json_in *json, struct sl_arena *arena, struct text *out) {
    SL_VEC(struct sl_tokenizer_message) list = {0};
    struct sl_tokenizer_message one;
    sl_err err = SL_OK;
    if (json->event != SL_JSON_ARRAY)
        return sl_json_fail(json, "`messages` must be a list");
    for (;;) {
        SL_TRY_OUT(sl_json_next(json));
        if (json->event == SL_JSON_ARRAY_END)
            break;
        memset(&one, 0, sizeof one);
        SL_TRY_OUT(read_message(json, arena, &one));
        SL_PUSH(&list, one);
    }
    out->message_count = list.count;
    out->message = SL_VEC_FREEZE(&list, arena);
    if (!list.count)
        err = sl_json_fail(json, "`messages` is empty");
out:
    SL_VEC_FREE(&list);
    return err;
}

static sl_err read_line(struct sl_json_in *json, struct sl_arena *arena, struct text *out) {
    bool has_text = false;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        struct sl_str key = json->string;
        SL_TRY(sl_json_next(json));
        if (sl_str_is(key, "text")) {
            if (json->event != SL_JSON_STRING)
                return sl_json_fail(json, "`text` must be a string");
            out->text = sl_json_unescape_str(json, arena);
            has_text = true;
        } else if (sl_str_is(key, "messages")) {
            SL_TRY(read_messages(json, arena, out));
        } else {
            SL_TRY(sl_json_skip(json));
        }
    }
    if (has_text == (out->message_count > 0))
        return sl_json_fail(json, "a line needs one of `text` and `messages`");
    return sl_json_next(json);
}

/* ---- encoding ---- */

static void encode_text(void *ctx, int64_t i) {
    struct reader *r = ctx;
    struct text *text = &r->text[i];
    if (text->message_count) {
        text->err = sl_tokenizer_chat_encode(&r->chat, r->data->tokenizer, text->message,
                                             text->message_count, &text->ids, &text->targets);
        if (text->err != SL_OK)
            snprintf(text->reason, sizeof text->reason, "%s", sl_err_message());
        return;
    }
    sl_tokenizer_encode(r->data->tokenizer, text->text.at, text->text.length, SL_TOKENIZER_WHOLE,
                        &text->ids);
    if (r->eos >= 0 && text->ids.count && text->ids.at[text->ids.count - 1] != r->eos)
        SL_PUSH(&text->ids, r->eos);
    for (int64_t k = 0; k < text->ids.count; k++)
        SL_PUSH(&text->targets, 1);
}

/* Adds a sample of tokens [first, first + count) if it has a target. */
static void put_sample(struct reader *r, int64_t first, int64_t count) {
    bool any = false;
    for (int64_t i = first + 1; i <= first + count && i < r->stream.count && !any; i++)
        any = r->stream.at[i] & TARGET;
    struct sample sample = {first, (int32_t)count};
    if (any)
        SL_PUSH(&r->samples, sample);
}

static void put_text(struct reader *r, const struct text *text) {
    int64_t first = r->stream.count;
    for (int64_t i = 0; i < text->ids.count; i++) {
        bool target = i > 0 && text->targets.at[i];
        SL_PUSH(&r->stream, (uint32_t)text->ids.at[i] | (target ? TARGET : 0));
        r->set->targets += target;
    }
    for (int64_t at = first; at + 1 < r->stream.count && !r->set->packed; at += r->length) {
        int64_t left = r->stream.count - at;
        put_sample(r, at, left < r->length ? left : r->length);
    }
}

static sl_err flush(struct reader *r) {
    sl_err err = SL_OK;
    sl_par_for(r->count, r->spec->threads, encode_text, r);
    for (int i = 0; i < r->count; i++) {
        struct text *text = &r->text[i];
        if (text->err != SL_OK && err == SL_OK)
            err =
                sl_fail(text->err, "%s:%lld: %s", text->file, (long long)text->line, text->reason);
        if (err == SL_OK)
            put_text(r, text);
        SL_VEC_FREE(&text->ids);
        SL_VEC_FREE(&text->targets);
    }
    r->set->texts += r->count;
    r->count = 0;
    sl_arena_free(&r->arena);
    r->arena = (struct sl_arena){0};
    return err;
}

static sl_err add_line(struct reader *r, const struct sl_blob *blob, struct sl_str line,
                       int64_t number) {
    struct text *text = &r->text[r->count];
    struct sl_json_in json;
    *text = (struct text){.file = blob->name, .line = number};
    sl_json_read(&json, blob->name, line.at, line.length);
    json.start = (const char *)blob->at; /* so that errors have the line of the file */
    SL_TRY(read_line(&json, &r->arena, text));
    if (text->message_count && !r->has_chat) {
        SL_TRY(sl_tokenizer_chat_open(r->spec->tokenizer, r->spec->chat_template, true, &r->chat));
        r->has_chat = true;
    }
    return ++r->count == BATCH ? flush(r) : SL_OK;
}

static bool is_blank(struct sl_str line) {
    for (size_t i = 0; i < line.length; i++)
        if (line.at[i] != ' ' && line.at[i] != '\t' && line.at[i] != '\r')
            return false;
    return true;
}

static sl_err read_file(struct reader *r, struct sl_blob *blob) {
    int64_t number = 0;
    SL_TRY(sl_data_blob_inflate(blob));
    SL_TRY(sl_data_blob_load(blob));
    const char *at = (const char *)blob->at, *end = at + blob->size_bytes;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct sl_str line = {at, (size_t)((stop ? stop : end) - at)};
        at = stop ? stop + 1 : end;
        number++;
        if (!is_blank(line))
            SL_TRY(add_line(r, blob, line, number));
    }
    SL_TRY(flush(r));
    uint64_t print = blob->print;
    const char *name = blob->name;
    sl_data_blob_close(blob); /* the text is no longer needed */
    blob->name = name;
    blob->print = print;
    return SL_OK;
}

/* ---- the set ---- */

/* Checks that the tokens are in the range of the input. */
static sl_err check_range(const struct reader *r) {
    for (int i = 0; i < r->data->bound_count; i++) {
        const struct sl_data_bound *bound = &r->data->bound[i];
        for (int64_t k = 0; k < r->stream.count && bound->in_seq && bound->want.below; k++)
            if ((int64_t)(r->stream.at[k] & ~TARGET) >= bound->want.below)
                return sl_data_bad_value(bound, r->stream.at[k] & ~TARGET, r->data->blob[0].name);
    }
    return SL_OK;
}

static int32_t choose_pad(const struct sl_data *data, int32_t eos) {
    static const char *const names[] = {"[PAD]", "<pad>", "<|pad|>"};
    for (int i = 0; i < SL_COUNT(names); i++) {
        int32_t id = sl_tokenizer_find(data->tokenizer, sl_str(names[i]));
        if (id >= 0)
            return id;
    }
    return eos >= 0 ? eos : 0;
}

static sl_err read_all(struct reader *r) {
    struct sl_data *data = r->data;
    struct line_set *set = r->set;
    for (int i = 0; i < data->blob_count; i++)
        SL_TRY(read_file(r, &data->blob[i]));
    for (int64_t at = 0; at + 1 < r->stream.count && set->packed; at += r->length) {
        int64_t left = r->stream.count - at;
        put_sample(r, at, left < r->length ? left : r->length);
    }
    if (!r->samples.count)
        return sl_fail(SL_ERR_INPUT, "%s: %lld texts, but no token to train on", data->blob[0].name,
                       (long long)set->texts);
    return check_range(r);
}

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct line_set *set = SL_NEW(&data->arena, struct line_set, 1);
    struct sl_seq *seq = SL_NEW(&data->arena, struct sl_seq, 1);
    struct reader *r = SL_NEW(&data->arena, struct reader, 1);
    struct sl_tokenizer_chat tokens;
    sl_err err = SL_OK;
    data->state = set;
    *r = (struct reader){.data = data, .spec = spec, .set = set, .eos = -1};
    set->packed = data->packed;
    if (!data->tokenizer)
        SL_TRY(sl_tokenizer_open(NULL, &data->tokenizer));
    SL_TRY(sl_data_seq_bind(data, spec, seq));
    if (seq->masked)
        return sl_fail(
            SL_ERR_INPUT,
            "%s: masked tokens of JSON lines are not implemented; try next:", data->blob[0].name);
    r->length = seq->length;
    SL_TRY(sl_tokenizer_chat_open(spec->tokenizer, spec->chat_template, false, &tokens));
    if (tokens.eos[0])
        r->eos = sl_tokenizer_find(data->tokenizer, sl_str(tokens.eos));
    set->pad = choose_pad(data, r->eos);
    SL_TRY_OUT(read_all(r));
    set->tokens = r->stream.count;
    set->stream = r->stream.at;
    set->sample = r->samples.at;
    data->total = r->samples.count;
    data->own_bytes = r->stream.room * (int64_t)sizeof *r->stream.at +
                      r->samples.room * (int64_t)sizeof *r->samples.at;
out:
    if (err != SL_OK) {
        for (int i = 0; i < BATCH; i++) {
            SL_VEC_FREE(&r->text[i].ids);
            SL_VEC_FREE(&r->text[i].targets);
        }
        sl_arena_free(&r->arena);
        SL_VEC_FREE(&r->stream);
        SL_VEC_FREE(&r->samples);
    }
    return err;
}

static void put_mask(const struct sl_data_bound *bound, int64_t count, void *dst) {
    for (int64_t i = 0; i < bound->numel; i++) {
        bool on = i < count;
        if (bound->want.dtype == SL_DATA_INT)
            ((int32_t *)dst)[i] = on;
        else
            ((float *)dst)[i] = on ? 1 : 0;
    }
}

static sl_err fill(const struct sl_data *data, const struct sl_data_ask *ask) {
    const struct line_set *set = data->state;
    const struct sl_data_bound *bound = &data->bound[ask->input];
    const struct sample *s = &set->sample[ask->sample];
    int32_t *dst = ask->dst;
    if (bound->role == SL_ROLE_MASK)
        put_mask(bound, s->count, ask->dst);
    else if (!sl_data_fill_plain(bound, ask))
        for (int64_t i = 0; i < bound->numel; i++) {
            int64_t at = s->first + i + (bound->role == SL_ROLE_TARGET);
            uint32_t token = i < s->count && at < set->tokens ? set->stream[at] : 0;
            if (bound->role == SL_ROLE_TARGET)
                dst[i] = token & TARGET ? (int32_t)(token & ~TARGET) : bound->ignore;
            else
                dst[i] = i < s->count ? (int32_t)(token & ~TARGET) : set->pad;
        }
    return SL_OK;
}

static void describe(const struct sl_data *data, struct sl_json_out *json) {
    const struct line_set *set = data->state;
    sl_json_put_int(json, "texts", set->texts);
    sl_json_put_int(json, "tokens", set->tokens);
    sl_json_put_int(json, "targets", set->targets);
    sl_json_put_int(json, "window", data->seq->length);
    sl_json_put_string(json, "samples", set->packed ? "packed" : "padded");
}

static void close_set(struct sl_data *data) {
    struct line_set *set = data->state;
    if (!set)
        return;
    free(set->stream);
    free(set->sample);
}

const struct sl_data_kind sl_data_jsonl = {
    .name = "jsonl",
    .brief = "JSON lines with text, or messages of which the answers are trained (gzip too)",
    .offers = "tokens and targets of one length, mask, segments, positions, row",
    .suffixes = ".jsonl.ndjson",
    .files_max = SL_DATA_FILES,
    .open = open_set,
    .fill = fill,
    .ignores = true,
    .describe = describe,
    .close = close_set,
};
