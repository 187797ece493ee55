/* Reads byte-level BPE: tokenizer.json, or vocab.json and merges.txt.
 *
 * The reader passes over the files twice: first to count and
 * check, then to fill tables of exactly that size. Each pass starts from a saved copy of the JSON
 * reader.
 */
#include "tokenizer/bpe.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- the parts of the files ---- */

struct parts {
    const char *name;
    struct sl_json_in vocab, merges, added; /* positions after the opening bracket */
    bool has_vocab, has_merges, has_added;
    char *scratch; /* size of the largest file */
};

/* Skip the next value. */
static sl_err skip_value(struct sl_json_in *json) {
    SL_TRY(sl_json_next(json));
    return sl_json_skip(json);
}

/* Save the position inside the next object or list; null counts as absent. */
static sl_err mark_value(struct sl_json_in *json, enum sl_json_event kind, struct sl_json_in *mark,
                         bool *has) {
    SL_TRY(sl_json_next(json));
    if (json->event == SL_JSON_NULL)
        return SL_OK;
    if (json->event != kind)
        return sl_json_fail(json, "expected %s", kind == SL_JSON_OBJECT ? "an object" : "a list");
    if (*has)
        return sl_json_fail(json, "comes twice");
    *mark = *json;
    *has = true;
    return sl_json_skip(json);
}

static sl_err read_model(struct sl_tokenizer *t, struct sl_json_in *json, struct parts *parts) {
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return SL_OK;
        struct sl_str key = json->string;
        if (sl_str_is(key, "type")) {
            SL_TRY(sl_json_take(json, SL_JSON_STRING));
            if (!sl_str_is(json->string, "BPE"))
                return sl_json_fail(json, "the tokenizer is '%.*s', only BPE is known",
                                    (int)json->string.length, json->string.at);
        } else if (sl_str_is(key, "vocab")) {
            SL_TRY(mark_value(json, SL_JSON_OBJECT, &parts->vocab, &parts->has_vocab));
        } else if (sl_str_is(key, "merges")) {
            SL_TRY(mark_value(json, SL_JSON_ARRAY, &parts->merges, &parts->has_merges));
        } else if (sl_str_is(key, "ignore_merges")) {
            SL_TRY(sl_json_take(json, SL_JSON_BOOL));
            t->whole_words = json->boolean;
        } else if (sl_str_is(key, "byte_fallback")) {
            SL_TRY(sl_json_take(json, SL_JSON_BOOL));
            if (json->boolean)
                return sl_json_fail(json, "byte_fallback (SentencePiece) is not supported, only "
                                          "byte-level BPE as GPT-2 and Llama 3 have it");
        } else {
            SL_TRY(skip_value(json));
        }
    }
}

/* A pre-tokenizer is an object or a Sequence: ByteLevel with its own rule (GPT-2), or a Split with
 * a known expression plus ByteLevel without rule. Collected here and checked at the end. */
struct pretoks {
    bool byte_level, regex_off, split, prefix_space;
    enum sl_pretok split_rule;
};

static sl_err read_pattern(struct sl_json_in *json, struct pretoks *found) {
    /* As in the file, where JSON escapes each backslash. */
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+|"
                               " ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+";
    static const char llama3[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
                                 "\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|"
                                 "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+";
    if (found->split)
        return sl_json_fail(json, "more than one split expression is not supported");
    found->split = true;
    if (sl_str_is(json->string, gpt2))
        found->split_rule = SL_PRETOK_GPT2;
    else if (sl_str_is(json->string, llama3))
        found->split_rule = SL_PRETOK_LLAMA3;
    else
        return sl_json_fail(json, "unknown split expression: those of GPT-2 and of GPT-4 and "
                                  "Llama 3 are known");
    return SL_OK;
}

static sl_err read_pretok_string(struct sl_json_in *json, struct sl_str key,
                                 struct pretoks *found) {
    if (sl_str_is(key, "Regex"))
        return read_pattern(json, found);
    if (!sl_str_is(key, "type"))
        return SL_OK;
    if (sl_str_is(json->string, "ByteLevel"))
        found->byte_level = true;
    else if (!sl_str_is(json->string, "Sequence") && !sl_str_is(json->string, "Split"))
        return sl_json_fail(json, "pre_tokenizer '%.*s' is not supported, only ByteLevel",
                            (int)json->string.length, json->string.at);
    return SL_OK;
}

static sl_err read_pretok(struct sl_tokenizer *t, struct sl_json_in *json) {
    struct pretoks found = {0};
    struct sl_str key = {NULL, 0};
    SL_TRY(sl_json_next(json));
    int outside = json->depth - 1;
    if (json->event != SL_JSON_OBJECT)
        return sl_json_fail(json, "no pre_tokenizer: expected ByteLevel");
    while (json->depth > outside) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_KEY)
            key = json->string;
        else if (json->event == SL_JSON_STRING && key.at)
            SL_TRY(read_pretok_string(json, key, &found));
        else if (json->event == SL_JSON_BOOL && sl_str_is(key, "add_prefix_space"))
            found.prefix_space |= json->boolean;
        else if (json->event == SL_JSON_BOOL && sl_str_is(key, "use_regex"))
            found.regex_off |= !json->boolean;
        else if (json->event == SL_JSON_BOOL && sl_str_is(key, "invert") && json->boolean)
            return sl_json_fail(json, "an inverted split is not supported");
    }
    if (!found.byte_level)
        return sl_json_fail(json, "the pre_tokenizer is not byte-level: expected ByteLevel");
    if (found.split && !found.regex_off)
        return sl_json_fail(json, "a split and ByteLevel's own expression together are not "
                                  "supported");
    t->prefix_space = found.prefix_space;
    t->rule = found.split ? found.split_rule : found.regex_off ? SL_PRETOK_NONE : SL_PRETOK_GPT2;
    return SL_OK;
}

static sl_err read_tokenizer_json(struct sl_tokenizer *t, struct sl_json_in *json,
                                  struct parts *parts) {
    bool has_pretok = false;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        struct sl_str key = json->string;
        if (sl_str_is(key, "model")) {
            SL_TRY(read_model(t, json, parts));
        } else if (sl_str_is(key, "pre_tokenizer")) {
            SL_TRY(read_pretok(t, json));
            has_pretok = true;
        } else if (sl_str_is(key, "added_tokens")) {
            SL_TRY(mark_value(json, SL_JSON_ARRAY, &parts->added, &parts->has_added));
        } else if (sl_str_is(key, "normalizer")) {
            SL_TRY(sl_json_next(json));
            if (json->event != SL_JSON_NULL)
                return sl_json_fail(json, "a tokenizer with a normalizer is not supported");
        } else {
            SL_TRY(skip_value(json));
        }
    }
    SL_TRY(sl_json_next(json)); /* nothing may follow */
    if (!parts->has_vocab || !parts->has_merges || !has_pretok)
        return sl_fail(SL_ERR_INPUT,
                       "%s: not a byte-level BPE tokenizer.json: model.vocab, model.merges or "
                       "pre_tokenizer is missing",
                       parts->name);
    return SL_OK;
}

/* ---- tokens ---- */

struct census {
    int64_t count, highest, text_bytes;
};

/* Read one entry of added_tokens. */
static sl_err read_added(struct sl_json_in *json, int64_t *id, struct sl_str *content) {
    *id = -1;
    content->at = NULL;
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        struct sl_str key = json->string;
        if (sl_str_is(key, "id")) {
            SL_TRY(sl_json_take_int(json, 0, 1 << 28, id));
        } else if (sl_str_is(key, "content")) {
            SL_TRY(sl_json_take(json, SL_JSON_STRING));
            *content = json->string;
        } else {
            SL_TRY(skip_value(json));
        }
    }
    if (*id < 0 || !content->at || !content->length)
        return sl_json_fail(json, "an added token needs id and content");
    return SL_OK;
}

static sl_err take_census(struct parts *parts, struct census *census, int *added) {
    struct sl_json_in json = parts->vocab;
    int64_t id;
    *census = (struct census){.highest = -1};
    *added = 0;
    for (;;) {
        SL_TRY(sl_json_next(&json));
        if (json.event == SL_JSON_OBJECT_END)
            break;
        census->text_bytes += (int64_t)json.string.length;
        SL_TRY(sl_json_take_int(&json, 0, 1 << 28, &id));
        census->count++;
        census->highest = id > census->highest ? id : census->highest;
    }
    json = parts->added;
    while (parts->has_added) {
        struct sl_str content;
        SL_TRY(sl_json_next(&json));
        if (json.event == SL_JSON_ARRAY_END)
            break;
        if (json.event != SL_JSON_OBJECT)
            return sl_json_fail(&json, "expected an object");
        SL_TRY(read_added(&json, &id, &content));
        census->text_bytes += (int64_t)content.length;
        census->count++;
        census->highest = id > census->highest ? id : census->highest;
        ++*added;
    }
    if (census->count < 256 || census->highest > 2 * census->count)
        return sl_fail(
            SL_ERR_INPUT,
            "%s: %lld tokens with ids up to %lld: expected at least 256, numbered from 0 "
            "almost without gaps",
            parts->name, (long long)census->count, (long long)census->highest);
    return SL_OK;
}

static sl_err put_token(struct sl_tokenizer *t, const struct parts *parts, int64_t id,
                        struct sl_str raw, bool mapped) {
    struct sl_bpe_token *token = &t->token[id];
    char *at = t->pool + t->pool_bytes;
    size_t length = sl_tokenizer_bpe_decode(raw, true, mapped, at);
    if (token->length) {
        bool same = token->length == length && memcmp(t->pool + token->start, at, length) == 0;
        return same ? SL_OK
                    : sl_fail(SL_ERR_INPUT, "%s: two tokens have the id %lld", parts->name,
                              (long long)id);
    }
    *token = (struct sl_bpe_token){(uint32_t)t->pool_bytes, (uint32_t)length};
    t->pool_bytes += (int64_t)length;
    return SL_OK;
}

static sl_err read_tokens(struct sl_tokenizer *t, struct parts *parts) {
    struct census census;
    struct sl_json_in json = parts->vocab;
    int added;
    int64_t id;
    SL_TRY(take_census(parts, &census, &added));
    t->vocab = census.highest + 1;
    t->token = sl_realloc(NULL, sizeof *t->token * (size_t)t->vocab);
    memset(t->token, 0, sizeof *t->token * (size_t)t->vocab);
    t->pool = sl_realloc(NULL, (size_t)census.text_bytes);
    t->special = sl_realloc(NULL, sizeof *t->special * (size_t)added);
    for (;;) {
        SL_TRY(sl_json_next(&json));
        if (json.event == SL_JSON_OBJECT_END)
            break;
        struct sl_str raw = json.string;
        SL_TRY(sl_json_take_int(&json, 0, t->vocab - 1, &id));
        SL_TRY(put_token(t, parts, id, raw, true));
    }
    json = parts->added;
    for (int i = 0; i < added; i++) {
        struct sl_str content;
        SL_TRY(sl_json_next(&json));
        SL_TRY(read_added(&json, &id, &content));
        SL_TRY(put_token(t, parts, id, content, false));
        t->special_blank |= memchr(content.at, ' ', content.length) != NULL;
        t->special[t->special_count++] = (int32_t)id;
    }
    sl_tokenizer_bpe_index_tokens(t);
    for (int byte = 0; byte < 256; byte++) {
        t->byte_id[byte] = sl_tokenizer_find(t, (struct sl_str){&(char){(char)byte}, 1});
        if (t->byte_id[byte] < 0)
            return sl_fail(SL_ERR_INPUT,
                           "%s: byte 0x%02x has no token: not the vocabulary of a byte-level BPE",
                           parts->name, (unsigned)byte);
    }
    return SL_OK;
}

/* ---- merges ---- */

static sl_err put_merge(struct sl_tokenizer *t, struct parts *parts, struct sl_str left,
                        struct sl_str right, bool escapes) {
    size_t a = sl_tokenizer_bpe_decode(left, escapes, true, parts->scratch);
    size_t b = sl_tokenizer_bpe_decode(right, escapes, true, parts->scratch + a);
    struct sl_bpe_merge merge = {
        .left = sl_tokenizer_find(t, (struct sl_str){parts->scratch, a}),
        .right = sl_tokenizer_find(t, (struct sl_str){parts->scratch + a, b}),
        .to = sl_tokenizer_find(t, (struct sl_str){parts->scratch, a + b}),
    };
    if (merge.left < 0 || merge.right < 0 || merge.to < 0)
        return sl_fail(
            SL_ERR_INPUT, "%s: merge %lld, '%.*s' and '%.*s': %s is not in the vocabulary",
            parts->name, (long long)t->merge_count + 1, left.length > 40 ? 40 : (int)left.length,
            left.at, right.length > 40 ? 40 : (int)right.length, right.at,
            merge.left < 0    ? "the first"
            : merge.right < 0 ? "the second"
                              : "what they make");
    t->merge[t->merge_count++] = merge;
    return SL_OK;
}

/* Split "a b" at its blank; SL_ERR_INPUT unless there is exactly one blank, inside. */
static sl_err split_pair(const struct parts *parts, int64_t rank, struct sl_str pair,
                         struct sl_str *left, struct sl_str *right) {
    const char *blank = pair.length ? memchr(pair.at, ' ', pair.length) : NULL;
    const char *end = pair.at + pair.length;
    if (!blank || blank == pair.at || blank + 1 == end ||
        memchr(blank + 1, ' ', (size_t)(end - blank - 1)))
        return sl_fail(SL_ERR_INPUT, "%s: merge %lld, '%.*s': expected two tokens and a blank",
                       parts->name, (long long)rank + 1, pair.length > 40 ? 40 : (int)pair.length,
                       pair.at);
    *left = (struct sl_str){pair.at, (size_t)(blank - pair.at)};
    *right = (struct sl_str){blank + 1, (size_t)(end - blank - 1)};
    return SL_OK;
}

/* Read one element of the list of merges: "a b" or ["a", "b"]. */
static sl_err read_pair(struct sl_json_in *json, const struct parts *parts, int64_t rank,
                        struct sl_str *left, struct sl_str *right) {
    if (json->event == SL_JSON_STRING)
        return split_pair(parts, rank, json->string, left, right);
    if (json->event != SL_JSON_ARRAY)
        return sl_json_fail(json, "expected a merge: \"a b\" or [\"a\", \"b\"]");
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    *left = json->string;
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    *right = json->string;
    return sl_json_take(json, SL_JSON_ARRAY_END);
}

static sl_err read_json_merges(struct sl_tokenizer *t, struct parts *parts) {
    struct sl_str left, right;
    int64_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        struct sl_json_in json = parts->merges;
        if (pass)
            t->merge = sl_realloc(NULL, sizeof *t->merge * (size_t)count);
        for (int64_t rank = 0;; rank++) {
            SL_TRY(sl_json_next(&json));
            if (json.event == SL_JSON_ARRAY_END)
                break;
            SL_TRY(read_pair(&json, parts, rank, &left, &right));
            if (pass)
                SL_TRY(put_merge(t, parts, left, right, true));
            else
                count++;
        }
    }
    return SL_OK;
}

/* The next merge line of merges.txt; false at the end. */
static bool next_line(struct sl_str *text, bool first, struct sl_str *line) {
    while (text->length) {
        const char *end = memchr(text->at, '\n', text->length);
        size_t length = end ? (size_t)(end - text->at) : text->length;
        *line = (struct sl_str){text->at, length};
        text->at += end ? length + 1 : length;
        text->length -= end ? length + 1 : length;
        if (line->length && line->at[line->length - 1] == '\r')
            line->length--;
        bool version = first && line->length >= 8 && memcmp(line->at, "#version", 8) == 0;
        first = false;
        if (line->length && !version)
            return true;
    }
    return false;
}

static sl_err read_text_merges(struct sl_tokenizer *t, struct parts *parts, struct sl_str merges) {
    struct sl_str text = merges, line, left, right;
    int64_t count = 0;
    while (next_line(&text, text.at == merges.at, &line)) {
        SL_TRY(split_pair(parts, count, line, &left, &right));
        count++;
    }
    t->merge = sl_realloc(NULL, sizeof *t->merge * (size_t)count);
    text = merges;
    while (next_line(&text, text.at == merges.at, &line)) {
        SL_TRY(split_pair(parts, t->merge_count, line, &left, &right));
        SL_TRY(put_merge(t, parts, left, right, false));
    }
    return SL_OK;
}

sl_err sl_tokenizer_bpe_read(struct sl_tokenizer *t, const char *name, struct sl_str vocab,
                             struct sl_str merges) {
    struct parts parts = {.name = name};
    struct sl_json_in json;
    sl_err err = SL_OK;
    if (vocab.length > 1 << 30 || merges.length > 1 << 30)
        return sl_fail(SL_ERR_INPUT, "%s: larger than 1 GiB", name);
    sl_json_read(&json, name, vocab.at, vocab.length);
    if (merges.at) {
        SL_TRY(mark_value(&json, SL_JSON_OBJECT, &parts.vocab, &parts.has_vocab));
        SL_TRY(sl_json_next(&json)); /* nothing may follow */
        if (!parts.has_vocab)
            return sl_fail(SL_ERR_INPUT, "%s: expected an object of tokens and their ids", name);
    } else {
        SL_TRY(read_tokenizer_json(t, &json, &parts));
    }
    SL_TRY(read_tokens(t, &parts));
    parts.scratch =
        sl_realloc(NULL, 4 + (merges.length > vocab.length ? merges.length : vocab.length));
    SL_TRY_OUT(merges.at ? read_text_merges(t, &parts, merges) : read_json_merges(t, &parts));
    SL_TRY_OUT(sl_tokenizer_bpe_index_merges(t, name));
out:
    free(parts.scratch);
    return err;
}
