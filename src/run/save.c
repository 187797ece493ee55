/* Saving and loading a run: parameters, running statistics, optimizer state, cursor. */
#include "run/ckpt.h"
#include "run/train.h"

#include <stdio.h>
#include <string.h>

static struct sl_ckpt_item item_of(const struct sl_graph *graph, int value, const char *name) {
    const struct sl_shape *shape = &sl_graph_value(graph, value)->shape;
    struct sl_ckpt_item item = {
        .group = SL_CKPT_WEIGHTS, .name = name, .dtype = SL_ST_F32, .rank = shape->rank};
    memcpy(item.dim, shape->dim, sizeof *item.dim * (size_t)shape->rank);
    return item;
}

typedef sl_err (*visit_fn)(void *ctx, const struct sl_ckpt_item *item, void *memory);

/* Every tensor of the run, in a fixed order, with the device memory it lives in. */
static sl_err visit_tensors(struct sl_train *train, struct sl_arena *arena, visit_fn visit,
                            void *ctx) {
    const struct sl_graph *graph = train->config.graph;
    struct sl_worker *w = train->worker;
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    for (int i = 0; i < p->param_count; i++) {
        const struct sl_param *param = &graph->params.at[p->params[i].param];
        struct sl_ckpt_item item = item_of(graph, param->value, param->name);
        SL_TRY(visit(ctx, &item, sl_worker_weight(w, 0, i)));
        const struct sl_optimizer *row = train->params ? train->params[i].optim.row : NULL;
        item.group = SL_CKPT_STATE;
        for (int s = 0; row && s < row->state_count; s++) {
            item.name = sl_ckpt_part_name(arena, param->name, row->state[s]);
            SL_TRY(visit(ctx, &item, sl_worker_opt(w, s, i)));
        }
        const struct sl_train_config *c = &train->config;
        const char *kept = row ? sl_policy_kept_name(&c->policy, &c->optim) : NULL;
        if (kept) {
            item.name = sl_ckpt_part_name(arena, param->name, kept);
            SL_TRY(visit(ctx, &item, sl_worker_opt(w, w->state_count - 1, i)));
        }
    }
    for (int i = 0; i < p->state_count; i++) {
        const struct sl_param *state = &graph->states.at[p->states[i].param];
        struct sl_ckpt_item item = item_of(graph, state->value, state->name);
        SL_TRY(visit(ctx, &item, (char *)w->state + p->states[i].offset));
    }
    return SL_OK;
}

/* A tensor's device memory, fetched piece by piece while it is written. */
struct source {
    struct sl_device *device;
    char *memory;
};

static sl_err read_source(void *ctx, int64_t from, int64_t size_bytes, void *out) {
    struct source *source = ctx;
    SL_TRY(source->device->row->download(source->device, SL_STREAM_COMPUTE, out,
                                         source->memory + from, size_bytes));
    return source->device->row->sync(source->device, SL_STREAM_COMPUTE);
}

struct save_ctx {
    struct sl_train *train;
    struct sl_arena *arena;
    struct sl_ckpt_writer *writer;
};

static sl_err save_tensor(void *ctx, const struct sl_ckpt_item *item, void *memory) {
    struct save_ctx *save = ctx;
    struct source *source = SL_NEW(save->arena, struct source, 1);
    *source = (struct source){save->train->device, memory};
    struct sl_ckpt_item put = *item;
    put.read = read_source;
    put.ctx = source;
    return sl_ckpt_put(save->writer, &put);
}

sl_err sl_train_save(struct sl_train *train, const char *run, int keep, const char *config) {
    struct sl_arena arena = {0};
    struct save_ctx save = {.train = train, .arena = &arena};
    int64_t epoch_samples = sl_data_count(train->config.data, SL_DATA_TRAIN);
    char fingerprint[32];
    sl_err err = SL_OK;
    struct sl_ckpt_options options = {
        .run = run,
        .step = train->step,
        .seed = train->config.seed,
        .cursor = train->cursor.epoch * epoch_samples + train->cursor.position,
        .ranks = 1,
        .keep = keep,
    };
    snprintf(fingerprint, sizeof fingerprint, "%016llx",
             (unsigned long long)sl_data_fingerprint(train->config.data));
    SL_TRY_OUT(sl_ckpt_begin(&options, &save.writer));
    SL_TRY_OUT(visit_tensors(train, &arena, save_tensor, &save));
    SL_TRY_OUT(sl_ckpt_note(save.writer, "config", config));
    SL_TRY_OUT(sl_ckpt_note(save.writer, "data", fingerprint));
    struct sl_ckpt_writer *writer = save.writer;
    save.writer = NULL;
    SL_TRY_OUT(sl_ckpt_save(writer));
out:
    if (save.writer)
        sl_ckpt_end(save.writer, false);
    sl_arena_free(&arena);
    return err;
}

struct load_ctx {
    struct sl_train *train;
    struct sl_ckpt *ckpt;
    bool weights_only;
    int64_t found;
};

struct sink {
    struct sl_device *device;
    char *at;
};

static sl_err put_sink(void *ctx, const void *bytes, int64_t size) {
    struct sink *sink = ctx;
    SL_TRY(sink->device->row->upload(sink->device, SL_STREAM_COMPUTE, sink->at, bytes, size));
    SL_TRY(sink->device->row->sync(sink->device, SL_STREAM_COMPUTE));
    sink->at += size;
    return SL_OK;
}

static bool same_shape(const struct sl_ckpt_tensor *a, const struct sl_ckpt_item *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int i = 0; same && i < b->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

static sl_err load_tensor(void *ctx, const struct sl_ckpt_item *item, void *memory) {
    struct load_ctx *load = ctx;
    if (load->weights_only && item->group == SL_CKPT_STATE)
        return SL_OK;
    const struct sl_ckpt_tensor *tensor = sl_ckpt_find(load->ckpt, item->name);
    if (!tensor)
        return sl_fail(SL_ERR_INPUT, "%s has no tensor '%s'; it was written by another model",
                       sl_ckpt_dir(load->ckpt), item->name);
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
    struct sink sink = {load->train->device, memory};
    return sl_ckpt_stream(load->ckpt, tensor, &sink, put_sink);
}

static sl_err check_data(const struct sl_train *train, const struct sl_ckpt *ckpt) {
    char fingerprint[32];
    const char *saved = sl_ckpt_find_note(ckpt, "data");
    snprintf(fingerprint, sizeof fingerprint, "%016llx",
             (unsigned long long)sl_data_fingerprint(train->config.data));
    if (saved && strcmp(saved, fingerprint) != 0)
        return sl_fail(SL_ERR_NO,
                       "%s was trained on other data (or another seed, split or objective); resume "
                       "with the same --data and --seed, or start from its weights with --init",
                       sl_ckpt_dir(ckpt));
    return SL_OK;
}

sl_err sl_train_load(struct sl_train *train, const char *run, bool weights_only) {
    struct sl_arena arena = {0};
    struct load_ctx load = {.train = train, .weights_only = weights_only};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_ckpt_open(run, -1, &load.ckpt));
    if (!weights_only)
        SL_TRY_OUT(check_data(train, load.ckpt));
    SL_TRY_OUT(visit_tensors(train, &arena, load_tensor, &load));
    if (!weights_only && load.found != sl_ckpt_count(load.ckpt))
        SL_TRY_OUT(sl_fail(SL_ERR_INPUT,
                           "%s holds %lld tensors, the model and its optimizer have %lld; resume "
                           "with the model, sizes and optimizer of the run, or start from its "
                           "weights with --init",
                           sl_ckpt_dir(load.ckpt), (long long)sl_ckpt_count(load.ckpt),
                           (long long)load.found));
    if (!weights_only) {
        int64_t epoch_samples = sl_data_count(train->config.data, SL_DATA_TRAIN);
        int64_t cursor = sl_ckpt_cursor(load.ckpt);
        train->step = sl_ckpt_step(load.ckpt);
        train->cursor.epoch = cursor / epoch_samples;
        train->cursor.position = cursor % epoch_samples;
    }
out:
    sl_ckpt_close(load.ckpt);
    sl_arena_free(&arena);
    return err;
}
