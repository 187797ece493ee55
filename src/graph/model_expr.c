/* Parser of expressions, by precedence climbing with limited depth. Operators, from weak to
 * strong:
 *
 *   or < and < not < == != < <= > >= < + - < * / // % < unary - < call, index < atom */
#include "graph/model_ast.h"

struct parser {
    struct sl_lex *lex;
    struct sl_arena *arena;
};

static sl_err parse_whole(struct parser *p, int depth, struct sl_expr **out);

static struct sl_expr *new_expr(struct parser *p, enum sl_expr_kind kind) {
    struct sl_expr *expr = SL_NEW(p->arena, struct sl_expr, 1);
    expr->kind = kind;
    expr->pos = p->lex->tok.pos;
    expr->text = p->lex->tok.text;
    return expr;
}

/* Skips line breaks, which do not end a statement inside brackets. */
static sl_err skip_lines(struct parser *p) { return sl_lex_skip_newlines(p->lex); }

static sl_err parse_args(struct parser *p, const char *close, int depth, struct sl_arg **out) {
    struct sl_arg **tail = out;
    SL_TRY(skip_lines(p));
    for (int count = 0; !sl_lex_is(p->lex, close); count++) {
        if (count == SL_MODEL_LIST)
            return sl_lex_fail(p->lex, "list is longer than %d", SL_MODEL_LIST);
        struct sl_arg *arg = SL_NEW(p->arena, struct sl_arg, 1);
        SL_TRY(parse_whole(p, depth, &arg->value));
        if (sl_lex_is(p->lex, "=") && *close == ')') {
            if (arg->value->kind != SL_EXPR_NAME)
                return sl_lex_fail(p->lex, "expected a name before '='");
            arg->name = arg->value->text;
            SL_TRY(sl_lex_next(p->lex));
            SL_TRY(parse_whole(p, depth, &arg->value));
        }
        *tail = arg;
        tail = &arg->next;
        SL_TRY(skip_lines(p));
        if (!sl_lex_is(p->lex, ","))
            break;
        SL_TRY(sl_lex_next(p->lex));
        SL_TRY(skip_lines(p));
    }
    return sl_lex_expect(p->lex, close);
}

static sl_err parse_atom(struct parser *p, int depth, struct sl_expr **out) {
    struct sl_lex *lex = p->lex;
    char found[64];
    switch (lex->tok.kind) {
    case SL_TOK_INT:
        *out = new_expr(p, SL_EXPR_INT);
        (*out)->integer = lex->tok.integer;
        return sl_lex_next(lex);
    case SL_TOK_FLOAT:
        *out = new_expr(p, SL_EXPR_FLOAT);
        (*out)->number = lex->tok.number;
        return sl_lex_next(lex);
    case SL_TOK_STRING: *out = new_expr(p, SL_EXPR_STRING); return sl_lex_next(lex);
    case SL_TOK_NAME: *out = new_expr(p, SL_EXPR_NAME); return sl_lex_next(lex);
    default: break;
    }
    if (sl_lex_is(lex, "[")) {
        *out = new_expr(p, SL_EXPR_LIST);
        SL_TRY(sl_lex_next(lex));
        return parse_args(p, "]", depth, &(*out)->args);
    }
    if (sl_lex_is(lex, "(")) {
        SL_TRY(sl_lex_next(lex));
        SL_TRY(skip_lines(p));
        SL_TRY(parse_whole(p, depth, out));
        SL_TRY(skip_lines(p));
        return sl_lex_expect(lex, ")");
    }
    return sl_lex_fail(lex, "expected an expression, found %s", sl_lex_found(lex, found));
}

static sl_err parse_instance(struct parser *p, struct sl_expr *call) {
    if (!sl_lex_is_name(p->lex, "as"))
        return SL_OK;
    SL_TRY(sl_lex_next(p->lex));
    return sl_lex_take_name(p->lex, "an instance name", &call->instance);
}

static sl_err parse_postfix(struct parser *p, int depth, struct sl_expr **out) {
    SL_TRY(parse_atom(p, depth, out));
    for (int chain = 0; chain < SL_MODEL_DEPTH; chain++) {
        if (sl_lex_is(p->lex, "(") && (*out)->kind == SL_EXPR_NAME) {
            (*out)->kind = SL_EXPR_CALL;
            SL_TRY(sl_lex_next(p->lex));
            SL_TRY(parse_args(p, ")", depth, &(*out)->args));
            SL_TRY(parse_instance(p, *out));
        } else if (sl_lex_is(p->lex, "[")) {
            struct sl_expr *index = new_expr(p, SL_EXPR_INDEX);
            index->a = *out;
            SL_TRY(sl_lex_next(p->lex));
            SL_TRY(parse_whole(p, depth, &index->b));
            SL_TRY(sl_lex_expect(p->lex, "]"));
            *out = index;
        } else {
            return SL_OK;
        }
    }
    return sl_lex_fail(p->lex, "too many indices in a row");
}

enum level { OR, AND, COMPARE, SUM, PRODUCT };

/* Returns the precedence of the next operator; -1: there is none. */
static int operator_level(const struct sl_lex *lex) {
    struct sl_str text = lex->tok.text;
    if (lex->tok.kind == SL_TOK_NAME)
        return sl_str_is(text, "or") ? OR : sl_str_is(text, "and") ? AND : -1;
    if (lex->tok.kind != SL_TOK_PUNCT)
        return -1;
    switch (text.at[0]) {
    case '=':
    case '!': return text.length == 2 ? COMPARE : -1;
    case '<':
    case '>': return COMPARE;
    case '+':
    case '-': return text.length == 1 ? SUM : -1;
    case '*':
    case '/':
    case '%': return PRODUCT;
    default: return -1;
    }
}

static sl_err parse_operators(struct parser *p, int level, int depth, struct sl_expr **out);

static sl_err parse_unary(struct parser *p, int depth, struct sl_expr **out) {
    bool is_not = sl_lex_is_name(p->lex, "not");
    if (!sl_lex_is(p->lex, "-") && !is_not)
        return parse_postfix(p, depth, out);
    *out = new_expr(p, SL_EXPR_UNARY);
    SL_TRY(sl_lex_next(p->lex));
    if (depth >= SL_MODEL_DEPTH)
        return sl_lex_fail(p->lex, "expression is nested deeper than %d", SL_MODEL_DEPTH);
    if (is_not) /* not a == b means not (a == b) */
        return parse_operators(p, COMPARE, depth + 1, &(*out)->a);
    return parse_unary(p, depth + 1, &(*out)->a);
}

/* Parses operands joined by operators of at least precedence `level`. */
static sl_err parse_operators(struct parser *p, int level, int depth, struct sl_expr **out) {
    SL_TRY(parse_unary(p, depth, out));
    int found;
    for (int chain = 0; (found = operator_level(p->lex)) >= level; chain++) {
        if (chain == SL_MODEL_CHAIN)
            return sl_lex_fail(p->lex, "more than %d operators in a row; give a part a name",
                               SL_MODEL_CHAIN);
        struct sl_expr *binary = new_expr(p, SL_EXPR_BINARY);
        binary->a = *out;
        SL_TRY(sl_lex_next(p->lex));
        SL_TRY(skip_lines(p));
        SL_TRY(parse_operators(p, found + 1, depth, &binary->b));
        *out = binary;
    }
    return SL_OK;
}

static sl_err parse_whole(struct parser *p, int depth, struct sl_expr **out) {
    if (++depth > SL_MODEL_DEPTH)
        return sl_lex_fail(p->lex, "expression is nested deeper than %d", SL_MODEL_DEPTH);
    if (p->arena->used_bytes > SL_MODEL_MEMORY)
        return sl_lex_fail(p->lex, "the text is too large: it takes more than %d MiB to read",
                           SL_MODEL_MEMORY >> 20);
    return parse_operators(p, 0, depth, out);
}

sl_err sl_graph_model_parse_list(struct sl_lex *lex, struct sl_arena *arena, struct sl_expr **out) {
    struct parser p = {lex, arena};
    if (!sl_lex_is(lex, "["))
        return sl_lex_expect(lex, "[");
    return parse_atom(&p, 0, out);
}

sl_err sl_graph_model_parse_expr(struct sl_lex *lex, struct sl_arena *arena, int depth,
                                 struct sl_expr **out) {
    struct parser p = {lex, arena};
    return parse_whole(&p, depth, out);
}
