/* The table of cost models, and what they share. */
#include "peers/peers.h"

#include "base/text.h"
#include "peers/sequence.h"

#include <stdio.h>
#include <string.h>

extern const struct sl_peer_model sl_peers_dnnpart, sl_peers_pipedream, sl_peers_piper;

const struct sl_peer_model *const sl_peers_models[] = {
    &sl_peers_dnnpart,
    &sl_peers_pipedream,
    &sl_peers_piper,
    NULL,
};

const struct sl_peer_model *sl_peers_model_find(const char *name) {
    for (int i = 0; sl_peers_models[i]; i++)
        if (strcmp(sl_peers_models[i]->name, name) == 0)
            return sl_peers_models[i];
    return NULL;
}

struct sl_dag sl_peers_dag(struct sl_arena *arena, const struct sl_layers *layers) {
    struct sl_dag_edge *edges = SL_NEW(arena, struct sl_dag_edge, layers->edge_count + 1);
    for (int e = 0; e < layers->edge_count; e++)
        edges[e] = (struct sl_dag_edge){layers->edges[e].from, layers->edges[e].to};
    return sl_graph_dag_build(arena, layers->count, edges, layers->edge_count);
}

sl_err sl_peers_no_plan(const struct sl_peer_query *query, bool stopped) {
    char memory[SL_HUMAN_BYTES + 16] = "keeps all of them busy", cpus[48] = "",
                                 bytes[SL_HUMAN_BYTES];
    if (query->memory_bytes > 0) /* else it is pipedream's --all-devices */
        snprintf(memory, sizeof memory, "stays within %s",
                 sl_human_bytes((int64_t)query->memory_bytes, bytes));
    if (query->cpus > 0)
        snprintf(cpus, sizeof cpus, " and %lld CPUs", (long long)query->cpus);
    return sl_fail(SL_ERR_REFUSED, "%s: on %lld devices%s no cut of this graph%s %s%s",
                   stopped ? "no plan was found" : "nothing fits", (long long)query->devices, cpus,
                   stopped ? " that was looked at" : "", memory,
                   stopped
                       ? ", and there are too many to look at all; try more memory or devices, or "
                         "layers in larger groups"
                       : "");
}

sl_err sl_peers_not_even(void) {
    return sl_fail(SL_ERR_REFUSED,
                   "even: equal stages do not fit on these devices; planner 'sluice' "
                   "looks for others");
}

sl_err sl_peers_plan(const struct sl_peer_model *model, struct sl_arena *arena,
                     const struct sl_layers *layers, const struct sl_peer_query *query,
                     struct sl_peers_plan *out) {
    sl_err err = model->plan(arena, layers, query, out);
    if (err != SL_ERR_REFUSED || !out->timed_out)
        return err;
    err = model->even(arena, layers, query, out);
    out->timed_out = true;
    return err == SL_OK ? err
                        : sl_fail(SL_ERR_REFUSED, "no plan was found within the time limit; give "
                                                  "--time-limit more seconds");
}
