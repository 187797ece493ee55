/* Elaborates statements: runs the text once, top to bottom, and builds the graph. */
#include "graph/model_eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sl_val *sl_graph_frame_find(struct sl_frame *frame, struct sl_str name) {
    for (; frame; frame = frame->outer) {
        int64_t *index = sl_map_find(&frame->names, name);
        if (index)
            return &frame->values.at[*index];
    }
    return NULL;
}

void sl_graph_frame_put(struct sl_frame *frame, struct sl_str name, struct sl_val value) {
    int64_t *index = sl_map_find(&frame->names, name);
    if (index) {
        frame->values.at[*index] = value;
        return;
    }
    sl_map_put(&frame->names, name, frame->values.count);
    SL_PUSH(&frame->values, value);
}

void sl_graph_frame_free(struct sl_frame *frame) {
    sl_map_free(&frame->names);
    SL_VEC_FREE(&frame->values);
}

struct sl_val sl_graph_val_int(int64_t n) {
    return (struct sl_val){.kind = SL_VAL_DIM, .dim = {n, false}};
}

struct sl_val sl_graph_val_tensor(int tensor) {
    return (struct sl_val){.kind = SL_VAL_TENSOR, .tensor = tensor};
}

const char *sl_graph_val_name(const struct sl_val *value) {
    static const char *const names[] = {"nothing",  "a whole number", "a number",
                                        "a string", "a tensor",       "a list"};
    return value->kind == SL_VAL_DIM && value->dim.batch ? "a multiple of B" : names[value->kind];
}

/* Refuses a name that ends with a dot: scope.name would have two dots in a row. */
static sl_err check_end(struct sl_eval *ev, struct sl_str name, struct sl_pos pos) {
    return name.length && name.at[name.length - 1] == '.'
               ? sl_lex_fail_at(ev->lex, pos, "the name '%.*s' ends with a dot",
                                (int)(name.length < 40 ? name.length : 40), name.at)
               : SL_OK;
}

sl_err sl_graph_eval_path(struct sl_eval *ev, struct sl_str name, struct sl_pos pos,
                          const char **out) {
    SL_TRY(check_end(ev, name, pos));
    if (strlen(ev->scope) + name.length + 1 >= SL_NAME_TEXT / 2)
        return sl_lex_fail_at(ev->lex, pos, "the name '%.20s...%.*s' is longer than %d",
                              *ev->scope ? ev->scope : name.at,
                              (int)(name.length < 20 ? name.length : 20), name.at,
                              SL_NAME_TEXT / 2);
    *out = sl_arena_printf(&ev->graph->arena, "%s%s%.*s", ev->scope, *ev->scope ? "." : "",
                           (int)name.length, name.at);
    return SL_OK;
}

sl_err sl_graph_eval_step(struct sl_eval *ev, struct sl_pos pos, int64_t steps) {
    ev->steps += steps;
    if (ev->steps > ev->step_limit)
        return sl_lex_fail_at(ev->lex, pos, "the model takes more than %lld steps to build",
                              (long long)ev->step_limit);
    if (ev->arena->used_bytes + ev->graph->arena.used_bytes > SL_MODEL_MEMORY)
        return sl_lex_fail_at(ev->lex, pos, "the model takes more than %d MiB to build",
                              SL_MODEL_MEMORY >> 20);
    return SL_OK;
}

sl_err sl_graph_eval_as_number(struct sl_eval *ev, struct sl_pos pos, const struct sl_val *value,
                               double *out) {
    if (value->kind == SL_VAL_FLOAT)
        *out = value->number;
    else if (value->kind == SL_VAL_DIM && !value->dim.batch)
        *out = (double)value->dim.n;
    else
        return sl_lex_fail_at(ev->lex, pos, "expected a number, found %s",
                              sl_graph_val_name(value));
    return SL_OK;
}

sl_err sl_graph_eval_number(struct sl_eval *ev, const struct sl_expr *expr, double *out) {
    struct sl_val value;
    SL_TRY(sl_graph_eval_expr(ev, expr, &value));
    return sl_graph_eval_as_number(ev, expr->pos, &value, out);
}

sl_err sl_graph_eval_int(struct sl_eval *ev, const struct sl_expr *expr, int64_t *out) {
    struct sl_val value;
    SL_TRY(sl_graph_eval_expr(ev, expr, &value));
    if (value.kind != SL_VAL_DIM || value.dim.batch)
        return sl_lex_fail_at(ev->lex, expr->pos, "expected a whole number, found %s",
                              sl_graph_val_name(&value));
    *out = value.dim.n;
    return SL_OK;
}

sl_err sl_graph_eval_shape(struct sl_eval *ev, const struct sl_expr *list, struct sl_shape *out) {
    struct sl_val value;
    SL_TRY(sl_graph_eval_expr(ev, list, &value));
    *out = (struct sl_shape){0};
    if (value.kind != SL_VAL_LIST || value.count > SL_MAX_RANK)
        return sl_lex_fail_at(ev->lex, list->pos, "a shape is a list of at most %d sizes",
                              SL_MAX_RANK);
    out->rank = value.count;
    for (int i = 0; i < value.count; i++) {
        if (value.items[i].kind != SL_VAL_DIM)
            return sl_lex_fail_at(ev->lex, list->pos, "size %d of the shape is %s", i + 1,
                                  sl_graph_val_name(&value.items[i]));
        sl_graph_shape_set(out, i, value.items[i].dim);
    }
    sl_err err = sl_graph_shape_check(out);
    return err == SL_OK ? err : sl_lex_fail_at(ev->lex, list->pos, "%s", sl_err_message());
}

/* Adds the position of the statement to a graph error. */
static sl_err at(struct sl_eval *ev, struct sl_pos pos, sl_err err) {
    return err == SL_OK ? err : sl_lex_fail_at(ev->lex, pos, "%s", sl_err_message());
}

static sl_err eval_input(struct sl_eval *ev, const struct sl_stmt *stmt) {
    struct sl_shape shape;
    int64_t below = 0;
    const char *name;
    int value;
    SL_TRY(sl_graph_eval_path(ev, stmt->name, stmt->pos, &name));
    SL_TRY(sl_graph_eval_shape(ev, stmt->list, &shape));
    if (stmt->expr2)
        SL_TRY(sl_graph_eval_int(ev, stmt->expr2, &below));
    if (stmt->expr2 && (below <= 0 || below > INT32_MAX || !stmt->is_int))
        return sl_lex_fail_at(ev->lex, stmt->expr2->pos,
                              "the bound of an int input is between 1 and 2^31 - 1");
    SL_TRY(at(
        ev, stmt->pos,
        sl_graph_input(ev->graph, name, stmt->is_int ? SL_INT : SL_FLOAT, shape, below, &value)));
    sl_graph_frame_put(ev->frame, stmt->name, sl_graph_val_tensor(value));
    return SL_OK;
}

static sl_err eval_param(struct sl_eval *ev, const struct sl_stmt *stmt) {
    struct sl_shape shape;
    struct sl_init init;
    int value;
    const char *name;
    SL_TRY(sl_graph_eval_path(ev, stmt->name, stmt->pos, &name));
    SL_TRY(sl_graph_eval_shape(ev, stmt->list, &shape));
    SL_TRY(sl_graph_eval_init(ev, stmt->expr, &init));
    SL_TRY(at(ev, stmt->pos,
              stmt->kind == SL_STMT_PARAM ? sl_graph_param(ev->graph, name, shape, init, &value)
                                          : sl_graph_state(ev->graph, name, shape, init, &value)));
    if (stmt->is_frozen)
        ev->graph->params.at[ev->graph->params.count - 1].frozen = true;
    sl_graph_frame_put(ev->frame, stmt->name, sl_graph_val_tensor(value));
    return SL_OK;
}

/* Clears all names but keeps the memory for the next round of a repeat. */
static void clear_frame(struct sl_frame *frame) {
    if (frame->names.count)
        memset(frame->names.slots, 0, sizeof *frame->names.slots * (size_t)frame->names.room);
    frame->names.count = 0;
    frame->values.count = 0;
}

/* Runs one round of a repeat. Each round has its own frame; a name of an outer frame is assigned
 * there. */
static sl_err eval_round(struct sl_eval *ev, const struct sl_stmt *stmt, struct sl_frame *frame,
                         int64_t i) {
    SL_TRY(sl_graph_eval_step(ev, stmt->pos, 1));
    clear_frame(frame);
    sl_graph_frame_put(frame, stmt->name, sl_graph_val_int(i));
    frame->outer = ev->frame;
    ev->frame = frame;
    ev->nesting++;
    sl_err err = sl_graph_eval_block(ev, stmt->body);
    ev->nesting--;
    ev->frame = frame->outer;
    return err;
}

static sl_err eval_repeat(struct sl_eval *ev, const struct sl_stmt *stmt) {
    int64_t from, to;
    const char *outside = ev->scope, *path = NULL;
    SL_TRY(sl_graph_eval_int(ev, stmt->expr, &from));
    SL_TRY(sl_graph_eval_int(ev, stmt->expr2, &to));
    if (to < from)
        return sl_lex_fail_at(ev->lex, stmt->expr2->pos, "repeat cannot go from %lld down to %lld",
                              (long long)from, (long long)to);
    if (to - from > SL_EVAL_STEPS)
        return sl_lex_fail_at(ev->lex, stmt->expr2->pos,
                              "repeat asks for %lld rounds, the limit is %d",
                              (long long)(to - from), SL_EVAL_STEPS);
    if (stmt->instance.length)
        SL_TRY(sl_graph_eval_path(ev, stmt->instance, stmt->pos, &path));
    struct sl_frame frame = {0};
    sl_err err = SL_OK;
    for (int64_t i = from; i < to && !ev->returned && err == SL_OK; i++) {
        if (path)
            ev->scope = sl_arena_printf(&ev->graph->arena, "%s.%lld", path, (long long)i);
        err = eval_round(ev, stmt, &frame, i);
        ev->scope = outside;
    }
    sl_graph_frame_free(&frame);
    return err;
}

static sl_err eval_condition(struct sl_eval *ev, const struct sl_expr *expr, bool *out) {
    double number;
    SL_TRY(sl_graph_eval_number(ev, expr, &number));
    *out = number != 0;
    return SL_OK;
}

/* Runs an `if`. Its blocks have no frame, so their assignments stay visible after it. */
static sl_err eval_if(struct sl_eval *ev, const struct sl_stmt *stmt) {
    bool yes;
    SL_TRY(eval_condition(ev, stmt->expr, &yes));
    ev->nesting++;
    sl_err err = sl_graph_eval_block(ev, yes ? stmt->body : stmt->other);
    ev->nesting--;
    return err;
}

static void assign(struct sl_eval *ev, struct sl_str name, struct sl_val value) {
    struct sl_val *known = sl_graph_frame_find(ev->frame, name);
    bool writable = known && (ev->depth == 0 || !sl_map_find(&ev->global.names, name) ||
                              known != sl_graph_frame_find(&ev->global, name));
    if (writable)
        *known = value;
    else
        sl_graph_frame_put(ev->frame, name, value);
}

static sl_err eval_assign(struct sl_eval *ev, const struct sl_stmt *stmt) {
    struct sl_val value;
    SL_TRY(sl_graph_eval_expr(ev, stmt->expr, &value));
    if (value.kind == SL_VAL_NONE)
        return sl_lex_fail_at(ev->lex, stmt->expr->pos, "the function returns nothing");
    if (!stmt->targets->next) {
        assign(ev, stmt->targets->name, value);
        return SL_OK;
    }
    int i = 0;
    const struct sl_node *node = NULL;
    if (value.kind == SL_VAL_TENSOR &&
        sl_graph_value(ev->graph, value.tensor)->kind == SL_VALUE_NODE)
        node = &ev->graph->nodes.at[sl_graph_value(ev->graph, value.tensor)->node];
    int count = value.kind == SL_VAL_LIST ? value.count : node ? node->out_count : 1;
    for (const struct sl_target *t = stmt->targets; t; t = t->next, i++) {
        if (i >= count)
            return sl_lex_fail_at(ev->lex, t->pos, "there are only %d values to assign", count);
        struct sl_val item = value;
        if (value.kind == SL_VAL_LIST)
            item = value.items[i];
        else if (node)
            item = sl_graph_val_tensor(node->out[i]);
        assign(ev, t->name, item);
    }
    return SL_OK;
}

static sl_err eval_loss(struct sl_eval *ev, const struct sl_stmt *stmt) {
    struct sl_val value;
    double weight = 1;
    char name[SL_NAME_TEXT];
    SL_TRY(sl_graph_eval_expr(ev, stmt->expr, &value));
    if (value.kind != SL_VAL_TENSOR)
        return sl_lex_fail_at(ev->lex, stmt->expr->pos, "a loss is a tensor, this is %s",
                              sl_graph_val_name(&value));
    if (stmt->expr2)
        SL_TRY(sl_graph_eval_number(ev, stmt->expr2, &weight));
    if (ev->graph->losses.count == SL_EVAL_OUTPUTS)
        return sl_lex_fail_at(ev->lex, stmt->pos, "more than %d losses", SL_EVAL_OUTPUTS);
    if (stmt->name.length >= SL_NAME_TEXT)
        return sl_lex_fail_at(ev->lex, stmt->pos, "the name of the loss is too long");
    if (stmt->name.length)
        snprintf(name, sizeof name, "%.*s", (int)stmt->name.length, stmt->name.at);
    else
        snprintf(name, sizeof name, "loss%lld", (long long)ev->graph->losses.count);
    return at(ev, stmt->expr->pos, sl_graph_loss(ev->graph, name, value.tensor, weight));
}

static sl_err eval_output(struct sl_eval *ev, const struct sl_stmt *stmt) {
    struct sl_val value;
    SL_TRY(sl_graph_eval_expr(ev, stmt->expr, &value));
    if (value.kind != SL_VAL_TENSOR)
        return sl_lex_fail_at(ev->lex, stmt->expr->pos, "an output is a tensor, this is %s",
                              sl_graph_val_name(&value));
    if (ev->graph->outputs.count == SL_EVAL_OUTPUTS)
        return sl_lex_fail_at(ev->lex, stmt->pos, "more than %d outputs", SL_EVAL_OUTPUTS);
    const char *name = sl_arena_dup(&ev->graph->arena, stmt->name.at, stmt->name.length);
    return at(ev, stmt->pos, sl_graph_output(ev->graph, name, value.tensor));
}

static sl_err eval_require(struct sl_eval *ev, const struct sl_stmt *stmt) {
    bool holds;
    SL_TRY(eval_condition(ev, stmt->expr, &holds));
    if (!holds)
        return sl_lex_fail_at(ev->lex, stmt->pos, "%.*s", (int)stmt->name.length, stmt->name.at);
    return SL_OK;
}

static sl_err eval_return(struct sl_eval *ev, const struct sl_stmt *stmt) {
    struct sl_val value; /* a copy, because calls in the expression also use ev->result */
    SL_TRY(sl_graph_eval_expr(ev, stmt->expr, &value));
    ev->result = value;
    ev->returned = true;
    return SL_OK;
}

static sl_err eval_stmt(struct sl_eval *ev, const struct sl_stmt *stmt) {
    switch (stmt->kind) {
    case SL_STMT_SIZE: return sl_graph_eval_size(ev, stmt);
    case SL_STMT_USE: return sl_graph_eval_use(ev, stmt);
    case SL_STMT_INPUT: return eval_input(ev, stmt);
    case SL_STMT_PARAM:
    case SL_STMT_STATE: return eval_param(ev, stmt);
    case SL_STMT_REPEAT: return eval_repeat(ev, stmt);
    case SL_STMT_IF: return eval_if(ev, stmt);
    case SL_STMT_ASSIGN: return eval_assign(ev, stmt);
    case SL_STMT_EXPR: return sl_graph_eval_expr(ev, stmt->expr, &(struct sl_val){0});
    case SL_STMT_LOSS: return eval_loss(ev, stmt);
    case SL_STMT_OUTPUT: return eval_output(ev, stmt);
    case SL_STMT_REQUIRE: return eval_require(ev, stmt);
    case SL_STMT_FN: return SL_OK;
    case SL_STMT_RETURN:
        if (ev->depth == 0)
            return sl_lex_fail_at(ev->lex, stmt->pos, "return outside a function");
        return eval_return(ev, stmt);
    case SL_STMT_SCOPE:
        if (ev->frame != &ev->global)
            return sl_lex_fail_at(ev->lex, stmt->pos, "scope is for the top level");
        SL_TRY(check_end(ev, stmt->name, stmt->pos));
        ev->scope = sl_arena_dup(&ev->graph->arena, stmt->name.at, stmt->name.length);
        return SL_OK;
    }
    return SL_OK;
}

sl_err sl_graph_eval_block(struct sl_eval *ev, const struct sl_stmt *body) {
    for (const struct sl_stmt *stmt = body; stmt && !ev->returned; stmt = stmt->next) {
        SL_TRY(sl_graph_eval_step(ev, stmt->pos, 1));
        SL_TRY(eval_stmt(ev, stmt));
    }
    return SL_OK;
}
