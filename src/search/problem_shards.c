/* Adds tensor parallelism to a problem (problem_shards.h). */
#include "search/problem_shards.h"

#include "graph/blocks.h"
#include "graph/model.h"
#include "pass/program.h"

#include <stdlib.h>
#include <string.h>

/* Groups the nodes that must stay in one unit: those that no border may divide in the whole model,
 * and those that stand for the same node of it. */
const int *sl_search_shards_keep(struct sl_arena *arena, const struct sl_problem_spec *spec,
                                 int *block_of) {
    const struct sl_graph *whole = spec->shards->whole;
    int nodes = spec->graph->forward_count, *keep = SL_NEW(arena, int, nodes + 1);
    int *unit = SL_NEW(arena, int, whole->forward_count + 1);
    int *blocks_of = SL_NEW(arena, int, whole->forward_count + 1);
    struct sl_blocks blocks;
    sl_graph_blocks(arena, whole, &blocks);
    sl_graph_blocks_keep(&blocks, whole->forward_count, blocks_of);
    sl_pass_units_kept(arena, whole, spec->has_kernel, spec->whole_layers ? blocks_of : NULL, unit);
    for (int n = 0; n < nodes; n++) {
        keep[n] = unit[spec->shards->whole_of[n]];
        block_of[n] = blocks_of[spec->shards->whole_of[n]];
    }
    return keep;
}

static struct sl_unit *unit_at(const struct sl_problem *p, const int *unit_of,
                               const struct sl_node *node, int64_t n) {
    return (struct sl_unit *)(uintptr_t)&p->units[unit_of[node->of < 0 ? n : node->of]];
}

static struct sl_collective collective_of(const struct sl_problem_spec *spec,
                                          const struct sl_node *node) {
    static const enum sl_collective_pass passes[] = {[SL_PASS_F] = SL_COLLECTIVE_F,
                                                     [SL_PASS_I] = SL_COLLECTIVE_B,
                                                     [SL_PASS_W] = SL_COLLECTIVE_W};
    const struct sl_shape *shape = &sl_graph_value(spec->graph, node->out[0])->shape;
    int element = spec->precision ? spec->precision->element : 4;
    return (struct sl_collective){.pass = passes[node->pass],
                                  .kind = SL_COLLECTIVE_SUM,
                                  .sample_bytes = sl_graph_shape_numel(shape, 1) * element,
                                  .count = 1};
}

static void fill_collectives(struct sl_arena *arena, const struct sl_problem_spec *spec,
                             const int *unit_of, struct sl_problem *p) {
    const struct sl_graph *graph = spec->graph;
    for (int64_t n = 0; n < graph->nodes.count; n++)
        if (sl_search_shards_meet(&graph->nodes.at[n]))
            unit_at(p, unit_of, &graph->nodes.at[n], n)->collective_count++;
    for (int u = 0; u < p->unit_count; u++) {
        struct sl_unit *unit = (struct sl_unit *)(uintptr_t)&p->units[u];
        unit->collectives = SL_NEW(arena, struct sl_collective, unit->collective_count);
        unit->collective_count = 0;
    }
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        if (!sl_search_shards_meet(node))
            continue;
        struct sl_unit *unit = unit_at(p, unit_of, node, n);
        struct sl_collective *at = (struct sl_collective *)(uintptr_t)unit->collectives;
        at[unit->collective_count++] = collective_of(spec, node);
    }
}

static int compare_nodes(const void *a, const void *b) {
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static void name_nodes(const int *whole_of, struct sl_unit *unit) {
    int *nodes = (int *)(uintptr_t)unit->nodes, count = 0;
    for (int i = 0; i < unit->node_count; i++)
        nodes[i] = whole_of[nodes[i]];
    qsort(nodes, (size_t)unit->node_count, sizeof *nodes, compare_nodes);
    for (int i = 0; i < unit->node_count; i++)
        if (!count || nodes[count - 1] != nodes[i])
            nodes[count++] = nodes[i];
    unit->node_count = count;
}

static const char *whole_name(const struct sl_graph *graph, const char *name) {
    for (int64_t i = 0; i < graph->params.count; i++)
        if (strcmp(graph->params.at[i].name, name) == 0 && graph->params.at[i].part_of)
            return graph->params.at[i].part_of->name;
    return name;
}

void sl_search_shards_fill(struct sl_arena *arena, const struct sl_problem_spec *spec,
                           const int *unit_of, struct sl_problem *p) {
    const struct sl_graph *whole = spec->shards->whole;
    fill_collectives(arena, spec, unit_of, p);
    p->graph_nodes = whole->forward_count;
    p->graph_hash = sl_graph_model_hash(whole);
    for (int u = 0; u < p->unit_count; u++)
        name_nodes(spec->shards->whole_of, (struct sl_unit *)(uintptr_t)&p->units[u]);
    for (int t = 0; t < p->tie_count; t++) {
        struct sl_unit_tie *tie = (struct sl_unit_tie *)(uintptr_t)&p->ties[t];
        tie->name = whole_name(spec->graph, tie->name);
        tie->name = sl_arena_dup(arena, tie->name, strlen(tie->name));
    }
}
