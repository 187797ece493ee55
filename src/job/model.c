/* Models by name or path: finds the file, reads it once. */
#define _GNU_SOURCE
#include "job/model.h"

#include "base/vec.h"
#include "op/registry.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Libraries of functions are not models. Files that cannot be read count as models; opening one
 * gives the error. */
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

struct sl_job_model_names sl_job_model_names(const char *const *dirs, struct sl_arena *arena) {
    SL_VEC(const char *) names = {0};
    for (int i = 0; dirs && dirs[i] && names.count == 0; i++) {
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
    struct sl_job_model_names out = {(int)names.count, SL_VEC_FREEZE(&names, arena)};
    SL_VEC_FREE(&names);
    if (out.count)
        qsort(out.at, (size_t)out.count, sizeof *out.at, compare_names);
    return out;
}

static const char *name_at(const void *ctx, int i) {
    return ((const struct sl_job_model_names *)ctx)->at[i];
}

static sl_err find_file(const char *name, const char *const *dirs, struct sl_arena *arena,
                        const char **out) {
    if (strchr(name, '/') || strstr(name, ".model")) {
        *out = name;
        return SL_OK;
    }
    for (int i = 0; dirs && dirs[i]; i++) {
        *out = sl_arena_printf(arena, "%s/%s.model", dirs[i], name);
        if (sl_file_exists(*out))
            return SL_OK;
    }
    struct sl_job_model_names names = sl_job_model_names(dirs, arena);
    const char *nearest = sl_nearest(name, names.count, name_at, &names);
    if (nearest)
        return sl_fail(SL_ERR_INPUT, "no model '%s'; did you mean '%s'?", name, nearest);
    return sl_fail(SL_ERR_INPUT, "no model '%s'; 'sluice list models' names them, a path works too",
                   name);
}

static sl_err read_both(const char *file, struct sl_str text, struct sl_model_options *options,
                        struct sl_graph **out, struct sl_graph **eval) {
    options->find_op = sl_op_find;
    options->nearest_op = sl_op_nearest;
    options->eval = false;
    if (out)
        SL_TRY(sl_graph_model_read(file, text.at, text.length, options, out));
    options->eval = true;
    return eval ? sl_graph_model_read(file, text.at, text.length, options, eval) : SL_OK;
}

sl_err sl_job_model_read(const char *text, const char *file, struct sl_graph **out,
                         struct sl_graph **eval) {
    struct sl_model_options options = {0};
    return read_both(file, sl_str(text), &options, out, eval);
}

/* The sizes of the plan, if it is one of this model, then `sizes`. */
static sl_err add_sizes(struct sl_arena *arena, const char *file, struct sl_str text,
                        const struct sl_plan *plan, const char **sizes) {
    struct sl_model_header header = {0};
    if (!plan || !plan->model || !plan->sizes)
        return SL_OK;
    SL_TRY(sl_graph_model_peek(file, text.at, text.length, arena, &header));
    if (header.name && strcmp(header.name, plan->model) == 0)
        *sizes = sl_arena_printf(arena, "%s%s%s", plan->sizes, **sizes ? "," : "", *sizes);
    return SL_OK;
}

sl_err sl_job_model_open(const char *name, const char *const *dirs, const struct sl_plan *plan,
                         const char *sizes, struct sl_graph **out, struct sl_graph **eval) {
    struct sl_arena arena = {0};
    struct sl_model_options options = {.find_used = sl_graph_model_find_used, .find_ctx = dirs};
    const char *file = NULL;
    char *text = NULL;
    size_t length;
    sl_err err = SL_OK;
    SL_TRY_OUT(find_file(name, dirs, &arena, &file));
    SL_TRY_OUT(sl_file_read(file, SL_MODEL_FILE_BYTES, &text, &length));
    SL_TRY_OUT(add_sizes(&arena, file, (struct sl_str){text, length}, plan, &sizes));
    SL_TRY_OUT(sl_graph_model_parse_sets(sizes, &arena, &options));
    SL_TRY_OUT(read_both(file, (struct sl_str){text, length}, &options, out, eval));
out:
    free(text);
    sl_arena_free(&arena);
    return err;
}
