/* Elaborates an op call: tensors become inputs, all other arguments attributes.
 *
 * Positional tensors (and lists of tensors) are inputs in order; positional numbers, strings and
 * lists of sizes are attributes in the order of the op's table; named arguments are either. */
#include "graph/model_eval.h"

#include <stdio.h>
#include <string.h>

struct op_call {
    const struct sl_op *op;
    const struct sl_expr *call;
    int in[SL_MAX_IN];
    int in_count;
    union sl_attr attr[SL_MAX_ATTR];
    unsigned given; /* bit i: attribute i was given */
};

static sl_err add_input(struct sl_eval *ev, struct op_call *c, int at, int tensor,
                        struct sl_pos pos) {
    if (at >= SL_MAX_IN)
        return sl_lex_fail_at(ev->lex, pos, "%s takes at most %d tensors", c->op->name, SL_MAX_IN);
    while (c->in_count <= at)
        c->in[c->in_count++] = -1;
    if (c->in[at] >= 0)
        return sl_lex_fail_at(ev->lex, pos, "%s: input %d is given twice", c->op->name, at);
    c->in[at] = tensor;
    return SL_OK;
}

static sl_err set_list(struct sl_eval *ev, const struct sl_attr_desc *desc,
                       const struct sl_val *value, struct sl_pos pos, union sl_attr *out) {
    if (value->count > SL_MAX_RANK)
        return sl_lex_fail_at(ev->lex, pos, "'%s' has more than %d items", desc->name, SL_MAX_RANK);
    for (int i = 0; i < value->count; i++) {
        const struct sl_val *item = &value->items[i];
        bool batch = item->kind == SL_VAL_DIM && item->dim.batch;
        if (item->kind != SL_VAL_DIM || (batch && desc->kind == SL_ATTR_INTS))
            return sl_lex_fail_at(ev->lex, pos, "item %d of '%s' is %s", i + 1, desc->name,
                                  sl_graph_val_name(item));
        if (desc->kind == SL_ATTR_INTS)
            out->ints.at[i] = item->dim.n;
        else
            sl_graph_shape_set(&out->shape, i, item->dim);
    }
    if (desc->kind == SL_ATTR_INTS)
        out->ints.count = value->count;
    else
        out->shape.rank = value->count;
    return SL_OK;
}

static sl_err set_attr(struct sl_eval *ev, struct op_call *c, int index, const struct sl_val *value,
                       struct sl_pos pos) {
    const struct sl_attr_desc *desc = &c->op->attrs[index];
    union sl_attr *attr = &c->attr[index];
    bool whole = value->kind == SL_VAL_DIM && !value->dim.batch;
    if (c->given >> index & 1)
        return sl_lex_fail_at(ev->lex, pos, "%s: '%s' is given twice", c->op->name, desc->name);
    c->given |= 1u << index;
    memset(attr, 0, sizeof *attr);
    switch (desc->kind) {
    case SL_ATTR_BOOL:
    case SL_ATTR_INT:
        attr->i = value->dim.n;
        if (whole && (desc->kind == SL_ATTR_INT || attr->i == 0 || attr->i == 1))
            return SL_OK;
        break;
    case SL_ATTR_FLOAT:
        /* plus 0, so that -0 becomes 0 */
        attr->f = (whole ? (double)value->dim.n : value->number) + 0.0;
        if (whole || value->kind == SL_VAL_FLOAT)
            return SL_OK;
        break;
    case SL_ATTR_ENUM:
        if (value->kind == SL_VAL_STRING)
            attr->i = sl_graph_attr_choice(desc, value->string);
        if (value->kind == SL_VAL_STRING && attr->i >= 0)
            return SL_OK;
        return sl_lex_fail_at(ev->lex, pos, "%s: '%s' is one of \"%s\"", c->op->name, desc->name,
                              desc->choices);
    case SL_ATTR_INTS:
        if (whole) { /* a single number is a list of one item */
            attr->ints = (struct sl_ints){.count = 1, .at = {value->dim.n}};
            return SL_OK;
        }
        if (value->kind == SL_VAL_LIST)
            return set_list(ev, desc, value, pos, attr);
        break;
    case SL_ATTR_SHAPE:
        if (value->kind == SL_VAL_LIST)
            return set_list(ev, desc, value, pos, attr);
        break;
    }
    return sl_lex_fail_at(ev->lex, pos, "%s: '%s' cannot be %s", c->op->name, desc->name,
                          sl_graph_val_name(value));
}

static bool is_tensor_list(const struct sl_val *value) {
    return value->kind == SL_VAL_LIST && value->count > 0 && value->items[0].kind == SL_VAL_TENSOR;
}

static sl_err add_list(struct sl_eval *ev, struct op_call *c, const struct sl_val *list,
                       struct sl_pos pos) {
    for (int i = 0; i < list->count; i++) {
        if (list->items[i].kind != SL_VAL_TENSOR)
            return sl_lex_fail_at(ev->lex, pos, "item %d of the list is %s, expected a tensor",
                                  i + 1, sl_graph_val_name(&list->items[i]));
        SL_TRY(add_input(ev, c, c->in_count, list->items[i].tensor, pos));
    }
    return SL_OK;
}

static const char *attr_name(const void *ctx, int i) {
    const struct sl_op *op = ctx;
    return op->attrs[i].name;
}

static sl_err add_named(struct sl_eval *ev, struct op_call *c, const struct sl_arg *arg,
                        const struct sl_val *value) {
    struct sl_pos pos = arg->value->pos;
    int index = sl_graph_op_find_attr(c->op, arg->name);
    if (index >= 0)
        return set_attr(ev, c, index, value, pos);
    index = sl_graph_op_find_input(c->op, arg->name);
    if (index >= 0 && value->kind == SL_VAL_NONE)
        return SL_OK;
    if (index >= 0 && value->kind == SL_VAL_TENSOR)
        return add_input(ev, c, index, value->tensor, pos);
    if (index >= 0)
        return sl_lex_fail_at(ev->lex, pos, "%s: input '%.*s' is %s, expected a tensor",
                              c->op->name, (int)arg->name.length, arg->name.at,
                              sl_graph_val_name(value));
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(arg->name.length < 60 ? arg->name.length : 60),
             arg->name.at);
    const char *near = sl_nearest(name, sl_graph_op_attr_count(c->op), attr_name, c->op);
    return sl_lex_fail_at(ev->lex, pos, "%s has no input or attribute '%s'%s%s%s", c->op->name,
                          name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static sl_err add_positional(struct sl_eval *ev, struct op_call *c, const struct sl_val *value,
                             struct sl_pos pos) {
    if (value->kind == SL_VAL_TENSOR)
        return add_input(ev, c, c->in_count, value->tensor, pos);
    if (value->kind == SL_VAL_NONE)
        return add_input(ev, c, c->in_count, -1, pos);
    if (is_tensor_list(value))
        return add_list(ev, c, value, pos);
    for (int i = 0; c->op->attrs && c->op->attrs[i].name; i++)
        if (!(c->given >> i & 1))
            return set_attr(ev, c, i, value, pos);
    return sl_lex_fail_at(ev->lex, pos, "%s does not take %s here", c->op->name,
                          sl_graph_val_name(value));
}

sl_err sl_graph_eval_op(struct sl_eval *ev, const struct sl_expr *call, const struct sl_op *op,
                        struct sl_val *out) {
    struct op_call c = {.op = op, .call = call};
    struct sl_val value;
    int tensor;
    if (call->instance.length)
        return sl_lex_fail_at(ev->lex, call->pos, "'as' names instances of functions; %s is an op",
                              op->name);
    for (const struct sl_arg *arg = call->args; arg; arg = arg->next) {
        SL_TRY(sl_graph_eval_expr(ev, arg->value, &value));
        if (arg->name.length)
            SL_TRY(add_named(ev, &c, arg, &value));
        else
            SL_TRY(add_positional(ev, &c, &value, arg->value->pos));
    }
    while (c.in_count && c.in[c.in_count - 1] < 0) /* drops absent inputs at the end */
        c.in_count--;
    if (sl_graph_op_defaults(op, c.given, c.attr) != SL_OK)
        return sl_lex_fail_at(ev->lex, call->pos, "%s", sl_err_message());
    struct sl_node_spec spec = {
        .op = op, .in_count = c.in_count, .in = c.in, .attr = c.attr, .pos = call->pos};
    SL_TRY(sl_graph_eval_node(ev, &spec, &tensor));
    *out = sl_graph_val_tensor(tensor);
    return SL_OK;
}
