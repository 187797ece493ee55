/* Presents the weights of a model with adapters as the weights of the plain model: a layer of
 * stored values. */
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

struct merged {
    struct sl_arena arena;
    struct sl_graph *graph; /* the graph with adapters */
    struct sl_tune_adapter *adapters;
    int count;
    float *a, *b; /* values of the adapter of parameter `loaded` */
    int loaded;   /* -1: none */
};

static void close_merged(void *ctx) {
    struct merged *m = ctx;
    sl_graph_close(m->graph);
    free(m->a);
    free(m->b);
    sl_arena_free(&m->arena);
    free(m);
}

static const struct sl_shape *shape_of(const struct sl_graph *graph, int param) {
    return &sl_graph_value(graph, graph->params.at[param].value)->shape;
}

static int find_param(const struct sl_graph *graph, const char *name) {
    for (int64_t i = 0; i < graph->params.count; i++)
        if (strcmp(graph->params.at[i].name, name) == 0)
            return (int)i;
    return -1;
}

sl_err sl_tune_read_param(const struct sl_graph *graph, int param, float **out) {
    int64_t numel = sl_graph_shape_numel(shape_of(graph, param), 1);
    *out = sl_realloc(*out, sizeof **out * (size_t)numel);
    return graph->stored.read(graph->stored.ctx, graph->params.at[param].name, 0, numel, *out);
}

static sl_err read_merged(void *ctx, const char *name, int64_t from, int64_t count, float *out) {
    struct merged *m = ctx;
    int param = find_param(m->graph, name);
    SL_TRY(m->graph->stored.read(m->graph->stored.ctx, name, from, count, out));
    const struct sl_tune_adapter *of =
        param < 0 ? NULL : sl_tune_adapter_of(m->adapters, m->count, param);
    if (!of)
        return SL_OK;
    if (m->loaded != param) {
        m->loaded = -1;
        SL_TRY(sl_tune_read_param(m->graph, of->a, &m->a));
        SL_TRY(sl_tune_read_param(m->graph, of->b, &m->b));
        m->loaded = param;
    }
    sl_tune_merge(of, m->a, m->b, from, count, out);
    return SL_OK;
}

static bool has_merged(void *ctx, const char *name) {
    return find_param(((const struct merged *)ctx)->graph, name) >= 0;
}

/* Checks that every parameter of the plain model is in the model with adapters. */
static sl_err compare(const struct sl_graph *plain, const struct sl_graph *tuned) {
    for (int64_t i = 0; i < plain->params.count; i++) {
        int at = find_param(tuned, plain->params.at[i].name);
        if (at < 0 || !sl_graph_shape_equal(shape_of(plain, (int)i), shape_of(tuned, at)))
            return sl_fail(SL_ERR_INPUT,
                           "the model with adapters has no '%s' of the plain model's "
                           "shape: they are adapters of another model",
                           plain->params.at[i].name);
    }
    return SL_OK;
}

sl_err sl_tune_attach_merged(struct sl_graph *plain, struct sl_graph *tuned) {
    SL_TRY(compare(plain, tuned));
    struct merged *m = sl_realloc(NULL, sizeof *m);
    *m = (struct merged){.graph = tuned, .loaded = -1};
    m->count = sl_tune_adapters(&m->arena, tuned, &m->adapters);
    if (plain->stored.close)
        plain->stored.close(plain->stored.ctx);
    plain->stored = (struct sl_stored_values){m, has_merged, read_merged, close_merged};
    return SL_OK;
}
