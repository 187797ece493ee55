/* Places backward nodes in stages. A backward node is in the stage of its forward node. Gradients
 * from several stages are summed in the stage that produced the value. */
#include "pass/program.h"

#include <string.h>

static int stage_of_value(const struct sl_graph *graph, const int *stage, int value) {
    const struct sl_value *v = sl_graph_value(graph, value);
    return v->kind == SL_VALUE_NODE ? stage[v->node] : -1;
}

void sl_pass_place(const struct sl_graph *graph, const int *stage_of, int *out) {
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        if (node->of < 0) {
            out[n] = stage_of ? stage_of[n] : 0;
            continue;
        }
        out[n] = out[node->of];
        if (node->sums < 0)
            continue;
        int left = stage_of_value(graph, out, node->in[0]);
        int right = stage_of_value(graph, out, node->in[1]);
        if (left != right)
            out[n] = stage_of_value(graph, out, node->sums);
    }
}

void sl_pass_backward_of(const struct sl_graph *graph, const int *stage_of, int stages,
                         struct sl_pass_backward *out) {
    struct sl_arena scratch = {0};
    int *stage = SL_NEW(&scratch, int, graph->nodes.count + 1);
    memset(out, 0, sizeof *out * (size_t)stages);
    sl_pass_place(graph, stage_of, stage);
    for (int64_t n = graph->forward_count; graph->differentiated && n < graph->nodes.count; n++)
        out[stage[n]].any = true;
    for (int64_t g = 0; g < graph->grads.count; g++)
        out[stage[graph->grads.at[g].node]] = (struct sl_pass_backward){true, true};
    sl_arena_free(&scratch);
}
