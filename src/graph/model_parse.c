/* Parser of model statements; expressions are in model_expr.c. */
#include "graph/model_ast.h"

struct parser {
    struct sl_lex *lex;
    struct sl_arena *arena;
    int depth; /* depth of blocks */
};

static sl_err parse_block(struct parser *p, struct sl_stmt **out);
static sl_err parse_statement(struct parser *p, struct sl_stmt ***tail);

static sl_err parse_expr(struct parser *p, struct sl_expr **out) {
    return sl_graph_model_parse_expr(p->lex, p->arena, 0, out);
}

static struct sl_stmt *new_stmt(struct parser *p, enum sl_stmt_kind kind) {
    struct sl_stmt *stmt = SL_NEW(p->arena, struct sl_stmt, 1);
    stmt->kind = kind;
    stmt->pos = p->lex->tok.pos;
    return stmt;
}

static void append(struct sl_stmt ***tail, struct sl_stmt *stmt) {
    **tail = stmt;
    *tail = &stmt->next;
}

/* Parses: size V = 50257, T = 1024 */
static sl_err parse_size(struct parser *p, struct sl_stmt ***tail) {
    do {
        SL_TRY(sl_lex_next(p->lex)); /* skips `size` or the comma */
        SL_TRY(sl_lex_skip_newlines(p->lex));
        struct sl_stmt *stmt = new_stmt(p, SL_STMT_SIZE);
        SL_TRY(sl_lex_take_name(p->lex, "the name of a size", &stmt->name));
        SL_TRY(sl_lex_expect(p->lex, "="));
        SL_TRY(parse_expr(p, &stmt->expr));
        append(tail, stmt);
    } while (sl_lex_is(p->lex, ","));
    return SL_OK;
}

/* Parses: input tokens : int[B, T] < V */
static sl_err parse_input(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_INPUT);
    struct sl_str type;
    SL_TRY(sl_lex_next(p->lex));
    SL_TRY(sl_lex_take_name(p->lex, "the name of an input", &stmt->name));
    SL_TRY(sl_lex_expect(p->lex, ":"));
    struct sl_pos pos = p->lex->tok.pos;
    SL_TRY(sl_lex_take_name(p->lex, "'int' or 'float'", &type));
    stmt->is_int = sl_str_is(type, "int");
    if (!stmt->is_int && !sl_str_is(type, "float"))
        return sl_lex_fail_at(p->lex, pos, "the type of an input is 'int' or 'float', not '%.*s'",
                              (int)type.length, type.at);
    SL_TRY(sl_graph_model_parse_list(p->lex, p->arena, &stmt->list));
    if (sl_lex_is(p->lex, "<")) {
        SL_TRY(sl_lex_next(p->lex));
        SL_TRY(parse_expr(p, &stmt->expr2));
    }
    append(tail, stmt);
    return SL_OK;
}

/* Parses: param w[n, k] ~ normal(0.02)     param w[n] ~ zeros frozen     state mean[C] ~ zeros */
static sl_err parse_param(struct parser *p, enum sl_stmt_kind kind, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, kind);
    SL_TRY(sl_lex_next(p->lex));
    SL_TRY(sl_lex_take_name(p->lex, "the name of a parameter", &stmt->name));
    SL_TRY(sl_graph_model_parse_list(p->lex, p->arena, &stmt->list));
    SL_TRY(sl_lex_expect(p->lex, "~"));
    SL_TRY(parse_expr(p, &stmt->expr));
    stmt->is_frozen = kind == SL_STMT_PARAM && sl_lex_is_name(p->lex, "frozen");
    if (stmt->is_frozen)
        SL_TRY(sl_lex_next(p->lex));
    append(tail, stmt);
    return SL_OK;
}

/* Parses: fn name(x, n = 3) { body } */
static sl_err parse_fn(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_FN);
    struct sl_fn_param **last = &stmt->params;
    if (p->depth > 0)
        return sl_lex_fail(p->lex, "functions are defined at the top level only");
    SL_TRY(sl_lex_next(p->lex));
    SL_TRY(sl_lex_take_name(p->lex, "the name of a function", &stmt->name));
    SL_TRY(sl_lex_expect(p->lex, "("));
    SL_TRY(sl_lex_skip_newlines(p->lex));
    while (!sl_lex_is(p->lex, ")")) {
        struct sl_fn_param *param = SL_NEW(p->arena, struct sl_fn_param, 1);
        SL_TRY(sl_lex_take_name(p->lex, "the name of an argument", &param->name));
        if (sl_lex_is(p->lex, "=")) {
            SL_TRY(sl_lex_next(p->lex));
            SL_TRY(parse_expr(p, &param->fallback));
        }
        *last = param;
        last = &param->next;
        SL_TRY(sl_lex_skip_newlines(p->lex));
        if (!sl_lex_is(p->lex, ","))
            break;
        SL_TRY(sl_lex_next(p->lex));
        SL_TRY(sl_lex_skip_newlines(p->lex));
    }
    SL_TRY(sl_lex_expect(p->lex, ")"));
    SL_TRY(parse_block(p, &stmt->body));
    append(tail, stmt);
    return SL_OK;
}

/* Parses: repeat i in 0..L as h { body } */
static sl_err parse_repeat(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_REPEAT);
    struct sl_str in;
    SL_TRY(sl_lex_next(p->lex));
    SL_TRY(sl_lex_take_name(p->lex, "the name of the counter", &stmt->name));
    struct sl_pos pos = p->lex->tok.pos;
    SL_TRY(sl_lex_take_name(p->lex, "'in'", &in));
    if (!sl_str_is(in, "in"))
        return sl_lex_fail_at(p->lex, pos, "expected 'in'");
    SL_TRY(parse_expr(p, &stmt->expr));
    SL_TRY(sl_lex_expect(p->lex, ".."));
    SL_TRY(parse_expr(p, &stmt->expr2));
    if (sl_lex_is_name(p->lex, "as")) {
        SL_TRY(sl_lex_next(p->lex));
        SL_TRY(sl_lex_take_name(p->lex, "a scope name", &stmt->instance));
    }
    SL_TRY(parse_block(p, &stmt->body));
    append(tail, stmt);
    return SL_OK;
}

/* if cond { body } else { other }   or   else if ... */
static sl_err parse_if(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_IF);
    SL_TRY(sl_lex_next(p->lex));
    SL_TRY(parse_expr(p, &stmt->expr));
    SL_TRY(parse_block(p, &stmt->body));
    append(tail, stmt);
    if (!sl_lex_is_name(p->lex, "else"))
        return SL_OK;
    SL_TRY(sl_lex_next(p->lex));
    if (!sl_lex_is_name(p->lex, "if"))
        return parse_block(p, &stmt->other);
    struct sl_stmt **other = &stmt->other;
    if (++p->depth > SL_MODEL_DEPTH)
        return sl_lex_fail(p->lex, "blocks are nested deeper than %d", SL_MODEL_DEPTH);
    SL_TRY(parse_if(p, &other));
    p->depth--;
    return SL_OK;
}

/* Parses: loss [name =] expr [weight expr] */
static sl_err parse_loss(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_LOSS);
    SL_TRY(sl_lex_next(p->lex));
    SL_TRY(parse_expr(p, &stmt->expr));
    if (sl_lex_is(p->lex, "=") && stmt->expr->kind == SL_EXPR_NAME) {
        stmt->name = stmt->expr->text;
        SL_TRY(sl_lex_next(p->lex));
        SL_TRY(parse_expr(p, &stmt->expr));
    }
    if (sl_lex_is_name(p->lex, "weight")) {
        SL_TRY(sl_lex_next(p->lex));
        SL_TRY(parse_expr(p, &stmt->expr2));
    }
    append(tail, stmt);
    return SL_OK;
}

/* Parses: output name = expr */
static sl_err parse_output(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_OUTPUT);
    SL_TRY(sl_lex_next(p->lex));
    SL_TRY(sl_lex_take_name(p->lex, "the name of an output", &stmt->name));
    SL_TRY(sl_lex_expect(p->lex, "="));
    SL_TRY(parse_expr(p, &stmt->expr));
    append(tail, stmt);
    return SL_OK;
}

/* Parses: return a, b */
static sl_err parse_return(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_RETURN);
    SL_TRY(sl_lex_next(p->lex));
    SL_TRY(parse_expr(p, &stmt->expr));
    if (sl_lex_is(p->lex, ",")) {
        struct sl_expr *list = SL_NEW(p->arena, struct sl_expr, 1);
        struct sl_arg **last = &list->args;
        *list = (struct sl_expr){.kind = SL_EXPR_LIST, .pos = stmt->expr->pos};
        *last = SL_NEW(p->arena, struct sl_arg, 1);
        (*last)->value = stmt->expr;
        while (sl_lex_is(p->lex, ",")) {
            last = &(*last)->next;
            *last = SL_NEW(p->arena, struct sl_arg, 1);
            SL_TRY(sl_lex_next(p->lex));
            SL_TRY(parse_expr(p, &(*last)->value));
        }
        stmt->expr = list;
    }
    append(tail, stmt);
    return SL_OK;
}

/* Parses: require cond, "message" */
static sl_err parse_require(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_REQUIRE);
    SL_TRY(sl_lex_next(p->lex));
    SL_TRY(parse_expr(p, &stmt->expr));
    SL_TRY(sl_lex_expect(p->lex, ","));
    SL_TRY(sl_lex_take_string(p->lex, "a message in quotes", &stmt->name));
    append(tail, stmt);
    return SL_OK;
}

/* Parses: a, b = expr, or a bare expression */
static sl_err parse_assign(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_ASSIGN);
    struct sl_target **last = &stmt->targets;
    struct sl_expr *left;
    for (;;) {
        SL_TRY(parse_expr(p, &left));
        bool more = sl_lex_is(p->lex, ",");
        if (!more && !sl_lex_is(p->lex, "=") && !stmt->targets) {
            stmt->kind = SL_STMT_EXPR;
            stmt->expr = left;
            append(tail, stmt);
            return SL_OK;
        }
        if (left->kind != SL_EXPR_NAME)
            return sl_lex_fail_at(p->lex, left->pos, "only a name can be assigned to");
        *last = SL_NEW(p->arena, struct sl_target, 1);
        **last = (struct sl_target){left->text, left->pos, NULL};
        last = &(*last)->next;
        if (!more)
            break;
        SL_TRY(sl_lex_next(p->lex));
    }
    SL_TRY(sl_lex_expect(p->lex, "="));
    SL_TRY(parse_expr(p, &stmt->expr));
    append(tail, stmt);
    return SL_OK;
}

static sl_err parse_scope(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_SCOPE);
    SL_TRY(sl_lex_next(p->lex));
    if (p->lex->tok.kind == SL_TOK_NAME)
        SL_TRY(sl_lex_take_name(p->lex, "a scope", &stmt->name));
    append(tail, stmt);
    return SL_OK;
}

/* Reads the next token as the name of a model, the only kind of name with dashes. */
static sl_err next_dashed(struct sl_lex *lex) {
    lex->dashes = true;
    sl_err err = sl_lex_next(lex);
    lex->dashes = false;
    return err;
}

/* Parses: use gpt2 with L = 24, C = 1024 */
static sl_err parse_use(struct parser *p, struct sl_stmt ***tail) {
    struct sl_stmt *stmt = new_stmt(p, SL_STMT_USE);
    struct sl_stmt **last = &stmt->body;
    if (p->depth > 0)
        return sl_lex_fail(p->lex, "use is for the top level");
    SL_TRY(next_dashed(p->lex));
    SL_TRY(sl_lex_take_name(p->lex, "the name of a model", &stmt->name));
    if (sl_lex_is_name(p->lex, "with"))
        SL_TRY(parse_size(p, &last));
    append(tail, stmt);
    return SL_OK;
}

static sl_err parse_param_kind(struct parser *p, struct sl_stmt ***tail) {
    bool is_state = sl_lex_is_name(p->lex, "state");
    return parse_param(p, is_state ? SL_STMT_STATE : SL_STMT_PARAM, tail);
}

static const struct keyword {
    const char *name;
    sl_err (*parse)(struct parser *p, struct sl_stmt ***tail);
} keywords[] = {
    {"fn", parse_fn},         {"if", parse_if},           {"input", parse_input},
    {"loss", parse_loss},     {"output", parse_output},   {"param", parse_param_kind},
    {"repeat", parse_repeat}, {"require", parse_require}, {"return", parse_return},
    {"scope", parse_scope},   {"size", parse_size},       {"state", parse_param_kind},
    {"use", parse_use},
};

static sl_err parse_keyword(struct parser *p, struct sl_stmt ***tail) {
    for (int i = 0; p->lex->tok.kind == SL_TOK_NAME && i < SL_COUNT(keywords); i++)
        if (p->lex->tok.text.at[0] == keywords[i].name[0] &&
            sl_lex_is_name(p->lex, keywords[i].name))
            return keywords[i].parse(p, tail);
    return parse_assign(p, tail);
}

static sl_err parse_statement(struct parser *p, struct sl_stmt ***tail) {
    SL_TRY(parse_keyword(p, tail));
    if (sl_lex_is(p->lex, ";"))
        SL_TRY(sl_lex_next(p->lex));
    else if (!sl_lex_is(p->lex, "}"))
        return sl_lex_take_newline(p->lex);
    return sl_lex_skip_newlines(p->lex);
}

static sl_err parse_block(struct parser *p, struct sl_stmt **out) {
    if (++p->depth > SL_MODEL_DEPTH)
        return sl_lex_fail(p->lex, "blocks are nested deeper than %d", SL_MODEL_DEPTH);
    SL_TRY(sl_lex_expect(p->lex, "{"));
    SL_TRY(sl_lex_skip_newlines(p->lex));
    while (!sl_lex_is(p->lex, "}")) {
        if (p->lex->tok.kind == SL_TOK_END)
            return sl_lex_fail(p->lex, "the file ends inside a block; '}' is missing");
        SL_TRY(parse_statement(p, &out));
    }
    p->depth--;
    return sl_lex_next(p->lex);
}

/* Parses: model name "what it is" weights "file" */
sl_err sl_graph_model_parse_header(struct sl_lex *lex, struct sl_model_ast *ast) {
    SL_TRY(sl_lex_skip_newlines(lex));
    ast->is_library = sl_lex_is_name(lex, "library");
    if (!ast->is_library && !sl_lex_is_name(lex, "model"))
        return SL_OK;
    SL_TRY(next_dashed(lex));
    SL_TRY(sl_lex_take_name(lex, "the name of the model", &ast->name));
    if (lex->tok.kind == SL_TOK_STRING)
        SL_TRY(sl_lex_take_string(lex, "a description", &ast->brief));
    if (!ast->is_library && sl_lex_is_name(lex, "weights")) {
        SL_TRY(sl_lex_next(lex));
        SL_TRY(sl_lex_take_string(lex, "the path of a file", &ast->weights));
    }
    return sl_lex_take_newline(lex);
}

sl_err sl_graph_model_parse(struct sl_lex *lex, struct sl_arena *arena, struct sl_model_ast *ast) {
    struct parser p = {.lex = lex, .arena = arena};
    struct sl_stmt **tail = &ast->body;
    SL_TRY(sl_graph_model_parse_header(lex, ast));
    while (lex->tok.kind != SL_TOK_END)
        SL_TRY(parse_statement(&p, &tail));
    return SL_OK;
}
