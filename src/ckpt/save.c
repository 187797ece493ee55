/* Saves a store: the root writes its tensors into one checkpoint, piece by piece. */
#include "ckpt/store.h"

#include <stdio.h>
#include <string.h>

/* A tensor that the writer fetches in pieces. */
struct source {
    const struct sl_ckpt_store *store;
    const struct sl_ckpt_copy *copy;
    int64_t entry;
};

static sl_err read_source(void *ctx, int64_t from, int64_t size_bytes, void *out) {
    const struct source *s = ctx;
    if (!s->copy || !s->store->is_local(s->store->ctx, s->entry))
        return s->store->get(s->store->ctx, s->entry, from, size_bytes, out);
    sl_ckpt_copy_get(s->copy, s->entry, from, size_bytes, out);
    return SL_OK;
}

static sl_err put_entry(struct sl_ckpt_writer *writer, struct source *source) {
    const struct sl_ckpt_entry *entry = &source->store->entries[source->entry];
    struct sl_ckpt_item item = {
        .group = entry->group,
        .name = entry->name,
        .dtype = SL_ST_F32,
        .rank = entry->shape->rank,
        .read = read_source,
        .ctx = source,
    };
    memcpy(item.dim, entry->shape->dim, sizeof *item.dim * (size_t)entry->shape->rank);
    return sl_ckpt_put(writer, &item);
}

static sl_err put_notes(struct sl_ckpt_writer *writer, const char *config,
                        const struct sl_ckpt_place *place) {
    char data[32], model[32];
    snprintf(model, sizeof model, "%016llx", (unsigned long long)place->model);
    snprintf(data, sizeof data, "%016llx", (unsigned long long)place->data);
    SL_TRY(sl_ckpt_note(writer, "config", config));
    SL_TRY(sl_ckpt_note(writer, "data", data));
    if (place->model)
        SL_TRY(sl_ckpt_note(writer, "model", model));
    if (*place->cut)
        SL_TRY(sl_ckpt_note(writer, "cut", place->cut));
    return *place->loss_scale ? sl_ckpt_note(writer, "loss_scale", place->loss_scale) : SL_OK;
}

static sl_err save_root(const struct sl_ckpt_store *store, const struct sl_ckpt_copy *copy,
                        const struct sl_ckpt_target *target, const struct sl_ckpt_place *place) {
    struct sl_arena arena = {0};
    struct sl_ckpt_writer *writer = NULL;
    struct source *sources = SL_NEW(&arena, struct source, store->count + 1);
    sl_err err = SL_OK;
    struct sl_ckpt_options options = {
        .run = target->run,
        .step = place->step,
        .seed = place->seed,
        .cursor = place->sample,
        .ranks = 1,
        .keep = target->keep,
        .files = target->files,
    };
    SL_TRY_OUT(sl_ckpt_begin(&options, &writer));
    for (int64_t i = 0; i < store->count; i++) {
        sources[i] = (struct source){store, copy, i};
        if (sl_ckpt_entry_counts(&store->entries[i], place))
            SL_TRY_OUT(put_entry(writer, &sources[i]));
    }
    SL_TRY_OUT(put_notes(writer, target->config, place));
    struct sl_ckpt_writer *filled = writer;
    writer = NULL;
    SL_TRY_OUT(sl_ckpt_save(filled));
out:
    sl_ckpt_end(writer, false);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_ckpt_store_save(const struct sl_ckpt_store *store, const struct sl_ckpt_copy *copy,
                          const struct sl_ckpt_target *target, const struct sl_ckpt_place *place) {
    sl_err err =
        store->is_root ? save_root(store, copy, target, place) : store->serve(store->ctx, copy);
    return store->end ? store->end(store->ctx, err) : err;
}
