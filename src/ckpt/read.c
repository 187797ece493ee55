/* Reading a checkpoint: finds it, checks it, reads tensors by name. */
#define _POSIX_C_SOURCE 200809L
#include "base/hash.h"
#include "ckpt/files.h"

#include <string.h>
#include <sys/stat.h>

enum { CHUNK = 1 << 20 };

struct sl_ckpt {
    struct sl_arena arena;
    const char *dir;
    char *text; /* text of the manifest; names point into it */
    size_t text_length;
    struct sl_ckpt_manifest manifest;
    struct sl_st *shards; /* [shards] in the order of the manifest */
};

/* ---- finding ---- */

static sl_err find_step(const char *root, int64_t step, struct sl_arena *arena, const char **out) {
    struct sl_ckpt_names names;
    SL_TRY(sl_ckpt_names(root, arena, &names));
    *out = NULL;
    for (int64_t i = 0; i < names.count; i++) { /* names ascend, so the last match is the newest */
        int64_t found = sl_ckpt_dir_step(names.at[i]);
        if (found >= 0 && (step < 0 || found == step))
            *out = names.at[i];
    }
    return SL_OK;
}

/* Finds the directory of the checkpoint and the hash that `latest` expects (0: none). */
static sl_err locate(const char *path, int64_t step, struct sl_arena *arena, const char **dir,
                     struct sl_ckpt_latest *latest) {
    const char *name, *root = sl_ckpt_root(arena, path);
    *latest = (struct sl_ckpt_latest){0};
    if (sl_file_exists(sl_arena_printf(arena, "%s/manifest.json", path))) {
        *dir = sl_arena_dup(arena, path, strlen(path));
        return SL_OK;
    }
    sl_err err = sl_ckpt_latest_read(root, arena, latest);
    if (err != SL_OK && step < 0)
        return err;
    if (step >= 0 && latest->name && sl_ckpt_dir_step(latest->name) != step)
        latest->name = NULL;
    name = latest->name;
    if (!name)
        SL_TRY(find_step(root, step, arena, &name));
    if (!name && step >= 0)
        return sl_fail(SL_ERR_INPUT, "%s: no checkpoint of step %lld; 'sluice ckpt ls' names them",
                       path, (long long)step);
    if (!name)
        return sl_fail(SL_ERR_INPUT,
                       "%s: no checkpoint here (expected a run, its ckpt/ or one "
                       "step's directory)",
                       path);
    *dir = sl_arena_printf(arena, "%s/%s", root, name);
    return SL_OK;
}

/* ---- opening ---- */

static sl_err open_shard(struct sl_ckpt *ckpt, int index) {
    const struct sl_ckpt_shard *shard = &ckpt->manifest.shards[index];
    char name[SL_CKPT_FILE_NAME];
    struct stat info;
    sl_ckpt_shard_name(shard->group, shard->rank, ckpt->manifest.ranks, name);
    const char *path = sl_arena_printf(&ckpt->arena, "%s/%s", ckpt->dir, name);
    if (lstat(path, &info) != 0)
        return sl_fail(SL_ERR_INPUT, "%s: missing", path);
    if (!S_ISREG(info.st_mode) || (int64_t)info.st_size != shard->file_bytes)
        return sl_fail(SL_ERR_INPUT, "%s: damaged: it should be a file of %lld bytes", path,
                       (long long)shard->file_bytes);
    SL_TRY(sl_st_open(path, &ckpt->shards[index]));
    if (ckpt->shards[index].header_hash != shard->header_hash)
        return sl_fail(SL_ERR_INPUT, "%s: damaged: the checksum of its header does not match",
                       path);
    return SL_OK;
}

static struct sl_st_tensor stored(const struct sl_ckpt *ckpt, const struct sl_ckpt_tensor *tensor,
                                  bool *found) {
    const struct sl_st *st = &ckpt->shards[tensor->shard];
    struct sl_st_tensor out = {0};
    int64_t index = sl_st_find(st, tensor->name);
    *found = index >= 0;
    if (*found)
        sl_st_get(st, index, &out);
    return out;
}

/* Checks that manifest and shards name the same tensors with the same shapes. */
static sl_err check_tensors(const struct sl_ckpt *ckpt) {
    int64_t in_shards = 0;
    for (int i = 0; i < ckpt->manifest.shard_count; i++)
        in_shards += ckpt->shards[i].count;
    for (int64_t i = 0; i < ckpt->manifest.tensor_count; i++) {
        const struct sl_ckpt_tensor *tensor = &ckpt->manifest.tensors[i];
        bool found;
        struct sl_st_tensor st = stored(ckpt, tensor, &found);
        bool same = found && (int)st.dtype == tensor->dtype && st.rank == tensor->rank;
        for (int k = 0; same && k < st.rank; k++)
            same = st.dim[k] == tensor->dim[k];
        if (!same)
            return sl_fail(SL_ERR_INPUT, "%s: tensor '%s' is not in its shard %s with its shape",
                           ckpt->dir, tensor->name, ckpt->shards[tensor->shard].path);
    }
    if (in_shards != ckpt->manifest.tensor_count)
        return sl_fail(SL_ERR_INPUT, "%s: %lld tensors in the shards, %lld in the manifest",
                       ckpt->dir, (long long)in_shards, (long long)ckpt->manifest.tensor_count);
    return SL_OK;
}

static sl_err open_dir(struct sl_ckpt *ckpt, const struct sl_ckpt_latest *latest) {
    const char *path = sl_arena_printf(&ckpt->arena, "%s/manifest.json", ckpt->dir);
    SL_TRY(sl_ckpt_load(path, SL_CKPT_MANIFEST_MAX, &ckpt->text, &ckpt->text_length));
    SL_TRY(
        sl_ckpt_manifest_read(path, ckpt->text, ckpt->text_length, &ckpt->arena, &ckpt->manifest));
    if (latest->name && latest->hash != ckpt->manifest.hash)
        return sl_fail(SL_ERR_INPUT, "%s: damaged: it is not the checkpoint that 'latest' names",
                       ckpt->dir);
    ckpt->shards = SL_NEW(&ckpt->arena, struct sl_st, ckpt->manifest.shard_count + 1);
    for (int i = 0; i < ckpt->manifest.shard_count; i++)
        SL_TRY(open_shard(ckpt, i));
    return check_tensors(ckpt);
}

sl_err sl_ckpt_open(const char *path, int64_t step, struct sl_ckpt **out) {
    struct sl_ckpt *ckpt = sl_realloc(NULL, sizeof *ckpt);
    struct sl_ckpt_latest latest;
    sl_err err = SL_OK;
    *ckpt = (struct sl_ckpt){0};
    SL_TRY_OUT(locate(path, step, &ckpt->arena, &ckpt->dir, &latest));
    SL_TRY_OUT(open_dir(ckpt, &latest));
    if (step >= 0 && ckpt->manifest.step != step)
        SL_TRY_OUT(sl_fail(SL_ERR_INPUT, "%s: holds step %lld, not %lld", ckpt->dir,
                           (long long)ckpt->manifest.step, (long long)step));
    const char *slash = strrchr(ckpt->dir, '/');
    int64_t named = sl_ckpt_dir_step(slash ? slash + 1 : ckpt->dir);
    if (named >= 0 && named != ckpt->manifest.step)
        SL_TRY_OUT(sl_fail(SL_ERR_INPUT, "%s: renamed: it holds step %lld", ckpt->dir,
                           (long long)ckpt->manifest.step));
    *out = ckpt;
    return SL_OK;
out:
    sl_ckpt_close(ckpt);
    return err;
}

void sl_ckpt_close(struct sl_ckpt *ckpt) {
    if (!ckpt)
        return;
    for (int i = 0; ckpt->shards && i < ckpt->manifest.shard_count; i++)
        sl_st_close(&ckpt->shards[i]);
    free(ckpt->text);
    sl_arena_free(&ckpt->arena);
    free(ckpt);
}

/* ---- queries ---- */

const char *sl_ckpt_dir(const struct sl_ckpt *ckpt) { return ckpt->dir; }
int64_t sl_ckpt_step(const struct sl_ckpt *ckpt) { return ckpt->manifest.step; }
uint64_t sl_ckpt_seed(const struct sl_ckpt *ckpt) { return ckpt->manifest.seed; }
int64_t sl_ckpt_cursor(const struct sl_ckpt *ckpt) { return ckpt->manifest.cursor; }
int sl_ckpt_writers(const struct sl_ckpt *ckpt) { return ckpt->manifest.ranks; }
uint64_t sl_ckpt_hash(const struct sl_ckpt *ckpt) { return ckpt->manifest.hash; }
int64_t sl_ckpt_count(const struct sl_ckpt *ckpt) { return ckpt->manifest.tensor_count; }

int64_t sl_ckpt_size_bytes(const struct sl_ckpt *ckpt) {
    int64_t sum = (int64_t)ckpt->text_length;
    for (int i = 0; i < ckpt->manifest.shard_count; i++)
        sum += ckpt->manifest.shards[i].file_bytes;
    return sum;
}

const char *sl_ckpt_find_note(const struct sl_ckpt *ckpt, const char *key) {
    for (int i = 0; i < ckpt->manifest.note_count; i++)
        if (strcmp(ckpt->manifest.notes[i].key, key) == 0)
            return ckpt->manifest.notes[i].value;
    return NULL;
}

const struct sl_ckpt_tensor *sl_ckpt_at(const struct sl_ckpt *ckpt, int64_t index) {
    SL_ASSERT(index >= 0 && index < ckpt->manifest.tensor_count);
    return &ckpt->manifest.tensors[index];
}

const struct sl_ckpt_tensor *sl_ckpt_find(const struct sl_ckpt *ckpt, const char *name) {
    for (int64_t low = 0, high = ckpt->manifest.tensor_count; low < high;) {
        int64_t middle = low + (high - low) / 2;
        int order = strcmp(ckpt->manifest.tensors[middle].name, name);
        if (order == 0)
            return &ckpt->manifest.tensors[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

enum sl_ckpt_group sl_ckpt_group_of(const struct sl_ckpt *ckpt,
                                    const struct sl_ckpt_tensor *tensor) {
    return ckpt->manifest.shards[tensor->shard].group;
}

int64_t sl_ckpt_tensor_bytes(const struct sl_ckpt_tensor *tensor) {
    return sl_st_size_bytes((enum sl_st_dtype)tensor->dtype, tensor->rank, tensor->dim);
}

const char *sl_ckpt_tensor_text(const struct sl_ckpt_tensor *tensor, char out[SL_ST_TEXT]) {
    struct sl_st_tensor st = {.dtype = (enum sl_st_dtype)tensor->dtype, .rank = tensor->rank};
    for (int i = 0; i < tensor->rank; i++)
        st.dim[i] = tensor->dim[i];
    return sl_st_shape_text(&st, out);
}

/* ---- reading ---- */

static sl_err check_hash(const struct sl_ckpt *ckpt, const struct sl_ckpt_tensor *tensor,
                         uint64_t hash) {
    char got[SL_HASH_TEXT], expected[SL_HASH_TEXT];
    if (hash == tensor->hash)
        return SL_OK;
    return sl_fail(SL_ERR_INPUT,
                   "%s: tensor '%s' is damaged: its checksum is %s and should be %s; an older "
                   "checkpoint may be whole ('sluice ckpt ls')",
                   ckpt->shards[tensor->shard].path, tensor->name, sl_hash_text(hash, got),
                   sl_hash_text(tensor->hash, expected));
}

sl_err sl_ckpt_read(const struct sl_ckpt *ckpt, const struct sl_ckpt_tensor *tensor, void *out) {
    bool found;
    struct sl_st_tensor st = stored(ckpt, tensor, &found);
    SL_ASSERT(found);
    SL_TRY(sl_st_read(&ckpt->shards[tensor->shard], &st, 0, st.size_bytes, out));
    return check_hash(ckpt, tensor, sl_hash(out, (size_t)st.size_bytes));
}

sl_err sl_ckpt_stream(const struct sl_ckpt *ckpt, const struct sl_ckpt_tensor *tensor, void *ctx,
                      sl_err (*put)(void *ctx, const void *bytes, int64_t size)) {
    bool found;
    struct sl_st_tensor st = stored(ckpt, tensor, &found);
    struct sl_hasher *hasher = sl_hasher_open();
    void *chunk = sl_realloc(NULL, CHUNK);
    sl_err err = SL_OK;
    SL_ASSERT(found);
    for (int64_t from = 0; from < st.size_bytes;) {
        int64_t size = st.size_bytes - from < CHUNK ? st.size_bytes - from : CHUNK;
        SL_TRY_OUT(sl_st_read(&ckpt->shards[tensor->shard], &st, from, size, chunk));
        sl_hasher_add(hasher, chunk, (size_t)size);
        if (put)
            SL_TRY_OUT(put(ctx, chunk, size));
        from += size;
    }
    SL_TRY_OUT(check_hash(ckpt, tensor, sl_hasher_value(hasher)));
out:
    sl_hasher_close(hasher);
    free(chunk);
    return err;
}

/* The part of a stream that was requested. */
struct row_slice {
    int64_t at, begin, end; /* position, and requested range, in bytes of the tensor */
    char *out;
};

static sl_err put_slice(void *ctx, const void *bytes, int64_t size) {
    struct row_slice *slice = ctx;
    int64_t from = slice->begin > slice->at ? slice->begin - slice->at : 0;
    int64_t to = slice->end - slice->at < size ? slice->end - slice->at : size;
    if (from < to)
        memcpy(slice->out + (slice->at + from - slice->begin), (const char *)bytes + from,
               (size_t)(to - from));
    slice->at += size;
    return SL_OK;
}

sl_err sl_ckpt_read_rows(const struct sl_ckpt *ckpt, const struct sl_ckpt_tensor *tensor,
                         int64_t first, int64_t count, void *out) {
    SL_ASSERT(tensor->rank > 0 && first >= 0 && count >= 0 && first <= tensor->dim[0] - count);
    int64_t row_bytes = tensor->dim[0] ? sl_ckpt_tensor_bytes(tensor) / tensor->dim[0] : 0;
    struct row_slice slice = {0, first * row_bytes, (first + count) * row_bytes, out};
    return sl_ckpt_stream(ckpt, tensor, &slice, put_slice);
}

static bool belongs(const struct sl_ckpt *ckpt, const char *file) {
    char name[SL_CKPT_FILE_NAME];
    for (int i = 0; i < ckpt->manifest.shard_count; i++) {
        const struct sl_ckpt_shard *shard = &ckpt->manifest.shards[i];
        sl_ckpt_shard_name(shard->group, shard->rank, ckpt->manifest.ranks, name);
        if (strcmp(file, name) == 0)
            return true;
    }
    return strcmp(file, "manifest.json") == 0;
}

sl_err sl_ckpt_verify(const struct sl_ckpt *ckpt) {
    struct sl_arena arena = {0};
    struct sl_ckpt_names names;
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_ckpt_names(ckpt->dir, &arena, &names));
    for (int64_t i = 0; i < names.count; i++)
        if (!belongs(ckpt, names.at[i]))
            SL_TRY_OUT(sl_fail(SL_ERR_INPUT, "%s/%s does not belong to the checkpoint", ckpt->dir,
                               names.at[i]));
    for (int64_t i = 0; i < ckpt->manifest.tensor_count; i++)
        SL_TRY_OUT(sl_ckpt_stream(ckpt, &ckpt->manifest.tensors[i], NULL, NULL));
out:
    sl_arena_free(&arena);
    return err;
}

sl_err sl_ckpt_list(const char *path, struct sl_arena *arena, struct sl_ckpt_list *out) {
    struct sl_ckpt_names names;
    struct sl_ckpt_latest latest;
    const char *root = sl_ckpt_root(arena, path);
    SL_TRY(sl_ckpt_names(root, arena, &names));
    if (sl_ckpt_latest_read(root, arena, &latest) != SL_OK)
        latest.name = NULL;
    *out = (struct sl_ckpt_list){.dir = SL_NEW(arena, const char *, names.count + 1),
                                 .step = SL_NEW(arena, int64_t, names.count + 1),
                                 .latest = -1};
    for (int64_t i = 0; i < names.count; i++) {
        const char *dir = sl_arena_printf(arena, "%s/%s", root, names.at[i]);
        int64_t step = sl_ckpt_dir_step(names.at[i]);
        if (step < 0 || !sl_file_exists(sl_arena_printf(arena, "%s/manifest.json", dir)))
            continue;
        if (latest.name && strcmp(latest.name, names.at[i]) == 0)
            out->latest = out->count;
        out->dir[out->count] = dir;
        out->step[out->count++] = step;
    }
    return SL_OK;
}
