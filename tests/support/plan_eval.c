/* Re-evaluation of plans, straight from the formulas in planners.md, quadratic and plain. */
#include "support/plan_eval.h"

#include "base/json.h"
#include "base/vec.h"

#include <math.h>
#include <stdio.h>

/* ---- reading ---- */

static int find_layer(const struct sl_layers *layers, struct sl_str id) {
    char text[64];
    size_t skip = strlen(layers->id_prefix);
    if (id.length <= skip || id.length >= sizeof text ||
        memcmp(id.at, layers->id_prefix, skip) != 0)
        return -1;
    memcpy(text, id.at + skip, id.length - skip);
    text[id.length - skip] = 0;
    for (int i = 0; i < layers->count; i++)
        if (layers->at[i].id == strtoll(text, NULL, 10))
            return i;
    return -1;
}

static bool read_nodes(struct sl_arena *arena, const struct sl_layers *layers,
                       struct sl_json_in *json, struct sl_peers_stage *stage) {
    int *list = SL_NEW(arena, int, layers->count + 1);
    if (sl_json_take(json, SL_JSON_ARRAY) != SL_OK)
        return false;
    while (sl_json_next(json) == SL_OK && json->event != SL_JSON_ARRAY_END) {
        char text[32];
        struct sl_str id = json->string;
        if (json->event == SL_JSON_NUMBER) {
            snprintf(text, sizeof text, "%.0f", json->number);
            id = sl_str(text);
        }
        int found = find_layer(layers, id);
        if (found < 0 || stage->count == layers->count)
            return false;
        list[stage->count++] = found;
    }
    stage->layers = list;
    return true;
}

static bool read_options(struct sl_arena *arena, const struct sl_layers *layers,
                         struct sl_json_in *json, struct sl_peers_stage *stage) {
    int *options = SL_NEW(arena, int, stage->count + 1), found = 0;
    if (sl_json_take(json, SL_JSON_OBJECT) != SL_OK)
        return false;
    while (sl_json_next(json) == SL_OK && json->event == SL_JSON_KEY) {
        int layer = find_layer(layers, json->string), at = 0;
        const char *name;
        if (layer < 0 || sl_json_take_string(json, arena, &name) != SL_OK)
            return false;
        while (at < stage->count && stage->layers[at] != layer)
            at++;
        if (at == stage->count)
            return false;
        options[at] = -1;
        for (int o = 0; o < layers->at[layer].option_count; o++)
            if (strcmp(layers->at[layer].options[o].name, name) == 0 &&
                layers->at[layer].options[o].tensor == stage->t)
                options[at] = o;
        found++;
    }
    stage->options = found == stage->count ? options : NULL;
    return true;
}

static bool read_stages(struct sl_arena *arena, const struct sl_layers *layers,
                        struct sl_json_in *json, const struct sl_peers_stage **out, int *count);

static bool read_field(struct sl_arena *arena, const struct sl_layers *layers,
                       struct sl_json_in *json, struct sl_peers_stage *stage) {
    struct sl_str key = json->string;
    const char *device;
    int64_t number;
    if (sl_str_is(key, "nodes"))
        return read_nodes(arena, layers, json, stage);
    if (sl_str_is(key, "options"))
        return read_options(arena, layers, json, stage);
    if (sl_str_is(key, "inner"))
        return read_stages(arena, layers, json, &stage->inner, &stage->inner_count);
    if (sl_str_is(key, "d") || sl_str_is(key, "t")) {
        int *field = sl_str_is(key, "d") ? &stage->d : &stage->t;
        if (sl_json_take_int(json, 1, 1 << 24, &number) != SL_OK)
            return false;
        *field = (int)number;
        return true;
    }
    if (sl_str_is(key, "device")) {
        if (sl_json_take_string(json, arena, &device) != SL_OK)
            return false;
        stage->on_cpu = strcmp(device, "cpu") == 0;
        return true;
    }
    return sl_json_next(json) == SL_OK && sl_json_skip(json) == SL_OK;
}

static bool read_stages(struct sl_arena *arena, const struct sl_layers *layers,
                        struct sl_json_in *json, const struct sl_peers_stage **out, int *count) {
    SL_VEC(struct sl_peers_stage) stages = {0};
    bool good = sl_json_take(json, SL_JSON_ARRAY) == SL_OK;
    while (good && sl_json_next(json) == SL_OK && json->event == SL_JSON_OBJECT) {
        struct sl_peers_stage stage = {0};
        while (good && sl_json_next(json) == SL_OK && json->event == SL_JSON_KEY)
            good = read_field(arena, layers, json, &stage);
        SL_PUSH(&stages, stage);
    }
    *count = (int)stages.count;
    *out = SL_VEC_FREEZE(&stages, arena);
    SL_VEC_FREE(&stages);
    return good;
}

bool sl_eval_read(struct sl_arena *arena, const struct sl_layers *layers, const char *text,
                  size_t length, struct sl_peers_plan *out) {
    struct sl_json_in json;
    *out = (struct sl_peers_plan){0};
    sl_json_read(&json, "plan", text, length);
    if (sl_json_take(&json, SL_JSON_OBJECT) != SL_OK)
        return false;
    while (sl_json_next(&json) == SL_OK && json.event == SL_JSON_KEY) {
        if (sl_str_is(json.string, "stages")) {
            if (!read_stages(arena, layers, &json, &out->stages, &out->stage_count))
                return false;
        } else if (sl_str_is(json.string, "objective")) {
            if (sl_json_take_double(&json, &out->objective) != SL_OK)
                return false;
        } else if (sl_json_next(&json) != SL_OK || sl_json_skip(&json) != SL_OK) {
            return false;
        }
    }
    return out->stage_count > 0;
}

/* ---- rules ---- */

struct eval {
    const struct sl_layers *layers;
    const struct sl_peers_query *query;
    const struct sl_peers_plan *plan;
    int *stage; /* per layer; -1: in none */
    const char *reason;
};

static double refuse(struct eval *eval, const char *reason) {
    eval->reason = reason;
    return -1;
}

/* Every layer once; edges (of the forward pass) never go back. */
static bool covers(struct eval *eval, bool (*skips)(const struct sl_layers *, int)) {
    const struct sl_layers *layers = eval->layers;
    for (int i = 0; i < layers->count; i++)
        eval->stage[i] = -1;
    for (int s = 0; s < eval->plan->stage_count; s++)
        for (int l = 0; l < eval->plan->stages[s].count; l++) {
            int layer = eval->plan->stages[s].layers[l];
            if (eval->stage[layer] >= 0)
                return false;
            eval->stage[layer] = s;
        }
    for (int i = 0; i < layers->count; i++)
        if ((eval->stage[i] < 0) != (skips && skips(layers, i)))
            return false;
    for (int e = 0; e < layers->edge_count && !eval->query->scattered; e++) {
        int from = layers->edges[e].from, to = layers->edges[e].to;
        if (eval->stage[from] > eval->stage[to] && eval->stage[to] >= 0 &&
            !layers->at[from].is_backward && !layers->at[to].is_backward)
            return false;
    }
    return true;
}

/* ---- piper ---- */

static double piper_stage(struct eval *eval, int s, int later) {
    const struct sl_peers_stage *stage = &eval->plan->stages[s];
    const struct sl_layers *layers = eval->layers;
    double time = 0, bytes = 0, params = 0, memory = 0, d = stage->d;
    int in_flight = (later + stage->d + stage->d - 1) / stage->d;
    if (!stage->options)
        return refuse(eval, "a stage without options");
    for (int l = 0; l < stage->count; l++) {
        const struct sl_layer *layer = &layers->at[stage->layers[l]];
        if (stage->options[l] < 0 || stage->options[l] >= layer->option_count)
            return refuse(eval, "an option that is not offered");
        const struct sl_layer_option *option = &layer->options[stage->options[l]];
        if (option->tensor != stage->t)
            return refuse(eval, "an option of another tensor-parallel degree");
        time += option->time;
        params += option->params_bytes;
        memory += option->micro_bytes * in_flight + option->fixed_bytes;
        for (int e = 0; e < layer->in_count; e++)
            if (eval->stage[layers->edges[layer->in[e]].from] != s)
                bytes += layers->edges[layer->in[e]].cost + option->in_bytes[e];
        for (int e = 0; e < layer->out_count; e++)
            if (eval->stage[layers->edges[layer->out[e]].to] != s)
                bytes += layers->edges[layer->out[e]].cost + option->out_bytes[e];
    }
    if (memory > eval->query->memory_bytes * (1 + 1e-12))
        return refuse(eval, "a stage exceeds the memory");
    return time / d + 2 * bytes / d / eval->query->bandwidth[0] +
           4 * (d - 1) / d * params / (double)eval->query->micro / eval->query->bandwidth[0];
}

static double eval_piper(struct eval *eval) {
    int devices = 0, replicas = 0;
    double worst = 0;
    if (!covers(eval, NULL))
        return refuse(eval, "not a contiguous partition");
    for (int s = eval->plan->stage_count - 1; s >= 0; s--) {
        const struct sl_peers_stage *stage = &eval->plan->stages[s];
        double time = piper_stage(eval, s, replicas);
        if (time < 0 || eval->query->micro % stage->d)
            return refuse(eval, eval->reason ? eval->reason : "d does not divide N");
        worst = fmax(worst, time);
        devices += stage->d * stage->t;
        replicas += stage->d;
    }
    if (devices > eval->query->devices || replicas > eval->query->micro)
        return refuse(eval, "too many devices or replicas");
    return worst;
}

/* ---- dnn-partitioning ---- */

static double dnnpart_load(struct eval *eval, int s) {
    const struct sl_layers *layers = eval->layers;
    double load = 0, size = 0;
    bool on_cpu = eval->plan->stages[s].on_cpu;
    for (int i = 0; i < layers->count; i++) {
        bool here = eval->stage[i] == s, crosses = false;
        if (here) {
            load += on_cpu ? layers->at[i].cpu : layers->at[i].forward;
            size += layers->at[i].size_bytes;
            if (layers->at[i].cpu_only && !on_cpu)
                return refuse(eval, "a layer on an accelerator that cannot run it");
        }
        for (int o = 0; o < layers->at[i].out_count; o++)
            crosses |= (eval->stage[layers->edges[layers->at[i].out[o]].to] == s) != here;
        if (crosses && !on_cpu)
            load += layers->edges[layers->at[i].out[0]].cost;
    }
    if (size > eval->query->memory_bytes && !on_cpu)
        return refuse(eval, "an accelerator exceeds its memory");
    return load;
}

static double eval_dnnpart(struct eval *eval) {
    int64_t accelerators = 0, cpus = 0;
    double worst = 0;
    if (!covers(eval, NULL))
        return refuse(eval, "not a contiguous partition");
    for (int i = 0; i < eval->layers->count; i++)
        for (int j = 0; j < i; j++)
            if (eval->layers->at[i].color >= 0 &&
                eval->layers->at[i].color == eval->layers->at[j].color &&
                eval->stage[i] != eval->stage[j])
                return refuse(eval, "a colour class on two devices");
    for (int s = 0; s < eval->plan->stage_count; s++) {
        double load = dnnpart_load(eval, s);
        if (load < 0)
            return load;
        worst = fmax(worst, load);
        *(eval->plan->stages[s].on_cpu ? &cpus : &accelerators) += 1;
    }
    if (accelerators > eval->query->devices || cpus > eval->query->cpus)
        return refuse(eval, "too many devices");
    return worst;
}

/* ---- pipedream ---- */

bool sl_eval_pipedream_drops(const struct sl_layers *layers, int layer) {
    const struct sl_layer *at = &layers->at[layer];
    return at->name && ((!at->in_count && strncmp(at->name, "Input", 5) == 0) ||
                        (!at->out_count && strncmp(at->name, "__getitem__", 11) == 0));
}

/* Marks everything from which `layer` can be reached. */
static void mark_before(const struct sl_layers *layers, int layer, bool *mark) {
    for (int e = 0; e < layers->at[layer].in_count; e++) {
        int from = layers->edges[layers->at[layer].in[e]].from;
        if (!mark[from] && !sl_eval_pipedream_drops(layers, from)) {
            mark[from] = true;
            mark_before(layers, from, mark);
        }
    }
}

double sl_eval_pipedream_out(const struct sl_layers *layers, const bool *in) {
    bool *counts = calloc((size_t)layers->count, 1), *before = calloc((size_t)layers->count, 1);
    double bytes = 0;
    for (int tip = 0; tip < layers->count; tip++) {
        bool is_tip = in[tip];
        for (int e = 0; e < layers->at[tip].out_count; e++)
            is_tip = is_tip && !in[layers->edges[layers->at[tip].out[e]].to];
        if (!is_tip)
            continue;
        counts[tip] = true;
        memset(before, 0, (size_t)layers->count);
        mark_before(layers, tip, before);
        for (int e = 0; e < layers->edge_count; e++) {
            int to = layers->edges[e].to;
            if (before[layers->edges[e].from] && to != tip && !before[to] &&
                !sl_eval_pipedream_drops(layers, to))
                counts[layers->edges[e].from] = true;
        }
    }
    for (int i = 0; i < layers->count; i++)
        bytes += counts[i] ? layers->at[i].output_bytes : 0;
    free(counts);
    free(before);
    return bytes;
}

/* Stages of a level; `in` holds the layers before them and grows. */
static double pipedream_level(struct eval *eval, const struct sl_peers_stage *stages, int count,
                              int level, bool *in) {
    const struct sl_peers_query *query = eval->query;
    double bandwidth = query->bandwidth[level], worst = 0;
    int units = 0, total = 0, kept = 0;
    for (int i = 0; i < eval->layers->count; i++)
        kept += !sl_eval_pipedream_drops(eval->layers, i);
    for (int i = 0; i < count; i++)
        units += stages[i].d;
    if (units > query->level[level])
        return refuse(eval, "too many units on a level");
    for (int i = 0; i < count; i++) {
        double time = 0, params = 0, m = stages[i].d;
        double out_before = i ? sl_eval_pipedream_out(eval->layers, in) : 0;
        if (stages[i].inner_count)
            time = pipedream_level(eval, stages[i].inner, stages[i].inner_count, level - 1, in);
        for (int l = 0; l < stages[i].count; l++) {
            const struct sl_layer *layer = &eval->layers->at[stages[i].layers[l]];
            if (!stages[i].inner_count)
                time += (layer->forward + layer->backward) / 1000;
            params += layer->params_bytes;
            in[stages[i].layers[l]] = true;
        }
        if (time < 0)
            return time;
        double sync = 4 * (m - 1) / m * params / bandwidth;
        if (i == 0 && level > 0)
            sync /= (double)query->level[level - 1];
        worst = fmax(worst, (time + sync) / m);
        total = 0;
        for (int l = 0; l < eval->layers->count; l++)
            total += in[l];
        if (i && !query->free_links) {
            worst = fmax(worst, 2 * out_before / (bandwidth * m));
            if (total < kept)
                worst = fmax(worst, 2 * sl_eval_pipedream_out(eval->layers, in) / (bandwidth * m));
        }
    }
    return worst;
}

static double eval_pipedream(struct eval *eval) {
    if (!covers(eval, sl_eval_pipedream_drops))
        return refuse(eval, "not a contiguous partition");
    bool *in = calloc((size_t)eval->layers->count, 1);
    double worst = pipedream_level(eval, eval->plan->stages, eval->plan->stage_count,
                                   eval->query->level_count - 1, in);
    free(in);
    return worst;
}

double sl_eval_plan(const char *model, const struct sl_layers *layers,
                    const struct sl_peers_query *query, const struct sl_peers_plan *plan,
                    const char **reason) {
    struct eval eval = {.layers = layers, .query = query, .plan = plan};
    eval.stage = calloc((size_t)layers->count, sizeof *eval.stage);
    double objective = strcmp(model, "piper") == 0              ? eval_piper(&eval)
                       : strcmp(model, "dnn-partitioning") == 0 ? eval_dnnpart(&eval)
                                                                : eval_pipedream(&eval);
    free(eval.stage);
    *reason = eval.reason ? eval.reason : "";
    return objective;
}
