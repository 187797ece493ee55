/* Reads Piper's JSON (Tarnawski et al., NeurIPS 2021): layers with alternatives (TMPCs) per
 * tensor-parallel degree; the traffic of an alternative is listed per neighbour and must cover
 * every edge. */
#include "base/sort.h"
#include "interop/draft.h"
#include "interop/importer.h"

#include <stdlib.h>

enum { OPTIONS_MAX = 64 };

struct sync {
    int64_t other; /* id of the neighbour */
    double bytes;
    const char *at;
};

struct range {
    int64_t first, count;
};

/* An option. Options of all layers are in one vector, sync entries of all options in another. */
struct option_row {
    struct sl_layer_option option;
    struct range in, out; /* ranges of `syncs` */
    const char *at;
};

struct input {
    struct sl_draft draft;
    struct sl_json_in json;
    struct sl_arena *arena;
    SL_VEC(struct option_row) options;
    SL_VEC(struct sync) syncs;
    SL_VEC(int64_t) first_option; /* first option of each layer */
};

static sl_err read_id_key(struct input *input, int64_t *out) {
    char text[24];
    struct sl_str key = input->json.string;
    if (!key.length || key.length >= sizeof text)
        return sl_json_fail(&input->json, "expected the number of a node as the key");
    memcpy(text, key.at, key.length);
    text[key.length] = 0;
    if (sl_parse_int(text, "key", out) != SL_OK)
        return sl_json_fail(&input->json, "expected the number of a node as the key");
    return SL_OK;
}

static sl_err read_sync(struct input *input, struct range *range) {
    SL_TRY(sl_json_take(&input->json, SL_JSON_OBJECT));
    range->first = input->syncs.count;
    for (;;) {
        SL_TRY(sl_json_next(&input->json));
        if (input->json.event == SL_JSON_OBJECT_END)
            break;
        struct sync sync = {.at = input->json.string.at};
        SL_TRY(read_id_key(input, &sync.other));
        SL_TRY(sl_json_take_double(&input->json, &sync.bytes));
        if (sync.bytes < 0)
            return sl_json_fail(&input->json, "negative traffic");
        SL_PUSH(&input->syncs, sync);
    }
    range->count = input->syncs.count - range->first;
    return SL_OK;
}

enum { HAS_TIME = 1, HAS_WEIGHTS = 2, HAS_A = 4, HAS_B = 8, HAS_IN = 16, HAS_OUT = 32, ALL = 63 };

static sl_err read_option_field(struct input *input, struct option_row *row, int *seen) {
    struct sl_str key = input->json.string;
    struct sl_layer_option *option = &row->option;
    struct {
        const char *key;
        double *out;
        int bit;
    } numbers[] = {{"timePerSample", &option->time, HAS_TIME},
                   {"parameterSize", &option->params_bytes, HAS_WEIGHTS},
                   {"memoryUsageA", &option->micro_bytes, HAS_A},
                   {"memoryUsageB", &option->fixed_bytes, HAS_B}};
    for (int i = 0; i < SL_COUNT(numbers); i++)
        if (sl_str_is(key, numbers[i].key)) {
            *seen |= numbers[i].bit;
            return sl_json_take_double(&input->json, numbers[i].out);
        }
    if (sl_str_is(key, "syncTimeFw") && !(*seen & HAS_IN)) {
        *seen |= HAS_IN;
        return read_sync(input, &row->in);
    }
    if (sl_str_is(key, "syncTimeBw") && !(*seen & HAS_OUT)) {
        *seen |= HAS_OUT;
        return read_sync(input, &row->out);
    }
    if (sl_str_is(key, "id"))
        return sl_json_take_string(&input->json, input->arena, &option->name);
    SL_TRY(sl_json_next(&input->json));
    return sl_json_skip(&input->json);
}

static sl_err read_option(struct input *input, int tensor) {
    struct option_row row = {.option = {.tensor = tensor, .name = ""}, .at = input->json.at - 1};
    int seen = 0;
    for (;;) {
        SL_TRY(sl_json_next(&input->json));
        if (input->json.event == SL_JSON_OBJECT_END)
            break;
        SL_TRY(read_option_field(input, &row, &seen));
    }
    if (seen != ALL)
        return sl_interop_draft_fail(&input->draft, row.at,
                                     "a TMPC needs timePerSample, parameterSize, memoryUsageA, "
                                     "memoryUsageB, syncTimeFw and syncTimeBw");
    SL_PUSH(&input->options, row);
    return SL_OK;
}

static int compare_options(const void *a, const void *b) {
    const struct option_row *x = a, *y = b;
    if (x->option.tensor != y->option.tensor)
        return x->option.tensor < y->option.tensor ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static sl_err read_options(struct input *input, struct sl_layer *layer) {
    int64_t first = input->options.count, tensor;
    if (layer->option_count)
        return sl_json_fail(&input->json, "a second list of TMPCs");
    SL_TRY(sl_json_take(&input->json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(&input->json));
        if (input->json.event == SL_JSON_OBJECT_END)
            break;
        SL_TRY(read_id_key(input, &tensor));
        if (tensor < 1 || tensor > SL_LAYER_TENSOR_MAX)
            return sl_json_fail(&input->json, "tensor-parallel degree %lld is out of range",
                                (long long)tensor);
        SL_TRY(sl_json_take(&input->json, SL_JSON_ARRAY));
        for (;;) {
            SL_TRY(sl_json_next(&input->json));
            if (input->json.event == SL_JSON_ARRAY_END)
                break;
            if (input->json.event != SL_JSON_OBJECT)
                return sl_json_fail(&input->json, "a TMPC must be an object");
            SL_TRY(read_option(input, (int)tensor));
            if (input->options.count - first > OPTIONS_MAX)
                return sl_json_fail(&input->json, "more than %d TMPCs of one node", OPTIONS_MAX);
        }
    }
    layer->option_count = (int)(input->options.count - first);
    if (layer->option_count)
        sl_sort(input->options.at + first, layer->option_count, sizeof *input->options.at,
                compare_options);
    return SL_OK;
}

static sl_err read_node(struct input *input) {
    struct sl_layer layer = {.color = -1};
    const char *at = input->json.at - 1;
    int64_t first = input->options.count;
    bool has_id = false;
    for (;;) {
        SL_TRY(sl_json_next(&input->json));
        if (input->json.event == SL_JSON_OBJECT_END)
            break;
        if (sl_str_is(input->json.string, "id")) {
            SL_TRY(sl_json_take_int(&input->json, INT64_MIN / 4, INT64_MAX / 4, &layer.id));
            has_id = true;
        } else if (sl_str_is(input->json.string, "name")) {
            SL_TRY(sl_json_take_string(&input->json, input->arena, &layer.name));
        } else if (sl_str_is(input->json.string, "TMPCs")) {
            SL_TRY(read_options(input, &layer));
        } else {
            SL_TRY(sl_json_next(&input->json));
            SL_TRY(sl_json_skip(&input->json));
        }
    }
    if (!has_id || !layer.option_count)
        return sl_interop_draft_fail(&input->draft, at, "a node needs an id and TMPCs");
    if (input->draft.layers.count >= SL_LAYER_MAX)
        return sl_json_fail(&input->json, "more than %d nodes", SL_LAYER_MAX);
    SL_PUSH(&input->draft.layers, layer);
    SL_PUSH(&input->draft.places, at);
    SL_PUSH(&input->first_option, first);
    return SL_OK;
}

static sl_err read_nodes(struct input *input) {
    if (input->draft.layers.count)
        return sl_json_fail(&input->json, "a second list of nodes");
    SL_TRY(sl_json_take(&input->json, SL_JSON_ARRAY));
    for (;;) {
        SL_TRY(sl_json_next(&input->json));
        if (input->json.event == SL_JSON_ARRAY_END)
            return SL_OK;
        if (input->json.event != SL_JSON_OBJECT)
            return sl_json_fail(&input->json, "a node must be an object");
        SL_TRY(read_node(input));
    }
}

static sl_err read_top(struct input *input) {
    struct sl_json_in *json = &input->json;
    struct sl_layers_machine *machine = &input->draft.machine;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        struct sl_str key = json->string;
        if (sl_str_is(key, "nodes")) {
            SL_TRY(read_nodes(input));
        } else if (sl_str_is(key, "edges")) {
            SL_TRY(sl_interop_draft_read_edges(&input->draft, json, "communicationCost"));
        } else if (sl_str_is(key, "maxMemoryPerDevice")) {
            SL_TRY(sl_json_take_double(json, &machine->memory_bytes));
        } else if (sl_str_is(key, "bandwidth")) {
            SL_TRY(sl_json_take_double(json, &machine->bandwidth));
        } else if (sl_str_is(key, "maxDevices")) {
            SL_TRY(sl_json_take_int(json, 1, 1 << 24, &machine->devices));
        } else if (sl_str_is(key, "mbsInBatch")) {
            SL_TRY(sl_json_take_int(json, 1, 1 << 30, &machine->micro));
        } else {
            SL_TRY(sl_json_next(json));
            SL_TRY(sl_json_skip(json));
        }
    }
    return sl_json_take(json, SL_JSON_END);
}

/* ---- traffic: from "by neighbour" to "by edge" ---- */

struct slot {
    int64_t other;
    int position; /* position in the layer's in or out list, or among the option's entries */
};

static int compare_slots(const void *a, const void *b) {
    const struct slot *x = a, *y = b;
    if (x->other != y->other)
        return x->other < y->other ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

/* Reorders the option's entries, which must name every neighbour once, into the order of
 * `edges`. */
static sl_err spread(struct input *input, const char *at, struct range range,
                     const struct slot *wanted, int count, const double **out) {
    if (range.count != count)
        return sl_interop_draft_fail(&input->draft, at,
                                     "the TMPC lists %lld neighbours, the node has %d",
                                     (long long)range.count, count);
    const struct sync *syncs = count ? input->syncs.at + range.first : NULL;
    struct sl_arena_mark mark = sl_arena_mark(&input->draft.scratch);
    struct slot *given = SL_NEW(&input->draft.scratch, struct slot, count + 1);
    double *bytes = SL_NEW(input->arena, double, count + 1);
    sl_err err = SL_OK;
    for (int i = 0; i < count; i++)
        given[i] = (struct slot){syncs[i].other, i};
    sl_sort(given, count, sizeof *given, compare_slots);
    for (int i = 0; i < count && err == SL_OK; i++) {
        if (given[i].other != wanted[i].other)
            err =
                sl_interop_draft_fail(&input->draft, syncs[given[i].position].at,
                                      "traffic with node %lld, but there is no such edge or it is "
                                      "listed twice",
                                      (long long)given[i].other);
        else
            bytes[wanted[i].position] = syncs[given[i].position].bytes;
    }
    sl_arena_release(&input->draft.scratch, mark);
    *out = bytes;
    return err;
}

static struct slot *neighbours(struct input *input, const int *edges, int count, bool from) {
    struct slot *slots = SL_NEW(&input->draft.scratch, struct slot, count + 1);
    for (int i = 0; i < count; i++) {
        const struct sl_draft_edge *edge = &input->draft.edges.at[edges[i]];
        slots[i] = (struct slot){from ? edge->from : edge->to, i};
    }
    sl_sort(slots, count, sizeof *slots, compare_slots);
    return slots;
}

static sl_err place_traffic(struct input *input, int i) {
    struct sl_layer *layer = &input->draft.layers.at[i];
    struct slot *in = neighbours(input, layer->in, layer->in_count, true);
    struct slot *out = neighbours(input, layer->out, layer->out_count, false);
    struct sl_layer_option *options =
        SL_NEW(input->arena, struct sl_layer_option, layer->option_count);
    for (int o = 0; o < layer->option_count; o++) {
        const struct option_row *row = &input->options.at[input->first_option.at[i] + o];
        options[o] = row->option;
        SL_TRY(spread(input, row->at, row->in, in, layer->in_count, &options[o].in_bytes));
        SL_TRY(spread(input, row->at, row->out, out, layer->out_count, &options[o].out_bytes));
    }
    layer->options = options;
    return SL_OK;
}

static sl_err read(struct sl_arena *arena, const char *file, const char *text, size_t length,
                   const struct sl_layers **out) {
    struct input input = {.draft = {.file = file, .start = text}, .arena = arena};
    sl_err err = SL_OK;
    *out = NULL;
    sl_json_read(&input.json, file, text, length);
    SL_TRY_OUT(read_top(&input));
    SL_TRY_OUT(sl_interop_draft_link(&input.draft));
    for (int i = 0; i < (int)input.draft.layers.count; i++)
        SL_TRY_OUT(place_traffic(&input, i));
    SL_TRY_OUT(sl_interop_draft_build(&input.draft, arena, "piper", out));
out:
    SL_VEC_FREE(&input.options);
    SL_VEC_FREE(&input.syncs);
    SL_VEC_FREE(&input.first_option);
    sl_interop_draft_free(&input.draft);
    return err;
}

const struct sl_importer sl_interop_import_piper = {
    .name = "piper",
    .brief = "JSON of msr-fiddle/piper (TMPCs per layer, NeurIPS 2021)",
    .first = '{',
    .mark = "\"TMPCs\"",
    .example = "{\"maxDevices\": 3, \"maxMemoryPerDevice\": 1e9, \"bandwidth\": 1e9, "
               "\"mbsInBatch\": 6, \"nodes\": [\n"
               "{\"id\": 3, \"name\": \"a\", \"TMPCs\": {\"1\": [{\"id\": \"vanilla\", "
               "\"timePerSample\": 7.5,\n"
               " \"parameterSize\": 11, \"memoryUsageA\": 13, \"memoryUsageB\": 17,\n"
               " \"syncTimeFw\": {}, \"syncTimeBw\": {\"5\": 0}}]}},\n"
               "{\"id\": 5, \"name\": \"b\", \"TMPCs\": {\"1\": [{\"id\": \"vanilla\", "
               "\"timePerSample\": 5,\n"
               " \"parameterSize\": 19, \"memoryUsageA\": 23, \"memoryUsageB\": 2,\n"
               " \"syncTimeFw\": {\"3\": 0}, \"syncTimeBw\": {}}]}}],\n"
               "\"edges\": [{\"sourceId\": 3, \"destId\": 5, \"communicationCost\": 41}]}\n",
    .read = read,
};
