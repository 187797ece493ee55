/* Shared by the fuzz targets of other planners' inputs: read, then plan small inputs; a plan must
 * cover all layers. */
#ifndef SL_FUZZ_PEER_COMMON_H
#define SL_FUZZ_PEER_COMMON_H

#include "fuzz/meter.h"
#include "interop/importer.h"
#include "peers/peers.h"

#include <stdlib.h>

/* Without edges there are 2^layers cuts and 3^layers pairs of cuts. */
enum { PLANNED_MAX = 8 };

static void fuzz_plan(const char *name, struct sl_arena *arena, const struct sl_layers *layers) {
    struct sl_peers_plan plan;
    struct sl_peers_query query = {.devices = 3,
                                   .level_count = 1,
                                   .level = {3},
                                   .bandwidth = {1e9},
                                   .memory_bytes = 1e9,
                                   .micro = 6,
                                   .cpus = 1};
    int covered = 0;
    if (sl_peers_cost_model_of(name)->plan(arena, layers, &query, &plan) != SL_OK)
        return;
    for (int i = 0; i < plan.stage_count; i++)
        covered += plan.stages[i].count;
    if (covered < 1 || covered > layers->count || !(plan.objective >= plan.lower_bound))
        abort();
}

static int fuzz_peer(const char *name, const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_layers *layers;
    const struct sl_importer *importer = sl_interop_importer_find(name);
    sl_meter_start();
    sl_err err = importer->read(&arena, "fuzz", (const char *)data, size, &layers);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK) {
        sl_cost_layers_summary(layers, &text);
        sl_cost_layers_summary_json(layers, &text);
        if (layers->count <= PLANNED_MAX)
            fuzz_plan(name, &arena, layers);
    }
    sl_text_free(&text);
    sl_arena_free(&arena);
    return 0;
}

#endif
