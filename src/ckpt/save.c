/* Saving and loading a run: parameters, running statistics, optimizer state, cursor. */
#include "ckpt/ckpt.h"
#include "ckpt/store.h"
#include "plan/bytes.h"

#include <stdio.h>
#include <string.h>

static struct sl_ckpt_item item_of(const struct sl_graph *graph, int value, const char *name) {
    const struct sl_shape *shape = &sl_graph_value(graph, value)->shape;
    struct sl_ckpt_item item = {
        .group = SL_CKPT_WEIGHTS, .name = name, .dtype = SL_ST_F32, .rank = shape->rank};
    memcpy(item.dim, shape->dim, sizeof *item.dim * (size_t)shape->rank);
    return item;
}

static sl_err visit_param(const struct sl_store *store, struct sl_arena *arena, int index,
                          sl_store_visit_fn visit, void *ctx) {
    const struct sl_graph *graph = store->config->graph;
    const struct sl_param *param = &graph->params.at[index];
    struct sl_ckpt_item item = item_of(graph, param->value, param->name);
    struct sl_tensor_id id = {.part = SL_PART_WEIGHT, .index = index};
    if (!store->has(store->ctx, &id))
        return SL_OK;
    SL_TRY(visit(ctx, &item, &id));
    if (!store->config->optim.row)
        return SL_OK;
    struct sl_optim_shape shape = sl_plan_optim_shape(graph, index);
    const struct sl_optimizer *row = sl_optim_for(&store->config->optim, &shape).optim.row;
    item.group = SL_CKPT_STATE;
    id.part = SL_PART_OPTIM;
    for (id.slab = 0; id.slab < row->state_count; id.slab++) {
        item.name = sl_ckpt_part_name(arena, param->name, row->state[id.slab]);
        SL_TRY(visit(ctx, &item, &id));
    }
    const char *kept = sl_optim_policy_kept_name(&store->config->policy, &store->config->optim);
    if (!kept)
        return SL_OK;
    id.slab = sl_plan_slabs(&store->config->optim, &store->config->policy) - 1;
    item.name = sl_ckpt_part_name(arena, param->name, kept);
    return visit(ctx, &item, &id);
}

sl_err sl_ckpt_store_visit(const struct sl_store *store, struct sl_arena *arena,
                           sl_store_visit_fn visit, void *ctx) {
    const struct sl_graph *graph = store->config->graph;
    for (int i = 0; i < graph->params.count; i++)
        SL_TRY(visit_param(store, arena, i, visit, ctx));
    for (int i = 0; i < graph->states.count; i++) {
        struct sl_ckpt_item item =
            item_of(graph, graph->states.at[i].value, graph->states.at[i].name);
        struct sl_tensor_id id = {.part = SL_PART_STATE, .index = i};
        if (store->has(store->ctx, &id))
            SL_TRY(visit(ctx, &item, &id));
    }
    return SL_OK;
}

/* ---- saving ---- */

/* A tensor, fetched piece by piece while it is written. */
struct source {
    const struct sl_store *store;
    struct sl_tensor_id id;
};

static sl_err read_source(void *ctx, int64_t from, int64_t size_bytes, void *out) {
    struct source *source = ctx;
    return source->store->get(source->store->ctx, &source->id, from, size_bytes, out);
}

struct save_ctx {
    const struct sl_store *store;
    struct sl_arena *arena;
    struct sl_ckpt_writer *writer;
};

static sl_err save_tensor(void *ctx, const struct sl_ckpt_item *item,
                          const struct sl_tensor_id *id) {
    struct save_ctx *save = ctx;
    struct source *source = SL_NEW(save->arena, struct source, 1);
    *source = (struct source){save->store, *id};
    struct sl_ckpt_item put = *item;
    put.read = read_source;
    put.ctx = source;
    return sl_ckpt_put(save->writer, &put);
}

static void put_fingerprint(const struct sl_store *store, char out[32]) {
    snprintf(out, 32, "%016llx", (unsigned long long)sl_data_fingerprint(store->config->data));
}

static sl_err note_scale(const struct sl_store *store, const struct sl_scale_state *scale,
                         struct sl_ckpt_writer *writer) {
    struct sl_text text = {0};
    if (!store->config->loss_scale.dynamic)
        return SL_OK;
    sl_optim_scale_state_put(&text, scale);
    sl_err err = sl_ckpt_note(writer, "loss_scale", text.at);
    sl_text_free(&text);
    return err;
}

sl_err sl_ckpt_store_save(const struct sl_store *store, const struct sl_save *order) {
    struct sl_arena arena = {0};
    struct save_ctx save = {.store = store, .arena = &arena};
    char fingerprint[32];
    sl_err err = SL_OK;
    struct sl_ckpt_options options = {
        .run = order->run,
        .step = order->place.step,
        .seed = store->config->seed,
        .cursor = order->place.sample,
        .ranks = 1,
        .keep = order->keep,
    };
    put_fingerprint(store, fingerprint);
    SL_TRY_OUT(sl_ckpt_begin(&options, &save.writer));
    SL_TRY_OUT(sl_ckpt_store_visit(store, &arena, save_tensor, &save));
    SL_TRY_OUT(sl_ckpt_note(save.writer, "config", order->config));
    SL_TRY_OUT(sl_ckpt_note(save.writer, "data", fingerprint));
    SL_TRY_OUT(note_scale(store, &order->place.scale, save.writer));
    struct sl_ckpt_writer *writer = save.writer;
    save.writer = NULL;
    SL_TRY_OUT(sl_ckpt_save(writer));
out:
    if (save.writer)
        sl_ckpt_end(save.writer, false);
    sl_arena_free(&arena);
    return err;
}

/* ---- loading ---- */

struct load_ctx {
    const struct sl_store *store;
    struct sl_ckpt *ckpt;
    bool weights_only;
    int64_t found;
};

struct sink {
    const struct sl_store *store;
    const struct sl_tensor_id *id;
    int64_t at;
};

static sl_err put_sink(void *ctx, const void *bytes, int64_t size) {
    struct sink *sink = ctx;
    SL_TRY(sink->store->put(sink->store->ctx, sink->id, sink->at, size, bytes));
    sink->at += size;
    return SL_OK;
}

static bool same_shape(const struct sl_ckpt_tensor *a, const struct sl_ckpt_item *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int i = 0; same && i < b->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

/* What a policy keeps of the last step is not in the checkpoint of a run without it. */
static sl_err fail_absent(const struct load_ctx *load, const char *name) {
    const struct sl_train_config *c = load->store->config;
    const char *kept = sl_optim_policy_kept_name(&c->policy, &c->optim), *part = strrchr(name, ':');
    if (kept && part && strcmp(part + 1, kept) == 0)
        return sl_fail(SL_ERR_INPUT,
                       "%s has no tensor '%s', which policy '%s' keeps from step to step; resume "
                       "with the policy of the run, or start from its weights with --init",
                       sl_ckpt_dir(load->ckpt), name, c->policy.row->name);
    return sl_fail(SL_ERR_INPUT, "%s has no tensor '%s'; it was written by another model",
                   sl_ckpt_dir(load->ckpt), name);
}

static sl_err load_tensor(void *ctx, const struct sl_ckpt_item *item,
                          const struct sl_tensor_id *id) {
    struct load_ctx *load = ctx;
    if (load->weights_only && item->group == SL_CKPT_STATE)
        return SL_OK;
    const struct sl_ckpt_tensor *tensor = sl_ckpt_find(load->ckpt, item->name);
    if (!tensor)
        return fail_absent(load, item->name);
    if (!same_shape(tensor, item)) {
        struct sl_ckpt_tensor want = {.dtype = (uint8_t)item->dtype, .rank = (uint8_t)item->rank};
        char have_text[SL_ST_TEXT], want_text[SL_ST_TEXT];
        memcpy(want.dim, item->dim, sizeof want.dim);
        return sl_fail(SL_ERR_INPUT,
                       "%s: tensor '%s' is %s, the model wants %s; it was written by another "
                       "model, or with other sizes (--set)",
                       sl_ckpt_dir(load->ckpt), item->name, sl_ckpt_tensor_text(tensor, have_text),
                       sl_ckpt_tensor_text(&want, want_text));
    }
    load->found++;
    struct sink sink = {load->store, id, 0};
    return sl_ckpt_stream(load->ckpt, tensor, &sink, put_sink);
}

static sl_err check_data(const struct sl_store *store, const struct sl_ckpt *ckpt) {
    char fingerprint[32];
    const char *saved = sl_ckpt_find_note(ckpt, "data");
    put_fingerprint(store, fingerprint);
    if (saved && strcmp(saved, fingerprint) != 0)
        return sl_fail(SL_ERR_REFUSED,
                       "%s was trained on other data (or another seed, split or objective); resume "
                       "with the same --data and --seed, or start from its weights with --init",
                       sl_ckpt_dir(ckpt));
    return SL_OK;
}

/* Runs that scaled by rule may go on by hand, and the other way round. */
static sl_err load_scale(const struct sl_store *store, const struct sl_ckpt *ckpt,
                         struct sl_scale_state *out) {
    const char *note = sl_ckpt_find_note(ckpt, "loss_scale");
    if (!note || !store->config->loss_scale.dynamic)
        return SL_OK;
    if (!sl_optim_scale_state_parse(note, out))
        return sl_fail(SL_ERR_INPUT,
                       "%s: its loss scale is '%.40s', not a power of two and a count",
                       sl_ckpt_dir(ckpt), note);
    return SL_OK;
}

static sl_err check_found(const struct load_ctx *load) {
    if (load->found == sl_ckpt_count(load->ckpt))
        return SL_OK;
    return sl_fail(SL_ERR_INPUT,
                   "%s holds %lld tensors, the model and its optimizer have %lld; resume "
                   "with the model, sizes, optimizer and policy of the run, or start from its "
                   "weights with --init",
                   sl_ckpt_dir(load->ckpt), (long long)sl_ckpt_count(load->ckpt),
                   (long long)load->found);
}

sl_err sl_ckpt_store_load(const struct sl_store *store, const char *run, bool weights_only,
                          struct sl_store_place *place) {
    struct sl_arena arena = {0};
    struct load_ctx load = {.store = store, .weights_only = weights_only};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_ckpt_open(run, -1, &load.ckpt));
    if (!weights_only)
        SL_TRY_OUT(check_data(store, load.ckpt));
    SL_TRY_OUT(sl_ckpt_store_visit(store, &arena, load_tensor, &load));
    if (!weights_only) {
        SL_TRY_OUT(check_found(&load));
        place->step = sl_ckpt_step(load.ckpt);
        place->sample = sl_ckpt_cursor(load.ckpt);
        SL_TRY_OUT(load_scale(store, load.ckpt, &place->scale));
    }
out:
    sl_ckpt_close(load.ckpt);
    sl_arena_free(&arena);
    return err;
}

/* ---- the store of one worker ---- */

char *sl_ckpt_worker_memory(const struct sl_worker *w, const struct sl_tensor_id *id, int version) {
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    bool state = id->part == SL_PART_STATE;
    const struct sl_program_param *at = sl_run_worker_find(
        state ? p->states : p->params, state ? p->state_count : p->param_count, id->index);
    if (!at)
        return NULL;
    void *slab = state                       ? w->state
                 : id->part == SL_PART_OPTIM ? w->opt[id->slab]
                                             : w->param[version];
    return (char *)slab + at->offset;
}

static bool train_has(void *ctx, const struct sl_tensor_id *id) {
    struct sl_train *train = ctx;
    return sl_ckpt_worker_memory(train->worker, id, 0) != NULL;
}

static sl_err train_get(void *ctx, const struct sl_tensor_id *id, int64_t from, int64_t size_bytes,
                        void *out) {
    struct sl_train *train = ctx;
    struct sl_device *device = train->device;
    SL_TRY(device->row->download(device, SL_STREAM_COMPUTE, out,
                                 sl_ckpt_worker_memory(train->worker, id, 0) + from, size_bytes));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

static sl_err train_put(void *ctx, const struct sl_tensor_id *id, int64_t from, int64_t size_bytes,
                        const void *bytes) {
    struct sl_train *train = ctx;
    struct sl_device *device = train->device;
    SL_TRY(device->row->upload(device, SL_STREAM_COMPUTE,
                               sl_ckpt_worker_memory(train->worker, id, 0) + from, bytes,
                               size_bytes));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

const void *sl_ckpt_train_at_rest(const struct sl_train *train, const struct sl_tensor_id *id) {
    bool rests = train->copy && id->part != SL_PART_STATE && train->worker->versions == 1;
    return rests && !train->device->row->apart ? sl_ckpt_worker_memory(train->worker, id, 0) : NULL;
}

static const void *train_at_rest(void *ctx, const struct sl_tensor_id *id) {
    return sl_ckpt_train_at_rest(ctx, id);
}

struct sl_store sl_ckpt_train_store(struct sl_train *train) {
    return (struct sl_store){&train->config, train,     train_has,    train_has,
                             train_get,      train_put, train_at_rest};
}

sl_err sl_ckpt_train_open_copy(struct sl_train *train, struct sl_copy **out) {
    struct sl_store store = sl_ckpt_train_store(train);
    SL_TRY(sl_ckpt_copy_open(&store, out));
    train->copy = *out;
    return SL_OK;
}

struct sl_store_place sl_ckpt_train_place(const struct sl_train *train) {
    int64_t epoch_samples = sl_data_count(train->config.data, SL_DATA_TRAIN);
    return (struct sl_store_place){
        train->step, train->cursor.epoch * epoch_samples + train->cursor.position, train->scale};
}

/* Who has what is asked of the run; only the bytes come from the copy. */
struct copied {
    struct sl_train *train;
    const struct sl_copy *copy;
};

static bool copied_has(void *ctx, const struct sl_tensor_id *id) {
    return train_has(((struct copied *)ctx)->train, id);
}

static sl_err copied_get(void *ctx, const struct sl_tensor_id *id, int64_t from, int64_t size_bytes,
                         void *out) {
    sl_ckpt_copy_get(((struct copied *)ctx)->copy, id, from, size_bytes, out);
    return SL_OK;
}

sl_err sl_ckpt_train_write(void *ctx, const struct sl_copy *copy, const struct sl_save *save) {
    struct sl_train *train = ctx;
    struct copied copied = {train, copy};
    struct sl_store store = sl_ckpt_train_store(train);
    if (copy)
        store = (struct sl_store){
            .config = &train->config, .ctx = &copied, .has = copied_has, .get = copied_get};
    return sl_ckpt_store_save(&store, save);
}

sl_err sl_ckpt_train_load(struct sl_train *train, const char *run, bool weights_only) {
    int64_t epoch_samples = sl_data_count(train->config.data, SL_DATA_TRAIN);
    struct sl_store store = sl_ckpt_train_store(train);
    struct sl_store_place place = sl_ckpt_train_place(train);
    SL_TRY(sl_ckpt_store_load(&store, run, weights_only, &place));
    train->step = place.step;
    train->scale = place.scale;
    train->cursor.epoch = place.sample / epoch_samples;
    train->cursor.position = place.sample % epoch_samples;
    return SL_OK;
}
