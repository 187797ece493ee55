/* Model text: reads a text into a graph, writes a graph as text.
 *
 *   model two-layer "a small example"
 *   size N = 784, H = 100                  # numbers; --set H=200 overrides
 *   input x : float[B, N]                  # B is the micro-batch
 *   input y : int[B] < 10
 *   fn linear(x, n) {                      # parameters live in the instance: fc1.w, fc2.w
 *       param w[n, dim(x, -1)] ~ normal(0.02)
 *       param b[n] ~ zeros
 *       return matmul(x, w, b, tb = 1)
 *   }
 *   h = relu(linear(x, H) as fc1)
 *   loss cross_entropy(linear(h, 10) as fc2, y)
 *
 * docs/formats.md describes the whole language. It has no devices, stages or order of execution. */
#ifndef SL_GRAPH_MODEL_H
#define SL_GRAPH_MODEL_H

#include "graph/graph.h"

struct sl_model_set { /* an option --set NAME=VALUE */
    const char *name;
    double value;
};

/* The text that `use NAME` refers to, and its file name. malloc allocated both. */
struct sl_model_source {
    char *file, *text;
    size_t length;
};

struct sl_model_options {
    const struct sl_op *(*find_op)(struct sl_str name);
    const char *(*nearest_op)(const char *name);
    const struct sl_model_set *sets;
    int set_count;
    bool eval; /* build the evaluation graph: dropout off, running statistics used */
    struct sl_graph_hook hook;      /* hook of the graph while it is read */
    int64_t node_limit, step_limit; /* 0: the defaults of docs/formats.md */
    /* Finds the text of `use NAME` in the file `from`; NULL: `use` is refused. NAME has letters,
     * digits, '_', '-' and '.', starts with a letter or '_' and has no '..'. */
    sl_err (*find_used)(const void *ctx, const char *from, const char *name,
                        struct sl_model_source *out);
    const void *find_ctx;
};

enum { SL_MODEL_FILE_BYTES = 16 << 20, SL_MODEL_NAME = 128 };

/* find_used for files: NAME.model in the directory of `from`, then in the directories of `ctx` (a
 * list of const char * that ends with NULL, or NULL). */
SL_MUST_CHECK sl_err sl_graph_model_find_used(const void *ctx, const char *from, const char *name,
                                              struct sl_model_source *out);

/* Parses "L=4,C=128" into options->sets; the strings are in the arena. */
SL_MUST_CHECK sl_err sl_graph_model_parse_sets(const char *text, struct sl_arena *arena,
                                               struct sl_model_options *options);
/* The inverse of parse_sets: writes all sizes of the graph as "L=4,C=128", in the arena; NULL if it
 * has none. */
const char *sl_graph_sizes_text(struct sl_arena *arena, const struct sl_graph *graph);

/* Reads, elaborates and checks a model (sl_graph_check). The caller closes the graph. `file`
 * appears in messages; its base name is the model's name unless the text has a `model` line. */
SL_MUST_CHECK sl_err sl_graph_model_read(const char *file, const char *text, size_t length,
                                         const struct sl_model_options *options,
                                         struct sl_graph **out);

SL_MUST_CHECK sl_err sl_graph_model_read_file(const char *file,
                                              const struct sl_model_options *options,
                                              struct sl_graph **out);

/* The first line of a text, for lists of models. Strings are in the arena. */
struct sl_model_header {
    const char *name, *brief;
    bool is_library;
};
SL_MUST_CHECK sl_err sl_graph_model_peek(const char *file, const char *text, size_t length,
                                         struct sl_arena *arena, struct sl_model_header *out);

/* Runs statements of a program on a graph under construction. `values` are visible as _v0, _v1,
 * ...; `result` (may be NULL) receives the tensor assigned to _r. Errors have no line number. */
struct sl_model_piece {
    const char *text, *scope;
    const int *values;
    int value_count;
    int *result;
};
SL_MUST_CHECK sl_err sl_graph_model_extend(struct sl_graph *graph,
                                           const struct sl_model_options *options,
                                           const struct sl_model_piece *piece);

/* Writes the flat form: one line per node, with its shape. Reading it gives the same graph; writing
 * that graph gives the same text. */
void sl_graph_model_write(const struct sl_graph *graph, struct sl_text *text);
/* Returns a hash of the flat form without its first line (name and description). Plans and
 * checkpoints keep it, because node numbers and tensor names mean nothing for another graph. */
uint64_t sl_graph_model_hash(const struct sl_graph *graph);

/* Writes a Graphviz drawing. */
void sl_graph_model_write_dot(const struct sl_graph *graph, struct sl_text *text);

#endif
