/* Elaborates `size` and `use`: the sizes of a model.
 *
 *   --set L=2  beats  use ... with L = 24 (the outermost)  beats  size L = 12
 *
 * A `use` runs the statements of another file in place. A name has no slashes, so a text cannot
 * name a path: the caller of the reader decides where names are searched. */
#include "graph/model_eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *size_name(const void *ctx, int i) {
    const struct sl_graph *graph = ctx;
    return graph->sizes.at[i].name;
}

/* Returns "; did you mean 'L'?" or "". */
static const char *suggest_size(struct sl_eval *ev, const char *name) {
    const char *near = sl_nearest(name, (int)ev->graph->sizes.count, size_name, ev->graph);
    return near ? sl_arena_printf(ev->arena, "; did you mean '%s'?", near) : "";
}

static bool is_size(const struct sl_val *value) {
    return value->kind == SL_VAL_FLOAT || (value->kind == SL_VAL_DIM && !value->dim.batch);
}

/* Finds the value that `with` gives to this size; marks every `with` that names the size as
 * taken. */
static const struct sl_with *find_with(struct sl_eval *ev, struct sl_str name) {
    const struct sl_with *found = NULL;
    for (int64_t i = 0; i < ev->withs.count; i++) {
        if (!sl_str_equal(ev->withs.at[i].name, name))
            continue;
        ev->withs.at[i].taken = true;
        found = found ? found : &ev->withs.at[i];
    }
    return found;
}

static const struct sl_model_set *find_set(const struct sl_eval *ev, struct sl_str name) {
    const struct sl_model_set *found = NULL; /* the last --set of a name counts */
    for (int i = 0; i < ev->options->set_count; i++)
        if (sl_str_is(name, ev->options->sets[i].name))
            found = &ev->options->sets[i];
    return found;
}

/* Overrides the default of a size. The default decides whether the size is an integer. An invalid
 * default (64 / 3) is no error if it is overridden. */
static sl_err override(struct sl_eval *ev, const struct sl_stmt *stmt, struct sl_val *value) {
    const struct sl_with *with = find_with(ev, stmt->name);
    const struct sl_model_set *set = find_set(ev, stmt->name);
    sl_err err = sl_graph_eval_expr(ev, stmt->expr, value);
    if (err != SL_OK && !with && !set)
        return err;
    bool whole = err != SL_OK || value->kind == SL_VAL_DIM;
    double number = set ? set->value : 0;
    if (!set && with)
        number = with->value.kind == SL_VAL_DIM ? (double)with->value.dim.n : with->value.number;
    if (!set && !with)
        return SL_OK;
    if (whole && (number != floor(number) || fabs(number) > (double)SL_MAX_NUMEL)) {
        if (set)
            return sl_fail(SL_ERR_USAGE, "`sizes` %s=%g: '%s' is a whole number", set->name, number,
                           set->name);
        return sl_lex_fail_at(ev->lex, with->pos, "'%.*s' is a whole number",
                              (int)with->name.length, with->name.at);
    }
    *value = whole ? sl_graph_val_int((int64_t)number)
                   : (struct sl_val){.kind = SL_VAL_FLOAT, .number = number};
    return SL_OK;
}

sl_err sl_graph_eval_size(struct sl_eval *ev, const struct sl_stmt *stmt) {
    struct sl_val value = {0};
    if (ev->depth > 0)
        return sl_lex_fail_at(ev->lex, stmt->pos, "size is for the top level");
    if (sl_str_is(stmt->name, "B"))
        return sl_lex_fail_at(ev->lex, stmt->pos,
                              "B is the micro-batch; a size needs another name");
    SL_TRY(override(ev, stmt, &value));
    if (!is_size(&value))
        return sl_lex_fail_at(ev->lex, stmt->expr->pos, "a size is a number, this is %s",
                              sl_graph_val_name(&value));
    if (sl_graph_frame_find(&ev->global, stmt->name))
        return sl_lex_fail_at(ev->lex, stmt->pos, "'%.*s' is defined twice", (int)stmt->name.length,
                              stmt->name.at);
    sl_graph_frame_put(&ev->global, stmt->name, value);
    struct sl_size size = {
        sl_arena_dup(&ev->graph->arena, stmt->name.at, stmt->name.length),
        value.kind == SL_VAL_DIM ? (double)value.dim.n : value.number,
    };
    SL_PUSH(&ev->graph->sizes, size);
    return SL_OK;
}

sl_err sl_graph_model_parse_sets(const char *text, struct sl_arena *arena,
                                 struct sl_model_options *options) {
    SL_VEC(struct sl_model_set) sets = {0};
    sl_err err = SL_OK;
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        char *item = sl_arena_dup(arena, at, length), *equals = strchr(item, '=');
        struct sl_model_set set = {item, 0};
        at += length + (at[length] == ',');
        if (length == 0)
            continue;
        if (!equals || equals == item) {
            err = sl_fail(SL_ERR_USAGE, "`sizes`: '%s' is not NAME=VALUE", item);
            goto out;
        }
        *equals = 0;
        SL_TRY_OUT(sl_parse_double(equals + 1, "`sizes`", &set.value));
        SL_PUSH(&sets, set);
    }
    options->set_count = (int)sets.count;
    options->sets = SL_VEC_FREEZE(&sets, arena);
out:
    SL_VEC_FREE(&sets);
    return err;
}

const char *sl_graph_sizes_text(struct sl_arena *arena, const struct sl_graph *graph) {
    struct sl_text text = {0};
    for (int64_t i = 0; i < graph->sizes.count; i++) {
        sl_text_printf(&text, "%s%s=", i ? "," : "", graph->sizes.at[i].name);
        double value = graph->sizes.at[i].value;
        if (fabs(value) < 1e15 && value == floor(value)) /* writes 80, not 8e+01 */
            sl_text_printf(&text, "%.0f", value);
        else
            sl_text_put_double(&text, value);
    }
    const char *out = text.length ? sl_arena_dup(arena, text.at, text.length) : NULL;
    sl_text_free(&text);
    return out;
}

sl_err sl_graph_eval_check_sets(struct sl_eval *ev) {
    for (int i = 0; i < ev->options->set_count; i++) {
        const char *name = ev->options->sets[i].name;
        bool known = false;
        for (int64_t j = 0; j < ev->graph->sizes.count; j++)
            known |= strcmp(ev->graph->sizes.at[j].name, name) == 0;
        if (!known)
            return sl_fail(SL_ERR_USAGE, "`sizes` %s: model '%s' has no size '%s'%s", name,
                           ev->graph->name, name, suggest_size(ev, name));
    }
    return SL_OK;
}

sl_err sl_graph_eval_collect(struct sl_eval *ev, const struct sl_model_ast *ast) {
    for (const struct sl_stmt *stmt = ast->body; stmt; stmt = stmt->next) {
        if (ast->is_library && stmt->kind != SL_STMT_FN && stmt->kind != SL_STMT_USE)
            return sl_lex_fail_at(ev->lex, stmt->pos, "a library holds functions only");
        if (stmt->kind != SL_STMT_FN)
            continue;
        int64_t *known = sl_map_find(&ev->functions, stmt->name);
        if (known)
            return sl_lex_fail_at(ev->lex, stmt->pos,
                                  "function '%.*s' is defined twice, first at %s:%d",
                                  (int)stmt->name.length, stmt->name.at,
                                  ev->fns.at[*known]->pos.file, ev->fns.at[*known]->pos.line);
        sl_map_put(&ev->functions, stmt->name, ev->fns.count);
        SL_PUSH(&ev->fns, stmt);
    }
    return SL_OK;
}

/* ---- use ---- */

static bool is_used(const struct sl_eval *ev, const char *file) {
    for (int64_t i = 0; i < ev->used.count; i++)
        if (strcmp(ev->used.at[i], file) == 0)
            return true;
    return false;
}

static sl_err push_withs(struct sl_eval *ev, const struct sl_stmt *use) {
    for (const struct sl_stmt *size = use->body; size; size = size->next) {
        struct sl_with with = {.name = size->name, .pos = size->pos};
        SL_TRY(sl_graph_eval_expr(ev, size->expr, &with.value));
        if (!is_size(&with.value))
            return sl_lex_fail_at(ev->lex, size->expr->pos, "a size is a number, this is %s",
                                  sl_graph_val_name(&with.value));
        SL_PUSH(&ev->withs, with);
    }
    return SL_OK;
}

static sl_err check_withs(struct sl_eval *ev, const struct sl_stmt *use, int64_t from) {
    for (int64_t i = from; i < ev->withs.count; i++) {
        const struct sl_with *with = &ev->withs.at[i];
        if (with->taken)
            continue;
        const char *name = sl_arena_dup(ev->arena, with->name.at, with->name.length);
        return sl_lex_fail_at(ev->lex, with->pos, "model '%.*s' has no size '%s'%s",
                              (int)use->name.length, use->name.at, name, suggest_size(ev, name));
    }
    ev->withs.count = from;
    return SL_OK;
}

/* Parses and runs a text. The tree points into `source->text`, which `ev` keeps. */
static sl_err run_used(struct sl_eval *ev, const struct sl_stmt *use,
                       const struct sl_model_source *source) {
    struct sl_lex lex;
    struct sl_model_ast ast = {0};
    const char *outside = ev->file, *file;
    int64_t withs = ev->withs.count;
    SL_PUSH(&ev->texts, source->text);
    file = sl_arena_dup(&ev->graph->arena, source->file, strlen(source->file));
    if (is_used(ev, file) && !use->body) { /* a library that is already loaded is not run again */
        SL_TRY(sl_lex_open(&lex, file, source->text, source->length, false));
        SL_TRY(sl_graph_model_parse_header(&lex, &ast));
        if (ast.is_library)
            return SL_OK;
    }
    if (is_used(ev, file))
        return sl_lex_fail_at(ev->lex, use->pos, "'%.*s' is used already", (int)use->name.length,
                              use->name.at);
    SL_PUSH(&ev->used, file);
    SL_TRY(push_withs(ev, use));
    SL_TRY(sl_lex_open(&lex, file, source->text, source->length, false));
    SL_TRY(sl_graph_model_parse(&lex, ev->arena, &ast));
    SL_TRY(sl_graph_eval_collect(ev, &ast));
    ev->file = file;
    ev->use_depth++;
    SL_TRY(sl_graph_eval_block(ev, ast.body));
    ev->use_depth--;
    ev->file = outside;
    return check_withs(ev, use, withs);
}

sl_err sl_graph_eval_use(struct sl_eval *ev, const struct sl_stmt *stmt) {
    struct sl_model_source source = {0};
    char name[SL_MODEL_NAME];
    if (!ev->options->find_used)
        return sl_lex_fail_at(ev->lex, stmt->pos, "this text may not use other models");
    if (ev->use_depth >= SL_EVAL_USE_DEPTH)
        return sl_lex_fail_at(ev->lex, stmt->pos, "models use models deeper than %d",
                              SL_EVAL_USE_DEPTH);
    if (ev->texts.count >= SL_EVAL_USES)
        return sl_lex_fail_at(ev->lex, stmt->pos, "more than %d uses of other models",
                              SL_EVAL_USES);
    if (stmt->name.length >= sizeof name)
        return sl_lex_fail_at(ev->lex, stmt->pos, "the name of the model is too long");
    memcpy(name, stmt->name.at, stmt->name.length);
    name[stmt->name.length] = 0;
    sl_err err = ev->options->find_used(ev->options->find_ctx, ev->file, name, &source);
    if (err != SL_OK)
        return sl_lex_fail_at(ev->lex, stmt->pos, "%s", sl_err_message());
    err = run_used(ev, stmt, &source);
    free(source.file);
    return err;
}
