/* tokenizer.json as keys of GGUF: byte-level BPE ("gpt2"), and BPE with byte fallback ("llama").
 * llama.cpp identifies regular expressions of byte-level BPE by a name, and merges tokens of the
 * other kind in the order of their scores. A tokenizer that it would split differently is
 * refused. */
#include "gguf/gguf.h"

#include "base/json.h"
#include "base/map.h"
#include "base/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 256 << 20 };
enum {
    NORMAL = 1,
    UNKNOWN = 2,
    CONTROL = 3,
    GIVEN = 4,
    UNUSED = 5,
    BYTE = 6
}; /* types of tokens */

struct tokens {
    struct sl_arena arena;
    struct sl_json_in json;
    const char *type;    /* type of the model */
    const char *unknown; /* the unknown token; NULL: none */
    const char *regex; /* last regular expression that splits the text before merges; NULL: none */
    int64_t regexes;
    bool fallback; /* unknown characters fall back to bytes */
    /* bytes are shown as characters; text is split by GPT-2's expression */
    bool byte_level, byte_split;
    bool space_first; /* a space is put before the text */
    int64_t vocab;
    const char **text;
    int32_t *kind;
    SL_VEC(const char *) merges;
};

/* Regular expressions of tokenizers, as in their files, with the name in llama.cpp. */
#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const struct {
    const char *regex, *name;
} splits[] = {
    {WORDS "\\p{N}" REST, "qwen2"},
    {WORDS "\\p{N}{1,3}" REST, "llama-bpe"},
};

static sl_err set_token(struct tokens *t, int64_t id, const char *text, int32_t kind) {
    if (id < 0 || id >= t->vocab)
        return sl_json_fail(&t->json, "token %lld is not below the %lld of the model",
                            (long long)id, (long long)t->vocab);
    t->text[id] = text;
    t->kind[id] = kind;
    return SL_OK;
}

static bool is_byte(const char *text) {
    return strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>';
}

static sl_err read_vocab(struct tokens *t) {
    int64_t id;
    if (t->json.event != SL_JSON_OBJECT)
        return sl_fail(SL_ERR_REFUSED, "%s: GGUF export has tokenizers of the type BPE only",
                       t->json.file);
    for (;;) {
        SL_TRY(sl_json_next(&t->json));
        if (t->json.event == SL_JSON_OBJECT_END)
            return SL_OK;
        const char *text = sl_json_unescape(&t->json, &t->arena);
        SL_TRY(sl_json_take_int(&t->json, 0, INT32_MAX, &id));
        SL_TRY(set_token(t, id, text, is_byte(text) ? BYTE : NORMAL));
    }
}

/* Reads merges: "a b", or ["a", "b"] in newer files. */
static sl_err read_merges(struct tokens *t) {
    if (t->json.event != SL_JSON_ARRAY)
        return sl_json_fail(&t->json, "expected a list");
    for (;;) {
        const char *a, *b;
        SL_TRY(sl_json_next(&t->json));
        if (t->json.event == SL_JSON_ARRAY_END)
            return SL_OK;
        if (t->json.event == SL_JSON_STRING) {
            SL_PUSH(&t->merges, sl_json_unescape(&t->json, &t->arena));
            continue;
        }
        if (t->json.event != SL_JSON_ARRAY)
            return sl_json_fail(&t->json, "expected a merge of two tokens");
        SL_TRY(sl_json_take_string(&t->json, &t->arena, &a));
        SL_TRY(sl_json_take_string(&t->json, &t->arena, &b));
        SL_TRY(sl_json_take(&t->json, SL_JSON_ARRAY_END));
        SL_PUSH(&t->merges, sl_arena_printf(&t->arena, "%s %s", a, b));
    }
}

static sl_err read_model(struct tokens *t) {
    if (t->json.event != SL_JSON_OBJECT)
        return sl_json_fail(&t->json, "expected an object");
    for (;;) {
        SL_TRY(sl_json_next(&t->json));
        if (t->json.event == SL_JSON_OBJECT_END)
            return SL_OK;
        const char *key = sl_json_unescape(&t->json, &t->arena);
        SL_TRY(sl_json_next(&t->json));
        if (strcmp(key, "type") == 0 && t->json.event == SL_JSON_STRING)
            t->type = sl_json_unescape(&t->json, &t->arena);
        else if (strcmp(key, "unk_token") == 0 && t->json.event == SL_JSON_STRING)
            t->unknown = sl_json_unescape(&t->json, &t->arena);
        else if (strcmp(key, "byte_fallback") == 0 && t->json.event == SL_JSON_BOOL)
            t->fallback = t->json.boolean;
        else if (strcmp(key, "vocab") == 0)
            SL_TRY(read_vocab(t));
        else if (strcmp(key, "merges") == 0)
            SL_TRY(read_merges(t));
        else
            SL_TRY(sl_json_skip(&t->json));
    }
}

/* Reads a normalizer or pre-tokenizer, or a sequence of them: how it splits the text. */
static sl_err read_steps(struct tokens *t, bool splits_text) {
    const char *key = "", *type = "";
    int depth = t->json.depth;
    if (t->json.event != SL_JSON_OBJECT)
        return t->json.event == SL_JSON_NULL ? SL_OK : sl_json_fail(&t->json, "expected an object");
    while (t->json.depth >= depth) {
        SL_TRY(sl_json_next(&t->json));
        if (t->json.event == SL_JSON_KEY) {
            key = sl_json_unescape(&t->json, &t->arena);
        } else if (t->json.event == SL_JSON_BOOL && strcmp(key, "use_regex") == 0) {
            t->byte_split = t->json.boolean;
        } else if (t->json.event == SL_JSON_STRING) {
            const char *value = sl_json_unescape(&t->json, &t->arena);
            if (strcmp(key, "type") == 0) {
                type = value;
                t->byte_level |= strcmp(type, "ByteLevel") == 0;
                t->byte_split |= strcmp(type, "ByteLevel") == 0;
                t->space_first |= strcmp(type, "Prepend") == 0 || strcmp(type, "Metaspace") == 0;
            } else if (strcmp(key, "prepend_scheme") == 0 && strcmp(type, "Metaspace") == 0) {
                t->space_first = strcmp(value, "never") != 0;
            }
            if (splits_text && strcmp(key, "Regex") == 0) {
                t->regex = value;
                t->regexes++;
            }
        }
    }
    return SL_OK;
}

static sl_err read_added(struct tokens *t) {
    if (t->json.event != SL_JSON_ARRAY)
        return sl_json_fail(&t->json, "expected a list");
    for (;;) {
        const char *text = NULL;
        int64_t id = -1;
        bool special = false;
        SL_TRY(sl_json_next(&t->json));
        if (t->json.event == SL_JSON_ARRAY_END)
            return SL_OK;
        if (t->json.event != SL_JSON_OBJECT)
            return sl_json_fail(&t->json, "expected an object");
        for (;;) {
            SL_TRY(sl_json_next(&t->json));
            if (t->json.event == SL_JSON_OBJECT_END)
                break;
            const char *key = sl_json_unescape(&t->json, &t->arena);
            SL_TRY(sl_json_next(&t->json));
            if (strcmp(key, "id") == 0 && t->json.event == SL_JSON_NUMBER)
                id = t->json.number < INT32_MAX ? (int64_t)fmax(t->json.number, -1) : INT32_MAX;
            else if (strcmp(key, "content") == 0 && t->json.event == SL_JSON_STRING)
                text = sl_json_unescape(&t->json, &t->arena);
            else if (strcmp(key, "special") == 0 && t->json.event == SL_JSON_BOOL)
                special = t->json.boolean;
            else
                SL_TRY(sl_json_skip(&t->json));
        }
        if (text)
            SL_TRY(set_token(t, id, text, special ? CONTROL : GIVEN));
    }
}

static sl_err read_file(struct tokens *t) {
    SL_TRY(sl_json_take(&t->json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(&t->json));
        if (t->json.event == SL_JSON_OBJECT_END)
            break;
        const char *key = sl_json_unescape(&t->json, &t->arena);
        SL_TRY(sl_json_next(&t->json));
        if (strcmp(key, "model") == 0)
            SL_TRY(read_model(t));
        else if (strcmp(key, "added_tokens") == 0)
            SL_TRY(read_added(t));
        else if (strcmp(key, "normalizer") == 0)
            SL_TRY(read_steps(t, false));
        else if (strcmp(key, "pre_tokenizer") == 0)
            SL_TRY(read_steps(t, true));
        else
            SL_TRY(sl_json_skip(&t->json));
    }
    if (t->type && strcmp(t->type, "BPE") == 0)
        return SL_OK;
    return sl_fail(SL_ERR_REFUSED,
                   "%s: GGUF export has tokenizers of the type BPE, this is '%.40s'", t->json.file,
                   t->type ? t->type : "");
}

/* ---- keys ---- */

static sl_err find_split(const struct tokens *t, const char **name) {
    *name = "default"; /* with fallback to bytes, nothing is split */
    if (t->fallback)
        return SL_OK;
    if (t->byte_level && t->byte_split && !t->regexes) {
        *name = "gpt-2";
        return SL_OK;
    }
    for (int i = 0; i < SL_COUNT(splits); i++)
        if (t->byte_level && !t->byte_split && t->regexes == 1 &&
            strcmp(t->regex, splits[i].regex) == 0) {
            *name = splits[i].name;
            return SL_OK;
        }
    return sl_fail(SL_ERR_REFUSED,
                   "%s: GGUF export has byte-level tokenizers that split text as gpt2, llama 3 or "
                   "qwen2 do, and tokenizers with byte_fallback; this splits by '%.60s'",
                   t->json.file, t->regex ? t->regex : "");
}

/* With scores, llama.cpp first merges the pair that makes the token with the lowest number. Checks
 * that the merges have that order. */
static sl_err check_order(struct tokens *t) {
    struct sl_map ids = {0};
    sl_err err = SL_OK;
    int64_t last = -1;
    for (int64_t i = 0; i < t->vocab; i++)
        if (t->text[i])
            sl_map_put(&ids, sl_str(t->text[i]), i);
    for (int64_t i = 0; err == SL_OK && i < t->merges.count; i++) {
        const char *merge = t->merges.at[i], *space = *merge ? strchr(merge + 1, ' ') : NULL;
        const char *made =
            space ? sl_arena_printf(&t->arena, "%.*s%s", (int)(space - merge), merge, space + 1)
                  : "";
        const int64_t *id = sl_map_find(&ids, sl_str(made));
        if (!id || *id < last)
            err = sl_fail(SL_ERR_REFUSED,
                          "%s: GGUF export has tokenizers with byte_fallback if the merges are in "
                          "the order of the tokens that they make; merge %lld, '%.60s', is not",
                          t->json.file, (long long)i, merge);
        else
            last = *id;
    }
    sl_map_free(&ids);
    return err;
}

static void put_scores(struct sl_gguf *g, struct tokens *t) {
    float *scores = SL_NEW(&t->arena, float, t->vocab);
    for (int64_t i = 0; i < t->vocab; i++)
        scores[i] = -(float)i;
    sl_gguf_put_f32s(g, "tokenizer.ggml.scores", scores, t->vocab);
    sl_gguf_put_flag(g, "tokenizer.ggml.add_space_prefix", t->space_first);
}

static sl_err put_keys(struct sl_gguf *g, struct tokens *t) {
    const char *split;
    SL_TRY(find_split(t, &split));
    if (t->fallback)
        SL_TRY(check_order(t));
    for (int64_t i = 0; i < t->vocab; i++) {
        if (!t->text[i]) {
            t->text[i] = sl_arena_printf(&t->arena, "[PAD%lld]", (long long)i);
            t->kind[i] = UNUSED;
        } else if (t->kind[i] == BYTE && !t->fallback) {
            t->kind[i] = NORMAL;
        } else if (t->fallback && t->unknown && strcmp(t->text[i], t->unknown) == 0) {
            t->kind[i] = UNKNOWN;
            sl_gguf_put_u32(g, "tokenizer.ggml.unknown_token_id", i);
            t->unknown = NULL;
        }
    }
    sl_gguf_put_string(g, "tokenizer.ggml.model", t->fallback ? "llama" : "gpt2");
    sl_gguf_put_string(g, "tokenizer.ggml.pre", split);
    sl_gguf_put_strings(g, "tokenizer.ggml.tokens", t->text, t->vocab);
    if (t->fallback)
        put_scores(g, t);
    sl_gguf_put_i32s(g, "tokenizer.ggml.token_type", t->kind, t->vocab);
    if (!t->fallback)
        sl_gguf_put_strings(g, "tokenizer.ggml.merges", t->merges.at, t->merges.count);
    return SL_OK;
}

sl_err sl_gguf_read_tokenizer(struct sl_gguf *g, const char *file, const char *text, size_t length,
                              int64_t vocab) {
    struct tokens t = {.vocab = vocab};
    t.text = SL_NEW(&t.arena, const char *, vocab);
    t.kind = SL_NEW(&t.arena, int32_t, vocab);
    sl_json_read(&t.json, file, text, length);
    sl_err err = read_file(&t);
    if (err == SL_OK)
        err = put_keys(g, &t);
    SL_VEC_FREE(&t.merges);
    sl_arena_free(&t.arena);
    return err;
}

sl_err sl_gguf_put_tokenizer(struct sl_gguf *g, const char *folder, int64_t vocab, bool *found) {
    struct sl_arena arena = {0};
    const char *path = sl_arena_printf(&arena, "%s/tokenizer.json", folder);
    char *text = NULL;
    size_t length = 0;
    sl_err err = SL_OK;
    *found = sl_file_exists(path);
    if (*found)
        err = sl_file_read(path, BYTES_MAX, &text, &length);
    if (*found && err == SL_OK)
        err = sl_gguf_read_tokenizer(g, path, text, length, vocab);
    free(text);
    sl_arena_free(&arena);
    return err;
}
