/* Elaboration: running a model text to build its graph. Private to model_*.c. */
#ifndef SL_GRAPH_MODEL_EVAL_H
#define SL_GRAPH_MODEL_EVAL_H

#include "graph/model.h"
#include "graph/model_ast.h"

enum sl_val_kind {
    SL_VAL_NONE,
    SL_VAL_DIM, /* an integer, or an integer times B */
    SL_VAL_FLOAT,
    SL_VAL_STRING,
    SL_VAL_TENSOR, /* a value of the graph */
    SL_VAL_LIST,
};

struct sl_val {
    enum sl_val_kind kind;
    int count; /* number of items of a SL_VAL_LIST */
    union {
        struct sl_dim dim;
        double number;
        struct sl_str string;
        int tensor;
        struct sl_val *items;
    };
};

/* The variables of a block. Functions see their own frames and the global one. */
struct sl_frame {
    struct sl_frame *outer;
    struct sl_map names; /* name -> index in values */
    SL_VEC(struct sl_val) values;
};

/* A size given by `use ... with`. The outermost one applies; --set has priority over all. */
struct sl_with {
    struct sl_str name;
    struct sl_val value;
    struct sl_pos pos;
    bool taken; /* there is a size with this name */
};

struct sl_eval {
    const struct sl_lex *lex; /* used for messages */
    const struct sl_model_options *options;
    const char *file; /* file of the running statements */
    SL_VEC(struct sl_with) withs;
    SL_VEC(const char *) used; /* paths of files in `use`, in the order of their first use */
    SL_VEC(char *) texts;      /* contents of these files; the tree points into them */
    int use_depth;
    struct sl_graph *graph;
    struct sl_arena *arena;
    struct sl_frame global, *frame;
    struct sl_map functions; /* name -> index in fns */
    SL_VEC(const struct sl_stmt *) fns;
    const char *scope; /* current scope, "h.3.attn" */
    int64_t step_limit;
    int64_t steps; /* number of statements, calls and items of lists so far */
    int depth;     /* depth of calls */
    int nesting;   /* depth of evaluations on the C stack */
    bool returned;
    struct sl_val result;
};

/* Limits for one text. */
enum {
    SL_EVAL_STEPS = 5000000,
    SL_EVAL_NODES = 500000,
    SL_EVAL_NESTING = 1000,
    SL_EVAL_USES = 32,      /* files that one model may use */
    SL_EVAL_USE_DEPTH = 8,  /* depth of files that use files */
    SL_EVAL_OUTPUTS = 4096, /* number of outputs, and number of losses */
};

/* Adds to `steps`; fails if the text exceeds the limit of steps or memory. */
SL_MUST_CHECK sl_err sl_graph_eval_step(struct sl_eval *ev, struct sl_pos pos, int64_t steps);

SL_MUST_CHECK sl_err sl_graph_eval_expr(struct sl_eval *ev, const struct sl_expr *expr,
                                        struct sl_val *out);
SL_MUST_CHECK sl_err sl_graph_eval_block(struct sl_eval *ev, const struct sl_stmt *body);
/* model_use.c. `size`, `use` and --set. */
SL_MUST_CHECK sl_err sl_graph_eval_size(struct sl_eval *ev, const struct sl_stmt *stmt);
SL_MUST_CHECK sl_err sl_graph_eval_use(struct sl_eval *ev, const struct sl_stmt *stmt);
SL_MUST_CHECK sl_err sl_graph_eval_check_sets(struct sl_eval *ev);
SL_MUST_CHECK sl_err sl_graph_eval_collect(struct sl_eval *ev, const struct sl_model_ast *ast);
SL_MUST_CHECK sl_err sl_graph_eval_call(struct sl_eval *ev, const struct sl_expr *call,
                                        struct sl_val *out);
/* Computes a OP b for evaluated operands. */
SL_MUST_CHECK sl_err sl_graph_eval_binary(struct sl_eval *ev, const struct sl_expr *expr,
                                          struct sl_val *values, struct sl_val *out);
/* Applies an op of the registry. */
SL_MUST_CHECK sl_err sl_graph_eval_op(struct sl_eval *ev, const struct sl_expr *call,
                                      const struct sl_op *op, struct sl_val *out);
SL_MUST_CHECK sl_err sl_graph_eval_node(struct sl_eval *ev, const struct sl_node_spec *spec,
                                        int *out);
SL_MUST_CHECK sl_err sl_graph_eval_init(struct sl_eval *ev, const struct sl_expr *expr,
                                        struct sl_init *out);
SL_MUST_CHECK sl_err sl_graph_eval_shape(struct sl_eval *ev, const struct sl_expr *list,
                                         struct sl_shape *out);
/* Evaluates to an integer without B. */
SL_MUST_CHECK sl_err sl_graph_eval_int(struct sl_eval *ev, const struct sl_expr *expr,
                                       int64_t *out);
SL_MUST_CHECK sl_err sl_graph_eval_number(struct sl_eval *ev, const struct sl_expr *expr,
                                          double *out);
SL_MUST_CHECK sl_err sl_graph_eval_as_number(struct sl_eval *ev, struct sl_pos pos,
                                             const struct sl_val *value, double *out);

/* Finding and setting names in frames. */
struct sl_val *sl_graph_frame_find(struct sl_frame *frame, struct sl_str name);
void sl_graph_frame_put(struct sl_frame *frame, struct sl_str name, struct sl_val value);
void sl_graph_frame_free(struct sl_frame *frame);

/* Returns scope.name in the graph's arena; fails if it is too long for a name. */
SL_MUST_CHECK sl_err sl_graph_eval_path(struct sl_eval *ev, struct sl_str name, struct sl_pos pos,
                                        const char **out);

struct sl_val sl_graph_val_int(int64_t n);
struct sl_val sl_graph_val_tensor(int tensor);
/* describes a value in messages, such as "a tensor" */
const char *sl_graph_val_name(const struct sl_val *value);

#endif
