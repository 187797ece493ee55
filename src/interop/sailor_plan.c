/* Reads a plan of Sailor.
 *
 *     {"pipeline_list": [{"layers_per_stage": [[0, 1], [2, 3]],
 *                         "tmp_per_stage": [[ [[["V100-16", 4, zone]], 4] ], ...],   replicas
 *                         "dp": [1, 1]}],
 *      "mbs": 4, "gbs": 64, "real": 1.5, "red_grads": 0.1, "max_mem": 9e9} */
#include "interop/sailor.h"

struct input {
    struct sl_arena *arena;
    const char *file;
};

static sl_err bad(const struct input *in, const struct sl_json_tree *at, const char *what) {
    return sl_fail(SL_ERR_INPUT, "%s:%d: %s", in->file, at->line, what);
}

static sl_err take_int(const struct input *in, const struct sl_json_tree *at, int high, int *out) {
    int low = 0;
    if (!at || at->kind != SL_JSON_NUMBER || !(at->number >= low && at->number <= high) ||
        at->number != (double)(int)at->number)
        return sl_fail(SL_ERR_INPUT, "%s:%d: expected an integer in 0..%d", in->file,
                       at ? at->line : 1, high);
    *out = (int)at->number;
    return SL_OK;
}

static sl_err need_array(const struct input *in, const struct sl_json_tree *at, int low, int high,
                         const char *what) {
    if (at->kind != SL_JSON_ARRAY || at->count < low || at->count > high)
        return sl_fail(SL_ERR_INPUT, "%s:%d: expected %s: a list of %d..%d items", in->file,
                       at->line, what, low, high);
    return SL_OK;
}

static sl_err find_array(const struct input *in, const struct sl_json_tree *at, const char *key,
                         int high, const struct sl_json_tree **out) {
    *out = sl_interop_json_at(at, key);
    if (!*out)
        return sl_fail(SL_ERR_INPUT, "%s:%d: a plan needs %s", in->file, at->line, key);
    return need_array(in, *out, 1, high, key);
}

/* Reads [["V100-16", 4, "us-central1-a"], ...]: hosts that share a replica. */
static sl_err take_hosts(const struct input *in, const struct sl_json_tree *at,
                         struct sl_sailor_replica *out) {
    SL_TRY(need_array(in, at, 1, SL_SAILOR_DEGREE_MAX, "hosts"));
    const char **gpus = SL_NEW(in->arena, const char *, at->count);
    for (const struct sl_json_tree *h = at->child; h; h = h->next) {
        SL_TRY(need_array(in, h, 2, 3, "[GPU, count, zone]"));
        if (h->child->kind != SL_JSON_STRING || !h->child->text[0])
            return bad(in, h, "expected the kind of a GPU");
        gpus[out->gpu_count++] = h->child->text;
        const struct sl_json_tree *zone = h->child->next->next;
        if (zone && zone->kind == SL_JSON_STRING)
            out->zone = zone->text;
    }
    out->gpus = gpus;
    return SL_OK;
}

static sl_err take_replicas(const struct input *in, const struct sl_json_tree *at,
                            struct sl_sailor_stage *out) {
    SL_TRY(need_array(in, at, 1, SL_SAILOR_REPLICAS_MAX, "replicas of a stage"));
    struct sl_sailor_replica *all = SL_NEW(in->arena, struct sl_sailor_replica, at->count), *r;
    for (const struct sl_json_tree *c = at->child; c; c = c->next) {
        r = &all[out->replica_count++];
        SL_TRY(need_array(in, c, 2, 2, "[hosts, tensor degree]"));
        SL_TRY(take_hosts(in, c->child, r));
        SL_TRY(take_int(in, c->child->next, SL_SAILOR_DEGREE_MAX, &r->tensor));
        if (r->tensor < 1)
            return bad(in, c, "a tensor-parallel degree of at least 1");
    }
    out->replicas = all;
    return SL_OK;
}

static sl_err take_layers(const struct input *in, const struct sl_json_tree *at, int *next,
                          struct sl_sailor_stage *out) {
    SL_TRY(need_array(in, at, 1, SL_SAILOR_LAYERS_MAX, "layers of a stage"));
    int *layers = SL_NEW(in->arena, int, at->count);
    for (const struct sl_json_tree *l = at->child; l; l = l->next) {
        SL_TRY(take_int(in, l, SL_SAILOR_LAYERS_MAX - 1, &layers[out->layer_count]));
        if (layers[out->layer_count++] != (*next)++)
            return bad(in, l, "the stages must hold the layers 0, 1, 2, ... in order");
    }
    out->layers = layers;
    return SL_OK;
}

static sl_err take_pipeline(const struct input *in, const struct sl_json_tree *at,
                            struct sl_sailor_plan *plan) {
    const struct sl_json_tree *layers, *groups, *widths = sl_interop_json_at(at, "dp"), *w;
    int next = 0, width;
    SL_TRY(find_array(in, at, "layers_per_stage", SL_SAILOR_STAGES_MAX, &layers));
    SL_TRY(find_array(in, at, "tmp_per_stage", SL_SAILOR_STAGES_MAX, &groups));
    if (groups->count != layers->count)
        return bad(in, groups, "tmp_per_stage and layers_per_stage differ in the stages");
    if (widths && (widths->kind != SL_JSON_ARRAY || widths->count != layers->count))
        return bad(in, widths, "dp needs one number per stage");
    plan->stage_count = layers->count;
    struct sl_sailor_stage *stages = SL_NEW(in->arena, struct sl_sailor_stage, layers->count);
    plan->stages = stages;
    w = widths ? widths->child : NULL;
    layers = layers->child;
    groups = groups->child;
    for (int i = 0; i < plan->stage_count; i++, layers = layers->next, groups = groups->next) {
        SL_TRY(take_layers(in, layers, &next, &stages[i]));
        SL_TRY(take_replicas(in, groups, &stages[i]));
        if (!w)
            continue;
        SL_TRY(take_int(in, w, SL_SAILOR_REPLICAS_MAX, &width));
        if (width != stages[i].replica_count)
            return bad(in, w, "dp is not the number of replicas of its stage");
        w = w->next;
    }
    return SL_OK;
}

/* Reads a number that may be absent. */
static sl_err take_measured(const struct input *in, const struct sl_json_tree *root,
                            const char *key, double *out) {
    const struct sl_json_tree *at = sl_interop_json_at(root, key);
    if (!at)
        return SL_OK;
    if (at->kind != SL_JSON_NUMBER || !(at->number >= 0 && at->number <= 1e18))
        return bad(in, at, "expected a measured number");
    *out = at->number;
    return SL_OK;
}

static sl_err take_plan(const struct input *in, const struct sl_json_tree *root,
                        struct sl_sailor_plan *plan) {
    const struct sl_json_tree *list, *micro = sl_interop_json_at(root, "mbs"),
                                     *batch = sl_interop_json_at(root, "gbs");
    int value;
    SL_TRY(find_array(in, root, "pipeline_list", SL_SAILOR_STAGES_MAX, &list));
    if (list->count > 1)
        return bad(in, list, "several pipelines; one is supported");
    SL_TRY(take_pipeline(in, list->child, plan));
    if (!micro)
        return bad(in, root, "a plan needs mbs, its micro-batch");
    SL_TRY(take_int(in, micro, 1 << 20, &value));
    plan->micro = value;
    if (batch)
        SL_TRY(take_int(in, batch, 1 << 28, &value));
    plan->batch = batch ? value : 0;
    if (plan->micro < 1 || (batch && plan->batch < 1))
        return bad(in, micro, "mbs and gbs must be positive");
    SL_TRY(take_measured(in, root, "real", &plan->real));
    SL_TRY(take_measured(in, root, "red_grads", &plan->sync));
    return take_measured(in, root, "max_mem", &plan->peak_bytes);
}

sl_err sl_interop_sailor_read_plan(struct sl_arena *arena, const char *file,
                                   const struct sl_json_tree *root,
                                   const struct sl_sailor_plan **out) {
    const struct input in = {arena, file};
    struct sl_sailor_plan *plan = SL_NEW(arena, struct sl_sailor_plan, 1);
    plan->file = file;
    if (*out)
        return bad(&in, root, "a second plan; one at a time");
    SL_TRY(take_plan(&in, root, plan));
    *out = plan;
    return SL_OK;
}
