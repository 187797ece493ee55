/* Reads tokenizer.json, or vocab.json and merges.txt. */
#include "tokenizer/own.h"

static const struct sl_tokenizer_model *const models[] = {
    &sl_tokenizer_bpe,
    &sl_tokenizer_unigram,
    &sl_tokenizer_wordlevel,
    &sl_tokenizer_wordpiece,
};

enum { VERSION, TRUNCATION, PADDING, ADDED, NORMALIZER, PRETOK, POST, DECODER, MODEL };
static const char top_keys[] = "version truncation padding added_tokens normalizer pre_tokenizer "
                               "post_processor decoder model";

/* Returns the position of a word in a list with blanks, or -1. */
static int key_index(const char *keys, const char *word) {
    size_t length = strlen(word);
    for (int i = 0; *keys; i++) {
        size_t n = strcspn(keys, " ");
        if (n == length && memcmp(keys, word, n) == 0)
            return i;
        keys += n + (keys[n] == ' ');
    }
    return -1;
}

/* Guesses the model of a file without `type` by its members; old files have none. */
static const struct sl_tokenizer_model *guess_model(const struct sl_json_in *object) {
    struct sl_json_in json = *object;
    bool merges = false, list = false;
    while (sl_json_next(&json) == SL_OK && json.event == SL_JSON_KEY) {
        bool is_vocab = sl_str_is(json.string, "vocab");
        merges |= sl_str_is(json.string, "merges");
        if (sl_json_next(&json) != SL_OK)
            break;
        list |= is_vocab && json.event == SL_JSON_ARRAY;
        if (sl_json_skip(&json) != SL_OK)
            break;
    }
    return merges ? &sl_tokenizer_bpe : list ? &sl_tokenizer_unigram : NULL;
}

static sl_err find_model(struct sl_json_in *json, const struct sl_tokenizer_model **out) {
    struct sl_str type;
    *out = guess_model(json);
    sl_err err = sl_tokenizer_find_type(*json, &type);
    if (err != SL_OK)
        return *out ? SL_OK : err;
    for (int i = 0; i < SL_COUNT(models); i++) {
        if (sl_str_is(type, models[i]->name)) {
            *out = models[i];
            return SL_OK;
        }
    }
    return sl_json_fail(json,
                        "model '%.*s' is not known; known: BPE, Unigram, WordLevel, WordPiece",
                        (int)type.length, type.at);
}

static sl_err read_affix(struct sl_tokenizer *t, struct sl_tokenizer_fields *f, const char *key,
                         struct sl_str *out) {
    int i = key_index(f->keys, key);
    return i < 0 ? SL_OK : sl_tokenizer_field_string(f, i, &t->arena, out);
}

/* Is the tokenizer byte level? Then the last step before BPE maps bytes to characters, and both
 * that step and the decoder's can be left out. */
static bool is_byte_level(const struct sl_tokenizer *t, struct sl_tokenizer_fields *f) {
    int fallback = key_index(f->keys, "byte_fallback");
    struct sl_json_in json;
    if (t->model != &sl_tokenizer_bpe || !t->pretok.count || t->prefix.length || t->suffix.length ||
        !t->pretok.at[t->pretok.count - 1].op->maps_bytes)
        return false;
    if (fallback < 0 || !f->has[fallback])
        return true;
    json = f->at[fallback];
    return sl_json_next(&json) == SL_OK && !(json.event == SL_JSON_BOOL && json.boolean);
}

static sl_err read_model(struct sl_tokenizer *t, struct sl_json_in *json,
                         struct sl_tokenizer_source *source) {
    struct sl_tokenizer_fields f;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    SL_TRY(find_model(json, &t->model));
    SL_TRY(sl_tokenizer_fields_read(json, t->model->keys, &f, NULL));
    int vocab = key_index(f.keys, "vocab"), merges = key_index(f.keys, "merges");
    if (!f.has[vocab])
        return sl_fail(SL_ERR_INPUT, "%s: model.vocab is missing", source->name);
    source->vocab = f.at[vocab];
    struct sl_json_in first = source->vocab;
    SL_TRY(sl_json_next(&first));
    source->vocab_is_list = t->model == &sl_tokenizer_unigram;
    if (first.event != (source->vocab_is_list ? SL_JSON_ARRAY : SL_JSON_OBJECT))
        return sl_json_fail(&first, "expected %s",
                            source->vocab_is_list ? "a list" : "an object of tokens and ids");
    if (t->model == &sl_tokenizer_bpe) {
        SL_TRY(read_affix(t, &f, "continuing_subword_prefix", &t->prefix));
        SL_TRY(read_affix(t, &f, "end_of_word_suffix", &t->suffix));
        if (!f.has[merges])
            return sl_fail(SL_ERR_INPUT, "%s: model.merges is missing", source->name);
        source->merges = f.at[merges];
        source->has_merges = true;
    }
    t->byte_level = is_byte_level(t, &f);
    SL_TRY(sl_tokenizer_vocab_read(t, source));
    if (source->has_merges)
        SL_TRY(sl_tokenizer_merges_read(t, source));
    return t->model->read(t, &f, json);
}

static sl_err read_json(struct sl_tokenizer *t, struct sl_tokenizer_source *source,
                        struct sl_str text) {
    struct sl_tokenizer_fields f;
    struct sl_json_in json;
    sl_json_read(&json, source->name, text.at, text.length);
    SL_TRY(sl_json_take(&json, SL_JSON_OBJECT));
    SL_TRY(sl_tokenizer_fields_read(&json, top_keys, &f, NULL));
    SL_TRY(sl_json_next(&json)); /* nothing may follow */
    if (!f.has[MODEL])
        return sl_fail(SL_ERR_INPUT, "%s: not a tokenizer.json: `model` is missing", source->name);
    source->has_added = f.has[ADDED];
    source->added = f.at[ADDED];
    if (f.has[NORMALIZER])
        SL_TRY(sl_tokenizer_steps_read(t, &f.at[NORMALIZER], &sl_tokenizer_normalizers,
                                       &t->normalizer));
    if (f.has[PRETOK])
        SL_TRY(sl_tokenizer_steps_read(t, &f.at[PRETOK], &sl_tokenizer_pretoks, &t->pretok));
    SL_TRY(read_model(t, &f.at[MODEL], source));
    if (f.has[POST])
        SL_TRY(sl_tokenizer_post_read(t, &f.at[POST]));
    if (f.has[DECODER])
        SL_TRY(sl_tokenizer_steps_read(t, &f.at[DECODER], &sl_tokenizer_decoders, &t->decoder));
    return SL_OK;
}

/* Reads vocab.json and merges.txt, with the components of GPT-2. */
static sl_err read_pair(struct sl_tokenizer *t, struct sl_tokenizer_source *source,
                        struct sl_str vocab) {
    static const char byte_level[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}";
    struct sl_json_in json, first;
    sl_json_read(&json, source->name, vocab.at, vocab.length);
    source->vocab = json;
    first = json;
    SL_TRY(sl_json_next(&first));
    if (first.event != SL_JSON_OBJECT)
        return sl_fail(SL_ERR_INPUT, "%s: expected an object of tokens and their ids",
                       source->name);
    SL_TRY(sl_json_skip(&first));
    SL_TRY(sl_json_next(&first)); /* nothing may follow */
    t->model = &sl_tokenizer_bpe;
    t->byte_level = true;
    sl_json_read(&json, source->name, byte_level, sizeof byte_level - 1);
    SL_TRY(sl_tokenizer_steps_read(t, &json, &sl_tokenizer_pretoks, &t->pretok));
    sl_json_read(&json, source->name, byte_level, sizeof byte_level - 1);
    SL_TRY(sl_tokenizer_steps_read(t, &json, &sl_tokenizer_decoders, &t->decoder));
    SL_TRY(sl_tokenizer_vocab_read(t, source));
    return sl_tokenizer_merges_read(t, source);
}

/* May a text be cut in front of a blank that follows a printable ASCII character? True for rules
 * that never join these two, if no step looks further. */
static bool may_cut(const struct sl_tokenizer *t) {
    const struct sl_tokenizer_step *step = t->pretok.at;
    bool prefixes = false;
    for (int64_t i = 0; i < t->pretok.count; i++)
        prefixes |= step[i].op->maps_bytes && step[i].flag[0];
    if (!t->byte_level || t->normalizer.count || prefixes || step[0].rule == SL_PRETOK_NONE ||
        t->pretok.count > 2)
        return false;
    for (int64_t i = 0; i < t->added_count; i++)
        if (t->added[i].lstrip || t->added[i].rstrip || t->added[i].single_word ||
            memchr(t->added[i].content.at, ' ', t->added[i].content.length))
            return false;
    return true;
}

sl_err sl_tokenizer_read_files(struct sl_tokenizer *t, const char *name, struct sl_str vocab,
                               struct sl_str merges) {
    struct sl_tokenizer_source source = {.name = name, .merges_text = merges};
    if (vocab.length > 1 << 30 || merges.length > 1 << 30)
        return sl_fail(SL_ERR_INPUT, "%s: larger than 1 GiB", name);
    t->unk = -1;
    SL_TRY(merges.at ? read_pair(t, &source, vocab) : read_json(t, &source, vocab));
    sl_tokenizer_added_index(t);
    sl_tokenizer_pieces_build(t);
    t->cuts = may_cut(t);
    return SL_OK;
}
