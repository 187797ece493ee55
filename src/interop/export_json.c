/* Target json: all fields of a plan (docs/formats-export.md). */
#include "interop/exporter.h"

#include "base/json.h"

static void put_ints(struct sl_json_out *json, const char *key, const int *at, int count) {
    sl_json_key(json, key);
    sl_json_open(json, '[');
    for (int i = 0; i < count; i++)
        sl_json_int(json, at[i]);
    sl_json_close(json, ']');
}

static void put_bytes(struct sl_json_out *json, const struct sl_stage_bytes *b) {
    sl_json_key(json, "bytes");
    sl_json_open(json, '{');
    sl_json_put_int(json, "params", b->params);
    sl_json_put_int(json, "grads", b->grads);
    sl_json_put_int(json, "state", b->state);
    sl_json_put_int(json, "stash", b->stash);
    sl_json_put_int(json, "saved", b->saved);
    sl_json_put_int(json, "kept", b->kept);
    sl_json_put_int(json, "work", b->work);
    sl_json_close(json, '}');
}

static void put_stage(struct sl_json_out *json, const struct sl_stage *stage) {
    sl_json_open(json, '{');
    sl_json_put_string(json, "name", stage->name);
    sl_json_put_int(json, "micro_size", stage->micro_size);
    put_ints(json, "workers", stage->workers, stage->width);
    sl_json_put_int(json, "shards", stage->shards);
    sl_json_put_bool(json, "zero1", stage->zero1);
    sl_json_put_bool(json, "recompute", stage->recompute);
    sl_json_put_bool(json, "has_input", stage->has_input);
    sl_json_put_int(json, "height", stage->height);
    put_ints(json, "nodes", stage->nodes, stage->node_count);
    put_bytes(json, &stage->bytes);
    sl_json_close(json, '}');
}

static void put_edges(struct sl_json_out *json, const struct sl_plan *plan) {
    sl_json_key(json, "edges");
    sl_json_open(json, '[');
    for (int e = 0; e < plan->edge_count; e++) {
        sl_json_open(json, '{');
        sl_json_put_int(json, "from", plan->edges[e].from);
        sl_json_put_int(json, "to", plan->edges[e].to);
        sl_json_put_int(json, "sample_bytes", plan->edges[e].sample_bytes);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

static void put_ties(struct sl_json_out *json, const struct sl_plan *plan) {
    sl_json_key(json, "ties");
    sl_json_open(json, '[');
    for (int t = 0; t < plan->tie_count; t++) {
        sl_json_open(json, '{');
        sl_json_put_string(json, "name", plan->ties[t].name);
        put_ints(json, "stages", plan->ties[t].stages, plan->ties[t].count);
        sl_json_put_int(json, "bytes", plan->ties[t].bytes);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

static sl_err write_json(const struct sl_export *what, struct sl_text *out) {
    const struct sl_plan *plan = what->plan;
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "format", "sluice-plan");
    sl_json_put_int(&json, "version", 1);
    sl_json_put_string(&json, "model", plan->model ? plan->model : "");
    sl_json_put_int(&json, "nodes", plan->node_count);
    sl_json_put_string(&json, "schedule", plan->schedule ? plan->schedule : "");
    sl_json_put_int(&json, "batch", plan->batch);
    sl_json_key(&json, "workers");
    sl_json_open(&json, '[');
    for (int w = 0; w < plan->worker_count; w++) {
        sl_json_open(&json, '{');
        sl_json_put_int(&json, "memory_bytes", plan->memory_bytes ? plan->memory_bytes[w] : 0);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_key(&json, "stages");
    sl_json_open(&json, '[');
    for (int s = 0; s < plan->stage_count; s++)
        put_stage(&json, &plan->stages[s]);
    sl_json_close(&json, ']');
    put_edges(&json, plan);
    put_ties(&json, plan);
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
    return SL_OK;
}

const struct sl_exporter sl_interop_export_json = {
    .name = "json",
    .brief = "everything the plan says, as JSON",
    .write = write_json,
};
