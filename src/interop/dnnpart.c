/* Reads JSON of dnn-partitioning (Tarnawski et al., NeurIPS 2020): nodes with accelerator and CPU
 * latencies, sizes and colour classes; edges whose cost is the time to move the source's output. */
#include "interop/draft.h"
#include "interop/importer.h"

static sl_err take_flag(struct sl_json_in *json, bool *out) {
    SL_TRY(sl_json_next(json));
    if (json->event == SL_JSON_BOOL)
        *out = json->boolean;
    else if (json->event == SL_JSON_NUMBER && (json->number == 0 || json->number == 1))
        *out = json->number == 1;
    else
        return sl_json_fail(json, "must be true, false, 1 or 0");
    return SL_OK;
}

enum { HAS_ID = 1, HAS_FLAG = 2, HAS_CPU = 4, HAS_FPGA = 8, HAS_BACKWARD = 16, HAS_ALL = 31 };

static sl_err read_field(struct sl_json_in *json, struct sl_arena *arena, struct sl_layer *layer,
                         int *seen) {
    struct sl_str key = json->string;
    bool flag;
    if (sl_str_is(key, "id")) {
        *seen |= HAS_ID;
        return sl_json_take_int(json, INT64_MIN / 4, INT64_MAX / 4, &layer->id);
    }
    if (sl_str_is(key, "supportedOnFpga")) {
        *seen |= HAS_FLAG;
        SL_TRY(take_flag(json, &flag));
        layer->cpu_only = !flag;
        return SL_OK;
    }
    if (sl_str_is(key, "isBackwardNode")) {
        *seen |= HAS_BACKWARD;
        return take_flag(json, &layer->is_backward);
    }
    if (sl_str_is(key, "cpuLatency")) {
        *seen |= HAS_CPU;
        return sl_json_take_double(json, &layer->cpu);
    }
    if (sl_str_is(key, "fpgaLatency")) {
        *seen |= HAS_FPGA;
        return sl_json_take_double(json, &layer->forward);
    }
    if (sl_str_is(key, "colorClass"))
        return sl_json_take_int(json, 0, INT64_MAX / 4, &layer->color);
    if (sl_str_is(key, "size"))
        return sl_json_take_double(json, &layer->size_bytes);
    if (sl_str_is(key, "name"))
        return sl_json_take_string(json, arena, &layer->name);
    SL_TRY(sl_json_next(json));
    return sl_json_skip(json);
}

static sl_err read_nodes(struct sl_draft *draft, struct sl_json_in *json, struct sl_arena *arena) {
    if (draft->layers.count)
        return sl_json_fail(json, "a second list of nodes");
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_ARRAY_END)
            return SL_OK;
        if (json->event != SL_JSON_OBJECT)
            return sl_json_fail(json, "a node must be an object");
        struct sl_layer layer = {.color = -1};
        const char *at = json->at - 1;
        int seen = 0;
        for (;;) {
            SL_TRY(sl_json_next(json));
            if (json->event == SL_JSON_OBJECT_END)
                break;
            SL_TRY(read_field(json, arena, &layer, &seen));
        }
        if (seen != HAS_ALL)
            return sl_interop_draft_fail(draft, at,
                                         "a node needs id, supportedOnFpga, cpuLatency, "
                                         "fpgaLatency and isBackwardNode");
        if (draft->layers.count >= SL_LAYER_MAX)
            return sl_json_fail(json, "more than %d nodes", SL_LAYER_MAX);
        SL_PUSH(&draft->layers, layer);
        SL_PUSH(&draft->places, at);
    }
}

static sl_err read_top(struct sl_draft *draft, struct sl_json_in *json, struct sl_arena *arena) {
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        struct sl_str key = json->string;
        if (sl_str_is(key, "nodes")) {
            SL_TRY(read_nodes(draft, json, arena));
        } else if (sl_str_is(key, "edges")) {
            SL_TRY(sl_interop_draft_read_edges(draft, json, "cost"));
        } else if (sl_str_is(key, "maxSizePerFPGA")) {
            SL_TRY(sl_json_take_double(json, &draft->machine.memory_bytes));
        } else if (sl_str_is(key, "maxFPGAs")) {
            SL_TRY(sl_json_take_int(json, 0, 1 << 20, &draft->machine.devices));
        } else if (sl_str_is(key, "maxCPUs")) {
            SL_TRY(sl_json_take_int(json, 0, 1 << 20, &draft->machine.cpus));
        } else {
            SL_TRY(sl_json_next(json));
            SL_TRY(sl_json_skip(json));
        }
    }
    return sl_json_take(json, SL_JSON_END);
}

/* Checks costs. A node's output is one tensor, so every edge that carries it must have the same
 * cost. */
static sl_err check_costs(const struct sl_draft *draft) {
    for (int64_t i = 0; i < draft->layers.count; i++) {
        const struct sl_layer *layer = &draft->layers.at[i];
        for (int o = 1; o < layer->out_count; o++) {
            double gap = draft->linked[layer->out[o]].cost - draft->linked[layer->out[0]].cost;
            if (gap > 1e-6 || gap < -1e-6)
                return sl_interop_draft_fail(draft, draft->edges.at[layer->out[o]].at,
                                             "node %lld has edges of different cost",
                                             (long long)layer->id);
        }
    }
    return SL_OK;
}

static sl_err read(struct sl_arena *arena, const char *file, const char *text, size_t length,
                   const struct sl_layers **out) {
    struct sl_draft draft = {.file = file, .start = text};
    struct sl_json_in json;
    sl_err err = SL_OK;
    *out = NULL;
    sl_json_read(&json, file, text, length);
    SL_TRY_OUT(read_top(&draft, &json, arena));
    SL_TRY_OUT(sl_interop_draft_link(&draft));
    SL_TRY_OUT(check_costs(&draft));
    SL_TRY_OUT(sl_interop_draft_build(&draft, arena, "dnn-partitioning", out));
out:
    sl_interop_draft_free(&draft);
    return err;
}

const struct sl_importer sl_interop_import_dnnpart = {
    .name = "dnn-partitioning",
    .brief = "JSON of msr-fiddle/dnn-partitioning (device placement, NeurIPS 2020)",
    .first = '{',
    .mark = "\"fpgaLatency\"",
    .example = "{\"maxSizePerFPGA\": 100.0, \"maxFPGAs\": 2, \"maxCPUs\": 1, \"nodes\": [\n"
               "{\"name\": \"a\", \"id\": 1, \"supportedOnFpga\": 1, \"cpuLatency\": 50, "
               "\"fpgaLatency\": 5,\n"
               " \"isBackwardNode\": 0, \"colorClass\": 1, \"size\": 7},\n"
               "{\"name\": \"b\", \"id\": 2, \"supportedOnFpga\": 1, \"cpuLatency\": 30, "
               "\"fpgaLatency\": 3,\n"
               " \"isBackwardNode\": 0, \"colorClass\": 2, \"size\": 11}],\n"
               "\"edges\": [{\"sourceId\": 1, \"destId\": 2, \"cost\": 0.5}]}\n",
    .read = read,
};
