/* Checkpoints of an emulation: the tensors of one worker, and for each view one more:
 *
 *   @emulate-forward   weights of the view | per group: contents of its queue, the oldest first, zeros
 *
 * The schedule and the step tell what the parts stand for, so only their bytes are kept. With
 * 2bw the view holds the weights that are one version older, and checkpoints are those of a
 * pipeline. */
#include "emulate/state.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

static const char mark[] = "emulated";

/* ---- tensors ---- */

static int64_t view_bytes(const struct sl_emulate *e, const struct sl_emulate_view *view) {
    int64_t bytes = e->train.worker->programs[SL_WORKER_FULL]->param_bytes;
    for (int g = 0; g < e->group_count; g++)
        bytes += e->groups[g].bytes * view->queues[g].depth;
    return bytes;
}

/* Returns the memory of byte `from` of a view's tensor, and how many bytes follow there; NULL if
 * these are zeros. */
static char *view_memory(const struct sl_emulate *e, const struct sl_emulate_view *view,
                         int64_t from, int64_t *size_bytes) {
    int64_t slab = e->train.worker->programs[SL_WORKER_FULL]->param_bytes;
    *size_bytes = slab - from;
    if (from < slab)
        return (char *)e->train.worker->param[view->slab] + from;
    from -= slab;
    for (int g = 0;; g++) {
        SL_ASSERT(g < e->group_count); /* `from` lies in the view */
        const struct sl_emulate_queue *q = &view->queues[g];
        int64_t bytes = e->groups[g].bytes, all = bytes * q->depth;
        if (from >= all) {
            from -= all;
            continue;
        }
        int64_t i = from / bytes;
        *size_bytes = bytes - from % bytes;
        return i < q->count ? q->memory[(q->first + i) % q->depth] + from % bytes : NULL;
    }
}

static bool worker_has(const void *ctx, const struct sl_tensor_id *id) {
    return sl_run_worker_memory(((const struct sl_emulate *)ctx)->train.worker, id, 0) != NULL;
}

/* Lists the weights that are one version older. Frozen weights have no versions. */
static void list_older(struct sl_emulate *e, struct sl_run_tensors *all) {
    for (int64_t i = 0, count = all->count; i < count; i++) {
        if (all->ids[i].part != SL_PART_WEIGHT ||
            e->model.graph->params.at[all->ids[i].index].frozen)
            continue;
        all->ids[all->count] =
            (struct sl_tensor_id){.part = SL_PART_OLDER, .index = all->ids[i].index};
        all->entries[all->count] = all->entries[i];
        all->entries[all->count].name = sl_ckpt_version_name(&e->arena, all->entries[i].name, 1);
        all->entries[all->count].group = SL_CKPT_STATE;
        all->entries[all->count++].when = SL_CKPT_PREVIOUS;
    }
}

static void list_tensors(struct sl_emulate *e) {
    struct sl_arena *arena = &e->arena;
    struct sl_run_tensors some = sl_run_tensors_build(arena, &e->model, worker_has, e), *all;
    int64_t max = 2 * some.count + e->view_count + 1;
    all = e->tensors = SL_NEW(arena, struct sl_run_tensors, 1);
    all->entries = SL_NEW(arena, struct sl_ckpt_entry, max);
    all->ids = SL_NEW(arena, struct sl_tensor_id, max);
    all->count = some.count;
    memcpy(all->entries, some.entries, sizeof *all->entries * (size_t)some.count);
    memcpy(all->ids, some.ids, sizeof *all->ids * (size_t)some.count);
    if (e->portable)
        list_older(e, all);
    for (int v = 0; v < e->view_count && !e->portable; v++) {
        struct sl_shape *shape = SL_NEW(arena, struct sl_shape, 1);
        *shape = (struct sl_shape){.rank = 1, .dim = {view_bytes(e, &e->views[v]) / 4}};
        all->ids[all->count] = (struct sl_tensor_id){.part = SL_PART_SEAT, .index = v};
        all->entries[all->count++] = (struct sl_ckpt_entry){
            .name = e->views[v].backward ? "@emulate-backward" : "@emulate-forward",
            .shape = shape,
            .group = SL_CKPT_STATE,
            .when = SL_CKPT_IN_FLIGHT};
    }
}

/* Returns the memory of byte `from` of a tensor. *size_bytes becomes smaller if fewer bytes follow
 * there. */
static char *memory_of(const struct sl_emulate *e, const struct sl_tensor_id *id, int64_t from,
                       int64_t *size_bytes) {
    int64_t here = *size_bytes;
    struct sl_tensor_id older = *id;
    if (id->part == SL_PART_SEAT) {
        char *memory = view_memory(e, &e->views[id->index], from, &here);
        *size_bytes = here < *size_bytes ? here : *size_bytes;
        return memory;
    }
    if (id->part != SL_PART_OLDER)
        return sl_run_worker_memory(e->train.worker, id, 0) + from;
    older.part = SL_PART_WEIGHT;
    return sl_run_worker_memory(e->train.worker, &older, e->views[0].slab) + from;
}

static bool is_local(void *ctx, int64_t entry) {
    (void)ctx;
    (void)entry;
    return true;
}

static sl_err get(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, void *out) {
    struct sl_emulate *e = ctx;
    struct sl_device *device = e->train.device;
    const struct sl_tensor_id *id = &e->tensors->ids[entry];
    for (int64_t at = 0, n; at < size_bytes; at += n) {
        n = size_bytes - at;
        const char *memory = memory_of(e, id, from + at, &n);
        if (memory)
            SL_TRY(device->row->download(device, SL_STREAM_COMPUTE, (char *)out + at, memory, n));
        else
            memset((char *)out + at, 0, (size_t)n);
    }
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

/* Writes weights or state into every copy of a tied parameter, because all copies are equal. */
static sl_err put_copies(struct sl_emulate *e, const struct sl_tensor_id *id, int64_t from,
                         int64_t size_bytes, const void *bytes) {
    const struct sl_program *p = e->train.worker->programs[SL_WORKER_FULL];
    bool param = id->part == SL_PART_WEIGHT || id->part == SL_PART_OPTIM;
    for (int i = 0; param && i < p->param_count; i++) {
        struct sl_tensor_id copy = *id;
        copy.index = p->params[i].param;
        if (!e->rows[i].copy || e->rows[i].of != id->index)
            continue;
        SL_TRY(e->train.device->row->upload(e->train.device, SL_STREAM_COMPUTE,
                                            sl_run_worker_memory(e->train.worker, &copy, 0) + from,
                                            bytes, size_bytes));
    }
    return SL_OK;
}

static sl_err put(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, const void *bytes) {
    struct sl_emulate *e = ctx;
    struct sl_device *device = e->train.device;
    const struct sl_tensor_id *id = &e->tensors->ids[entry];
    for (int64_t at = 0, n; at < size_bytes; at += n) {
        n = size_bytes - at;
        char *memory = memory_of(e, id, from + at, &n);
        if (memory)
            SL_TRY(device->row->upload(device, SL_STREAM_COMPUTE, memory, (const char *)bytes + at,
                                       n));
    }
    SL_TRY(put_copies(e, id, from, size_bytes, bytes));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

static const void *at_rest(void *ctx, int64_t entry) {
    const struct sl_emulate *e = ctx;
    const struct sl_tensor_id *id = &e->tensors->ids[entry];
    bool plain = id->part == SL_PART_WEIGHT || id->part == SL_PART_OPTIM;
    return plain ? sl_run_train_at_rest(&e->train, id) : NULL;
}

static void attach(void *ctx, struct sl_ckpt_copy *copy) {
    ((struct sl_emulate *)ctx)->train.copy = copy;
}

/* ---- the position ---- */

/* Hashes the groups, the versions that the first iterations and the last ones before the step read,
 * and the depth of the queues. */
static uint64_t hash_of(const struct sl_emulate *e, int64_t done) {
    enum { ENDS = 64 };
    const struct sl_reads *r = &e->reads;
    int64_t facts[] = {e->group_count, e->view_count, r->micros, e->slab_of[0], e->slab_of[1]};
    uint64_t hash = sl_hash(facts, sizeof facts);
    for (int g = 0; g < e->group_count; g++) {
        const struct sl_emulate_group *group = &e->groups[g];
        uint64_t ranges =
            sl_hash(group->ranges, sizeof *group->ranges * (size_t)group->range_count);
        hash = hash * 31 + ranges;
        for (int64_t t = 0; t < done; t++) {
            if (t >= ENDS && t < done - ENDS)
                t = done - ENDS;
            for (int64_t k = t * r->micros; k < (t + 1) * r->micros; k++)
                for (int b = 0; b < 2; b++) {
                    struct sl_read read = sl_sched_read_of(r, group->stage, b, k);
                    hash = hash * 31 + sl_hash(&read, sizeof read);
                }
        }
        for (int v = 0; v < e->view_count; v++)
            hash = hash * 31 + (uint64_t)e->views[v].queues[g].depth;
    }
    return hash;
}

static bool is_in_flight(const struct sl_emulate *e) {
    return e->view_count > 0 && e->done > 0 && e->begun && !e->portable;
}

struct sl_ckpt_place sl_emulate_place(const struct sl_emulate *e) {
    int64_t epoch = sl_data_count(e->model.data, SL_DATA_TRAIN);
    struct sl_ckpt_place place = sl_run_place(
        &e->model, e->train.step, e->train.cursor.epoch * epoch + e->train.cursor.position,
        sl_emulate_scale_after(e, e->done));
    struct sl_text text = {0};
    place.in_flight = is_in_flight(e);
    place.previous = e->portable && e->done > 0;
    if (place.in_flight)
        snprintf(place.cut, sizeof place.cut, "%s %lld %016llx", mark, (long long)e->origin,
                 (unsigned long long)hash_of(e, e->done));
    else if (e->sched->rule != SL_RULE_SYNC && !e->portable && place.step > 0)
        snprintf(place.cut, sizeof place.cut, "drained");
    if (!*place.loss_scale)
        return place;
    sl_text_put(&text, place.loss_scale);
    for (int i = 1; (place.in_flight || place.previous) && i <= e->lag && i <= e->done; i++) {
        sl_text_put(&text, ";");
        sl_optim_scale_state_put(&text, sl_emulate_scale_after(e, e->done - i));
    }
    if (text.length < sizeof place.loss_scale)
        snprintf(place.loss_scale, sizeof place.loss_scale, "%s", text.at);
    sl_text_free(&text);
    return place;
}

static bool parse_cut(const char *text, int64_t *origin, uint64_t *hash) {
    char word[SL_CKPT_CUT_TEXT], end;
    long long step;
    unsigned long long value;
    /* NOLINTNEXTLINE(cert-err34-c) */
    if (sscanf(text, "%63s %lld %llx%c", word, &step, &value, &end) != 3 || strcmp(word, mark) != 0)
        return false;
    *origin = step;
    *hash = value;
    return true;
}

static sl_err fits(void *ctx, const struct sl_ckpt_place *place, bool may_drop, bool *out) {
    struct sl_emulate *e = ctx;
    int64_t origin = 0;
    uint64_t hash = 0;
    *out = false;
    if (e->sched->rule == SL_RULE_SYNC || e->portable || place->step == 0 ||
        place->step >= e->model.steps)
        return SL_OK; /* nothing is in flight, or the run has ended */
    bool parsed = parse_cut(place->cut, &origin, &hash) && origin >= 0 && origin < place->step;
    if (parsed) {
        SL_TRY(sl_emulate_begin(e, origin));
        SL_TRY(sl_emulate_check_depth(e));
        *out = hash == hash_of(e, place->step - origin);
    }
    if (*out || may_drop)
        return SL_OK;
    return sl_fail(SL_ERR_REFUSED,
                   "the run would not continue from step %lld with the bits of an undisturbed one: "
                   "%s. Set `allow_change` to begin again there with the weights of that step",
                   (long long)place->step,
                   parsed ? "with these options its passes would read other weight versions"
                          : "its checkpoint is not one of an emulation that was under way");
}

/* Sets what the views and queues hold, after their bytes were loaded. With 2bw the schedule is that
 * of a run that was never stopped. */
static sl_err restore_views(struct sl_emulate *e, const struct sl_ckpt_place *place) {
    int64_t origin = 0;
    uint64_t hash;
    if (!place->previous && !parse_cut(place->cut, &origin, &hash))
        return sl_fail(SL_ERR_INPUT, "the checkpoint of step %lld: its cut is '%.60s'",
                       (long long)place->step, place->cut);
    SL_TRY(sl_emulate_begin(e, origin));
    e->done = place->step - origin;
    for (int v = 0; v < e->view_count; v++)
        for (int g = 0; g < e->group_count; g++) {
            struct sl_emulate_queue *q = &e->views[v].queues[g];
            q->now = sl_sched_read_of(&e->reads, e->groups[g].stage, e->views[v].backward,
                                      e->done * e->reads.micros);
            q->valid = true;
            q->count = sl_emulate_pending(e, &e->views[v], g, e->done, q->reads);
        }
    return SL_OK;
}

/* Marks all queues as full, because a load fills all their contents before it is known how many
 * count. Without its state in flight a run begins again at the step of the checkpoint. */
static void fill_queues(struct sl_emulate *e) {
    for (int v = 0; v < e->view_count; v++)
        for (int g = 0; g < e->group_count; g++) {
            e->views[v].queues[g].first = 0;
            e->views[v].queues[g].count = e->views[v].queues[g].depth;
        }
}

static sl_err read_scales(struct sl_emulate *e, const struct sl_ckpt_place *place) {
    struct sl_ckpt_place at = *place;
    for (int i = 0; i <= e->lag && *at.loss_scale; i++) {
        char *next = strchr(at.loss_scale, ';');
        if (e->done - i >= 0)
            SL_TRY(sl_run_place_scale(&e->model, &at, sl_emulate_scale_after(e, e->done - i)));
        if (next)
            memmove(at.loss_scale, next + 1, strlen(next));
        else
            at.loss_scale[0] = 0;
    }
    return SL_OK;
}

sl_err sl_emulate_restore(struct sl_emulate *e, const struct sl_ckpt_place *place) {
    int64_t epoch = sl_data_count(e->model.data, SL_DATA_TRAIN);
    sl_emulate_forget_views(e);
    e->begun = false;
    e->origin = place->step;
    e->done = 0;
    e->train.step = place->step;
    e->train.cursor.epoch = place->sample / epoch;
    e->train.cursor.position = place->sample % epoch;
    if (place->in_flight || (place->previous && e->portable))
        SL_TRY(restore_views(e, place));
    return read_scales(e, place);
}

struct sl_ckpt_store sl_emulate_store(struct sl_emulate *e) {
    if (!e->tensors)
        list_tensors(e);
    if (!e->begun)
        fill_queues(e);
    return (struct sl_ckpt_store){
        .entries = e->tensors->entries,
        .count = e->tensors->count,
        .is_root = true,
        .ctx = e,
        .is_local = is_local,
        .get = get,
        .put = put,
        .at_rest = at_rest,
        .attach = attach,
        .fits = fits,
    };
}
