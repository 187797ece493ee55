/* Reads a model: text -> tree -> graph, then checks it. Also finds the files of `use`. */
#include "graph/model_eval.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes a name from a path: "models/gpt2.model" -> gpt2; illegal characters become '_'. */
static char *base_name(struct sl_arena *arena, const char *file) {
    const char *slash = strrchr(file, '/'), *start = slash ? slash + 1 : file;
    const char *dot = strrchr(start, '.');
    size_t length = dot && dot > start ? (size_t)(dot - start) : strlen(start);
    if (length == 0)
        return sl_arena_dup(arena, "model", 5);
    char *name = sl_arena_dup(arena, start, length);
    for (size_t i = 0; i < length; i++) {
        bool letter = isalpha((unsigned char)name[i]) || name[i] == '_';
        bool inner = isdigit((unsigned char)name[i]) || name[i] == '-' ||
                     (name[i] == '.' && name[i - (i > 0)] != '.');
        if (!letter && (i == 0 || !inner))
            name[i] = '_';
    }
    return name;
}

static sl_err elaborate(struct sl_eval *ev, const struct sl_model_ast *ast) {
    if (ast->is_library)
        return sl_fail(SL_ERR_INPUT, "%s: this is a library of functions, for 'use' in a model",
                       ev->file);
    SL_PUSH(&ev->used, ev->file);
    SL_TRY(sl_graph_eval_collect(ev, ast));
    SL_TRY(sl_graph_eval_block(ev, ast->body));
    SL_TRY(sl_graph_eval_check_sets(ev));
    sl_err err = sl_graph_check(ev->graph);
    return err == SL_OK ? err : sl_err_context(err, "%s", ev->file);
}

static void close_eval(struct sl_eval *ev) {
    sl_graph_frame_free(&ev->global);
    sl_map_free(&ev->functions);
    SL_VEC_FREE(&ev->fns);
    SL_VEC_FREE(&ev->withs);
    SL_VEC_FREE(&ev->used);
    for (int64_t i = 0; i < ev->texts.count; i++)
        free(ev->texts.at[i]);
    SL_VEC_FREE(&ev->texts);
    sl_arena_free(ev->arena);
}

static struct sl_eval open_eval(struct sl_lex *lex, const struct sl_model_options *options,
                                struct sl_arena *arena) {
    return (struct sl_eval){
        .lex = lex,
        .options = options,
        .arena = arena,
        .step_limit = options->step_limit ? options->step_limit : SL_EVAL_STEPS,
        .file = "",
        .scope = "",
    };
}

/* Returns a path relative to the directory of the file. */
static const char *in_folder_of(struct sl_arena *arena, const char *file, struct sl_str path) {
    const char *slash = strrchr(file, '/');
    int length = slash && path.at[0] != '/' ? (int)(slash + 1 - file) : 0;
    return sl_arena_printf(arena, "%.*s%.*s", length, file, (int)path.length, path.at);
}

sl_err sl_graph_model_read(const char *file, const char *text, size_t length,
                           const struct sl_model_options *options, struct sl_graph **out) {
    struct sl_lex lex;
    struct sl_arena arena = {0};
    struct sl_model_ast ast = {0};
    struct sl_eval ev = open_eval(&lex, options, &arena);
    sl_err err = SL_OK;
    *out = NULL;
    ev.frame = &ev.global;
    ev.graph = sl_graph_open(base_name(&arena, file), options->find_op);
    ev.graph->eval = options->eval;
    ev.graph->hook = options->hook;
    ev.graph->node_limit = options->node_limit ? options->node_limit : SL_EVAL_NODES;
    /* in the graph's arena, because nodes point to it */
    ev.file = sl_arena_dup(&ev.graph->arena, file, strlen(file));
    SL_TRY_OUT(sl_lex_open(&lex, ev.file, text, length, false));
    SL_TRY_OUT(sl_graph_model_parse(&lex, &arena, &ast));
    if (ast.name.length)
        ev.graph->name = sl_arena_dup(&ev.graph->arena, ast.name.at, ast.name.length);
    ev.graph->brief = sl_arena_dup(&ev.graph->arena, ast.brief.at, ast.brief.length);
    if (ast.weights.length)
        ev.graph->weights = in_folder_of(&ev.graph->arena, file, ast.weights);
    SL_TRY_OUT(elaborate(&ev, &ast));
    ev.graph->hook = (struct sl_graph_hook){0};
    *out = ev.graph;
out:
    if (err != SL_OK)
        sl_graph_close(ev.graph);
    close_eval(&ev);
    return err;
}

sl_err sl_graph_model_read_file(const char *file, const struct sl_model_options *options,
                                struct sl_graph **out) {
    char *text;
    size_t length;
    *out = NULL;
    SL_TRY(sl_file_read(file, SL_MODEL_FILE_BYTES, &text, &length));
    sl_err err = sl_graph_model_read(file, text, length, options, out);
    free(text);
    return err;
}

sl_err sl_graph_model_peek(const char *file, const char *text, size_t length,
                           struct sl_arena *arena, struct sl_model_header *out) {
    struct sl_lex lex;
    struct sl_model_ast ast = {0};
    SL_TRY(sl_lex_open(&lex, file, text, length, false));
    SL_TRY(sl_graph_model_parse_header(&lex, &ast));
    out->is_library = ast.is_library;
    out->name = ast.name.length ? sl_arena_dup(arena, ast.name.at, ast.name.length)
                                : base_name(arena, file);
    out->brief = sl_arena_dup(arena, ast.brief.at, ast.brief.length);
    return SL_OK;
}

/* ---- pieces ---- */

static sl_err take_result(struct sl_eval *ev, const struct sl_model_piece *piece) {
    if (!piece->result)
        return SL_OK;
    const struct sl_val *value = sl_graph_frame_find(&ev->global, SL_STR("_r"));
    if (!value || value->kind != SL_VAL_TENSOR)
        return sl_fail(SL_ERR_INPUT, "the result is %s, not a tensor",
                       value ? sl_graph_val_name(value) : "nothing");
    *piece->result = value->tensor;
    return SL_OK;
}

sl_err sl_graph_model_extend(struct sl_graph *graph, const struct sl_model_options *options,
                             const struct sl_model_piece *piece) {
    struct sl_lex lex;
    struct sl_arena arena = {0};
    struct sl_model_ast ast = {0};
    struct sl_eval ev = open_eval(&lex, options, &arena);
    sl_err err = SL_OK;
    ev.graph = graph;
    ev.frame = &ev.global;
    ev.scope = sl_arena_dup(&graph->arena, piece->scope, strlen(piece->scope));
    for (int i = 0; i < piece->value_count; i++)
        sl_graph_frame_put(&ev.global, sl_str(sl_arena_printf(&arena, "_v%d", i)),
                           sl_graph_val_tensor(piece->values[i]));
    SL_TRY_OUT(sl_lex_open(&lex, "", piece->text, strlen(piece->text), false));
    SL_TRY_OUT(sl_graph_model_parse(&lex, &arena, &ast));
    SL_TRY_OUT(sl_graph_eval_collect(&ev, &ast));
    SL_TRY_OUT(sl_graph_eval_block(&ev, ast.body));
    SL_TRY_OUT(take_result(&ev, piece));
out:
    close_eval(&ev);
    return err;
}

/* ---- file search of `use` ---- */

static char *join_path(const char *dir, size_t dir_length, const char *name) {
    struct sl_text path = {0};
    sl_text_printf(&path, "%.*s%s.model", (int)dir_length, dir, name);
    return path.at;
}

sl_err sl_graph_model_find_used(const void *ctx, const char *from, const char *name,
                                struct sl_model_source *out) {
    const char *const *dirs = ctx;
    const char *slash = strrchr(from, '/');
    out->file = join_path(from, slash ? (size_t)(slash - from) + 1 : 0, name);
    for (int i = 0; dirs && dirs[i] && !sl_file_exists(out->file); i++) {
        free(out->file);
        struct sl_text dir = {0};
        sl_text_printf(&dir, "%s/", dirs[i]);
        out->file = join_path(dir.at, dir.length, name);
        sl_text_free(&dir);
    }
    sl_err err = sl_file_exists(out->file)
                     ? sl_file_read(out->file, SL_MODEL_FILE_BYTES, &out->text, &out->length)
                     : sl_fail(SL_ERR_INPUT, "there is no %s.model in the folder of this file%s",
                               name, dirs && dirs[0] ? " or among the models" : "");
    if (err != SL_OK) {
        free(out->file);
        out->file = NULL;
    }
    return err;
}
