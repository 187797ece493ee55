#include "hf/config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

struct reader {
    struct sl_json_in json;
    struct sl_hf_config *config;
};

static sl_err read_value(struct reader *r, const char *key);

static int64_t add(struct reader *r, struct sl_hf_value value) {
    struct sl_hf_config *c = r->config;
    sl_map_put(&c->index, sl_str(value.key), c->values.count);
    SL_PUSH(&c->values, value);
    return c->values.count - 1;
}

static const char *join(struct reader *r, const char *left, const char *right) {
    return *left ? sl_arena_printf(&r->config->arena, "%s.%s", left, right)
                 : sl_arena_dup(&r->config->arena, right, strlen(right));
}

static sl_err read_items(struct reader *r, const char *key, bool is_list, int64_t *count) {
    for (*count = 0;; ++*count) {
        const char *name;
        SL_TRY(sl_json_next(&r->json));
        if (r->json.event == SL_JSON_OBJECT_END || r->json.event == SL_JSON_ARRAY_END)
            return SL_OK;
        if (is_list) {
            name = sl_arena_printf(&r->config->arena, "%lld", (long long)*count);
        } else {
            name = sl_json_unescape(&r->json, &r->config->arena);
            SL_TRY(sl_json_next(&r->json));
        }
        SL_TRY(read_value(r, join(r, key, name)));
    }
}

/* Reads a value whose event has been read. */
static sl_err read_value(struct reader *r, const char *key) {
    struct sl_hf_value value = {.key = key, .kind = r->json.event};
    int64_t count = 0;
    if (value.kind == SL_JSON_STRING)
        value.text = sl_json_unescape(&r->json, &r->config->arena);
    value.number = value.kind == SL_JSON_NUMBER ? r->json.number : 0;
    value.flag = value.kind == SL_JSON_BOOL && r->json.boolean;
    if (r->config->values.count == SL_HF_CONFIG_VALUES)
        return sl_json_fail(&r->json, "more than %d values", SL_HF_CONFIG_VALUES);
    int64_t at = add(r, value);
    if (value.kind == SL_JSON_OBJECT || value.kind == SL_JSON_ARRAY)
        SL_TRY(read_items(r, key, value.kind == SL_JSON_ARRAY, &count));
    r->config->values.at[at].count = count;
    return SL_OK;
}

sl_err sl_hf_config_read(const char *file, const char *text, size_t length,
                         struct sl_hf_config *out) {
    struct reader r = {.config = out};
    int64_t count;
    *out = (struct sl_hf_config){.file = file, .under = ""};
    sl_json_read(&r.json, file, text, length);
    SL_TRY(sl_json_next(&r.json));
    if (r.json.event != SL_JSON_OBJECT)
        return sl_json_fail(&r.json, "expected an object");
    SL_TRY(read_items(&r, "", false, &count));
    SL_TRY(sl_json_next(&r.json)); /* nothing may follow */
    return SL_OK;
}

void sl_hf_config_close(struct sl_hf_config *c) {
    SL_VEC_FREE(&c->values);
    sl_map_free(&c->index);
    sl_text_free(&c->message);
    sl_arena_free(&c->arena);
}

/* ---- errors ---- */

static void put_value(struct sl_text *text, const struct sl_hf_value *v) {
    if (v->kind == SL_JSON_STRING)
        sl_text_printf(text, "'%.60s'", v->text);
    else if (v->kind == SL_JSON_NUMBER)
        sl_text_put_double(text, v->number);
    else if (v->kind == SL_JSON_BOOL)
        sl_text_put(text, v->flag ? "true" : "false");
    else if (v->kind == SL_JSON_NULL)
        sl_text_put(text, "null");
    else
        sl_text_printf(text, "%s of %lld items", v->kind == SL_JSON_ARRAY ? "a list" : "an object",
                       (long long)v->count);
}

static void keep(struct sl_hf_config *c, sl_err err) {
    if (c->err != SL_OK)
        return;
    c->err = err;
    sl_text_put(&c->message, sl_err_message());
}

static const struct sl_hf_value *at(struct sl_hf_config *c, const char *key) {
    const char *whole = sl_arena_printf(&c->arena, "%s%s", c->under, key);
    const int64_t *index = sl_map_find(&c->index, sl_str(whole));
    if (!index)
        return NULL;
    c->values.at[*index].used = true;
    return &c->values.at[*index];
}

static void fail_value(struct sl_hf_config *c, sl_err code, const struct sl_hf_value *v,
                       const char *why) {
    struct sl_text text = {0};
    put_value(&text, v);
    keep(c, sl_fail(code, "%s: '%s' is %s: %s", c->file, v->key, text.at, why));
    sl_text_free(&text);
}

void sl_hf_refuse(struct sl_hf_config *c, const char *key, const char *why) {
    const struct sl_hf_value *v = at(c, key);
    if (v)
        fail_value(c, SL_ERR_REFUSED, v, why);
    else
        keep(c, sl_fail(SL_ERR_REFUSED, "%s: '%s%s' is missing: %s", c->file, c->under, key, why));
}

/* ---- values ---- */

const struct sl_hf_value *sl_hf_find(struct sl_hf_config *c, const char *key) {
    const struct sl_hf_value *v = at(c, key);
    return v && v->kind != SL_JSON_NULL ? v : NULL;
}

bool sl_hf_is_null(struct sl_hf_config *c, const char *key) {
    const struct sl_hf_value *v = at(c, key);
    return v && v->kind == SL_JSON_NULL;
}

int64_t sl_hf_count(struct sl_hf_config *c, const char *key) {
    const struct sl_hf_value *v = sl_hf_find(c, key);
    if (v && v->kind != SL_JSON_ARRAY)
        fail_value(c, SL_ERR_INPUT, v, "expected a list");
    return v && v->kind == SL_JSON_ARRAY ? v->count : 0;
}

double sl_hf_number(struct sl_hf_config *c, const char *key, double fallback) {
    const struct sl_hf_value *v = sl_hf_find(c, key);
    if (v && v->kind != SL_JSON_NUMBER)
        fail_value(c, SL_ERR_INPUT, v, "expected a number");
    return v && v->kind == SL_JSON_NUMBER ? v->number : fallback;
}

int64_t sl_hf_int(struct sl_hf_config *c, const char *key, int64_t fallback) {
    const struct sl_hf_value *v = sl_hf_find(c, key);
    if (!v)
        return fallback;
    if (v->kind == SL_JSON_NUMBER && v->number == floor(v->number) && fabs(v->number) < 1e15)
        return (int64_t)v->number;
    fail_value(c, SL_ERR_INPUT, v, "expected a whole number");
    return fallback;
}

int64_t sl_hf_size(struct sl_hf_config *c, const char *key) {
    const struct sl_hf_value *v = sl_hf_find(c, key);
    if (!v) {
        keep(c, sl_fail(SL_ERR_INPUT, "%s: '%s%s' is missing", c->file, c->under, key));
        return 1;
    }
    int64_t value = sl_hf_int(c, key, 1);
    if (value < 1 || value > INT32_MAX) {
        fail_value(c, SL_ERR_INPUT, v, "expected a size from 1 to 2147483647");
        return 1;
    }
    return value;
}

bool sl_hf_flag(struct sl_hf_config *c, const char *key, bool fallback) {
    const struct sl_hf_value *v = sl_hf_find(c, key);
    if (v && v->kind != SL_JSON_BOOL)
        fail_value(c, SL_ERR_INPUT, v, "expected true or false");
    return v && v->kind == SL_JSON_BOOL ? v->flag : fallback;
}

const char *sl_hf_text(struct sl_hf_config *c, const char *key, const char *fallback) {
    const struct sl_hf_value *v = sl_hf_find(c, key);
    if (v && v->kind != SL_JSON_STRING)
        fail_value(c, SL_ERR_INPUT, v, "expected a text");
    return v && v->kind == SL_JSON_STRING ? v->text : fallback;
}

void sl_hf_only_flag(struct sl_hf_config *c, const char *key, bool only, const char *why) {
    if (sl_hf_flag(c, key, only) != only)
        sl_hf_refuse(c, key, why);
}

void sl_hf_only_text(struct sl_hf_config *c, const char *key, const char *only, const char *why) {
    if (strcmp(sl_hf_text(c, key, only), only) != 0)
        sl_hf_refuse(c, key, why);
}

/* ---- values that no reader used ---- */

/* These do not change what the model computes. A '*' at the end stands for any text. */
static const char *const harmless[] = {
    "_attn_implementation*",
    "_commit_hash",
    "_name_or_path",
    "architectures*",
    "attn_implementation",
    "begin_suppress_tokens*",
    "bos_token_id",
    "dtype",
    "eos_token_id*",
    "finetuning_task",
    "forced_decoder_ids*",
    "id2label*",
    "initializer_factor",
    "initializer_range",
    "is_encoder_decoder",
    "keys_to_ignore_at_inference*",
    "label2id*",
    "max_length",
    "model_type",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "pad_token_id",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens*",
    "task_specific_params*",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "unsloth_*",
    "use_cache",
    /* for generation: */
    "bad_words_ids*",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "exponential_decay_length_penalty",
    "length_penalty",
    "min_length",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "repetition_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "max_new_tokens",
    /* for memory and speed: */
    "chunk_size_feed_forward",
    "gradient_checkpointing",
    "reorder_and_upcast_attn",
};

static bool matches(const char *pattern, const char *key) {
    size_t length = strlen(pattern);
    if (length && pattern[length - 1] == '*')
        return strncmp(pattern, key, length - 1) == 0;
    return strcmp(pattern, key) == 0;
}

static bool is_harmless(const char *key) {
    const char *last = strrchr(key, '.');
    static const char *const parts[] = {"text_config.", "vision_config."};
    for (int i = 0; i < SL_COUNT(parts); i++)
        if (strncmp(key, parts[i], strlen(parts[i])) == 0)
            key += strlen(parts[i]);
    for (int i = 0; i < SL_COUNT(harmless); i++)
        if (matches(harmless[i], key))
            return true;
    return last && matches("transformers_version", last + 1);
}

static bool is_off(const struct sl_hf_value *v) {
    return v->kind == SL_JSON_NULL || (v->kind == SL_JSON_BOOL && !v->flag) ||
           v->kind == SL_JSON_OBJECT || (v->kind == SL_JSON_ARRAY && v->count == 0);
}

sl_err sl_hf_config_finish(struct sl_hf_config *c) {
    for (int64_t i = 0; i < c->values.count; i++) {
        const struct sl_hf_value *v = &c->values.at[i];
        if (!v->used && !is_off(v) && !is_harmless(v->key))
            fail_value(c, SL_ERR_REFUSED, v, "this setting is not implemented");
    }
    if (c->err != SL_OK)
        return sl_fail(c->err, "%s", c->message.at);
    return SL_OK;
}
