/* A copy of a graph with the nodes, parameters and states that its losses need, or
 * else its outputs. */
#include "rewrite/rewrite.h"

#include <stdlib.h>

static void mark(const struct sl_graph *graph, bool by_loss, bool *needed) {
    for (int64_t i = 0; i < graph->losses.count; i++)
        needed[graph->losses.at[i].value] = true;
    for (int64_t i = 0; !by_loss && i < graph->outputs.count; i++)
        needed[graph->outputs.at[i].value] = true;
    for (int64_t n = graph->nodes.count - 1; n >= 0; n--) {
        const struct sl_node *node = &graph->nodes.at[n];
        bool any = false;
        for (int i = 0; i < node->out_count; i++)
            any |= needed[node->out[i]];
        for (int i = 0; any && i < node->in_count; i++)
            if (node->in[i] >= 0)
                needed[node->in[i]] = true;
    }
}

static sl_err copy_leaves(const struct sl_graph *from, bool by_loss, const bool *needed, int *map,
                          struct sl_graph *to) {
    for (int64_t i = 0; i < from->inputs.count; i++) {
        const struct sl_input *input = &from->inputs.at[i];
        const struct sl_value *v = sl_graph_value(from, input->value);
        if (needed[input->value] || !by_loss)
            SL_TRY(sl_graph_input(to, input->name, v->dtype, v->shape, input->below,
                                  &map[input->value]));
    }
    for (int64_t i = 0; i < from->params.count; i++) {
        const struct sl_param *p = &from->params.at[i];
        if (!needed[p->value])
            continue;
        SL_TRY(sl_graph_param(to, p->name, sl_graph_value(from, p->value)->shape, p->init,
                              &map[p->value]));
        to->params.at[to->params.count - 1].frozen = p->frozen;
    }
    for (int64_t i = 0; i < from->states.count; i++) {
        const struct sl_param *p = &from->states.at[i];
        if (needed[p->value])
            SL_TRY(sl_graph_state(to, p->name, sl_graph_value(from, p->value)->shape, p->init,
                                  &map[p->value]));
    }
    return SL_OK;
}

static sl_err copy_node(const struct sl_node *node, const bool *needed, int *map,
                        struct sl_graph *to) {
    int in[SL_MAX_IN], out;
    bool any = false;
    for (int i = 0; i < node->out_count; i++)
        any |= needed[node->out[i]];
    if (!any)
        return SL_OK;
    for (int i = 0; i < node->in_count; i++)
        in[i] = node->in[i] < 0 ? -1 : map[node->in[i]];
    SL_TRY(
        sl_graph_node(to,
                      &(struct sl_node_spec){
                          .op = node->op, .in_count = node->in_count, .in = in, .attr = node->attr},
                      &out));
    for (int i = 0; i < node->out_count; i++)
        map[node->out[i]] = out + i;
    return SL_OK;
}

static sl_err copy_ends(const struct sl_graph *from, const bool *needed, const int *map,
                        struct sl_graph *to) {
    for (int64_t i = 0; i < from->outputs.count; i++)
        if (needed[from->outputs.at[i].value])
            SL_TRY(sl_graph_output(to, from->outputs.at[i].name, map[from->outputs.at[i].value]));
    for (int64_t i = 0; i < from->losses.count; i++)
        SL_TRY(sl_graph_loss(to, from->losses.at[i].name, map[from->losses.at[i].value],
                             from->losses.at[i].weight));
    return SL_OK;
}

sl_err sl_rewrite_prune(const struct sl_graph *graph, bool by_loss, struct sl_graph **out) {
    bool *needed = calloc((size_t)graph->values.count + 1, sizeof *needed);
    int *map = calloc((size_t)graph->values.count + 1, sizeof *map);
    struct sl_graph *to = sl_graph_open(graph->name, graph->find_op);
    sl_err err = SL_OK;
    *out = NULL;
    if (!needed || !map)
        sl_out_of_memory((size_t)graph->values.count * sizeof *map);
    to->node_limit = graph->node_limit;
    mark(graph, by_loss, needed);
    SL_TRY_OUT(copy_leaves(graph, by_loss, needed, map, to));
    for (int64_t n = 0; n < graph->nodes.count; n++)
        SL_TRY_OUT(copy_node(&graph->nodes.at[n], needed, map, to));
    SL_TRY_OUT(copy_ends(graph, needed, map, to));
    *out = to;
out:
    if (err != SL_OK)
        sl_graph_close(to);
    free(needed);
    free(map);
    return err;
}
