#include "ckpt/weights.h"

#include "base/half.h"
#include "base/map.h"
#include "ckpt/ckpt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct place { /* where a tensor is */
    const char *name;
    int64_t at; /* offset in its file, or index in the checkpoint */
    int file;
};

struct sl_ckpt_weights {
    struct sl_arena arena;
    const char *path;
    struct sl_st *files;
    const char **file_names;
    int file_count;
    struct sl_ckpt *ckpt; /* NULL: the tensors are in files */
    struct place *places; /* sorted by name */
    int64_t count;
    /* the tensor of a checkpoint that was read last; whole and verified */
    float *held;
    int64_t held_index;
    unsigned char *bytes; /* buffer for reads */
};

enum { PIECE = 65536 }; /* elements */

/* ---- opening ---- */

static int compare_places(const void *a, const void *b) {
    return strcmp(((const struct place *)a)->name, ((const struct place *)b)->name);
}

/* Lists all tensors of all files; a name in two files is an error. */
static sl_err list_files(struct sl_ckpt_weights *w) {
    struct sl_st_tensor tensor;
    for (int f = 0; f < w->file_count; f++)
        w->count += w->files[f].count;
    w->places = SL_NEW(&w->arena, struct place, w->count + 1);
    int64_t n = 0;
    for (int f = 0; f < w->file_count; f++)
        for (int64_t i = 0; i < w->files[f].count; i++) {
            sl_st_get(&w->files[f], i, &tensor);
            w->places[n++] = (struct place){tensor.name, i, f};
        }
    qsort(w->places, (size_t)n, sizeof *w->places, compare_places);
    for (int64_t i = 1; i < n; i++)
        if (strcmp(w->places[i - 1].name, w->places[i].name) == 0)
            return sl_fail(SL_ERR_INPUT, "%s: two files have a tensor '%s'", w->path,
                           w->places[i].name);
    return SL_OK;
}

static sl_err open_file(struct sl_ckpt_weights *w, const char *path) {
    w->files = SL_NEW(&w->arena, struct sl_st, 1);
    SL_TRY(sl_st_open(path, &w->files[0]));
    w->file_count = 1;
    return list_files(w);
}

static sl_err open_shards(struct sl_ckpt_weights *w, const char *folder,
                          const struct sl_ckpt_index *index) {
    struct sl_map known = {0};
    sl_err err = SL_OK;
    w->files = SL_NEW(&w->arena, struct sl_st, SL_CKPT_SHARDS);
    w->file_names = SL_NEW(&w->arena, const char *, SL_CKPT_SHARDS);
    for (int64_t i = 0; i < index->count && err == SL_OK; i++) {
        if (sl_map_find(&known, sl_str(index->files[i])))
            continue;
        if (w->file_count == SL_CKPT_SHARDS) {
            err = sl_fail(SL_ERR_INPUT, "%s: more than %d files", w->path, SL_CKPT_SHARDS);
            break;
        }
        const char *path = sl_arena_printf(&w->arena, "%s/%s", folder, index->files[i]);
        err = sl_st_open(path, &w->files[w->file_count]);
        sl_map_put(&known, sl_str(index->files[i]), w->file_count);
        w->file_count += err == SL_OK;
    }
    for (int64_t i = 0; i < index->count && err == SL_OK; i++) {
        int64_t f = *sl_map_find(&known, sl_str(index->files[i]));
        if (sl_st_find(&w->files[f], index->names[i]) < 0)
            err = sl_fail(SL_ERR_INPUT, "%s has no tensor '%s', which the index puts there",
                          w->files[f].path, index->names[i]);
    }
    sl_map_free(&known);
    return err == SL_OK ? list_files(w) : err;
}

static sl_err open_index(struct sl_ckpt_weights *w, const char *path) {
    struct sl_ckpt_index index = {0};
    char *text = NULL;
    size_t length;
    const char *slash = strrchr(path, '/');
    const char *folder = slash ? sl_arena_dup(&w->arena, path, (size_t)(slash - path)) : ".";
    SL_TRY(sl_file_read(path, SL_CKPT_INDEX_BYTES, &text, &length));
    sl_err err = sl_ckpt_index_read(path, text, length, &index);
    if (err == SL_OK)
        err = open_shards(w, *folder ? folder : "/", &index);
    sl_ckpt_index_close(&index);
    free(text);
    return err;
}

static sl_err open_run(struct sl_ckpt_weights *w, const char *path) {
    SL_TRY(sl_ckpt_open(path, -1, &w->ckpt));
    w->places = SL_NEW(&w->arena, struct place, sl_ckpt_count(w->ckpt) + 1);
    for (int64_t i = 0; i < sl_ckpt_count(w->ckpt); i++) {
        const struct sl_ckpt_tensor *tensor = sl_ckpt_at(w->ckpt, i);
        if (sl_ckpt_group_of(w->ckpt, tensor) == SL_CKPT_WEIGHTS)
            w->places[w->count++] = (struct place){tensor->name, i, 0};
    }
    return SL_OK;
}

static bool has(struct sl_ckpt_weights *w, const char *folder, const char *name,
                const char **path) {
    *path = sl_arena_printf(&w->arena, "%s/%s", folder, name);
    return sl_file_exists(*path);
}

static sl_err open_folder(struct sl_ckpt_weights *w, const char *folder) {
    const char *path;
    if (has(w, folder, "manifest.json", &path) || has(w, folder, "ckpt", &path) ||
        has(w, folder, "latest", &path))
        return open_run(w, folder);
    if (has(w, folder, "model.safetensors.index.json", &path))
        return open_index(w, path);
    if (has(w, folder, "model.safetensors", &path))
        return open_file(w, path);
    if (has(w, folder, "pytorch_model.bin", &path) ||
        has(w, folder, "pytorch_model.bin.index.json", &path))
        return sl_fail(SL_ERR_REFUSED,
                       "%s: pickled weights are not read, because loading them runs code; save the "
                       "model as safetensors",
                       path);
    return sl_fail(SL_ERR_INPUT,
                   "%s: no weights here: expected a run, model.safetensors or "
                   "model.safetensors.index.json",
                   folder);
}

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

sl_err sl_ckpt_weights_open(const char *path, struct sl_ckpt_weights **out) {
    struct sl_ckpt_weights *w = sl_realloc(NULL, sizeof *w);
    struct stat info;
    *w = (struct sl_ckpt_weights){.held_index = -1};
    w->path = sl_arena_dup(&w->arena, path, strlen(path));
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    sl_err err = is_folder                  ? open_folder(w, path)
                 : ends_with(path, ".json") ? open_index(w, path)
                                            : open_file(w, path);
    if (err != SL_OK) {
        sl_ckpt_weights_close(w);
        return err;
    }
    *out = w;
    return SL_OK;
}

void sl_ckpt_weights_close(struct sl_ckpt_weights *w) {
    if (!w)
        return;
    for (int f = 0; f < w->file_count; f++)
        sl_st_close(&w->files[f]);
    sl_ckpt_close(w->ckpt);
    free(w->held);
    free(w->bytes);
    sl_arena_free(&w->arena);
    free(w);
}

/* ---- tensors ---- */

int64_t sl_ckpt_weights_count(const struct sl_ckpt_weights *w) { return w->count; }

void sl_ckpt_weights_at(const struct sl_ckpt_weights *w, int64_t index, struct sl_st_tensor *out) {
    const struct place *place = &w->places[index];
    if (!w->ckpt) {
        sl_st_get(&w->files[place->file], place->at, out);
        return;
    }
    const struct sl_ckpt_tensor *tensor = sl_ckpt_at(w->ckpt, place->at);
    *out = (struct sl_st_tensor){.name = tensor->name,
                                 .dtype = (enum sl_st_dtype)tensor->dtype,
                                 .rank = tensor->rank,
                                 .size_bytes = sl_ckpt_tensor_bytes(tensor)};
    memcpy(out->dim, tensor->dim, sizeof *tensor->dim * tensor->rank);
}

int64_t sl_ckpt_weights_find(const struct sl_ckpt_weights *w, const char *name) {
    const struct place wanted = {.name = name};
    const struct place *found =
        w->count ? bsearch(&wanted, w->places, (size_t)w->count, sizeof *w->places, compare_places)
                 : NULL;
    return found ? found - w->places : -1;
}

/* ---- reading ---- */

static void convert(enum sl_st_dtype dtype, const unsigned char *bytes, int64_t count, float *out) {
    uint16_t half;
    double wide;
    if (dtype == SL_ST_F32)
        memcpy(out, bytes, (size_t)count * sizeof *out);
    for (int64_t i = 0; i < count && dtype != SL_ST_F32; i++) {
        if (dtype == SL_ST_F64) {
            memcpy(&wide, bytes + i * 8, sizeof wide);
            out[i] = (float)wide;
            continue;
        }
        memcpy(&half, bytes + i * 2, sizeof half);
        out[i] = dtype == SL_ST_BF16 ? sl_from_bf16(half) : sl_from_fp16(half);
    }
}

static sl_err check_dtype(const struct sl_ckpt_weights *w, const struct sl_st_tensor *tensor) {
    enum sl_st_dtype d = tensor->dtype;
    if (d == SL_ST_F32 || d == SL_ST_F64 || d == SL_ST_BF16 || d == SL_ST_F16)
        return SL_OK;
    return sl_fail(SL_ERR_REFUSED,
                   "%s: tensor '%s' has type %s; fp32, fp64, bf16 and fp16 are read", w->path,
                   tensor->name, sl_st_dtype_name(d));
}

struct hold {
    unsigned char *at;
};

static sl_err put_held(void *ctx, const void *bytes, int64_t size) {
    struct hold *hold = ctx;
    memcpy(hold->at, bytes, (size_t)size);
    hold->at += size;
    return SL_OK;
}

/* Reads the whole tensor of a checkpoint, because its checksum covers all of it. */
static sl_err hold(struct sl_ckpt_weights *w, int64_t index, const struct sl_st_tensor *tensor) {
    if (w->held_index == index)
        return SL_OK;
    w->held_index = -1;
    w->held = sl_realloc(w->held, (size_t)tensor->size_bytes + 1);
    struct hold sink = {(unsigned char *)w->held};
    SL_TRY(sl_ckpt_stream(w->ckpt, sl_ckpt_at(w->ckpt, w->places[index].at), &sink, put_held));
    w->held_index = index;
    return SL_OK;
}

sl_err sl_ckpt_weights_read(struct sl_ckpt_weights *w, int64_t index, int64_t from, int64_t count,
                            float *out) {
    struct sl_st_tensor tensor;
    sl_ckpt_weights_at(w, index, &tensor);
    SL_TRY(check_dtype(w, &tensor));
    int64_t each = sl_st_dtype_bytes(tensor.dtype);
    SL_ASSERT((from + count) * each <= tensor.size_bytes);
    if (w->ckpt) {
        SL_TRY(hold(w, index, &tensor));
        convert(tensor.dtype, (const unsigned char *)w->held + from * each, count, out);
        return SL_OK;
    }
    if (!w->bytes)
        w->bytes = sl_realloc(NULL, (size_t)PIECE * 8);
    for (int64_t done = 0; done < count; done += PIECE) {
        int64_t part = count - done < PIECE ? count - done : PIECE;
        SL_TRY(sl_st_read(&w->files[w->places[index].file], &tensor, (from + done) * each,
                          part * each, w->bytes));
        convert(tensor.dtype, w->bytes, part, out + done);
    }
    return SL_OK;
}
