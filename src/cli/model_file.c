/* Finding and reading a MODEL argument. */
#define _GNU_SOURCE
#include "cli/model_file.h"

#include "base/vec.h"
#include "op/registry.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SL_MODELS_SRC_DIR /* set in a build tree, so that it runs without being installed */
#define SL_MODELS_SRC_DIR NULL
#endif

/* Beside the executable: PREFIX/bin/sluice -> PREFIX/share/sluice/models. */
static const char *installed_dir(struct sl_arena *arena) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return NULL;
    path[length] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return NULL;
        *slash = 0;
    }
    return sl_arena_printf(arena, "%s/share/sluice/models", path);
}

const char **sl_cli_model_dirs(const struct sl_args *args, struct sl_arena *arena) {
    const char **dirs = SL_NEW(arena, const char *, 5);
    const char *candidates[4] = {
        sl_args_text(args, "--models", NULL),
        getenv("SLUICE_MODELS"),
        installed_dir(arena),
        SL_MODELS_SRC_DIR,
    };
    int count = 0;
    for (int i = 0; i < SL_COUNT(candidates); i++)
        if (candidates[i])
            dirs[count++] = candidates[i];
    return dirs;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A library of functions is not a model; what cannot be read is left for whoever asks for it. */
static bool is_library(const char *dir, const char *name, struct sl_arena *arena) {
    struct sl_model_header header = {0};
    const char *path = sl_arena_printf(arena, "%s/%s", dir, name);
    char *text;
    size_t length;
    if (sl_file_read(path, SL_MODEL_FILE_BYTES, &text, &length) != SL_OK)
        return false;
    sl_err err = sl_graph_model_peek(path, text, length, arena, &header);
    free(text);
    return err == SL_OK && header.is_library;
}

struct sl_cli_model_names sl_cli_model_names(const struct sl_args *args, struct sl_arena *arena) {
    SL_VEC(const char *) names = {0};
    const char **dirs = sl_cli_model_dirs(args, arena);
    for (int i = 0; dirs[i] && names.count == 0; i++) {
        DIR *dir = opendir(dirs[i]);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)) != NULL) {
            size_t length = strlen(entry->d_name);
            if (length > 6 && strcmp(entry->d_name + length - 6, ".model") == 0 &&
                !is_library(dirs[i], entry->d_name, arena))
                SL_PUSH(&names, sl_arena_dup(arena, entry->d_name, length - 6));
        }
        if (dir)
            closedir(dir);
    }
    struct sl_cli_model_names out = {(int)names.count, SL_VEC_FREEZE(&names, arena)};
    SL_VEC_FREE(&names);
    if (out.count)
        qsort(out.at, (size_t)out.count, sizeof *out.at, compare_names);
    return out;
}

static const char *name_at(const void *ctx, int i) {
    return ((const struct sl_cli_model_names *)ctx)->at[i];
}

static sl_err find_file(const struct sl_args *args, const char *name, struct sl_arena *arena,
                        const char **out) {
    if (strchr(name, '/') || strstr(name, ".model")) {
        *out = name;
        return SL_OK;
    }
    const char **dirs = sl_cli_model_dirs(args, arena);
    for (int i = 0; dirs[i]; i++) {
        *out = sl_arena_printf(arena, "%s/%s.model", dirs[i], name);
        if (sl_file_exists(*out))
            return SL_OK;
    }
    struct sl_cli_model_names names = sl_cli_model_names(args, arena);
    const char *near = sl_nearest(name, names.count, name_at, &names);
    if (near)
        return sl_fail(SL_ERR_INPUT, "no model '%s'; did you mean '%s'?", name, near);
    return sl_fail(SL_ERR_INPUT, "no model '%s'; 'sluice list models' names them, a path works too",
                   name);
}

/* --set A=1,B=2 --set C=3 */
static sl_err parse_sets(const struct sl_args *args, struct sl_arena *arena,
                         struct sl_model_options *options) {
    struct sl_text all = {0};
    const char *text;
    for (int n = 0; (text = sl_args_nth(args, "--set", n)) != NULL; n++)
        sl_text_printf(&all, "%s%s", n ? "," : "", text);
    sl_err err = sl_graph_model_parse_sets(all.at ? all.at : "", arena, options);
    sl_text_free(&all);
    return err;
}

sl_err sl_cli_model_open(const struct sl_args *args, const char *name, bool eval,
                         struct sl_graph **out) {
    struct sl_arena arena = {0};
    struct sl_model_options options = {.find_op = sl_op_find,
                                       .nearest_op = sl_op_nearest,
                                       .eval = eval,
                                       .find_used = sl_graph_model_find_used,
                                       .find_ctx = sl_cli_model_dirs(args, &arena)};
    const char *file = NULL;
    sl_err err = SL_OK;
    SL_TRY_OUT(find_file(args, name, &arena, &file));
    SL_TRY_OUT(parse_sets(args, &arena, &options));
    SL_TRY_OUT(sl_graph_model_read_file(file, &options, out));
out:
    sl_arena_free(&arena);
    return err;
}
