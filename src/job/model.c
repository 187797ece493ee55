/* Models by name or path: finds the file, reads it once. */
#define _GNU_SOURCE
#include "job/model.h"

#include "base/safetensors.h"
#include "base/vec.h"
#include "hf/folder.h"
#include "onnx/import.h"
#include "op/registry.h"
#include "tune/tune.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Is it a library of functions, and so not a model? A file that cannot be read counts as a model,
 * because opening it gives the error. */
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

struct source {
    const char *file;
    struct sl_str text;
    struct sl_job_model_tune tune;
};

static sl_err read_one(const struct source *source, const struct sl_model_options *options,
                       const struct sl_tune *tune, struct sl_graph **out) {
    if (!out)
        return SL_OK;
    SL_TRY(sl_graph_model_read(source->file, source->text.at, source->text.length, options, out));
    sl_err err = sl_tune_finish(tune, *out);
    if (err != SL_OK) {
        sl_graph_close(*out);
        *out = NULL;
    }
    return err;
}

static sl_err read_both(const struct source *source, struct sl_model_options *options,
                        struct sl_graph **out, struct sl_graph **eval) {
    struct sl_arena arena = {0};
    struct sl_tune tune;
    sl_err err;
    options->find_op = sl_op_find;
    options->nearest_op = sl_op_nearest;
    SL_TRY_OUT(sl_tune_open(&arena, source->tune.freeze, source->tune.lora, &tune));
    sl_tune_attach(&tune, options);
    options->eval = false;
    SL_TRY_OUT(read_one(source, options, &tune, out));
    options->eval = true;
    err = read_one(source, options, &tune, eval);
out:
    sl_arena_free(&arena);
    return err;
}

static struct source source_of(const struct sl_job_model_request *r, const char *file,
                               const char *text, size_t length) {
    return (struct source){file, {text, length}, {r->freeze, r->lora}};
}

/* ---- stored initial values ---- */

struct values {
    struct sl_st file;
};

static sl_err read_value(void *ctx, const char *name, int64_t from, int64_t count, float *out) {
    struct values *values = ctx;
    struct sl_st_tensor tensor;
    int64_t index = sl_st_find(&values->file, name);
    if (index < 0)
        return sl_fail(SL_ERR_INPUT, "%s: no tensor '%s'; the model starts with its values",
                       values->file.path, name);
    sl_st_get(&values->file, index, &tensor);
    if (tensor.dtype != SL_ST_F32 || tensor.size_bytes < (from + count) * 4)
        return sl_fail(SL_ERR_INPUT, "%s: tensor '%s' has another type or size than the model's",
                       values->file.path, name);
    return sl_st_read(&values->file, &tensor, from * 4, count * 4, out);
}

static void close_values(void *ctx) {
    sl_st_close(&((struct values *)ctx)->file);
    free(ctx);
}

/* Records an absolute path, because the run reads the model text again from its own directory. */
static void set_weights(struct sl_graph *graph, const char *path) {
    char *real = realpath(path, NULL);
    graph->weights = sl_arena_printf(&graph->arena, "%s", real ? real : path);
    free(real);
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static sl_err attach_values(struct sl_graph *graph) {
    struct values *values = sl_realloc(NULL, sizeof *values);
    *values = (struct values){0};
    set_weights(graph, graph->weights);
    if (is_folder(graph->weights)) { /* all parameters start from this folder: see job/init.c */
        graph->folder = graph->weights;
        graph->weights = NULL;
        free(values);
        return SL_OK;
    }
    sl_err err = sl_st_open(graph->weights, &values->file);
    if (err == SL_OK)
        graph->stored =
            (struct sl_stored_values){.ctx = values, .read = read_value, .close = close_values};
    else
        free(values);
    return err;
}

/* ---- ONNX ---- */

static bool is_onnx(const char *name) {
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".onnx") == 0;
}

/* No limits: a model text can be as large as the file that it was made from. */
static struct sl_model_options no_limits(void) {
    return (struct sl_model_options){.node_limit = 4 << 20, .step_limit = (int64_t)1 << 40};
}

static sl_err import(const struct sl_job_model_request *r, struct sl_onnx_imported *imported,
                     struct sl_text *text) {
    struct sl_onnx_options how = {.loss = r->loss && *r->loss ? r->loss : NULL, .sets = r->sizes};
    SL_TRY(sl_onnx_import(r->name, &how, imported));
    set_weights(imported->graph, r->name);
    sl_graph_model_write(imported->graph, text);
    return SL_OK;
}

static sl_err open_onnx(const struct sl_job_model_request *r, struct sl_graph **out,
                        struct sl_graph **eval) {
    struct sl_model_options options = no_limits();
    struct sl_onnx_imported imported = {0};
    struct sl_text text = {0};
    sl_err err = import(r, &imported, &text);
    struct source source = source_of(r, r->name, text.at, text.length);
    if (err == SL_OK)
        err = read_both(&source, &options, out, eval);
    if (err == SL_OK && out)
        sl_onnx_attach(&imported, *out);
    sl_onnx_imported_close(&imported);
    sl_text_free(&text);
    return err;
}

static sl_err write_import(struct sl_onnx_imported *imported, const char *path) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    size_t length = strlen(path);
    const char *stem = length > 6 && strcmp(path + length - 6, ".model") == 0
                           ? sl_arena_dup(&arena, path, length - 6)
                           : path;
    const char *weights = sl_arena_printf(&arena, "%s.safetensors", stem);
    const char *slash = strrchr(weights, '/');
    imported->graph->weights = slash ? slash + 1 : weights;
    sl_graph_model_write(imported->graph, &text);
    sl_err err = sl_onnx_write_weights(imported, weights);
    if (err == SL_OK)
        err = sl_file_write(path, text.at, text.length);
    imported->graph->weights = NULL;
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static void put_summary(const struct sl_graph *graph, struct sl_text *out) {
    char shape[SL_SHAPE_TEXT], human[SL_HUMAN_BYTES];
    double count = 0;
    for (int64_t i = 0; i < graph->params.count; i++)
        count += (double)sl_graph_shape_numel(
            &sl_graph_value(graph, graph->params.at[i].value)->shape, 1);
    sl_text_printf(out, "nodes         %lld\n", (long long)graph->nodes.count);
    sl_text_printf(out, "parameters    %s in %lld tensors\n", sl_human_count(count, human),
                   (long long)graph->params.count);
    for (int64_t i = 0; i < graph->inputs.count; i++)
        sl_text_printf(
            out, "input         %s %s\n", graph->inputs.at[i].name,
            sl_graph_shape_text(&sl_graph_value(graph, graph->inputs.at[i].value)->shape, shape));
}

sl_err sl_job_model_import(const struct sl_job_model_request *request, const char *path,
                           struct sl_text *out) {
    struct sl_onnx_imported imported = {0};
    struct sl_onnx_options how = {.loss = request->loss && *request->loss ? request->loss : NULL,
                                  .sets = request->sizes};
    sl_err err = sl_onnx_import(request->name, &how, &imported);
    if (err == SL_OK && path && *path)
        err = write_import(&imported, path);
    if (err != SL_OK) {
        sl_onnx_imported_close(&imported);
        return err;
    }
    const struct sl_graph *graph = imported.graph;
    sl_text_printf(out, "%s: %s\n", graph->name, graph->brief);
    put_summary(graph, out);
    sl_onnx_imported_close(&imported);
    return SL_OK;
}

/* ---- Hugging Face ---- */

/* Finds a library among those of Sluice, not among the files of the folder. */
static sl_err find_library(const void *ctx, const char *from, const char *name,
                           struct sl_model_source *out) {
    const char *const *dirs = ctx;
    struct sl_arena arena = {0};
    sl_err err = SL_OK;
    (void)from;
    for (int i = 0; dirs && dirs[i]; i++) {
        const char *place = sl_arena_printf(&arena, "%s/config.json", dirs[i]);
        if (sl_file_exists(sl_arena_printf(&arena, "%s/%s.model", dirs[i], name))) {
            err = sl_graph_model_find_used(NULL, place, name, out);
            sl_arena_free(&arena);
            return err;
        }
    }
    sl_arena_free(&arena);
    return sl_fail(SL_ERR_INPUT, "no library '%s' among the models; is Sluice installed?", name);
}

static sl_err add_sizes(struct sl_arena *arena, const char *file, struct sl_str text,
                        const struct sl_plan *plan, const char **sizes);

static sl_err open_hf(const struct sl_job_model_request *r, struct sl_graph **out,
                      struct sl_graph **eval) {
    struct sl_arena arena = {0};
    struct sl_model_options options = {.find_used = find_library, .find_ctx = r->dirs};
    const struct sl_hf_arch *arch;
    const char *sizes = r->sizes, *file = sl_arena_printf(&arena, "%s/config.json", r->name);
    struct sl_text text = {0};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_hf_folder_read(r->name, &arch, &text));
    SL_TRY_OUT(add_sizes(&arena, file, (struct sl_str){text.at, text.length}, r->plan, &sizes));
    SL_TRY_OUT(sl_graph_model_parse_sets(sizes, &arena, &options));
    struct source source = source_of(r, file, text.at, text.length);
    SL_TRY_OUT(read_both(&source, &options, out, eval));
    for (int i = 0; i < 2; i++) {
        struct sl_graph *graph = i ? (eval ? *eval : NULL) : (out ? *out : NULL);
        if (!graph)
            continue;
        set_weights(graph, r->name);
        graph->folder = graph->weights;
        graph->weights = NULL;
    }
out:
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_job_model_import_hf(const struct sl_job_model_request *r, const char *path,
                              struct sl_text *out) {
    const struct sl_hf_arch *arch;
    struct sl_graph *graph = NULL;
    struct sl_text text = {0};
    char *real = realpath(r->name, NULL);
    sl_err err = SL_OK;
    SL_TRY_OUT(open_hf(r, &graph, NULL));
    SL_TRY_OUT(sl_hf_folder_read(real ? real : r->name, &arch, &text));
    if (path && *path)
        SL_TRY_OUT(sl_file_write(path, text.at, text.length));
    sl_text_printf(out, "%s: %s (%s)\n", graph->name, arch->model_type, arch->brief);
    put_summary(graph, out);
out:
    free(real);
    sl_text_free(&text);
    sl_graph_close(graph);
    return err;
}

/* ---- models ---- */

/* Adds the sizes of the plan, if it is a plan of this model, then `sizes`. */
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

sl_err sl_job_model_read(const char *text, const char *file, const struct sl_job_model_tune *tune,
                         struct sl_graph **out, struct sl_graph **eval) {
    struct sl_model_options options = no_limits();
    struct source source = {file, sl_str(text), tune ? *tune : (struct sl_job_model_tune){0}};
    SL_TRY(read_both(&source, &options, out, eval));
    if (out && (*out)->weights && !is_onnx((*out)->weights) && sl_file_exists((*out)->weights))
        return attach_values(*out);
    return SL_OK;
}

sl_err sl_job_model_open(const struct sl_job_model_request *r, struct sl_graph **out,
                         struct sl_graph **eval) {
    struct sl_arena arena = {0};
    struct sl_model_options options = {.find_used = sl_graph_model_find_used, .find_ctx = r->dirs};
    const char *file = NULL, *sizes = r->sizes;
    char *text = NULL;
    size_t length;
    sl_err err = SL_OK;
    if (is_onnx(r->name))
        return open_onnx(r, out, eval);
    if (sl_hf_is_folder(r->name))
        return open_hf(r, out, eval);
    if (r->loss && *r->loss)
        return sl_fail(
            SL_ERR_USAGE,
            "`loss` adds a loss to an ONNX file; %s is a model text: write the loss there",
            r->name);
    SL_TRY_OUT(find_file(r->name, r->dirs, &arena, &file));
    SL_TRY_OUT(sl_file_read(file, SL_MODEL_FILE_BYTES, &text, &length));
    SL_TRY_OUT(add_sizes(&arena, file, (struct sl_str){text, length}, r->plan, &sizes));
    SL_TRY_OUT(sl_graph_model_parse_sets(sizes, &arena, &options));
    struct source source = source_of(r, file, text, length);
    SL_TRY_OUT(read_both(&source, &options, out, eval));
    if (out && (*out)->weights)
        SL_TRY_OUT(attach_values(*out));
out:
    free(text);
    sl_arena_free(&arena);
    return err;
}
