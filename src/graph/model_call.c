/* Elaborates calls: functions of the text, built-in functions, ops of the registry. */
#include "graph/model_eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

sl_err sl_graph_eval_node(struct sl_eval *ev, const struct sl_node_spec *given, int *out) {
    struct sl_node_spec spec = *given;
    spec.scope = ev->scope;
    sl_err err = sl_graph_node(ev->graph, &spec, out);
    return err == SL_OK ? err : sl_lex_fail_at(ev->lex, spec.pos, "%s", sl_err_message());
}

/* ---- functions of the text ---- */

static sl_err bind_named(struct sl_eval *ev, const struct sl_stmt *fn, const struct sl_arg *arg,
                         struct sl_frame *frame) {
    struct sl_val value;
    for (const struct sl_fn_param *p = fn->params; p; p = p->next) {
        if (!sl_str_equal(p->name, arg->name))
            continue;
        if (sl_map_find(&frame->names, p->name))
            return sl_lex_fail_at(ev->lex, arg->value->pos, "'%.*s' is given twice",
                                  (int)p->name.length, p->name.at);
        SL_TRY(sl_graph_eval_expr(ev, arg->value, &value));
        sl_graph_frame_put(frame, p->name, value);
        return SL_OK;
    }
    return sl_lex_fail_at(ev->lex, arg->value->pos, "%.*s has no argument '%.*s'",
                          (int)fn->name.length, fn->name.at, (int)arg->name.length, arg->name.at);
}

static sl_err bind_args(struct sl_eval *ev, const struct sl_expr *call, const struct sl_stmt *fn,
                        struct sl_frame *frame) {
    const struct sl_fn_param *p = fn->params;
    struct sl_val value;
    for (const struct sl_arg *arg = call->args; arg; arg = arg->next) {
        if (arg->name.length) {
            SL_TRY(bind_named(ev, fn, arg, frame));
            continue;
        }
        if (!p)
            return sl_lex_fail_at(ev->lex, arg->value->pos, "too many arguments for %.*s",
                                  (int)fn->name.length, fn->name.at);
        SL_TRY(sl_graph_eval_expr(ev, arg->value, &value));
        sl_graph_frame_put(frame, p->name, value);
        p = p->next;
    }
    for (p = fn->params; p; p = p->next) {
        if (sl_map_find(&frame->names, p->name))
            continue;
        if (!p->fallback)
            return sl_lex_fail_at(ev->lex, call->pos, "%.*s: argument '%.*s' is missing",
                                  (int)fn->name.length, fn->name.at, (int)p->name.length,
                                  p->name.at);
        SL_TRY(sl_graph_eval_expr(ev, p->fallback, &value));
        sl_graph_frame_put(frame, p->name, value);
    }
    return SL_OK;
}

/* Runs the body in a frame whose outer frame is the global one, in the scope of the instance. */
static sl_err run_function(struct sl_eval *ev, const struct sl_expr *call, const struct sl_stmt *fn,
                           struct sl_frame *frame) {
    struct sl_frame *caller = ev->frame;
    const char *outside = ev->scope;
    struct sl_str instance = call->instance.length ? call->instance : fn->name;
    if (ev->depth >= SL_MODEL_DEPTH)
        return sl_lex_fail_at(ev->lex, call->pos, "calls are nested deeper than %d (recursion?)",
                              SL_MODEL_DEPTH);
    if (!sl_str_is(instance, "_"))
        SL_TRY(sl_graph_eval_path(ev, instance, call->pos, &ev->scope));
    frame->outer = &ev->global;
    ev->frame = frame;
    ev->depth++;
    ev->result = (struct sl_val){0};
    sl_err err = sl_graph_eval_block(ev, fn->body);
    ev->returned = false;
    ev->depth--;
    ev->frame = caller;
    ev->scope = outside;
    return err;
}

static sl_err call_function(struct sl_eval *ev, const struct sl_expr *call,
                            const struct sl_stmt *fn, struct sl_val *out) {
    struct sl_frame frame = {0};
    sl_err err = bind_args(ev, call, fn, &frame);
    if (err == SL_OK)
        err = run_function(ev, call, fn, &frame);
    sl_graph_frame_free(&frame);
    *out = ev->result;
    ev->result = (struct sl_val){0};
    return err;
}

/* ---- built-in functions ---- */

static double builtin_log2(double x) { return log2(x); }

static const struct math_function {
    const char *name;
    double (*call)(double);
    bool whole; /* the result is an integer */
} math_functions[] = {
    {"ceil", ceil, true},   {"cos", cos, false},           {"exp", exp, false},
    {"floor", floor, true}, {"log2", builtin_log2, false}, {"round", round, true},
    {"sqrt", sqrt, false},
};

static sl_err call_math(struct sl_eval *ev, const struct sl_expr *call,
                        const struct math_function *function, struct sl_val *out) {
    double x;
    struct sl_val value;
    const struct sl_op *op = ev->options->find_op(call->text);
    if (!call->args || call->args->next || call->args->name.length)
        return sl_lex_fail_at(ev->lex, call->pos, "%s takes one number", function->name);
    SL_TRY(sl_graph_eval_expr(ev, call->args->value, &value));
    if (value.kind == SL_VAL_TENSOR && op) { /* the op with the same name */
        int tensor;
        struct sl_node_spec spec = {.op = op, .in_count = 1, .in = &value.tensor, .pos = call->pos};
        SL_TRY(sl_graph_eval_node(ev, &spec, &tensor));
        *out = sl_graph_val_tensor(tensor);
        return SL_OK;
    }
    SL_TRY(sl_graph_eval_as_number(ev, call->args->value->pos, &value, &x));
    x = function->call(x);
    if (!isfinite(x) || (function->whole && fabs(x) > 1e15))
        return sl_lex_fail_at(ev->lex, call->pos, "%s: the number is out of range", function->name);
    *out = function->whole ? sl_graph_val_int((int64_t)x)
                           : (struct sl_val){.kind = SL_VAL_FLOAT, .number = x};
    return SL_OK;
}

static sl_err best_number(struct sl_eval *ev, const struct sl_expr *call, struct sl_val *out) {
    bool is_min = sl_str_is(call->text, "min");
    double best = 0, x;
    for (const struct sl_arg *arg = call->args; arg; arg = arg->next) {
        struct sl_val value;
        SL_TRY(sl_graph_eval_expr(ev, arg->value, &value));
        SL_TRY(sl_graph_eval_as_number(ev, arg->value->pos, &value, &x));
        if (arg == call->args || (is_min ? x < best : x > best)) {
            best = x;
            *out = value;
        }
    }
    return SL_OK;
}

/* min and max: of two tensors, the op of this name; of numbers, the smaller or larger number. */
static sl_err call_min_max(struct sl_eval *ev, const struct sl_expr *call, struct sl_val *out) {
    struct sl_val first;
    const struct sl_op *op = ev->options->find_op(call->text);
    if (!call->args)
        return sl_lex_fail_at(ev->lex, call->pos, "min and max take at least one number");
    SL_TRY(sl_graph_eval_expr(ev, call->args->value, &first));
    return first.kind == SL_VAL_TENSOR && op ? sl_graph_eval_op(ev, call, op, out)
                                             : best_number(ev, call, out);
}

/* The built-in functions dim(x, axis), rank(x), len(list). */
static sl_err call_shape(struct sl_eval *ev, const struct sl_expr *call, struct sl_val *out) {
    struct sl_val value;
    int64_t axis;
    bool is_dim = sl_str_is(call->text, "dim");
    if (!call->args || (is_dim != (call->args->next != NULL)))
        return sl_lex_fail_at(ev->lex, call->pos, "use dim(x, axis), rank(x) or len(list)");
    SL_TRY(sl_graph_eval_expr(ev, call->args->value, &value));
    if (sl_str_is(call->text, "len") && value.kind == SL_VAL_LIST) {
        *out = sl_graph_val_int(value.count);
        return SL_OK;
    }
    if (value.kind != SL_VAL_TENSOR || sl_str_is(call->text, "len"))
        return sl_lex_fail_at(ev->lex, call->pos, "%.*s of %s", (int)call->text.length,
                              call->text.at, sl_graph_val_name(&value));
    const struct sl_shape *shape = &sl_graph_value(ev->graph, value.tensor)->shape;
    if (!is_dim) {
        *out = sl_graph_val_int(shape->rank);
        return SL_OK;
    }
    SL_TRY(sl_graph_eval_int(ev, call->args->next->value, &axis));
    if (axis < -shape->rank || axis >= shape->rank)
        return sl_lex_fail_at(ev->lex, call->pos, "axis is outside a tensor of rank %d",
                              shape->rank);
    *out = (struct sl_val){.kind = SL_VAL_DIM, .dim = sl_graph_shape_dim(shape, (int)axis)};
    return SL_OK;
}

/* ---- initialisers: zeros, ones, const(c), normal(std[, mean]), uniform(from, to), stored */

static const struct initialiser {
    const char *name, *form;
    enum sl_init_kind kind;
    int least, max; /* least and largest number of arguments */
} initialisers[] = {
    {"zeros", "zeros", SL_INIT_CONST, 0, 0},
    {"ones", "ones", SL_INIT_CONST, 0, 0},
    {"const", "const(c)", SL_INIT_CONST, 1, 1},
    {"normal", "normal(std) or normal(std, mean)", SL_INIT_NORMAL, 1, 2},
    {"uniform", "uniform(from, to)", SL_INIT_UNIFORM, 2, 2},
    {"stored", "stored", SL_INIT_STORED, 0, 0},
};

sl_err sl_graph_eval_init(struct sl_eval *ev, const struct sl_expr *expr, struct sl_init *out) {
    const struct initialiser *found = NULL;
    double number[2] = {0, 0};
    int count = 0;
    bool call = expr->kind == SL_EXPR_CALL || expr->kind == SL_EXPR_NAME;
    for (int i = 0; call && i < SL_COUNT(initialisers); i++)
        if (sl_str_is(expr->text, initialisers[i].name))
            found = &initialisers[i];
    if (!found)
        return sl_lex_fail_at(ev->lex, expr->pos,
                              "expected an initialiser: zeros, ones, const(c), normal(std), "
                              "uniform(from, to), stored");
    for (const struct sl_arg *arg = expr->args; arg; arg = arg->next) {
        if (count == found->max || arg->name.length)
            return sl_lex_fail_at(ev->lex, arg->value->pos, "write %s", found->form);
        SL_TRY(sl_graph_eval_number(ev, arg->value, &number[count++]));
    }
    if (count < found->least)
        return sl_lex_fail_at(ev->lex, expr->pos, "write %s", found->form);
    *out = (struct sl_init){found->kind, sl_str_is(expr->text, "ones") ? 1 : number[0] + 0.0,
                            number[1] + 0.0};
    return SL_OK;
}

static const char *function_name(const void *ctx, int i) { return ((const char *const *)ctx)[i]; }

/* Fails for an unknown name; suggests the nearest function of the text, else the nearest op. */
static sl_err fail_unknown(struct sl_eval *ev, const struct sl_expr *call) {
    size_t length = call->text.length < 60 ? call->text.length : 60;
    const char *name = sl_arena_dup(ev->arena, call->text.at, length);
    const char **names = SL_NEW(ev->arena, const char *, ev->fns.count + 1);
    for (int64_t i = 0; i < ev->fns.count; i++)
        names[i] = sl_arena_dup(ev->arena, ev->fns.at[i]->name.at, ev->fns.at[i]->name.length);
    const char *near = sl_nearest(name, (int)ev->fns.count, function_name, names);
    near = near ? near : ev->options->nearest_op(name);
    return sl_lex_fail_at(ev->lex, call->pos, "unknown op or function '%s'%s%s%s", name,
                          near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

sl_err sl_graph_eval_call(struct sl_eval *ev, const struct sl_expr *call, struct sl_val *out) {
    SL_TRY(sl_graph_eval_step(ev, call->pos, 1));
    int64_t *fn = sl_map_find(&ev->functions, call->text);
    if (fn)
        return call_function(ev, call, ev->fns.at[*fn], out);
    if (sl_str_is(call->text, "min") || sl_str_is(call->text, "max"))
        return call_min_max(ev, call, out);
    if (sl_str_is(call->text, "dim") || sl_str_is(call->text, "rank") ||
        sl_str_is(call->text, "len"))
        return call_shape(ev, call, out);
    for (int i = 0; i < SL_COUNT(math_functions); i++)
        if (sl_str_is(call->text, math_functions[i].name))
            return call_math(ev, call, &math_functions[i], out);
    const struct sl_op *op = ev->options->find_op(call->text);
    if (op && !op->internal)
        return sl_graph_eval_op(ev, call, op, out);
    return fail_unknown(ev, call);
}
