/* Loading a store: the root streams each tensor of the checkpoint into it. */
#include "ckpt/choose.h"
#include "ckpt/store.h"

#include <stdio.h>
#include <string.h>

struct sink {
    const struct sl_ckpt_store *store;
    int64_t entry, at; /* the tensor that is being loaded; bytes loaded so far */
};

static sl_err put_sink(void *ctx, const void *bytes, int64_t size) {
    struct sink *sink = ctx;
    SL_TRY(sink->store->put(sink->store->ctx, sink->entry, sink->at, size, bytes));
    sink->at += size;
    return SL_OK;
}

static bool same_shape(const struct sl_ckpt_tensor *a, const struct sl_shape *b) {
    bool same = a->dtype == SL_ST_F32 && a->rank == b->rank;
    for (int i = 0; same && i < b->rank; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

static sl_err fail_absent(const struct sl_ckpt *ckpt, const struct sl_ckpt_entry *entry) {
    if (entry->policy)
        return sl_fail(SL_ERR_INPUT,
                       "%s has no tensor '%s', which policy '%s' keeps from step to step; resume "
                       "with the policy of the run, or start from its weights with `init`",
                       sl_ckpt_dir(ckpt), entry->name, entry->policy);
    return sl_fail(SL_ERR_INPUT, "%s has no tensor '%s'; it was written by another model",
                   sl_ckpt_dir(ckpt), entry->name);
}

static sl_err fail_shape(const struct sl_ckpt *ckpt, const struct sl_ckpt_entry *entry,
                         const struct sl_ckpt_tensor *tensor) {
    struct sl_ckpt_tensor want = {.dtype = SL_ST_F32, .rank = (uint8_t)entry->shape->rank};
    char have_text[SL_ST_TEXT], want_text[SL_ST_TEXT];
    memcpy(want.dim, entry->shape->dim, sizeof *want.dim * (size_t)entry->shape->rank);
    return sl_fail(SL_ERR_INPUT,
                   "%s: tensor '%s' is %s, the model wants %s; it was written by another "
                   "model, or with other sizes (`sizes`)",
                   sl_ckpt_dir(ckpt), entry->name, sl_ckpt_tensor_text(tensor, have_text),
                   sl_ckpt_tensor_text(&want, want_text));
}

static sl_err check_entry(const struct sl_ckpt_store *store, const struct sl_ckpt *ckpt,
                          int64_t index) {
    const struct sl_ckpt_entry *entry = &store->entries[index];
    const struct sl_ckpt_tensor *tensor = sl_ckpt_find(ckpt, entry->name);
    if (!tensor)
        return fail_absent(ckpt, entry);
    return same_shape(tensor, entry->shape) ? SL_OK : fail_shape(ckpt, entry, tensor);
}

static sl_err load_entry(const struct sl_ckpt_store *store, const struct sl_ckpt *ckpt,
                         int64_t index) {
    const struct sl_ckpt_tensor *tensor = sl_ckpt_find(ckpt, store->entries[index].name);
    struct sink sink = {store, index, 0};
    return sl_ckpt_stream(ckpt, tensor, &sink, put_sink);
}

static sl_err check_data(const struct sl_ckpt *ckpt, uint64_t data) {
    char text[32];
    const char *saved = sl_ckpt_find_note(ckpt, "data");
    snprintf(text, sizeof text, "%016llx", (unsigned long long)data);
    if (saved && strcmp(saved, text) != 0)
        return sl_fail(SL_ERR_REFUSED,
                       "%s was trained on other data (or another seed, split or objective); resume "
                       "with the same `data` and `seed`, start from its weights with `init`, or "
                       "set `allow_change`",
                       sl_ckpt_dir(ckpt));
    return SL_OK;
}

/* Number of tensors that every checkpoint of the run has. Only older weights have an '@' in their
 * names, because names of parameters are words of a model text. */
static int64_t count_always(const struct sl_ckpt *ckpt) {
    int64_t count = 0;
    for (int64_t i = 0; i < sl_ckpt_count(ckpt); i++)
        count += !strchr(sl_ckpt_at(ckpt, i)->name, '@');
    return count;
}

/* Returns the first tensor of the checkpoint that belongs to a parameter (such as optimizer state)
 * and that the run does not have. */
static const char *find_state(const struct sl_ckpt *ckpt, const struct sl_ckpt_store *store) {
    for (int64_t i = 0; i < sl_ckpt_count(ckpt); i++) {
        const char *name = sl_ckpt_at(ckpt, i)->name;
        bool known = strchr(name, '@') || !strchr(name, ':');
        for (int64_t k = 0; !known && k < store->count; k++)
            known = strcmp(store->entries[k].name, name) == 0;
        if (!known)
            return name;
    }
    return NULL;
}

static sl_err check_count(const struct sl_ckpt *ckpt, const struct sl_ckpt_store *store) {
    int64_t count = 0;
    for (int64_t i = 0; i < store->count; i++)
        count += store->entries[i].when == SL_CKPT_ALWAYS;
    if (count == count_always(ckpt))
        return SL_OK;
    const char *state = find_state(ckpt, store);
    if (state)
        return sl_fail(SL_ERR_INPUT,
                       "%s was saved by another optimizer or policy: it has '%s', which this one "
                       "does not keep; resume with the `optimizer` and `policy` of the run, or "
                       "start from its weights with `init`",
                       sl_ckpt_dir(ckpt), state);
    return sl_fail(SL_ERR_INPUT,
                   "%s holds %lld tensors, the model and its optimizer have %lld; resume "
                   "with the model, sizes, optimizer and policy of the run, or start from its "
                   "weights with `init`",
                   sl_ckpt_dir(ckpt), (long long)count_always(ckpt), (long long)count);
}

static sl_err load_place(const struct sl_ckpt *ckpt, struct sl_ckpt_place *place) {
    const char *scale = sl_ckpt_find_note(ckpt, "loss_scale"),
               *cut = sl_ckpt_find_note(ckpt, "cut");
    place->step = sl_ckpt_step(ckpt);
    place->sample = sl_ckpt_cursor(ckpt);
    if (scale && strlen(scale) >= sizeof place->loss_scale)
        return sl_fail(SL_ERR_INPUT, "%s: its loss scale is '%.40s...', which is too long",
                       sl_ckpt_dir(ckpt), scale);
    if (cut && strlen(cut) >= sizeof place->cut)
        return sl_fail(SL_ERR_INPUT, "%s: its cut is '%.40s...', which is too long",
                       sl_ckpt_dir(ckpt), cut);
    snprintf(place->loss_scale, sizeof place->loss_scale, "%s", scale ? scale : "");
    snprintf(place->cut, sizeof place->cut, "%s", cut ? cut : "");
    return SL_OK;
}

static sl_err check_model(const struct sl_ckpt *ckpt, uint64_t model) {
    char text[32];
    const char *saved = sl_ckpt_find_note(ckpt, "model");
    snprintf(text, sizeof text, "%016llx", (unsigned long long)model);
    if (model && saved && strcmp(saved, text) != 0)
        return sl_fail(SL_ERR_INPUT,
                       "%s was written by another model: its graph differs, although its tensors "
                       "have the same names; resume with the model of the run, or start from its "
                       "weights with `init`",
                       sl_ckpt_dir(ckpt));
    return SL_OK;
}

static bool has_previous(const struct sl_ckpt_store *store, const struct sl_ckpt *ckpt) {
    bool any = false, all = true;
    for (int64_t i = 0; i < store->count; i++) {
        const struct sl_ckpt_entry *entry = &store->entries[i];
        any |= entry->when == SL_CKPT_PREVIOUS;
        all &= entry->when != SL_CKPT_PREVIOUS || sl_ckpt_find(ckpt, entry->name);
    }
    return any && all;
}

static bool is_wanted(const struct sl_ckpt_store *store, const struct sl_ckpt_source *source,
                      const struct sl_ckpt_place *place, int64_t i) {
    const struct sl_ckpt_entry *entry = &store->entries[i];
    return source->weights_only ? entry->group == SL_CKPT_WEIGHTS
                                : sl_ckpt_entry_counts(entry, place);
}

/* Does the checkpoint belong to this run? Checks everything but the bytes of tensors. */
static sl_err check(const struct sl_ckpt_store *store, const struct sl_ckpt_source *source,
                    const struct sl_ckpt *ckpt, struct sl_ckpt_place *place) {
    place->previous = place->in_flight = false;
    if (!source->any_data && !source->weights_only)
        SL_TRY(check_data(ckpt, place->data));
    for (int64_t i = 0; i < store->count; i++)
        if (is_wanted(store, source, place, i))
            SL_TRY(check_entry(store, ckpt, i));
    if (source->weights_only)
        return SL_OK;
    SL_TRY(check_count(ckpt, store));
    SL_TRY(check_model(ckpt, place->model));
    SL_TRY(load_place(ckpt, place));
    place->previous = has_previous(store, ckpt);
    if (store->fits)
        SL_TRY(store->fits(store->ctx, place, source->any_data, &place->in_flight));
    for (int64_t i = 0; i < store->count; i++)
        if (is_wanted(store, source, place, i))
            SL_TRY(check_entry(store, ckpt, i));
    return SL_OK;
}

static sl_err load_tensors(const struct sl_ckpt_store *store, const struct sl_ckpt_source *source,
                           const struct sl_ckpt *ckpt, const struct sl_ckpt_place *place) {
    for (int64_t i = 0; i < store->count; i++)
        if (is_wanted(store, source, place, i))
            SL_TRY(load_entry(store, ckpt, i));
    return SL_OK;
}

static sl_err load_latest(const struct sl_ckpt_store *store, const struct sl_ckpt_source *source,
                          struct sl_ckpt_place *place) {
    struct sl_ckpt *ckpt = NULL;
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_ckpt_open(source->run, -1, &ckpt));
    SL_TRY_OUT(check(store, source, ckpt, place));
    SL_TRY_OUT(load_tensors(store, source, ckpt, place));
out:
    sl_ckpt_close(ckpt);
    return err;
}

/* Tries to load one choice. *whole becomes false if it is damaged; the error message says how. The
 * next choice replaces tensors that have been loaded. */
static sl_err try_choice(const struct sl_ckpt_store *store, const struct sl_ckpt_source *source,
                         struct sl_ckpt_choices *choices, int index, struct sl_ckpt_place *place,
                         bool *whole) {
    struct sl_ckpt *ckpt = NULL;
    sl_err err = sl_ckpt_choice_open(choices, index, &ckpt);
    *whole = err == SL_OK;
    if (err != SL_OK)
        return err == SL_ERR_INPUT ? SL_OK : err;
    SL_TRY_OUT(check(store, source, ckpt, place));
    err = load_tensors(store, source, ckpt, place);
    *whole = err == SL_OK;
    if (err == SL_ERR_INPUT)
        err = SL_OK;
    if (*whole && !(index == 0 && choices->has_latest))
        err = sl_ckpt_roll_back(ckpt);
out:
    sl_ckpt_close(ckpt);
    return err;
}

static sl_err fail_none(const struct sl_ckpt_source *source) {
    if (source->skipped->length)
        return sl_fail(SL_ERR_INPUT, "%s: no checkpoint is whole:\n%s", source->run,
                       source->skipped->at);
    if (source->step > 0)
        return sl_fail(SL_ERR_INPUT, "%s: no checkpoint of step %lld; 'sluice ckpt ls' names them",
                       source->run, (long long)source->step);
    return sl_fail(SL_ERR_INPUT, "%s: no checkpoint here", source->run);
}

/* Loads the newest undamaged checkpoint, or that of source->step. */
static sl_err load_whole(const struct sl_ckpt_store *store, const struct sl_ckpt_source *source,
                         struct sl_ckpt_place *place) {
    struct sl_ckpt_choices choices;
    bool whole = false;
    sl_err err = SL_OK;
    sl_text_put(source->skipped, "");
    SL_TRY_OUT(sl_ckpt_choices_open(source->run, source->step ? source->step : -1, source->skipped,
                                    &choices));
    for (int i = 0; i < choices.count && !whole; i++) {
        SL_TRY_OUT(try_choice(store, source, &choices, i, place, &whole));
        if (!whole)
            sl_ckpt_choice_skip(&choices, i, source->skipped);
    }
    if (!whole)
        err = fail_none(source);
out:
    sl_ckpt_choices_close(&choices);
    return err;
}

sl_err sl_ckpt_store_load(const struct sl_ckpt_store *store, const struct sl_ckpt_source *source,
                          struct sl_ckpt_place *place) {
    if (store->is_root)
        SL_TRY(source->skipped ? load_whole(store, source, place)
                               : load_latest(store, source, place));
    else
        SL_TRY(store->serve(store->ctx, NULL));
    return store->end ? store->end(store->ctx, SL_OK) : SL_OK;
}
