/* The chat templates. "{bos}" and "{eos}" stand for the tokens of tokenizer_config.json. */
#include "tokenizer/chat.h"

#include "base/json.h"
#include "base/vec.h"
#include "tokenizer/chars.h"

#include <stdio.h>
#include <string.h>

struct sl_tokenizer_template {
    const char *name, *start;
    /* [role] text around a message; before NULL: there is no such role */
    const char *before[3], *after[3];
    bool trims;
    bool system_in_user; /* the system message is put inside the first message of the user */
    /* words that the Jinja text of the template has, and has not */
    const char *has[2], *has_not[2];
    const char *bos, *eos; /* used without a tokenizer_config.json */
};

static const struct sl_tokenizer_template templates[] = {
    {.name = "chatml",
     .start = "",
     .before = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},
     .after = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"},
     .has = {"<|im_start|>", "<|im_end|>"},
     .has_not = {"<think>", "reasoning_content"},
     .bos = "",
     .eos = "<|im_end|>"},
    {.name = "gemma",
     .start = "{bos}",
     .before = {NULL, "<start_of_turn>user\n", "<start_of_turn>model\n"},
     .after = {NULL, "<end_of_turn>\n", "<end_of_turn>\n"},
     .trims = true,
     .has = {"<start_of_turn>", "<end_of_turn>"},
     .has_not = {"first_user_prefix"},
     .bos = "<bos>",
     .eos = "<eos>"},
    {.name = "llama2",
     .start = "",
     .before = {"<<SYS>>\n", "{bos}[INST] ", " "},
     .after = {"\n<</SYS>>\n\n", " [/INST]", " {eos}"},
     .trims = true,
     .system_in_user = true,
     .has = {"<<SYS>>", "[/INST]"},
     .has_not = {"tool_calls"},
     .bos = "<s>",
     .eos = "</s>"},
    {.name = "llama3",
     .start = "{bos}",
     .before = {"<|start_header_id|>system<|end_header_id|>\n\n",
                "<|start_header_id|>user<|end_header_id|>\n\n",
                "<|start_header_id|>assistant<|end_header_id|>\n\n"},
     .after = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
     .trims = true,
     .has = {"<|start_header_id|>", "<|eot_id|>"},
     .has_not = {"Cutting Knowledge Date"},
     .bos = "<|begin_of_text|>",
     .eos = "<|eot_id|>"},
    {.name = "mistral",
     .start = "{bos}",
     .before = {NULL, "[INST] ", ""},
     .after = {NULL, " [/INST]", "{eos}"},
     .has = {"[INST]", "[/INST]"},
     .has_not = {"AVAILABLE_TOOLS", "eos_token + ' '"},
     .bos = "<s>",
     .eos = "</s>"},
};

const char *sl_tokenizer_template_name(int i) {
    return i >= 0 && i < SL_COUNT(templates) ? templates[i].name : NULL;
}

bool sl_tokenizer_chat_role(struct sl_str name, enum sl_chat_role *out) {
    static const char *const names[] = {"system", "user", "assistant"};
    for (int i = 0; i < SL_COUNT(names); i++) {
        if (sl_str_is(name, names[i])) {
            *out = (enum sl_chat_role)i;
            return true;
        }
    }
    return false;
}

/* ---- recognising a template ---- */

static bool contains(struct sl_str text, const char *word) {
    size_t length = strlen(word);
    for (size_t at = 0; at + length <= text.length; at++)
        if (memcmp(text.at + at, word, length) == 0)
            return true;
    return false;
}

static const struct sl_tokenizer_template *recognise(struct sl_str jinja) {
    for (int i = 0; i < SL_COUNT(templates); i++) {
        const struct sl_tokenizer_template *t = &templates[i];
        bool fits = contains(jinja, t->has[0]) && contains(jinja, t->has[1]);
        for (int k = 0; k < SL_COUNT(t->has_not); k++)
            fits &= !t->has_not[k] || !contains(jinja, t->has_not[k]);
        if (fits)
            return t;
    }
    return NULL;
}

/* Finds the default system message in ChatML of Qwen: '<|im_start|>system
 * You are ...<|im_end|>'. */
static void find_system(struct sl_str jinja, struct sl_tokenizer_chat *chat) {
    static const char open[] = "<|im_start|>system", close[] = "<|im_end|>";
    for (size_t at = 0; at + sizeof open < jinja.length; at++) {
        if (memcmp(jinja.at + at, open, sizeof open - 1) != 0)
            continue;
        const char *from = jinja.at + at + sizeof open - 1, *end = jinja.at + jinja.length;
        from += from[0] == '\n' ? 1 : end - from > 1 && from[0] == '\\' && from[1] == 'n' ? 2 : 0;
        const char *to = from;
        while ((size_t)(end - to) >= sizeof close - 1 && memcmp(to, close, sizeof close - 1) != 0)
            to++;
        size_t length = (size_t)(to - from);
        if ((size_t)(end - to) >= sizeof close - 1 && length && length < sizeof chat->system &&
            !memchr(from, '{', length) && !memchr(from, '\'', length) &&
            !memchr(from, '\\', length)) {
            memcpy(chat->system, from, length);
            chat->system[length] = 0;
            return;
        }
    }
}

static void copy_token(char out[64], struct sl_str text) {
    if (text.length < 64) {
        memcpy(out, text.at, text.length);
        out[text.length] = 0;
    }
}

/* Reads a token that is "</s>" or {"content": "</s>", ...}; null: there is none. */
static sl_err read_token(struct sl_json_in *json, struct sl_arena *arena, char out[64]) {
    out[0] = 0;
    if (json->event == SL_JSON_STRING)
        copy_token(out, sl_json_unescape_str(json, arena));
    if (json->event != SL_JSON_OBJECT)
        return sl_json_skip(json);
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return SL_OK;
        bool is_content = sl_str_is(json->string, "content");
        SL_TRY(sl_json_next(json));
        if (is_content && json->event == SL_JSON_STRING)
            copy_token(out, sl_json_unescape_str(json, arena));
        SL_TRY(sl_json_skip(json));
    }
}

static sl_err read_config(struct sl_json_in *json, struct sl_arena *arena,
                          struct sl_tokenizer_chat *out, struct sl_str *jinja) {
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return SL_OK;
        struct sl_str key = json->string;
        SL_TRY(sl_json_next(json));
        if (sl_str_is(key, "bos_token"))
            SL_TRY(read_token(json, arena, out->bos));
        else if (sl_str_is(key, "eos_token"))
            SL_TRY(read_token(json, arena, out->eos));
        else if (sl_str_is(key, "chat_template") && json->event == SL_JSON_STRING && !jinja->length)
            *jinja = sl_json_unescape_str(json, arena);
        else
            SL_TRY(sl_json_skip(json));
    }
}

static sl_err choose(const char *file, struct sl_str jinja, const char *name, bool needed,
                     struct sl_tokenizer_chat *out) {
    struct sl_text known = {0};
    for (int i = 0; i < SL_COUNT(templates); i++) {
        if (name && strcmp(name, templates[i].name) == 0)
            out->row = &templates[i];
        sl_text_printf(&known, "%s%s", i ? ", " : "", templates[i].name);
    }
    if (!out->row && !(name && *name) && jinja.length)
        out->row = recognise(jinja);
    sl_err err = SL_OK;
    if (!out->row && name && *name)
        err = sl_fail(SL_ERR_INPUT, "chat template '%s' is not known; known: %s", name, known.at);
    else if (!out->row && needed && jinja.length)
        err = sl_fail(SL_ERR_INPUT,
                      "%s: its chat template is none of %s; choose one with "
                      "`chat_template` if it means the same",
                      file, known.at);
    else if (!out->row && needed)
        err = sl_fail(SL_ERR_INPUT, "%s has no chat template; choose one with `chat_template`: %s",
                      file, known.at);
    sl_text_free(&known);
    return err;
}

sl_err sl_tokenizer_chat_read(const char *file, struct sl_str config, struct sl_str jinja,
                              const char *name, bool needed, struct sl_tokenizer_chat *out) {
    struct sl_arena arena = {0};
    struct sl_json_in json;
    sl_err err = SL_OK;
    *out = (struct sl_tokenizer_chat){.bos = "\xff", .eos = "\xff"};
    if (config.length) {
        sl_json_read(&json, file, config.at, config.length);
        SL_TRY_OUT(read_config(&json, &arena, out, &jinja));
    }
    SL_TRY_OUT(choose(file, jinja, name, needed, out));
    if (out->bos[0] == '\xff')
        copy_token(out->bos, sl_str(out->row ? out->row->bos : ""));
    if (out->eos[0] == '\xff')
        copy_token(out->eos, sl_str(out->row ? out->row->eos : ""));
    if (out->row && !(name && *name))
        find_system(jinja, out);
out:
    sl_arena_free(&arena);
    return err;
}

/* Reads NAME in the folder of `path`; a file that does not exist counts as empty. */
static sl_err read_beside(const char *path, const char *name, char **text, size_t *length) {
    enum { FILE_MAX = 16 << 20 };
    struct sl_text inside = {0}, beside = {0};
    const char *slash = strrchr(path, '/');
    sl_text_printf(&inside, "%s/%s", path, name);
    sl_text_put_bytes(&beside, path, slash ? (size_t)(slash + 1 - path) : 0);
    sl_text_put(&beside, name);
    const char *found = sl_file_exists(inside.at)   ? inside.at
                        : sl_file_exists(beside.at) ? beside.at
                                                    : NULL;
    sl_err err = found ? sl_file_read(found, FILE_MAX, text, length) : SL_OK;
    sl_text_free(&inside);
    sl_text_free(&beside);
    return err;
}

sl_err sl_tokenizer_chat_open(const char *tokenizer, const char *name, bool needed,
                              struct sl_tokenizer_chat *out) {
    char *config = NULL, *jinja = NULL;
    size_t config_length = 0, jinja_length = 0;
    sl_err err = SL_OK;
    if (tokenizer) {
        SL_TRY_OUT(read_beside(tokenizer, "tokenizer_config.json", &config, &config_length));
        SL_TRY_OUT(read_beside(tokenizer, "chat_template.jinja", &jinja, &jinja_length));
    }
    SL_TRY_OUT(sl_tokenizer_chat_read(tokenizer ? tokenizer : "the tokenizer of bytes",
                                      (struct sl_str){config, config_length},
                                      (struct sl_str){jinja, jinja_length}, name, needed, out));
out:
    free(config);
    free(jinja);
    return err;
}

/* ---- rendering ---- */

struct border {
    size_t from, to; /* where an answer begins and ends in the text */
};

struct rendering {
    const struct sl_tokenizer_chat *chat;
    struct sl_text *out;
    SL_VEC(struct border) answers;
};

static void put_pattern(struct rendering *r, const char *pattern) {
    while (*pattern) {
        bool bos = strncmp(pattern, "{bos}", 5) == 0, eos = strncmp(pattern, "{eos}", 5) == 0;
        if (bos || eos)
            sl_text_put(r->out, bos ? r->chat->bos : r->chat->eos);
        else
            sl_text_put_bytes(r->out, pattern, 1);
        pattern += bos || eos ? 5 : 1;
    }
}

static void put_content(struct rendering *r, struct sl_str content) {
    while (r->chat->row->trims && content.length && strchr(" \t\r\n\v\f", content.at[0]) &&
           content.at[0])
        content = (struct sl_str){content.at + 1, content.length - 1};
    while (r->chat->row->trims && content.length && content.at[content.length - 1] &&
           strchr(" \t\r\n\v\f", content.at[content.length - 1]))
        content.length--;
    sl_text_put_bytes(r->out, content.at, content.length);
}

static void put_message(struct rendering *r, enum sl_chat_role role, struct sl_str content,
                        struct sl_str system) {
    const struct sl_tokenizer_template *t = r->chat->row;
    put_pattern(r, t->before[role]);
    if (system.length) {
        put_pattern(r, t->before[SL_CHAT_SYSTEM]);
        sl_text_put_bytes(r->out, system.at, system.length);
        put_pattern(r, t->after[SL_CHAT_SYSTEM]);
    }
    struct border answer = {.from = r->out->length};
    put_content(r, content);
    put_pattern(r, t->after[role]);
    answer.to = r->out->length;
    if (role == SL_CHAT_ASSISTANT) {
        while (answer.to > answer.from && r->out->at[answer.to - 1] == '\n' &&
               t->after[role][strlen(t->after[role]) - 1] == '\n')
            answer.to--; /* the model does not write the text after the end of its turn */
        SL_PUSH(&r->answers, answer);
    }
}

static sl_err render(struct rendering *r, const struct sl_tokenizer_message *messages,
                     int64_t count) {
    const struct sl_tokenizer_template *t = r->chat->row;
    struct sl_str system = {NULL, 0};
    int64_t first = 0;
    put_pattern(r, t->start);
    if (count && messages[0].role == SL_CHAT_SYSTEM && t->system_in_user) {
        system = messages[0].content;
        first = 1;
    } else if (r->chat->system[0] && (!count || messages[0].role != SL_CHAT_SYSTEM)) {
        put_message(r, SL_CHAT_SYSTEM, sl_str(r->chat->system), system);
    }
    for (int64_t i = first; i < count; i++) {
        enum sl_chat_role role = messages[i].role;
        if (!t->before[role] || (role == SL_CHAT_SYSTEM && i > 0))
            return sl_fail(SL_ERR_INPUT,
                           "message %lld has the role 'system': the template %s has "
                           "%s",
                           (long long)i + 1, t->name,
                           t->before[role] ? "it only at the beginning" : "no such role");
        put_message(r, role, messages[i].content,
                    role == SL_CHAT_USER ? system : (struct sl_str){NULL, 0});
        if (role == SL_CHAT_USER)
            system.length = 0;
    }
    return SL_OK;
}

sl_err sl_tokenizer_chat_render(const struct sl_tokenizer_chat *chat,
                                const struct sl_tokenizer_message *messages, int64_t count,
                                struct sl_text *out) {
    struct rendering r = {.chat = chat, .out = out};
    sl_text_put(out, "");
    sl_err err = render(&r, messages, count);
    SL_VEC_FREE(&r.answers);
    return err;
}

/* Returns where a position in the text lies among the ids: the number of ids that the text up to
 * `end` has in common with the whole text. */
static int64_t border_of(const struct sl_tokenizer *t, const struct sl_text *text, size_t end,
                         const int32_t *ids, int64_t count) {
    struct sl_tokens part = {0};
    int64_t same = 0;
    sl_tokenizer_encode(t, text->at, end, SL_TOKENIZER_MATCH, &part);
    while (same < part.count && same < count && part.at[same] == ids[same])
        same++;
    SL_VEC_FREE(&part);
    return same;
}

sl_err sl_tokenizer_chat_encode(const struct sl_tokenizer_chat *chat,
                                const struct sl_tokenizer *tokenizer,
                                const struct sl_tokenizer_message *messages, int64_t count,
                                struct sl_tokens *out, struct sl_tokens *answers) {
    struct sl_text text = {0};
    struct rendering r = {.chat = chat, .out = &text};
    int64_t first = out->count, answer = answers->count;
    sl_text_put(&text, "");
    sl_err err = render(&r, messages, count);
    if (err == SL_OK) {
        sl_tokenizer_encode(tokenizer, text.at, text.length, SL_TOKENIZER_MATCH, out);
        int32_t *ids = out->at ? out->at + first : NULL;
        int64_t id_count = out->count - first;
        for (int64_t i = 0; i < id_count; i++)
            SL_PUSH(answers, 0);
        for (int64_t i = 0; i < r.answers.count; i++) {
            int64_t from = border_of(tokenizer, &text, r.answers.at[i].from, ids, id_count);
            int64_t to = border_of(tokenizer, &text, r.answers.at[i].to, ids, id_count);
            for (int64_t k = from; k < to; k++)
                answers->at[answer + k] = 1;
        }
    }
    SL_VEC_FREE(&r.answers);
    sl_text_free(&text);
    return err;
}
