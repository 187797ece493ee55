/* The syntax tree of a model text. It is in the parser's arena and points into the text. */
#ifndef SL_GRAPH_MODEL_AST_H
#define SL_GRAPH_MODEL_AST_H

#include "base/lex.h"

enum sl_expr_kind {
    SL_EXPR_INT,
    SL_EXPR_FLOAT,
    SL_EXPR_STRING,
    SL_EXPR_NAME,
    SL_EXPR_LIST,  /* its items are args */
    SL_EXPR_CALL,  /* text(args) as instance */
    SL_EXPR_INDEX, /* a[b] */
    SL_EXPR_UNARY, /* text ("-" or "not") applied to a */
    SL_EXPR_BINARY,
};

struct sl_expr;

struct sl_arg {
    struct sl_str name; /* length 0: the argument is positional */
    struct sl_expr *value;
    struct sl_arg *next;
};

struct sl_expr {
    enum sl_expr_kind kind;
    struct sl_pos pos;
    struct sl_str text; /* the name, string or operator */
    union {
        int64_t integer;
        double number;
        struct {
            struct sl_expr *a, *b;
        };
        struct { /* used by calls, lists and names */
            struct sl_arg *args;
            struct sl_str instance; /* length 0: no instance is given */
        };
    };
};

enum sl_stmt_kind {
    SL_STMT_SIZE,  /* name = expr */
    SL_STMT_INPUT, /* name : type[list] < expr2 */
    SL_STMT_PARAM, /* name list ~ expr */
    SL_STMT_STATE,
    SL_STMT_FN,
    SL_STMT_REPEAT, /* name in expr .. expr2 as instance { body } */
    SL_STMT_IF,     /* expr { body } else { other } */
    SL_STMT_ASSIGN, /* targets = expr */
    SL_STMT_EXPR,
    SL_STMT_LOSS,   /* [name =] expr, expr2 = weight */
    SL_STMT_OUTPUT, /* name = expr */
    SL_STMT_RETURN, /* expr */
    SL_STMT_REQUIRE,
    SL_STMT_SCOPE, /* name */
    SL_STMT_USE,   /* name with list of SL_STMT_SIZE in body */
};

struct sl_target {
    struct sl_str name;
    struct sl_pos pos;
    struct sl_target *next;
};

struct sl_fn_param {
    struct sl_str name;
    struct sl_expr *fallback; /* NULL: the argument must be given */
    struct sl_fn_param *next;
};

struct sl_stmt {
    enum sl_stmt_kind kind;
    struct sl_pos pos;
    struct sl_str name, instance;
    bool is_int;    /* SL_STMT_INPUT */
    bool is_frozen; /* SL_STMT_PARAM */
    struct sl_expr *list, *expr, *expr2;
    struct sl_target *targets;
    struct sl_fn_param *params;
    struct sl_stmt *body, *other, *next;
};

struct sl_model_ast {
    /* from the `model` or `library` line; length 0: not given */
    struct sl_str name, brief, weights;
    bool is_library;
    struct sl_stmt *body;
};

SL_MUST_CHECK sl_err sl_graph_model_parse(struct sl_lex *lex, struct sl_arena *arena,
                                          struct sl_model_ast *ast);
/* Parses only the first line: name, brief, is_library. */
SL_MUST_CHECK sl_err sl_graph_model_parse_header(struct sl_lex *lex, struct sl_model_ast *ast);
/* model_expr.c. Parses one expression. */
SL_MUST_CHECK sl_err sl_graph_model_parse_expr(struct sl_lex *lex, struct sl_arena *arena,
                                               int depth, struct sl_expr **out);

/* Parses a list in brackets and nothing else. */
SL_MUST_CHECK sl_err sl_graph_model_parse_list(struct sl_lex *lex, struct sl_arena *arena,
                                               struct sl_expr **out);

/* Limits: depth of blocks, parentheses and calls; number of consecutive operators; items of a list;
 * bytes of the tree and of the values of one text. */
enum {
    SL_MODEL_DEPTH = 64,
    SL_MODEL_CHAIN = 256,
    SL_MODEL_LIST = 65536,
    SL_MODEL_MEMORY = 256 << 20
};

#endif
