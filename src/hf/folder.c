#include "hf/folder.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *path_in(struct sl_arena *arena, const char *folder, const char *name) {
    return sl_arena_printf(arena, "%s/%s", folder, name);
}

bool sl_hf_is_folder(const char *path) {
    struct sl_arena arena = {0};
    bool is = sl_file_exists(path_in(&arena, path, "config.json")) &&
              !sl_file_exists(path_in(&arena, path, "model.model")) &&
              !sl_file_exists(path_in(&arena, path, "ckpt"));
    sl_arena_free(&arena);
    return is;
}

/* ---- the model's text ---- */

/* Makes a model name from the last part of the path. */
static void put_name(struct sl_text *text, const char *folder) {
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/')
        end--;
    size_t from = end;
    while (from > 0 && folder[from - 1] != '/')
        from--;
    if (end - from > 100)
        end = from + 100;
    size_t start = text->length;
    for (size_t i = from; i < end; i++) {
        unsigned char c = (unsigned char)folder[i];
        sl_text_printf(text, "%c", isalnum(c) || c == '_' || c == '-' ? c : '_');
    }
    if (text->length == start || !isalpha((unsigned char)text->at[start])) {
        char *kept = sl_realloc(NULL, text->length - start + 1);
        memcpy(kept, text->at + start, text->length - start + 1);
        text->length = start;
        sl_text_printf(text, "hf_%s", kept);
        free(kept);
    }
}

static void put_quoted(struct sl_text *text, const char *string) {
    sl_text_put(text, "\"");
    for (; *string; string++) {
        if (*string == '"' || *string == '\\')
            sl_text_put(text, "\\");
        sl_text_put_bytes(text, string, 1);
    }
    sl_text_put(text, "\"");
}

static const char *type_at(const void *ctx, int i) {
    (void)ctx;
    return sl_hf_arch_at(i)->model_type;
}

static sl_err find_arch(struct sl_hf_config *c, const struct sl_hf_arch **out) {
    const char *type = sl_hf_text(c, "model_type", NULL);
    int count = 0;
    if (!type)
        return sl_fail(SL_ERR_INPUT,
                       "%s: 'model_type' is missing: not the config of a model of "
                       "transformers",
                       c->file);
    *out = sl_hf_arch_find(type);
    if (*out)
        return SL_OK;
    while (sl_hf_arch_at(count))
        count++;
    const char *near = sl_nearest(type, count, type_at, NULL);
    return sl_fail(SL_ERR_REFUSED, "%s: 'model_type' is '%.60s', which is not implemented%s%s%s",
                   c->file, type, near ? "; the nearest is '" : "", near ? near : "",
                   near ? "'" : "");
}

static sl_err find_head(struct sl_hf_config *c, const struct sl_hf_arch *arch,
                        const struct sl_hf_head **out) {
    const char *name =
        sl_hf_count(c, "architectures") == 1 ? sl_hf_text(c, "architectures.0", "") : NULL;
    for (*out = arch->heads; (*out)->name; ++*out)
        if (name && strcmp((*out)->name, name) == 0)
            return SL_OK;
    struct sl_text list = {0};
    for (const struct sl_hf_head *head = arch->heads; head->name; head++)
        sl_text_printf(&list, "%s%s", list.length ? ", " : "", head->name);
    sl_err err = sl_fail(
        SL_ERR_REFUSED, "%s: 'architectures' %s%.80s; of %s these are implemented: %s", c->file,
        name ? "names " : "does not name one class", name ? name : "", arch->model_type, list.at);
    sl_text_free(&list);
    return err;
}

static sl_err write_text(const char *folder, struct sl_hf_config *c, const struct sl_hf_arch **arch,
                         struct sl_text *text) {
    const struct sl_hf_head *head;
    SL_TRY(find_arch(c, arch));
    SL_TRY(find_head(c, *arch, &head));
    sl_text_put(text, "model ");
    put_name(text, folder);
    sl_text_printf(text, " \"%s, from config.json\" weights ", head->name);
    put_quoted(text, folder);
    sl_text_put(text, "\n\n");
    (*arch)->write(c, head->task, text);
    return sl_hf_config_finish(c);
}

sl_err sl_hf_config_text(const char *folder, const char *config, size_t length,
                         const struct sl_hf_arch **arch, struct sl_text *text) {
    struct sl_arena arena = {0};
    struct sl_hf_config c;
    sl_err err = sl_hf_config_read(path_in(&arena, folder, "config.json"), config, length, &c);
    if (err == SL_OK)
        err = write_text(folder, &c, arch, text);
    sl_hf_config_close(&c);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_hf_folder_read(const char *folder, const struct sl_hf_arch **arch, struct sl_text *text) {
    struct sl_arena arena = {0};
    char *config = NULL;
    size_t length;
    sl_err err =
        sl_file_read(path_in(&arena, folder, "config.json"), SL_HF_CONFIG_BYTES, &config, &length);
    if (err == SL_OK)
        err = sl_hf_config_text(folder, config, length, arch, text);
    free(config);
    sl_arena_free(&arena);
    return err;
}

/* ---- names of tensors ---- */

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

const char *sl_hf_tensor_name(struct sl_arena *arena, const char *name, int form) {
    const struct sl_hf_arch *arch = sl_hf_arch_at((form - 1) / 2);
    if (form == 0)
        return name;
    if (!arch)
        return NULL;
    if (form % 2)
        return sl_arena_printf(arena, "%s%s", arch->base, name);
    size_t length = strlen(arch->base);
    return strncmp(name, arch->base, length) == 0 ? name + length : name;
}

bool sl_hf_is_spare(const struct sl_hf_arch *arch, const char *tensor) {
    for (int i = 0; sl_hf_arch_at(i); i++) {
        const struct sl_hf_arch *row = sl_hf_arch_at(i);
        if (arch && row != arch)
            continue;
        for (int k = 0; row->spare[k]; k++)
            if (ends_with(tensor, row->spare[k]))
                return true;
    }
    return false;
}
