/* A graph in which a tied parameter has a copy for each further stage that trains it, because these
 * stages read different versions. Only the places of weights and gradients change. */
#include "emulate/state.h"

#include <stdlib.h>
#include <string.h>

static int find_param(const struct sl_graph *graph, const char *name) {
    for (int i = 0; i < graph->params.count; i++)
        if (strcmp(graph->params.at[i].name, name) == 0)
            return i;
    return -1;
}

struct sl_emulate_copies sl_emulate_copies_of(struct sl_arena *arena, const struct sl_graph *graph,
                                              const struct sl_plan *plan) {
    struct sl_emulate_copies copies = {0};
    int count = 0;
    for (int t = 0; t < plan->tie_count; t++)
        count += plan->ties[t].count;
    copies.at = SL_NEW(arena, struct sl_emulate_copy, count + 1);
    for (int t = 0; t < plan->tie_count; t++)
        for (int i = 1; i < plan->ties[t].count; i++)
            copies.at[copies.count++] = (struct sl_emulate_copy){
                find_param(graph, plan->ties[t].name), plan->ties[t].stages[i]};
    return copies;
}

struct untie {
    const struct sl_graph *graph;
    const int *stage_of;
    const struct sl_emulate_copies *copies;
    struct sl_graph *out;
};

/* Returns the parameter that a node of `stage` uses in place of `param`. */
static int param_for(const struct untie *u, int param, int stage) {
    for (int i = 0; i < u->copies->count; i++)
        if (u->copies->at[i].param == param && u->copies->at[i].stage == stage)
            return (int)u->graph->params.count + i;
    return param;
}

static void add_params(struct untie *u, struct sl_arena *arena) {
    const struct sl_graph *graph = u->graph;
    int64_t params = graph->params.count, values = graph->values.count, more = u->copies->count;
    u->out->params.at = SL_NEW(arena, struct sl_param, params + more);
    u->out->values.at = SL_NEW(arena, struct sl_value, values + more);
    memcpy(u->out->params.at, graph->params.at, sizeof *graph->params.at * (size_t)params);
    memcpy(u->out->values.at, graph->values.at, sizeof *graph->values.at * (size_t)values);
    for (int i = 0; i < more; i++) {
        struct sl_param *copy = &u->out->params.at[params + i];
        /* copies the name too, which gives the same initial values */
        *copy = graph->params.at[u->copies->at[i].param];
        u->out->values.at[values + i] = graph->values.at[copy->value];
        u->out->values.at[values + i].index = (int)params + i;
        copy->value = (int)values + i;
    }
    u->out->params.count = u->out->params.room = params + more;
    u->out->values.count = u->out->values.room = values + more;
}

/* Changes the parameters of a node. A backward node reads the weights of the stage of its forward
 * node. */
static void change_node(const struct untie *u, struct sl_arena *arena, struct sl_node *node,
                        int stage) {
    int *in = SL_NEW(arena, int, node->in_count + 1);
    for (int i = 0; i < node->in_count; i++) {
        in[i] = node->in[i];
        if (in[i] < 0 || u->graph->values.at[in[i]].kind != SL_VALUE_PARAM)
            continue;
        int param = param_for(u, u->graph->values.at[in[i]].index, stage);
        in[i] = u->out->params.at[param].value;
    }
    node->in = in;
}

static int by_param(const void *a, const void *b) {
    const struct sl_param_grad *x = a, *y = b;
    if (x->param != y->param)
        return x->param < y->param ? -1 : 1;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->input < y->input ? -1 : x->input > y->input;
}

static void change_grads(const struct untie *u, struct sl_arena *arena) {
    int64_t count = u->graph->grads.count;
    struct sl_param_grad *grads = SL_NEW(arena, struct sl_param_grad, count + 1);
    for (int64_t g = 0; g < count; g++) {
        grads[g] = u->graph->grads.at[g];
        grads[g].param = param_for(u, grads[g].param, u->stage_of[grads[g].node]);
    }
    if (count)
        qsort(grads, (size_t)count, sizeof *grads, by_param);
    u->out->grads.at = grads;
}

const struct sl_graph *sl_emulate_untie(struct sl_arena *arena, const struct sl_graph *graph,
                                        const int *stage_of,
                                        const struct sl_emulate_copies *copies) {
    struct untie u = {graph, stage_of, copies, NULL};
    if (!graph || !copies->count)
        return graph;
    u.out = SL_NEW(arena, struct sl_graph, 1);
    *u.out = *graph;
    add_params(&u, arena);
    u.out->nodes.at = SL_NEW(arena, struct sl_node, graph->nodes.count + 1);
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        u.out->nodes.at[n] = graph->nodes.at[n];
        int of = graph->nodes.at[n].of < 0 ? (int)n : graph->nodes.at[n].of;
        change_node(&u, arena, &u.out->nodes.at[n], stage_of[of]);
    }
    change_grads(&u, arena);
    return u.out;
}
