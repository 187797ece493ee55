/* How the elements of a part lie in the whole tensor:
 *
 *     whole [outer][part 0 .. parts-1][shard 0 .. shards-1][run]     run: consecutive elements
 *     part                            [shard k            ] */
#include "run/part.h"

#include <stdlib.h>
#include <string.h>

struct runs {
    int64_t run;  /* length of a run, in elements */
    int64_t both; /* length of the runs of all shards: the distance of runs in the whole tensor */
    int64_t at;   /* where the run of this shard begins in it */
};

static struct runs runs_of(const struct sl_part_of *part) {
    int64_t size = part->shape.dim[part->axis] / part->parts;
    for (int i = part->axis + 1; i < part->shape.rank; i++)
        size *= part->shape.dim[i];
    return (struct runs){size / part->shards, size, size / part->shards * part->shard};
}

int64_t sl_run_part_whole(const struct sl_part_of *part, int64_t index) {
    if (!part || part->shards == 1)
        return index;
    struct runs r = runs_of(part);
    return index / r.run * r.both + r.at + index % r.run;
}

int64_t sl_run_part_below(const struct sl_part_of *part, int64_t whole) {
    if (!part || part->shards == 1)
        return whole;
    struct runs r = runs_of(part);
    int64_t within = whole % r.both - r.at;
    within = within < 0 ? 0 : within > r.run ? r.run : within;
    return whole / r.both * r.run + within;
}

/* ---- the joined store ---- */

struct members {
    int64_t first; /* index of the first one in inner_at */
    int count;     /* number of parts and echoes */
    int parts;     /* number of parts; 0: the tensor is not in parts */
};

struct sl_joined {
    struct sl_ckpt_store inner;
    struct sl_ckpt_entry *entries;
    int64_t count;
    struct members *members; /* [count] */
    int64_t *inner_at;       /* [members] entries of the inner store, grouped by outer entry */
    const struct sl_part_of **part_of; /* [inner entries] NULL: the entry is a whole tensor */
};

static const struct sl_param *param_of(const struct sl_graph *graph,
                                       const struct sl_tensor_id *id) {
    if (id->part == SL_PART_SEAT)
        return NULL;
    return id->part == SL_PART_STATE ? &graph->states.at[id->index] : &graph->params.at[id->index];
}

static bool has_parts(const struct sl_graph *graph) {
    for (int64_t i = 0; i < graph->params.count; i++)
        if (graph->params.at[i].part_of)
            return true;
    return false;
}

static bool is_local(void *ctx, int64_t entry) {
    const struct sl_joined *j = ctx;
    const struct members *m = &j->members[entry];
    for (int i = 0; i < (m->parts ? m->parts : 1); i++)
        if (!j->inner.is_local(j->inner.ctx, j->inner_at[m->first + i]))
            return false;
    return true;
}

/* Calls move() for the elements of each part that lie in [from, to) of the whole tensor. Packs them
 * into `piece` before a put, and unpacks `piece` after a get. */
static sl_err move_part(const struct sl_joined *j, int64_t inner, int64_t from, int64_t to,
                        float *whole, bool put) {
    const struct sl_part_of *part = j->part_of[inner];
    int64_t low = sl_run_part_below(part, from), high = sl_run_part_below(part, to);
    if (low == high)
        return SL_OK;
    float *piece = sl_realloc(NULL, sizeof *piece * (size_t)(high - low));
    sl_err err = SL_OK;
    for (int64_t i = low; put && i < high; i++)
        piece[i - low] = whole[sl_run_part_whole(part, i) - from];
    if (put)
        err = j->inner.put(j->inner.ctx, inner, low * 4, (high - low) * 4, piece);
    else
        err = j->inner.get(j->inner.ctx, inner, low * 4, (high - low) * 4, piece);
    for (int64_t i = low; !put && err == SL_OK && i < high; i++)
        whole[sl_run_part_whole(part, i) - from] = piece[i - low];
    free(piece);
    return err;
}

static sl_err get(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, void *out) {
    const struct sl_joined *j = ctx;
    const struct members *m = &j->members[entry];
    if (!m->parts)
        return j->inner.get(j->inner.ctx, j->inner_at[m->first], from, size_bytes, out);
    for (int i = 0; i < m->parts; i++)
        SL_TRY(
            move_part(j, j->inner_at[m->first + i], from / 4, (from + size_bytes) / 4, out, false));
    return SL_OK;
}

static sl_err put(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, const void *bytes) {
    const struct sl_joined *j = ctx;
    const struct members *m = &j->members[entry];
    for (int i = 0; i < m->count; i++) {
        int64_t inner = j->inner_at[m->first + i];
        if (m->parts)
            SL_TRY(move_part(j, inner, from / 4, (from + size_bytes) / 4, (float *)(uintptr_t)bytes,
                             true));
        else
            SL_TRY(j->inner.put(j->inner.ctx, inner, from, size_bytes, bytes));
    }
    return SL_OK;
}

static const void *at_rest(void *ctx, int64_t entry) {
    const struct sl_joined *j = ctx;
    const struct members *m = &j->members[entry];
    return m->parts ? NULL : j->inner.at_rest(j->inner.ctx, j->inner_at[m->first]);
}

static void attach(void *ctx, struct sl_ckpt_copy *copy) {
    const struct sl_joined *j = ctx;
    j->inner.attach(j->inner.ctx, copy);
}

/* A rank serves requests for parts, so it refuses a snapshot, which has whole tensors. */
static sl_err serve(void *ctx, const struct sl_ckpt_copy *copy) {
    const struct sl_joined *j = ctx;
    if (copy)
        return sl_fail(SL_ERR_REFUSED, "shards on several ranks need `save` sync");
    return j->inner.serve(j->inner.ctx, NULL);
}

static sl_err end(void *ctx, sl_err err) {
    const struct sl_joined *j = ctx;
    return j->inner.end(j->inner.ctx, err);
}

static sl_err fits(void *ctx, const struct sl_ckpt_place *place, bool may_drop, bool *out) {
    const struct sl_joined *j = ctx;
    return j->inner.fits(j->inner.ctx, place, may_drop, out);
}

/* Returns the name of the whole tensor with the suffix that the entry of the part has (optimizer
 * state). */
static const char *whole_name(struct sl_arena *arena, const struct sl_param *param,
                              const char *entry) {
    const char *at = strstr(entry, param->name);
    if (!at)
        return entry;
    return sl_arena_printf(arena, "%.*s%s%s", (int)(at - entry), entry, param->part_of->name,
                           at + strlen(param->name));
}

static const struct sl_param *part_param(const struct sl_graph *graph,
                                         const struct sl_tensor_id *id) {
    const struct sl_param *param = param_of(graph, id);
    return param && param->part_of && param->part_of->shards > 1 ? param : NULL;
}

static void list_entries(struct sl_joined *j, struct sl_arena *arena, const struct sl_graph *graph,
                         const struct sl_tensor_id *ids) {
    struct sl_map names = {0};
    int64_t *outer = SL_NEW(arena, int64_t, j->inner.count + 1), at = 0;
    for (int64_t i = 0; i < j->inner.count; i++) {
        const struct sl_param *param = param_of(graph, &ids[i]);
        struct sl_ckpt_entry entry = j->inner.entries[i];
        if (param && param->part_of) {
            entry.name = whole_name(arena, param, entry.name);
            entry.shape = &param->part_of->shape;
            j->part_of[i] = param->part_of;
        }
        const int64_t *found = sl_map_find(&names, sl_str(entry.name));
        outer[i] = found ? *found : j->count;
        if (!found) {
            sl_map_put(&names, sl_str(entry.name), j->count);
            j->entries[j->count++] = entry;
        }
        struct members *m = &j->members[outer[i]];
        m->count++;
        m->parts += part_param(graph, &ids[i]) != NULL;
    }
    for (int64_t o = 0; o < j->count; o++) {
        j->members[o].first = at;
        at += j->members[o].count;
        j->members[o].count = 0;
    }
    for (int64_t i = 0; i < j->inner.count; i++) {
        struct members *m = &j->members[outer[i]];
        j->inner_at[m->first + m->count++] = i;
    }
    sl_map_free(&names);
}

struct sl_ckpt_store sl_run_store_join(struct sl_arena *arena, const struct sl_graph *graph,
                                       const struct sl_tensor_id *ids,
                                       const struct sl_ckpt_store *store,
                                       struct sl_joined **joined) {
    if (!has_parts(graph))
        return *store;
    if (!*joined) {
        struct sl_joined *j = SL_NEW(arena, struct sl_joined, 1);
        j->inner = *store;
        j->entries = SL_NEW(arena, struct sl_ckpt_entry, store->count + 1);
        j->members = SL_NEW(arena, struct members, store->count + 1);
        j->inner_at = SL_NEW(arena, int64_t, store->count + 1);
        j->part_of = SL_NEW(arena, const struct sl_part_of *, store->count + 1);
        list_entries(j, arena, graph, ids);
        *joined = j;
    }
    return (struct sl_ckpt_store){
        .entries = (*joined)->entries,
        .count = (*joined)->count,
        .is_root = store->is_root,
        .ctx = *joined,
        .is_local = is_local,
        .get = get,
        .put = put,
        .at_rest = at_rest,
        .attach = attach,
        .serve = store->serve ? serve : NULL,
        .end = store->end ? end : NULL,
        .fits = store->fits ? fits : NULL,
    };
}
