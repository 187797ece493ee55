/* Makes the graph of one shard, for costs and bytes. */
#include "shard/shard.h"

sl_err sl_shard_alone(struct sl_arena *arena, const struct sl_graph *graph, int shards,
                      bool vocabulary, struct sl_graph **out, const int **whole_of) {
    struct sl_shard_layouts layouts;
    struct sl_shard_node *nodes;
    if (vocabulary)
        SL_TRY(sl_shard_choose_vocabulary(arena, graph, shards, &layouts));
    else
        SL_TRY(sl_shard_choose(arena, graph, shards, &layouts));
    if (!layouts.regions)
        return sl_fail(SL_ERR_REFUSED,
                       "`tp`: no part of model '%s' can be divided into %d shards (sizes must be "
                       "multiples of it)",
                       graph->name, shards);
    SL_TRY(sl_shard_rewrite(graph, &layouts, SL_SHARD_ALONE, out, &nodes));
    SL_TRY(sl_graph_autodiff(*out));
    int *of = SL_NEW(arena, int, (*out)->forward_count + 1);
    for (int n = 0; n < (*out)->forward_count; n++)
        of[n] = nodes[n].node;
    *whole_of = of;
    return SL_OK;
}
