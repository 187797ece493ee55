/* The table of cost models, and what they share. */
#include "search/peer.h"

#include "search/sequence.h"

#include <string.h>

extern const struct sl_peer_model sl_peer_dnnpart, sl_peer_pipedream, sl_peer_piper;

const struct sl_peer_model *const sl_peer_models[] = {
    &sl_peer_dnnpart,
    &sl_peer_pipedream,
    &sl_peer_piper,
    NULL,
};

const struct sl_peer_model *sl_peer_model_find(const char *name) {
    for (int i = 0; sl_peer_models[i]; i++)
        if (strcmp(sl_peer_models[i]->name, name) == 0)
            return sl_peer_models[i];
    return NULL;
}

struct sl_dag sl_layers_dag(struct sl_arena *arena, const struct sl_layers *layers) {
    struct sl_dag_edge *edges = SL_NEW(arena, struct sl_dag_edge, layers->edge_count + 1);
    for (int e = 0; e < layers->edge_count; e++)
        edges[e] = (struct sl_dag_edge){layers->edges[e].from, layers->edges[e].to};
    return sl_dag_build(arena, layers->count, edges, layers->edge_count);
}
