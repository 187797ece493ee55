/* The table of cost models, and the errors that they share. */
#include "peers/peers.h"

#include "base/log.h"
#include "base/text.h"
#include "peers/sequence.h"

#include <stdio.h>
#include <string.h>

extern const struct sl_peers_cost_model sl_peers_dnn_max_load, sl_peers_pipedream_stage_time,
    sl_peers_piper_tps;

const struct sl_peers_cost_model *const sl_peers_cost_models[] = {
    &sl_peers_dnn_max_load,
    &sl_peers_pipedream_stage_time,
    &sl_peers_piper_tps,
    NULL,
};

const struct sl_peers_cost_model *sl_peers_cost_model_of(const char *format) {
    for (int i = 0; sl_peers_cost_models[i]; i++)
        if (strcmp(sl_peers_cost_models[i]->format, format) == 0)
            return sl_peers_cost_models[i];
    return NULL;
}

static const char *model_name(const void *ctx, int i) {
    (void)ctx;
    return sl_peers_cost_models[i]->name;
}

sl_err sl_peers_cost_model_find(const char *name, const struct sl_peers_cost_model **out) {
    int count = 0;
    for (; sl_peers_cost_models[count]; count++)
        if (strcmp(sl_peers_cost_models[count]->name, name) == 0) {
            *out = sl_peers_cost_models[count];
            return SL_OK;
        }
    *out = sl_peers_cost_model_of(name);
    if (*out) {
        sl_log_note("cost model '%s' is now called '%s'", name, (*out)->name);
        return SL_OK;
    }
    const char *nearest = sl_nearest(name, count, model_name, NULL);
    return sl_fail(SL_ERR_USAGE, "no cost model '%s'%s%s%s", name,
                   nearest ? "; did you mean '" : "; see 'sluice list cost-models'",
                   nearest ? nearest : "", nearest ? "'?" : "");
}

struct sl_dag sl_peers_dag(struct sl_arena *arena, const struct sl_layers *layers) {
    struct sl_dag_edge *edges = SL_NEW(arena, struct sl_dag_edge, layers->edge_count + 1);
    for (int e = 0; e < layers->edge_count; e++)
        edges[e] = (struct sl_dag_edge){layers->edges[e].from, layers->edges[e].to};
    return sl_graph_dag_build(arena, layers->count, edges, layers->edge_count);
}

sl_err sl_peers_no_plan(const struct sl_peers_query *query, bool stopped) {
    char memory[SL_HUMAN_BYTES + 16] = "keeps all of them busy", cpus[48] = "",
                                 bytes[SL_HUMAN_BYTES];
    if (query->memory_bytes > 0) /* otherwise only all_devices can be the reason */
        snprintf(memory, sizeof memory, "stays within %s",
                 sl_human_bytes((int64_t)query->memory_bytes, bytes));
    if (query->cpus > 0)
        snprintf(cpus, sizeof cpus, " and %lld CPUs", (long long)query->cpus);
    return sl_fail(SL_ERR_REFUSED, "%s: on %lld devices%s no cut of this graph%s %s%s",
                   stopped ? "no plan was found" : "nothing fits", (long long)query->devices, cpus,
                   stopped ? " that was examined" : "", memory,
                   stopped
                       ? ", and there are too many to examine all; try more memory or devices, or "
                         "layers in larger groups"
                       : "");
}

sl_err sl_peers_not_even(void) {
    return sl_fail(SL_ERR_REFUSED,
                   "even: equal stages do not fit on these devices; try planner 'sluice'");
}

sl_err sl_peers_plan(const struct sl_peers_cost_model *model, struct sl_arena *arena,
                     const struct sl_layers *layers, const struct sl_peers_query *query,
                     struct sl_peers_plan *out) {
    sl_err err = model->plan(arena, layers, query, out);
    if (err != SL_ERR_REFUSED || !out->timed_out)
        return err;
    err = model->even(arena, layers, query, out);
    out->timed_out = true;
    return err == SL_OK ? err
                        : sl_fail(SL_ERR_REFUSED, "no plan was found within the time limit; try a "
                                                  "longer --time-limit");
}
