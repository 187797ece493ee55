/* Layers and edges of a file before they become sl_layers: positions for messages, ids to
 * indices. */
#include "interop/draft.h"

#include "base/sort.h"

#include <stdarg.h>

void sl_interop_draft_free(struct sl_draft *draft) {
    SL_VEC_FREE(&draft->layers);
    SL_VEC_FREE(&draft->places);
    SL_VEC_FREE(&draft->edges);
    sl_arena_free(&draft->scratch);
}

sl_err sl_interop_draft_fail(const struct sl_draft *draft, const char *at, const char *fmt, ...) {
    int line = 1;
    const char *line_start = draft->start;
    for (const char *c = draft->start; c < at; c++)
        if (*c == '\n') {
            line++;
            line_start = c + 1;
        }
    va_list args;
    va_start(args, fmt);
    sl_vfail(SL_ERR_INPUT, fmt, args);
    va_end(args);
    return sl_err_context(SL_ERR_INPUT, "%s:%d:%d", draft->file, line, (int)(at - line_start) + 1);
}

static int compare_ids(const void *a, const void *b) {
    const struct sl_draft_id *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

int sl_interop_draft_find(const struct sl_draft *draft, int64_t id) {
    int64_t low = 0, high = draft->layers.count;
    while (low < high) {
        int64_t mid = (low + high) / 2;
        if (draft->ids[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < draft->layers.count && draft->ids[low].id == id ? draft->ids[low].index : -1;
}

static sl_err read_edge(struct sl_draft *draft, struct sl_json_in *json, const char *cost_key) {
    struct sl_draft_edge edge = {.at = json->at - 1};
    bool has_from = false, has_to = false, has_cost = false;
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        struct sl_str key = json->string;
        if (sl_str_is(key, "sourceId")) {
            SL_TRY(sl_json_take_int(json, INT64_MIN / 4, INT64_MAX / 4, &edge.from));
            has_from = true;
        } else if (sl_str_is(key, "destId")) {
            SL_TRY(sl_json_take_int(json, INT64_MIN / 4, INT64_MAX / 4, &edge.to));
            has_to = true;
        } else if (sl_str_is(key, cost_key)) {
            SL_TRY(sl_json_take_double(json, &edge.cost));
            has_cost = true;
        } else {
            SL_TRY(sl_json_next(json));
            SL_TRY(sl_json_skip(json));
        }
    }
    if (!has_from || !has_to || !has_cost)
        return sl_interop_draft_fail(draft, edge.at, "an edge needs sourceId, destId and %s",
                                     cost_key);
    SL_PUSH(&draft->edges, edge);
    return SL_OK;
}

sl_err sl_interop_draft_read_edges(struct sl_draft *draft, struct sl_json_in *json,
                                   const char *cost_key) {
    if (draft->edges.count)
        return sl_json_fail(json, "a second list of edges");
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_ARRAY_END)
            return SL_OK;
        if (json->event != SL_JSON_OBJECT)
            return sl_json_fail(json, "an edge must be an object");
        SL_TRY(read_edge(draft, json, cost_key));
        if (draft->edges.count > SL_LAYER_EDGE_MAX)
            return sl_json_fail(json, "more than %d edges", SL_LAYER_EDGE_MAX);
    }
}

sl_err sl_interop_draft_link(struct sl_draft *draft) {
    int64_t layers = draft->layers.count, edges = draft->edges.count;
    draft->ids = SL_NEW(&draft->scratch, struct sl_draft_id, layers + 1);
    draft->linked = SL_NEW(&draft->scratch, struct sl_layer_edge, edges + 1);
    for (int64_t i = 0; i < layers; i++)
        draft->ids[i] = (struct sl_draft_id){draft->layers.at[i].id, (int)i};
    sl_sort(draft->ids, layers, sizeof *draft->ids, compare_ids);
    for (int64_t i = 1; i < layers; i++)
        if (draft->ids[i].id == draft->ids[i - 1].id)
            return sl_interop_draft_fail(draft, draft->places.at[draft->ids[i].index],
                                         "layer %lld: the same id twice",
                                         (long long)draft->ids[i].id);
    for (int64_t e = 0; e < edges; e++) {
        const struct sl_draft_edge *edge = &draft->edges.at[e];
        int from = sl_interop_draft_find(draft, edge->from),
            to = sl_interop_draft_find(draft, edge->to);
        if (from < 0 || to < 0)
            return sl_interop_draft_fail(draft, edge->at,
                                         "an edge names layer %lld, which is not there",
                                         (long long)(from < 0 ? edge->from : edge->to));
        draft->linked[e] = (struct sl_layer_edge){from, to, edge->cost};
    }
    sl_cost_layers_link(&draft->scratch, draft->layers.at, (int)layers, draft->linked, (int)edges);
    return SL_OK;
}

static sl_err fail_place(const void *ctx, int layer, int edge, const char *text) {
    const struct sl_draft *draft = ctx;
    if (layer >= 0)
        return sl_interop_draft_fail(draft, draft->places.at[layer], "layer %lld: %s",
                                     (long long)draft->layers.at[layer].id, text);
    return sl_interop_draft_fail(draft, draft->edges.at[edge].at, "edge %lld -> %lld: %s",
                                 (long long)draft->edges.at[edge].from,
                                 (long long)draft->edges.at[edge].to, text);
}

sl_err sl_interop_draft_build(struct sl_draft *draft, struct sl_arena *arena, const char *format,
                              const struct sl_layers **out) {
    struct sl_layers layers = {.format = format,
                               .id_prefix = draft->id_prefix ? draft->id_prefix : "",
                               .at = draft->layers.at,
                               .count = (int)draft->layers.count,
                               .edges = draft->linked,
                               .edge_count = (int)draft->edges.count,
                               .machine = draft->machine};
    struct sl_layers_place place = {fail_place, draft};
    if (!draft->layers.count)
        return sl_interop_draft_fail(draft, draft->start, "no layers");
    return sl_cost_layers_build(arena, &layers, &place, out);
}
