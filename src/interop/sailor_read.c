/* Reads files of Sailor. The nesting of the JSON shows which file it is. */
#include "base/sort.h"
#include "interop/json_tree.h"
#include "interop/sailor.h"

#include <math.h>
#include <string.h>

enum { TABLE_MAX = 1 << 20, MICRO_MAX = 1 << 20 };

struct input {
    struct sl_sailor *s;
    struct sl_arena *arena;
    const char *file;
};

static sl_err bad(const struct input *in, const struct sl_json_tree *at, const char *what) {
    return sl_fail(SL_ERR_INPUT, "%s:%d: %s", in->file, at ? at->line : 1, what);
}

void sl_interop_sailor_free(struct sl_sailor *s) {
    SL_VEC_FREE(&s->profiles);
    SL_VEC_FREE(&s->models);
    SL_VEC_FREE(&s->links);
}

/* --- numbers --- */

static sl_err take_number(const struct input *in, const struct sl_json_tree *at, double max,
                          double *out) {
    if (at->kind != SL_JSON_NUMBER || !(at->number >= 0 && at->number <= max))
        return bad(in, at, "expected a number that is not negative, and not too large");
    *out = at->number;
    return SL_OK;
}

static sl_err take_int(const struct input *in, const struct sl_json_tree *at, int low, int high,
                       int64_t *out) {
    if (at->kind != SL_JSON_NUMBER || !(at->number >= low && at->number <= high) ||
        at->number != floor(at->number))
        return sl_fail(SL_ERR_INPUT, "%s:%d: expected an integer in %d..%d", in->file, at->line,
                       low, high);
    *out = (int64_t)at->number;
    return SL_OK;
}

/* Reads a number that is the key of an object. */
static sl_err key_int(const struct input *in, const struct sl_json_tree *at, int low, int high,
                      int *out) {
    int64_t value;
    if (!at->key || sl_parse_int(at->key, "key", &value) != SL_OK || value < low || value > high)
        return sl_fail(SL_ERR_INPUT, "%s:%d: expected a key that is an integer in %d..%d", in->file,
                       at->line, low, high);
    *out = (int)value;
    return SL_OK;
}

static sl_err need_object(const struct input *in, const struct sl_json_tree *at) {
    return at->kind == SL_JSON_OBJECT ? SL_OK : bad(in, at, "expected an object");
}

static sl_err need_array(const struct input *in, const struct sl_json_tree *at) {
    return at && at->kind == SL_JSON_ARRAY ? SL_OK : bad(in, at, "expected an array");
}

/* --- profiles --- */

static int compare_times(const void *a, const void *b) {
    const struct sl_sailor_time *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return (x->micro > y->micro) - (x->micro < y->micro);
}

static sl_err take_times(const struct input *in, const struct sl_json_tree *at,
                         struct sl_sailor_time *row) {
    const struct sl_json_tree *f = at->child, *b, *u;
    if (at->kind != SL_JSON_ARRAY || at->count != 3)
        return bad(in, at, "expected [forward, backward, update] seconds of a layer");
    b = f->next;
    u = b->next;
    SL_TRY(take_number(in, f, 1e6, &row->forward));
    SL_TRY(take_number(in, b, 1e6, &row->backward));
    return take_number(in, u, 1e6, &row->update);
}

static sl_err take_profile(const struct input *in, const struct sl_json_tree *root,
                           const char *model, const char *gpu) {
    SL_VEC(struct sl_sailor_time) rows = {0};
    struct sl_sailor_profile p = {.file = in->file, .model = model, .gpu = gpu};
    struct sl_sailor_time row;
    sl_err err = SL_OK;
    SL_TRY_OUT(need_object(in, root));
    for (const struct sl_json_tree *m = root->child; m; m = m->next) {
        SL_TRY_OUT(key_int(in, m, 1, MICRO_MAX, &row.micro));
        SL_TRY_OUT(need_object(in, m));
        for (const struct sl_json_tree *t = m->child; t; t = t->next) {
            SL_TRY_OUT(key_int(in, t, 1, SL_SAILOR_DEGREE_MAX, &row.tensor));
            SL_TRY_OUT(need_object(in, t));
            for (const struct sl_json_tree *l = t->child; l; l = l->next) {
                SL_TRY_OUT(key_int(in, l, 0, SL_SAILOR_LAYERS_MAX - 1, &row.layer));
                SL_TRY_OUT(take_times(in, l, &row));
                p.layers = row.layer >= p.layers ? row.layer + 1 : p.layers;
                SL_PUSH(&rows, row);
            }
        }
    }
    if (!rows.count || rows.count > TABLE_MAX) {
        err = bad(in, root, "a profile without layers, or with too many");
        goto out;
    }
    p.count = (int)rows.count;
    p.times = SL_VEC_FREEZE(&rows, in->arena);
    sl_sort((void *)p.times, p.count, sizeof *p.times, compare_times);
    SL_PUSH(&in->s->profiles, p);
out:
    SL_VEC_FREE(&rows);
    return err;
}

/* Reads a file such as OPT-350.GH-96.json, whose name has the model and the GPU. */
static sl_err profile_of_file(const struct input *in, const struct sl_json_tree *root) {
    const char *slash = strrchr(in->file, '/'), *name = slash ? slash + 1 : in->file;
    const char *end = strrchr(name, '.');
    size_t length = end && strcmp(end, ".json") == 0 ? (size_t)(end - name) : strlen(name);
    char *model = sl_arena_dup(in->arena, name, length), *dot = strrchr(model, '.');
    if (!dot || dot == model || !dot[1])
        return sl_fail(SL_ERR_INPUT,
                       "%s: a profile is called MODEL.GPU.json, such as OPT-350.GH-96.json",
                       in->file);
    *dot = 0;
    return take_profile(in, root, model, dot + 1);
}

/* Reads {MODEL: {GPU: profile}}. */
static sl_err merged_profiles(const struct input *in, const struct sl_json_tree *root) {
    for (const struct sl_json_tree *m = root->child; m; m = m->next) {
        SL_TRY(need_object(in, m));
        for (const struct sl_json_tree *g = m->child; g; g = g->next)
            SL_TRY(take_profile(in, g, m->key, g->key));
    }
    return SL_OK;
}

/* --- layers --- */

static int compare_layers(const void *a, const void *b) {
    const struct sl_sailor_layer *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return (x->layer > y->layer) - (x->layer < y->layer);
}

static sl_err take_layer(const struct input *in, const struct sl_json_tree *at,
                         struct sl_sailor_layer *row) {
    const struct {
        const char *key;
        double *out;
    } fields[] = {{"params_floats", &row->params},
                  {"act_output_floats", &row->output},
                  {"act_mem_floats", &row->saved}};
    SL_TRY(need_object(in, at));
    for (int i = 0; i < SL_COUNT(fields); i++) {
        const struct sl_json_tree *value = sl_interop_json_at(at, fields[i].key);
        if (!value)
            return sl_fail(SL_ERR_INPUT, "%s:%d: a layer needs %s", in->file, at->line,
                           fields[i].key);
        SL_TRY(take_number(in, value, 1e13, fields[i].out));
    }
    return SL_OK;
}

static sl_err take_model(const struct input *in, const struct sl_json_tree *root) {
    SL_VEC(struct sl_sailor_layer) rows = {0};
    struct sl_sailor_model m = {.file = in->file, .name = root->key};
    struct sl_sailor_layer row;
    sl_err err = SL_OK;
    SL_TRY_OUT(need_object(in, root));
    for (const struct sl_json_tree *t = root->child; t; t = t->next) {
        SL_TRY_OUT(key_int(in, t, 1, SL_SAILOR_DEGREE_MAX, &row.tensor));
        SL_TRY_OUT(need_object(in, t));
        for (const struct sl_json_tree *l = t->child; l; l = l->next) {
            SL_TRY_OUT(key_int(in, l, 0, SL_SAILOR_LAYERS_MAX - 1, &row.layer));
            SL_TRY_OUT(take_layer(in, l, &row));
            m.layers = row.layer >= m.layers ? row.layer + 1 : m.layers;
            SL_PUSH(&rows, row);
        }
    }
    m.count = (int)rows.count;
    m.at = SL_VEC_FREEZE(&rows, in->arena);
    sl_sort((void *)m.at, m.count, sizeof *m.at, compare_layers);
    SL_PUSH(&in->s->models, m);
out:
    SL_VEC_FREE(&rows);
    return err;
}

static sl_err take_models(const struct input *in, const struct sl_json_tree *root) {
    for (const struct sl_json_tree *m = root->child; m; m = m->next)
        SL_TRY(take_model(in, m));
    return SL_OK;
}

/* --- links --- */

/* Reads [[c0, c1, ...], limit]. */
static sl_err take_link(const struct input *in, const struct sl_json_tree *at,
                        struct sl_sailor_link link) {
    SL_TRY(need_array(in, at));
    const struct sl_json_tree *list = at->child, *limit = list ? list->next : NULL;
    if (at->count != 2 || list->kind != SL_JSON_ARRAY || list->count < 1 ||
        list->count > SL_SAILOR_COEFFICIENTS)
        return bad(in, at, "expected [[coefficients], limit] of a link");
    for (const struct sl_json_tree *c = list->child; c; c = c->next) {
        if (c->kind != SL_JSON_NUMBER || !(fabs(c->number) <= 1e9))
            return bad(in, c, "expected a coefficient");
        link.c[link.terms++] = c->number;
    }
    SL_TRY(take_number(in, limit, 1e18, &link.limit));
    if (!(link.limit >= 1))
        return bad(in, limit, "a link carries at least one byte per second");
    SL_PUSH(&in->s->links, link);
    return SL_OK;
}

/* Reads {GPU: {senders: link}}. */
static sl_err take_links(const struct input *in, const struct sl_json_tree *root) {
    SL_TRY(need_object(in, root));
    for (const struct sl_json_tree *g = root->child; g; g = g->next) {
        SL_TRY(need_object(in, g));
        for (const struct sl_json_tree *n = g->child; n; n = n->next) {
            struct sl_sailor_link link = {.from = g->key};
            SL_TRY(key_int(in, n, 1, SL_DEVICE_MAX, &link.senders));
            SL_TRY(take_link(in, n, link));
        }
    }
    return SL_OK;
}

/* Reads {zone: {GPU: {senders: {zone: {GPU: {receivers: link}}}}}}; `link` has the sender's
 * part. */
static sl_err take_receivers(const struct input *in, const struct sl_json_tree *root,
                             struct sl_sailor_link link) {
    SL_TRY(need_object(in, root));
    for (const struct sl_json_tree *z = root->child; z; z = z->next) {
        SL_TRY(need_object(in, z));
        link.to_zone = z->key;
        for (const struct sl_json_tree *g = z->child; g; g = g->next) {
            SL_TRY(need_object(in, g));
            link.to = g->key;
            for (const struct sl_json_tree *n = g->child; n; n = n->next) {
                int receivers;
                SL_TRY(key_int(in, n, 1, SL_DEVICE_MAX, &receivers));
                if (receivers == link.senders)
                    SL_TRY(take_link(in, n, link));
            }
        }
    }
    return SL_OK;
}

static sl_err take_zones(const struct input *in, const struct sl_json_tree *root) {
    for (const struct sl_json_tree *z = root->child; z; z = z->next) {
        SL_TRY(need_object(in, z));
        for (const struct sl_json_tree *g = z->child; g; g = g->next) {
            SL_TRY(need_object(in, g));
            for (const struct sl_json_tree *n = g->child; n; n = n->next) {
                struct sl_sailor_link link = {.from = g->key, .from_zone = z->key};
                SL_TRY(key_int(in, n, 1, SL_DEVICE_MAX, &link.senders));
                SL_TRY(take_receivers(in, n, link));
            }
        }
    }
    return SL_OK;
}

/* --- recognising a file --- */

/* Returns how many objects are nested down to the first value that is no object; -1 if one is
 * empty. */
static int depth_of(const struct sl_json_tree *at, const struct sl_json_tree **leaf) {
    int depth = 0;
    for (; at && at->kind == SL_JSON_OBJECT; at = at->child)
        depth++;
    *leaf = at;
    return at ? depth : -1;
}

static bool begins_with_array(const struct sl_json_tree *at) {
    return at->child && at->child->kind == SL_JSON_ARRAY;
}

static sl_err take_config(const struct input *in, const struct sl_json_tree *root) {
    const struct sl_json_tree *batch = sl_interop_json_at(root, "global_batch_size");
    const struct sl_json_tree *model = sl_interop_json_at(root, "model");
    if (batch)
        SL_TRY(take_int(in, batch, 1, INT32_MAX, &in->s->batch));
    if (model && model->kind == SL_JSON_STRING)
        in->s->model = model->text;
    return SL_OK;
}

static sl_err add(const struct input *in, const struct sl_json_tree *root) {
    const struct sl_json_tree *leaf;
    int depth = depth_of(root, &leaf);
    if (sl_interop_json_at(root, "pipeline_list"))
        return sl_interop_sailor_read_plan(in->arena, in->file, root, &in->s->plan);
    if (sl_interop_json_at(root, "inter"))
        return take_links(in, sl_interop_json_at(root, "inter"));
    if (sl_interop_json_at(root, "num_all_layers") || sl_interop_json_at(root, "hidden_size"))
        return take_config(in, root);
    if (depth == 4 && leaf->kind == SL_JSON_NUMBER)
        return take_models(in, root);
    if (depth == 3 && leaf->kind == SL_JSON_ARRAY)
        return profile_of_file(in, root);
    if (depth == 5 && leaf->kind == SL_JSON_ARRAY)
        return merged_profiles(in, root);
    if (depth == 6 && leaf->kind == SL_JSON_ARRAY && begins_with_array(leaf))
        return take_zones(in, root);
    if (depth == 2) /* bandwidths inside a host, memory of the kinds: not needed */
        return SL_OK;
    return sl_fail(SL_ERR_INPUT,
                   "%s: not a plan, profile, list of layers, network or training configuration "
                   "of Sailor",
                   in->file);
}

sl_err sl_interop_sailor_add(struct sl_sailor *s, struct sl_arena *arena, const char *file,
                             const char *text, size_t length) {
    const struct input in = {s, arena, sl_arena_dup(arena, file, strlen(file))};
    const struct sl_json_tree *root;
    SL_TRY(sl_interop_json_tree(arena, in.file, text, length, &root));
    return add(&in, root);
}
