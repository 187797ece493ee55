/* Lists the tensors of a run, and presents one worker as a store. */
#include "run/store.h"

#include "run/part.h"

#include "plan/bytes.h"

#include <stdio.h>
#include <string.h>

/* ---- the list ---- */

struct listing {
    struct sl_arena *arena;
    const struct sl_train_config *config;
    struct sl_run_tensors *out; /* if its entries are NULL, the tensors are only counted */
};

static void add(struct listing *l, const struct sl_ckpt_entry *entry, struct sl_tensor_id id) {
    if (l->out->entries) {
        l->out->entries[l->out->count] = *entry;
        l->out->ids[l->out->count] = id;
    }
    l->out->count++;
}

static void add_param(struct listing *l, int index) {
    const struct sl_train_config *c = l->config;
    const struct sl_param *param = &c->graph->params.at[index];
    struct sl_ckpt_entry entry = {.name = param->name,
                                  .shape = &sl_graph_value(c->graph, param->value)->shape,
                                  .group = SL_CKPT_WEIGHTS};
    struct sl_tensor_id id = {.part = SL_PART_WEIGHT, .index = index};
    add(l, &entry, id);
    if (!c->optim.row || param->frozen)
        return;
    struct sl_optim_shape shape = sl_plan_optim_shape(c->graph, index);
    const struct sl_optimizer *row = sl_optim_for(&c->optim, &shape).optim.row;
    bool named = l->out->entries != NULL;
    entry.group = SL_CKPT_STATE;
    id.part = SL_PART_OPTIM;
    for (id.slab = 0; id.slab < row->state_count; id.slab++) {
        if (named)
            entry.name = sl_ckpt_part_name(l->arena, param->name, row->state[id.slab]);
        add(l, &entry, id);
    }
    const char *kept = sl_optim_policy_kept_name(&c->policy, &c->optim);
    if (!kept)
        return;
    id.slab = sl_plan_slabs(&c->optim, &c->policy) - 1;
    entry.policy = c->policy.row->name;
    if (named)
        entry.name = sl_ckpt_part_name(l->arena, param->name, kept);
    add(l, &entry, id);
}

static void add_state(struct listing *l, int index) {
    const struct sl_graph *graph = l->config->graph;
    struct sl_ckpt_entry entry = {.name = graph->states.at[index].name,
                                  .shape =
                                      &sl_graph_value(graph, graph->states.at[index].value)->shape,
                                  .group = SL_CKPT_WEIGHTS};
    add(l, &entry, (struct sl_tensor_id){.part = SL_PART_STATE, .index = index});
}

struct sl_run_tensors
sl_run_tensors_build(struct sl_arena *arena, const struct sl_train_config *config,
                     bool (*has)(const void *ctx, const struct sl_tensor_id *id), const void *ctx) {
    struct sl_run_tensors out = {0};
    struct listing l = {arena, config, &out};
    for (int pass = 0; pass < 2; pass++) { /* the first pass counts, the second fills */
        if (pass) {
            out.entries = SL_NEW(arena, struct sl_ckpt_entry, out.count + 1);
            out.ids = SL_NEW(arena, struct sl_tensor_id, out.count + 1);
            out.count = 0;
        }
        for (int i = 0; i < config->graph->params.count; i++)
            if (has(ctx, &(struct sl_tensor_id){.part = SL_PART_WEIGHT, .index = i}))
                add_param(&l, i);
        for (int i = 0; i < config->graph->states.count; i++)
            if (has(ctx, &(struct sl_tensor_id){.part = SL_PART_STATE, .index = i}))
                add_state(&l, i);
    }
    return out;
}

/* ---- memory ---- */

char *sl_run_worker_memory(const struct sl_worker *w, const struct sl_tensor_id *id, int version) {
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    bool state = id->part == SL_PART_STATE;
    const struct sl_program_param *at = sl_run_worker_find(
        state ? p->states : p->params, state ? p->state_count : p->param_count, id->index);
    if (!at && id->part == SL_PART_WEIGHT) {
        at = sl_run_worker_find(p->fixed, p->fixed_count, id->index);
        return at ? (char *)w->fixed + at->offset : NULL;
    }
    if (!at)
        return NULL;
    if (id->part == SL_PART_OPTIM)
        return sl_run_worker_opt(w, id->slab, (int)(at - p->params));
    return (char *)(state ? w->state : w->param[version]) + at->offset;
}

const void *sl_run_train_at_rest(const struct sl_train *train, const struct sl_tensor_id *id) {
    bool frozen = id->part == SL_PART_WEIGHT && train->config.graph->params.at[id->index].frozen;
    bool rests =
        train->copy && id->part != SL_PART_STATE && (frozen || train->worker->versions == 1);
    return rests && !train->device->row->apart ? sl_run_worker_memory(train->worker, id, 0) : NULL;
}

/* ---- the position ---- */

struct sl_ckpt_place sl_run_place(const struct sl_train_config *config, int64_t step,
                                  int64_t sample, const struct sl_scale_state *scale) {
    struct sl_ckpt_place place = {.step = step,
                                  .sample = sample,
                                  .seed = config->seed,
                                  .data = sl_data_fingerprint(config->data),
                                  .model = config->model_hash};
    struct sl_text text = {0};
    if (!config->loss_scale.dynamic)
        return place;
    sl_optim_scale_state_put(&text, scale);
    SL_ASSERT(text.length < sizeof place.loss_scale);
    memcpy(place.loss_scale, text.at, text.length);
    sl_text_free(&text);
    return place;
}

sl_err sl_run_place_scale(const struct sl_train_config *config, const struct sl_ckpt_place *place,
                          struct sl_scale_state *scale) {
    if (!*place->loss_scale || !config->loss_scale.dynamic)
        return SL_OK;
    char newest[SL_CKPT_SCALE_TEXT]; /* a pipeline appends the scales of older steps */
    snprintf(newest, sizeof newest, "%.*s", (int)strcspn(place->loss_scale, ";"),
             place->loss_scale);
    if (!sl_optim_scale_state_parse(newest, scale))
        return sl_fail(SL_ERR_INPUT,
                       "the checkpoint of step %lld: its loss scale is '%.40s', not a power of two "
                       "and a count",
                       (long long)place->step, place->loss_scale);
    return SL_OK;
}

/* ---- one worker ---- */

static bool worker_has(const void *ctx, const struct sl_tensor_id *id) {
    return sl_run_worker_memory(ctx, id, 0) != NULL;
}

static bool is_local(void *ctx, int64_t entry) {
    (void)ctx;
    (void)entry;
    return true;
}

static sl_err get(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, void *out) {
    struct sl_train *train = ctx;
    struct sl_device *device = train->device;
    const char *memory = sl_run_worker_memory(train->worker, &train->tensors->ids[entry], 0);
    SL_TRY(device->row->download(device, SL_STREAM_COMPUTE, out, memory + from, size_bytes));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

static sl_err put(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, const void *bytes) {
    struct sl_train *train = ctx;
    struct sl_device *device = train->device;
    char *memory = sl_run_worker_memory(train->worker, &train->tensors->ids[entry], 0);
    SL_TRY(device->row->upload(device, SL_STREAM_COMPUTE, memory + from, bytes, size_bytes));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

static const void *at_rest(void *ctx, int64_t entry) {
    const struct sl_train *train = ctx;
    return sl_run_train_at_rest(train, &train->tensors->ids[entry]);
}

static void attach(void *ctx, struct sl_ckpt_copy *copy) { ((struct sl_train *)ctx)->copy = copy; }

struct sl_ckpt_store sl_run_train_store(struct sl_train *train) {
    if (!train->tensors) {
        train->tensors = SL_NEW(&train->arena, struct sl_run_tensors, 1);
        *train->tensors =
            sl_run_tensors_build(&train->arena, &train->config, worker_has, train->worker);
    }
    struct sl_ckpt_store store = {
        .entries = train->tensors->entries,
        .count = train->tensors->count,
        .is_root = true,
        .ctx = train,
        .is_local = is_local,
        .get = get,
        .put = put,
        .at_rest = at_rest,
        .attach = attach,
    };
    return sl_run_store_join(&train->arena, train->config.graph, train->tensors->ids, &store,
                             &train->joined);
}

struct sl_ckpt_place sl_run_train_place(const struct sl_train *train) {
    int64_t epoch_samples = sl_data_count(train->config.data, SL_DATA_TRAIN);
    return sl_run_place(&train->config, train->step,
                        train->cursor.epoch * epoch_samples + train->cursor.position,
                        &train->scale);
}

sl_err sl_run_train_restore(struct sl_train *train, const struct sl_ckpt_place *place) {
    int64_t epoch_samples = sl_data_count(train->config.data, SL_DATA_TRAIN);
    SL_TRY(sl_run_place_scale(&train->config, place, &train->scale));
    train->step = place->step;
    train->cursor.epoch = place->sample / epoch_samples;
    train->cursor.position = place->sample % epoch_samples;
    return SL_OK;
}

sl_err sl_run_train_load(struct sl_train *train, const char *run, bool weights_only) {
    struct sl_ckpt_store store = sl_run_train_store(train);
    struct sl_ckpt_place place = sl_run_train_place(train);
    struct sl_ckpt_source source = {.run = run, .weights_only = weights_only};
    SL_TRY(sl_ckpt_store_load(&store, &source, &place));
    return weights_only ? SL_OK : sl_run_train_restore(train, &place);
}
