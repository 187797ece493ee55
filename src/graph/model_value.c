/* Elaborates expressions: numbers, names, lists, arithmetic. Calls are in model_call.c. */
#include "graph/model_eval.h"

#include <math.h>
#include <string.h>

static const char *name_at(const void *ctx, int i) { return ((const char *const *)ctx)[i]; }

/* Returns "; did you mean 'x'?" or "", searching all visible names. */
static const char *suggest_name(struct sl_eval *ev, const char *wanted) {
    SL_VEC(const char *) names = {0};
    for (const struct sl_frame *frame = ev->frame; frame; frame = frame->outer)
        for (int64_t i = 0; i < frame->names.room; i++)
            if (frame->names.slots[i].key.at)
                SL_PUSH(&names, sl_arena_dup(ev->arena, frame->names.slots[i].key.at,
                                             frame->names.slots[i].key.length));
    const char *near = sl_nearest(wanted, (int)names.count, name_at, names.at);
    SL_VEC_FREE(&names);
    return near ? sl_arena_printf(ev->arena, "; did you mean '%s'?", near) : "";
}

static sl_err eval_name(struct sl_eval *ev, const struct sl_expr *expr, struct sl_val *out) {
    struct sl_val *found = sl_graph_frame_find(ev->frame, expr->text);
    if (found) {
        *out = *found;
        return SL_OK;
    }
    if (sl_str_is(expr->text, "B")) {
        *out = (struct sl_val){.kind = SL_VAL_DIM, .dim = {1, true}};
        return SL_OK;
    }
    if (sl_str_is(expr->text, "none")) { /* not an entry: an absent input */
        *out = (struct sl_val){.kind = SL_VAL_NONE};
        return SL_OK;
    }
    size_t length = expr->text.length < 60 ? expr->text.length : 60;
    const char *name = sl_arena_dup(ev->arena, expr->text.at, length);
    return sl_lex_fail_at(ev->lex, expr->pos, "'%s' is not defined%s", name,
                          suggest_name(ev, name));
}

static sl_err eval_list(struct sl_eval *ev, const struct sl_expr *expr, struct sl_val *out) {
    int count = 0;
    for (const struct sl_arg *arg = expr->args; arg; arg = arg->next)
        count++;
    if (count > SL_MODEL_LIST)
        return sl_lex_fail_at(ev->lex, expr->pos, "list is longer than %d", SL_MODEL_LIST);
    SL_TRY(sl_graph_eval_step(ev, expr->pos, count));
    *out = (struct sl_val){.kind = SL_VAL_LIST, .count = count};
    out->items = SL_NEW(ev->arena, struct sl_val, count);
    int i = 0;
    for (const struct sl_arg *arg = expr->args; arg; arg = arg->next)
        SL_TRY(sl_graph_eval_expr(ev, arg->value, &out->items[i++]));
    return SL_OK;
}

static sl_err eval_index(struct sl_eval *ev, const struct sl_expr *expr, struct sl_val *out) {
    struct sl_val list;
    int64_t index;
    SL_TRY(sl_graph_eval_expr(ev, expr->a, &list));
    SL_TRY(sl_graph_eval_int(ev, expr->b, &index));
    if (list.kind != SL_VAL_LIST)
        return sl_lex_fail_at(ev->lex, expr->pos, "only lists have an index, this is %s",
                              sl_graph_val_name(&list));
    if (index < 0)
        index += list.count;
    if (index < 0 || index >= list.count)
        return sl_lex_fail_at(ev->lex, expr->pos, "index is outside a list of %d", list.count);
    *out = list.items[index];
    return SL_OK;
}

/* Adds a node of the op that implements an operator. */
static sl_err emit(struct sl_eval *ev, const struct sl_expr *expr, struct sl_node_spec spec,
                   const char *name, struct sl_val *out) {
    spec.op = ev->options->find_op(sl_str(name));
    if (!spec.op)
        return sl_lex_fail_at(ev->lex, expr->pos, "this build has no op '%s'", name);
    spec.pos = expr->pos;
    int value;
    SL_TRY(sl_graph_eval_node(ev, &spec, &value));
    *out = sl_graph_val_tensor(value);
    return SL_OK;
}

static sl_err tensor_binary(struct sl_eval *ev, const struct sl_expr *expr,
                            const struct sl_val *values, struct sl_val *out) {
    char op = expr->text.length == 1 ? expr->text.at[0] : '?';
    const struct sl_val *a = &values[0], *b = &values[1];
    bool both = a->kind == SL_VAL_TENSOR && b->kind == SL_VAL_TENSOR;
    const char *name = op == '+'   ? "add"
                       : op == '-' ? "sub"
                       : op == '*' ? "mul"
                       : op == '/' ? "div"
                                   : NULL;
    if (both && name) {
        int in[2] = {a->tensor, b->tensor};
        struct sl_node_spec spec = {.in_count = 2, .in = in};
        return emit(ev, expr, spec, name, out);
    }
    const struct sl_val *tensor = a->kind == SL_VAL_TENSOR ? a : b, *other = tensor == a ? b : a;
    bool number = other->kind == SL_VAL_FLOAT || (other->kind == SL_VAL_DIM && !other->dim.batch);
    if (!both && number && (op == '*' || (op == '/' && tensor == a))) {
        double by = other->kind == SL_VAL_FLOAT ? other->number : (double)other->dim.n;
        union sl_attr attr[SL_MAX_ATTR] = {{.f = (op == '*' ? by : 1 / by) + 0.0}};
        struct sl_node_spec spec = {.in_count = 1, .in = &tensor->tensor, .attr = attr};
        if (!isfinite(attr[0].f))
            return sl_lex_fail_at(ev->lex, expr->pos, "division by zero");
        return emit(ev, expr, spec, "scale", out);
    }
    return sl_lex_fail_at(ev->lex, expr->pos, "cannot compute %s %.*s %s", sl_graph_val_name(a),
                          (int)expr->text.length, expr->text.at, sl_graph_val_name(b));
}

static sl_err list_binary(struct sl_eval *ev, const struct sl_expr *expr,
                          const struct sl_val *values, struct sl_val *out) {
    const struct sl_val *a = &values[0], *b = &values[1];
    if (!sl_str_is(expr->text, "+") || a->kind != SL_VAL_LIST || b->kind != SL_VAL_LIST)
        return sl_lex_fail_at(ev->lex, expr->pos, "lists can only be joined: list + list");
    if (a->count + b->count > SL_MODEL_LIST)
        return sl_lex_fail_at(ev->lex, expr->pos, "list is longer than %d", SL_MODEL_LIST);
    SL_TRY(sl_graph_eval_step(ev, expr->pos, a->count + b->count));
    *out = (struct sl_val){.kind = SL_VAL_LIST, .count = a->count + b->count};
    out->items = SL_NEW(ev->arena, struct sl_val, out->count);
    if (a->count)
        memcpy(out->items, a->items, sizeof *a->items * (size_t)a->count);
    if (b->count)
        memcpy(out->items + a->count, b->items, sizeof *b->items * (size_t)b->count);
    return SL_OK;
}

static sl_err dim_divide(struct sl_eval *ev, const struct sl_expr *expr, struct sl_dim a,
                         struct sl_dim b, struct sl_val *out) {
    if (b.n == 0)
        return sl_lex_fail_at(ev->lex, expr->pos, "division by zero");
    if (b.batch)
        return sl_lex_fail_at(ev->lex, expr->pos, "cannot divide by B");
    out->dim.batch = a.batch;
    if (sl_str_is(expr->text, "%") || sl_str_is(expr->text, "//")) {
        if (a.batch)
            return sl_lex_fail_at(ev->lex, expr->pos, "B is not known here; use '/'");
        int64_t quotient = a.n / b.n - ((a.n % b.n != 0) && ((a.n < 0) != (b.n < 0)));
        out->dim.n = expr->text.length == 2 ? quotient : a.n - quotient * b.n;
        return SL_OK;
    }
    if (a.n % b.n)
        return sl_lex_fail_at(ev->lex, expr->pos,
                              "%lld does not divide by %lld; write '//' to round down or use a "
                              "decimal point for a fraction",
                              (long long)a.n, (long long)b.n);
    out->dim.n = a.n / b.n;
    return SL_OK;
}

static sl_err dim_binary(struct sl_eval *ev, const struct sl_expr *expr, struct sl_dim a,
                         struct sl_dim b, struct sl_val *out) {
    bool overflow = false;
    *out = sl_graph_val_int(0);
    switch (expr->text.at[0]) {
    case '+':
    case '-':
        if (a.batch != b.batch && a.n && b.n)
            return sl_lex_fail_at(ev->lex, expr->pos, "cannot add a multiple of B and a number");
        out->dim.batch = a.batch || b.batch;
        overflow = expr->text.at[0] == '+' ? __builtin_add_overflow(a.n, b.n, &out->dim.n)
                                           : __builtin_sub_overflow(a.n, b.n, &out->dim.n);
        break;
    case '*':
        if (a.batch && b.batch)
            return sl_lex_fail_at(ev->lex, expr->pos, "B * B has no meaning");
        out->dim.batch = a.batch || b.batch;
        overflow = __builtin_mul_overflow(a.n, b.n, &out->dim.n);
        break;
    default: return dim_divide(ev, expr, a, b, out);
    }
    if (overflow || out->dim.n > SL_MAX_NUMEL || out->dim.n < -SL_MAX_NUMEL)
        return sl_lex_fail_at(ev->lex, expr->pos, "the number is out of range");
    return SL_OK;
}

static sl_err float_binary(struct sl_eval *ev, const struct sl_expr *expr, double a, double b,
                           struct sl_val *out) {
    *out = (struct sl_val){.kind = SL_VAL_FLOAT};
    if (sl_str_is(expr->text, "+"))
        out->number = a + b;
    else if (sl_str_is(expr->text, "-"))
        out->number = a - b;
    else if (sl_str_is(expr->text, "*"))
        out->number = a * b;
    else if (sl_str_is(expr->text, "/"))
        out->number = a / b;
    else if (sl_str_is(expr->text, "//"))
        out->number = floor(a / b);
    else
        out->number = fmod(a, b);
    if (!isfinite(out->number))
        return sl_lex_fail_at(ev->lex, expr->pos, "the number is out of range");
    return SL_OK;
}

static bool compare(struct sl_str op, double a, double b) {
    if (sl_str_is(op, "=="))
        return a == b;
    if (sl_str_is(op, "!="))
        return a != b;
    if (sl_str_is(op, "<"))
        return a < b;
    if (sl_str_is(op, "<="))
        return a <= b;
    return sl_str_is(op, ">") ? a > b : a >= b;
}

static bool is_comparison(struct sl_str op) {
    return op.at[0] == '<' || op.at[0] == '>' || op.at[0] == '!' || op.at[0] == '=';
}

sl_err sl_graph_eval_binary(struct sl_eval *ev, const struct sl_expr *expr, struct sl_val *values,
                            struct sl_val *out) {
    const struct sl_val *a = &values[0], *b = &values[1];
    bool is_equal = sl_str_is(expr->text, "=="), is_test = is_equal || sl_str_is(expr->text, "!=");
    if (is_test && (a->kind == SL_VAL_NONE || b->kind == SL_VAL_NONE)) {
        *out = sl_graph_val_int((a->kind == b->kind) == is_equal);
        return SL_OK;
    }
    if (is_test && a->kind == SL_VAL_STRING && b->kind == SL_VAL_STRING) {
        *out = sl_graph_val_int(sl_str_equal(a->string, b->string) == is_equal);
        return SL_OK;
    }
    if (a->kind == SL_VAL_LIST || b->kind == SL_VAL_LIST)
        return list_binary(ev, expr, values, out);
    if (a->kind == SL_VAL_TENSOR || b->kind == SL_VAL_TENSOR)
        return tensor_binary(ev, expr, values, out);
    bool numbers = (a->kind == SL_VAL_DIM || a->kind == SL_VAL_FLOAT) &&
                   (b->kind == SL_VAL_DIM || b->kind == SL_VAL_FLOAT);
    bool batch = (a->kind == SL_VAL_DIM && a->dim.batch) || (b->kind == SL_VAL_DIM && b->dim.batch);
    bool dims = a->kind == SL_VAL_DIM && b->kind == SL_VAL_DIM;
    if (!numbers || (batch && (is_comparison(expr->text) || !dims)))
        return sl_lex_fail_at(ev->lex, expr->pos, "cannot compute %s %.*s %s", sl_graph_val_name(a),
                              (int)expr->text.length, expr->text.at, sl_graph_val_name(b));
    double x = a->kind == SL_VAL_DIM ? (double)a->dim.n : a->number;
    double y = b->kind == SL_VAL_DIM ? (double)b->dim.n : b->number;
    if (is_comparison(expr->text)) {
        *out = sl_graph_val_int(compare(expr->text, x, y));
        return SL_OK;
    }
    return dims ? dim_binary(ev, expr, a->dim, b->dim, out) : float_binary(ev, expr, x, y, out);
}

static sl_err eval_logic(struct sl_eval *ev, const struct sl_expr *expr, struct sl_val *out) {
    double a, b;
    bool is_or = sl_str_is(expr->text, "or");
    SL_TRY(sl_graph_eval_number(ev, expr->a, &a));
    if ((a != 0) == is_or) {
        *out = sl_graph_val_int(is_or);
        return SL_OK;
    }
    SL_TRY(sl_graph_eval_number(ev, expr->b, &b));
    *out = sl_graph_val_int(b != 0);
    return SL_OK;
}

static sl_err eval_unary(struct sl_eval *ev, const struct sl_expr *expr, struct sl_val *out) {
    if (sl_str_is(expr->text, "not")) {
        double number;
        SL_TRY(sl_graph_eval_number(ev, expr->a, &number));
        *out = sl_graph_val_int(number == 0);
        return SL_OK;
    }
    SL_TRY(sl_graph_eval_expr(ev, expr->a, out));
    if (out->kind == SL_VAL_FLOAT) {
        out->number = -out->number;
        return SL_OK;
    }
    if (out->kind == SL_VAL_DIM && !out->dim.batch) {
        out->dim.n = -out->dim.n;
        return SL_OK;
    }
    if (out->kind != SL_VAL_TENSOR)
        return sl_lex_fail_at(ev->lex, expr->pos, "cannot negate %s", sl_graph_val_name(out));
    union sl_attr attr[SL_MAX_ATTR] = {{.f = -1}};
    int tensor = out->tensor;
    struct sl_node_spec spec = {.in_count = 1, .in = &tensor, .attr = attr};
    return emit(ev, expr, spec, "scale", out);
}

static sl_err eval_operator(struct sl_eval *ev, const struct sl_expr *expr, struct sl_val *out) {
    struct sl_val values[2];
    if (sl_str_is(expr->text, "or") || sl_str_is(expr->text, "and"))
        return eval_logic(ev, expr, out);
    SL_TRY(sl_graph_eval_expr(ev, expr->a, &values[0]));
    SL_TRY(sl_graph_eval_expr(ev, expr->b, &values[1]));
    return sl_graph_eval_binary(ev, expr, values, out);
}

static sl_err eval_kind(struct sl_eval *ev, const struct sl_expr *expr, struct sl_val *out) {
    switch (expr->kind) {
    case SL_EXPR_INT:
        if (expr->integer > SL_MAX_NUMEL)
            return sl_lex_fail_at(ev->lex, expr->pos, "the number is out of range");
        *out = sl_graph_val_int(expr->integer);
        return SL_OK;
    case SL_EXPR_FLOAT:
        *out = (struct sl_val){.kind = SL_VAL_FLOAT, .number = expr->number};
        return SL_OK;
    case SL_EXPR_STRING:
        *out = (struct sl_val){.kind = SL_VAL_STRING, .string = expr->text};
        return SL_OK;
    case SL_EXPR_NAME: return eval_name(ev, expr, out);
    case SL_EXPR_LIST: return eval_list(ev, expr, out);
    case SL_EXPR_CALL: return sl_graph_eval_call(ev, expr, out);
    case SL_EXPR_INDEX: return eval_index(ev, expr, out);
    case SL_EXPR_UNARY: return eval_unary(ev, expr, out);
    case SL_EXPR_BINARY: break;
    }
    return eval_operator(ev, expr, out);
}

sl_err sl_graph_eval_expr(struct sl_eval *ev, const struct sl_expr *expr, struct sl_val *out) {
    if (ev->nesting >= SL_EVAL_NESTING)
        return sl_lex_fail_at(ev->lex, expr->pos, "calls and expressions are nested deeper than %d",
                              SL_EVAL_NESTING);
    ev->nesting++;
    sl_err err = eval_kind(ev, expr, out);
    ev->nesting--;
    return err;
}
