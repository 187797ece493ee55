#define _GNU_SOURCE
#include "hf/export.h"

#include "base/json.h"
#include "hf/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 512 << 20 }; /* largest file that is copied */

/* Files that are copied if the source has them. */
static const char *const tokenizer_files[] = {
    "added_tokens.json",       "chat_template.jinja",     "chat_template.json", "merges.txt",
    "sentencepiece.bpe.model", "special_tokens_map.json", "spiece.model",       "tokenizer.json",
    "tokenizer.model",         "tokenizer_config.json",   "vocab.json",         "vocab.txt",
};
static const char *const other_files[] = {
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
};

static const struct {
    enum sl_st_dtype dtype;
    const char *name;
} dtypes[] = {{SL_ST_F32, "float32"}, {SL_ST_BF16, "bfloat16"}, {SL_ST_F16, "float16"}};

const char *sl_hf_dtype_name(enum sl_st_dtype dtype) {
    for (int i = 0; i < SL_COUNT(dtypes); i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

/* ---- config.json ---- */

static bool is_dtype_key(struct sl_str key) {
    return sl_str_is(key, "dtype") || sl_str_is(key, "torch_dtype");
}

/* Replaces the types, and adds one if the top level has none. Everything else stays the same. */
sl_err sl_hf_export_config(const char *file, const char *text, size_t length,
                           enum sl_st_dtype dtype, struct sl_text *out) {
    const char *name = sl_hf_dtype_name(dtype), *kept = text;
    struct sl_json_in json;
    bool found = false, after_key = false;
    size_t start = out->length;
    sl_json_read(&json, file, text, length);
    SL_TRY(sl_json_next(&json));
    if (json.event != SL_JSON_OBJECT)
        return sl_json_fail(&json, "expected an object");
    sl_text_put_bytes(out, kept, (size_t)(json.at - kept));
    kept = json.at;
    size_t open = out->length;
    while (json.depth > 0) {
        SL_TRY(sl_json_next(&json));
        bool is_text = json.event == SL_JSON_STRING;
        if (after_key && (is_text || json.event == SL_JSON_NULL)) {
            const char *at = is_text ? json.string.at - 1 : json.at - 4;
            sl_text_put_bytes(out, kept, (size_t)(at - kept));
            sl_text_printf(out, "\"%s\"", name);
            kept = json.at;
            found |= json.depth == 1;
        }
        after_key = json.event == SL_JSON_KEY && is_dtype_key(json.string);
    }
    SL_TRY(sl_json_next(&json)); /* nothing may follow */
    sl_text_put_bytes(out, kept, (size_t)(text + length - kept));
    if (!found) {
        char *rest = sl_realloc(NULL, out->length - open + 1);
        memcpy(rest, out->at + open, out->length - open + 1);
        out->length = open;
        sl_text_printf(out, "\n  \"torch_dtype\": \"%s\",%s", name, rest);
        free(rest);
    }
    SL_ASSERT(out->length > start);
    return SL_OK;
}

static sl_err write_config(const struct sl_hf_export *what, struct sl_arena *arena) {
    const char *from = sl_arena_printf(arena, "%s/config.json", what->source);
    struct sl_text out = {0};
    char *text = NULL;
    size_t length;
    SL_TRY(sl_file_read(from, SL_HF_CONFIG_BYTES, &text, &length));
    sl_err err = sl_hf_export_config(from, text, length, what->dtype, &out);
    if (err == SL_OK)
        err = sl_file_write(sl_arena_printf(arena, "%s/config.json", what->to), out.at, out.length);
    sl_text_free(&out);
    free(text);
    return err;
}

/* ---- files that are copied ---- */

static sl_err copy_file(const char *from, const char *to) {
    char *bytes = NULL;
    size_t length;
    SL_TRY(sl_file_read(from, FILE_BYTES, &bytes, &length));
    sl_err err = sl_file_write(to, bytes, length);
    free(bytes);
    return err;
}

/* Copies those files of a list that the folder has; appends their names. */
static sl_err copy_files(const char *folder, const char *const *list, int count, const char *to,
                         struct sl_text *names) {
    struct sl_arena arena = {0};
    sl_err err = SL_OK;
    for (int i = 0; i < count && err == SL_OK; i++) {
        const char *from = sl_arena_printf(&arena, "%s/%s", folder, list[i]);
        if (!sl_file_exists(from))
            continue;
        err = copy_file(from, sl_arena_printf(&arena, "%s/%s", to, list[i]));
        if (err == SL_OK)
            sl_text_printf(names, "%s\n", list[i]);
    }
    sl_arena_free(&arena);
    return err;
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Copies the tokenizer of the source, or else the one that the run was trained with. */
static sl_err copy_tokenizer(const struct sl_hf_export *what, struct sl_arena *arena,
                             struct sl_text *names) {
    size_t before = names->length;
    SL_TRY(copy_files(what->source, tokenizer_files, SL_COUNT(tokenizer_files), what->to, names));
    if (names->length > before || !what->tokenizer || !*what->tokenizer)
        return SL_OK;
    if (is_folder(what->tokenizer))
        return copy_files(what->tokenizer, tokenizer_files, SL_COUNT(tokenizer_files), what->to,
                          names);
    const char *slash = strrchr(what->tokenizer, '/');
    const char *name = slash ? slash + 1 : what->tokenizer;
    if (strcmp(name, "tokenizer.json") != 0)
        return SL_OK;
    SL_TRY(copy_file(what->tokenizer, sl_arena_printf(arena, "%s/%s", what->to, name)));
    sl_text_printf(names, "%s\n", name);
    return SL_OK;
}

/* ---- the folder ---- */

static sl_err make_folder(const char *path, bool *made) {
    *made = mkdir(path, 0777) == 0;
    if (*made)
        return SL_OK;
    if (errno != EEXIST)
        return sl_fail(SL_ERR_SYSTEM, "cannot make the folder %s: %s", path, strerror(errno));
    DIR *dir = opendir(path);
    int entries = 0;
    if (!dir)
        return sl_fail(SL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    while (readdir(dir))
        entries++;
    closedir(dir);
    if (entries > 2)
        return sl_fail(SL_ERR_USAGE, "%s is not empty; export to a new folder", path);
    return SL_OK;
}

static void remove_files(const char *folder, struct sl_text *names, bool made) {
    struct sl_arena arena = {0};
    for (char *at = names->length ? names->at : NULL, *end; at && *at; at = end + 1) {
        end = strchr(at, '\n');
        *end = 0;
        (void)unlink(sl_arena_printf(&arena, "%s/%s", folder, at));
    }
    if (made)
        (void)rmdir(folder);
    sl_arena_free(&arena);
}

static void put_summary(const struct sl_hf_export *what, const struct sl_hf_shards *shards,
                        const struct sl_text *copied, struct sl_text *out) {
    char bytes[SL_HUMAN_BYTES];
    sl_text_printf(out, "%s: %lld tensors as %s, %s in %lld %s\n", what->to,
                   (long long)shards->tensors, sl_hf_dtype_name(what->dtype),
                   sl_human_bytes(shards->bytes, bytes), (long long)shards->files,
                   shards->files == 1 ? "file" : "files");
    if (!copied->length)
        sl_text_put(out, "no tokenizer: the source has none\n");
    for (const char *at = copied->length ? copied->at : ""; *at; at = strchr(at, '\n') + 1)
        sl_text_printf(out, "copied %.*s\n", (int)strcspn(at, "\n"), at);
}

sl_err sl_hf_export(const struct sl_hf_export *what, struct sl_text *summary) {
    struct sl_arena arena = {0};
    struct sl_hf_shards shards = {0};
    struct sl_text copied = {0};
    bool made = false;
    sl_err err = SL_OK;
    SL_TRY_OUT(make_folder(what->to, &made));
    SL_TRY_OUT(sl_hf_shards_write(what, &shards));
    SL_TRY_OUT(copy_tokenizer(what, &arena, &copied));
    SL_TRY_OUT(copy_files(what->source, other_files, SL_COUNT(other_files), what->to, &copied));
    SL_TRY_OUT(write_config(what, &arena));
    put_summary(what, &shards, &copied, summary);
out:
    if (err != SL_OK) {
        remove_files(what->to, &copied, false);
        remove_files(what->to, &shards.names, made);
    }
    sl_text_free(&shards.names);
    sl_text_free(&copied);
    sl_arena_free(&arena);
    return err;
}
