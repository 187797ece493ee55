/* safetensors reader: checks the whole header before it returns any tensor.
 *
 * The first pass over the header counts the tensors, so that the rows are allocated once; the
 * second pass fills them. Names are terminated in place and shapes stay text, which bounds the
 * memory by twice the header. */
#define _POSIX_C_SOURCE 200809L
#include "base/hash.h"
#include "base/json_place.h"
#include "base/safetensors.h"
#include "base/sort.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOTES_MAX = 1024 };

struct sl_st_row {
    const char *name;
    int64_t begin, size_bytes; /* `begin` counts from the start of the data */
    uint32_t shape;            /* offset in the header of the '[' of its shape */
    uint8_t dtype, rank;
};

/* Terminate the key just read in place and check it. */
static sl_err take_name(struct sl_json_in *json, const char **out) {
    *out = sl_json_in_place(json);
    if (!*out || !sl_st_name_ok(*out))
        return sl_json_fail(json, "tensor name is empty, too long, not UTF-8 or holds a control "
                                  "character");
    return SL_OK;
}

static sl_err read_shape(struct sl_json_in *json, struct sl_st_tensor *out, const char **text) {
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    *text = json->at - 1;
    out->rank = 0;
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_ARRAY_END)
            return SL_OK;
        if (json->event != SL_JSON_NUMBER || json->number < 0 ||
            json->number > (double)SL_ST_BYTES_MAX || json->number != (double)(int64_t)json->number)
            return sl_json_fail(json, "a shape holds whole numbers from 0 to 2^53");
        if (out->rank == SL_ST_RANK)
            return sl_json_fail(json, "more than %d axes", SL_ST_RANK);
        out->dim[out->rank++] = (int64_t)json->number;
    }
}

static sl_err read_offsets(struct sl_json_in *json, struct sl_st_tensor *out) {
    int64_t end;
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    SL_TRY(sl_json_take_int(json, 0, SL_ST_BYTES_MAX, &out->offset));
    SL_TRY(sl_json_take_int(json, 0, SL_ST_BYTES_MAX, &end));
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY_END));
    if (end < out->offset)
        return sl_json_fail(json, "data_offsets end before they begin");
    out->size_bytes = end - out->offset;
    return SL_OK;
}

/* Reads {"dtype": .., "shape": .., "data_offsets": ..}: each key once, in any order. */
static sl_err read_tensor(struct sl_st *st, struct sl_json_in *json, struct sl_st_row *row) {
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    struct sl_st_tensor tensor = {0};
    const char *shape = NULL;
    unsigned seen = 0, now;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        now = sl_str_is(json->string, "dtype")          ? DTYPE
              : sl_str_is(json->string, "shape")        ? SHAPE
              : sl_str_is(json->string, "data_offsets") ? OFFSETS
                                                        : 0;
        if (!now || (seen & now))
            return sl_json_fail(json, "tensor '%s': a key is unknown or given twice", row->name);
        seen |= now;
        if (now == SHAPE)
            SL_TRY(read_shape(json, &tensor, &shape));
        else if (now == OFFSETS)
            SL_TRY(read_offsets(json, &tensor));
        else
            SL_TRY(sl_json_take(json, SL_JSON_STRING));
        if (now == DTYPE && !sl_st_dtype_parse(json->string, &tensor.dtype))
            return sl_json_fail(json, "tensor '%s': unknown dtype '%.*s'", row->name,
                                (int)(json->string.length < 32 ? json->string.length : 32),
                                json->string.at);
    }
    if (seen != (DTYPE | SHAPE | OFFSETS))
        return sl_json_fail(json, "tensor '%s' lacks dtype, shape or data_offsets", row->name);
    if (sl_st_size_bytes(tensor.dtype, tensor.rank, tensor.dim) != tensor.size_bytes)
        return sl_json_fail(json, "tensor '%s': %lld bytes do not hold its shape", row->name,
                            (long long)tensor.size_bytes);
    row->begin = tensor.offset;
    row->size_bytes = tensor.size_bytes;
    row->shape = (uint32_t)(shape - st->header);
    row->dtype = (uint8_t)tensor.dtype;
    row->rank = (uint8_t)tensor.rank;
    return SL_OK;
}

static sl_err read_notes(struct sl_st *st, struct sl_json_in *json) {
    if (st->notes.at)
        return sl_json_fail(json, "__metadata__ is given twice");
    SL_VEC_RESERVE(&st->notes, 1); /* marks __metadata__ as seen even if it is empty */
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        struct sl_st_note note;
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return SL_OK;
        if (st->notes.count == NOTES_MAX)
            return sl_json_fail(json, "more than %d entries of __metadata__", NOTES_MAX);
        note.key = sl_json_in_place(json);
        SL_TRY(sl_json_take(json, SL_JSON_STRING));
        note.value = sl_json_in_place(json);
        if (!note.key || !note.value)
            return sl_json_fail(json, "malformed escape in __metadata__");
        SL_PUSH(&st->notes, note);
    }
}

static sl_err count_tensors(struct sl_st *st, struct sl_json_in *json) {
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return sl_json_next(json); /* nothing may follow the outer object */
        if (!sl_str_is(json->string, "__metadata__"))
            st->count++;
        SL_TRY(sl_json_next(json));
        SL_TRY(sl_json_skip(json));
    }
}

static sl_err read_header(struct sl_st *st) {
    struct sl_json_in json;
    sl_json_read(&json, st->path, st->header, st->header_bytes);
    SL_TRY(count_tensors(st, &json));
    st->rows = sl_realloc(NULL, sizeof *st->rows * (size_t)(st->count ? st->count : 1));
    sl_json_read(&json, st->path, st->header, st->header_bytes);
    SL_TRY(sl_json_take(&json, SL_JSON_OBJECT));
    for (int64_t i = 0;;) {
        SL_TRY(sl_json_next(&json));
        if (json.event == SL_JSON_OBJECT_END)
            return SL_OK;
        if (sl_str_is(json.string, "__metadata__")) {
            SL_TRY(read_notes(st, &json));
        } else {
            SL_TRY(take_name(&json, &st->rows[i].name));
            SL_TRY(read_tensor(st, &json, &st->rows[i]));
            i++;
        }
    }
}

static int by_place(const void *a, const void *b) {
    const struct sl_st_row *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct sl_st_row *)a)->name, ((const struct sl_st_row *)b)->name);
}

/* Check that the tensors cover the data exactly and that names are unique. */
static sl_err check_rows(struct sl_st *st) {
    int64_t at = 0, room = st->file_bytes - st->data_start;
    sl_sort(st->rows, st->count, sizeof *st->rows, by_place);
    for (int64_t i = 0; i < st->count; i++) {
        const struct sl_st_row *row = &st->rows[i];
        if (row->begin != at)
            return sl_fail(SL_ERR_INPUT, "%s: tensor '%s' %s the one before it", st->path,
                           row->name, row->begin < at ? "overlaps" : "leaves a hole after");
        if (row->size_bytes > room - at)
            return sl_fail(SL_ERR_INPUT,
                           "%s: tensor '%s' ends after the end of the file: it is "
                           "truncated",
                           st->path, row->name);
        at += row->size_bytes;
    }
    if (at != room)
        return sl_fail(SL_ERR_INPUT, "%s: %lld bytes follow the last tensor", st->path,
                       (long long)(room - at));
    sl_sort(st->rows, st->count, sizeof *st->rows, by_name);
    for (int64_t i = 1; i < st->count; i++)
        if (strcmp(st->rows[i - 1].name, st->rows[i].name) == 0)
            return sl_fail(SL_ERR_INPUT, "%s: tensor '%s' is listed twice", st->path,
                           st->rows[i].name);
    return SL_OK;
}

static sl_err header_size(const char *path, const unsigned char first[8], int64_t file_bytes,
                          int64_t *out) {
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | first[i];
    if (length > SL_ST_HEADER_MAX)
        return sl_fail(SL_ERR_INPUT, "%s: not safetensors: a header of %llu bytes (limit %d)", path,
                       (unsigned long long)length, SL_ST_HEADER_MAX);
    if ((int64_t)length > file_bytes - 8)
        return sl_fail(SL_ERR_INPUT, "%s: truncated: the header has %llu bytes, the file %lld",
                       path, (unsigned long long)length, (long long)file_bytes);
    *out = (int64_t)length;
    return SL_OK;
}

/* Parses st->header, which holds the text of the file's header. */
static sl_err adopt_header(struct sl_st *st, const void *first) {
    struct sl_hasher *hasher = sl_hasher_open();
    sl_hasher_add(hasher, first, 8);
    sl_hasher_add(hasher, st->header, st->header_bytes);
    st->header_hash = sl_hasher_value(hasher);
    sl_hasher_close(hasher);
    if (st->header_bytes == 0 || st->header[0] != '{')
        return sl_fail(SL_ERR_INPUT, "%s: not safetensors: the header does not begin with '{'",
                       st->path);
    SL_TRY(read_header(st));
    return check_rows(st);
}

sl_err sl_st_parse(const char *path, const void *bytes, size_t length, int64_t file_bytes,
                   struct sl_st *out) {
    int64_t header_bytes;
    *out = (struct sl_st){.fd = -1, .file_bytes = file_bytes};
    out->path = sl_arena_dup(&out->arena, path, strlen(path));
    sl_err err = SL_OK;
    if (length < 8 || file_bytes < (int64_t)length)
        SL_TRY_OUT(sl_fail(SL_ERR_INPUT, "%s: not safetensors: %zu bytes", path, length));
    SL_TRY_OUT(header_size(path, bytes, (int64_t)length, &header_bytes));
    out->header_bytes = (size_t)header_bytes;
    out->data_start = 8 + header_bytes;
    out->header = sl_realloc(NULL, out->header_bytes + 1);
    memcpy(out->header, (const char *)bytes + 8, out->header_bytes);
    out->header[out->header_bytes] = 0;
    SL_TRY_OUT(adopt_header(out, bytes));
out:
    if (err != SL_OK)
        sl_st_close(out);
    return err;
}

static sl_err read_at(const struct sl_st *st, int64_t from, int64_t size_bytes, void *out) {
    for (char *to = out; size_bytes;) {
        ssize_t got = pread(st->fd, to, (size_t)size_bytes, (off_t)from);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sl_fail(SL_ERR_SYSTEM, "%s: cannot read: %s", st->path, strerror(errno));
        if (got == 0)
            return sl_fail(SL_ERR_INPUT, "%s: became shorter while it was read", st->path);
        to += got;
        from += got;
        size_bytes -= got;
    }
    return SL_OK;
}

sl_err sl_st_open(const char *path, struct sl_st *out) {
    struct stat info;
    unsigned char first[8];
    int64_t header_bytes;
    sl_err err = SL_OK;
    *out = (struct sl_st){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    out->path = sl_arena_dup(&out->arena, path, strlen(path));
    if (out->fd < 0 || fstat(out->fd, &info) != 0)
        SL_TRY_OUT(sl_fail(sl_file_absence(errno), "%s: cannot open: %s", path, strerror(errno)));
    out->file_bytes = (int64_t)info.st_size;
    if (!S_ISREG(info.st_mode) || out->file_bytes < 8 || out->file_bytes > SL_ST_BYTES_MAX)
        SL_TRY_OUT(sl_fail(SL_ERR_INPUT, "%s: not safetensors: %s", path,
                           S_ISREG(info.st_mode) ? "wrong size" : "not a regular file"));
    SL_TRY_OUT(read_at(out, 0, 8, first));
    SL_TRY_OUT(header_size(path, first, out->file_bytes, &header_bytes));
    out->header_bytes = (size_t)header_bytes;
    out->data_start = 8 + header_bytes;
    out->header = sl_realloc(NULL, out->header_bytes + 1);
    SL_TRY_OUT(read_at(out, 8, header_bytes, out->header));
    out->header[out->header_bytes] = 0;
    SL_TRY_OUT(adopt_header(out, first));
out:
    if (err != SL_OK)
        sl_st_close(out);
    return err;
}

void sl_st_close(struct sl_st *st) {
    if (st->path && st->fd >= 0)
        close(st->fd);
    free(st->rows);
    free(st->header);
    SL_VEC_FREE(&st->notes);
    sl_arena_free(&st->arena);
    *st = (struct sl_st){.fd = -1};
}

void sl_st_get(const struct sl_st *st, int64_t index, struct sl_st_tensor *out) {
    SL_ASSERT(index >= 0 && index < st->count);
    const struct sl_st_row *row = &st->rows[index];
    const char *shape = st->header + row->shape, *unused;
    struct sl_json_in json;
    sl_json_read(&json, st->path, shape, st->header_bytes - row->shape);
    *out = (struct sl_st_tensor){.name = row->name,
                                 .dtype = (enum sl_st_dtype)row->dtype,
                                 .offset = st->data_start + row->begin,
                                 .size_bytes = row->size_bytes};
    sl_err err = read_shape(&json, out, &unused);
    SL_ASSERT(err == SL_OK && out->rank == row->rank);
}

int64_t sl_st_find(const struct sl_st *st, const char *name) {
    for (int64_t low = 0, high = st->count; low < high;) {
        int64_t middle = low + (high - low) / 2;
        int order = strcmp(st->rows[middle].name, name);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

const char *sl_st_note(const struct sl_st *st, const char *key) {
    for (int64_t i = 0; i < st->notes.count; i++)
        if (strcmp(st->notes.at[i].key, key) == 0)
            return st->notes.at[i].value;
    return NULL;
}

sl_err sl_st_read(const struct sl_st *st, const struct sl_st_tensor *tensor, int64_t from,
                  int64_t size_bytes, void *out) {
    SL_ASSERT(from >= 0 && size_bytes >= 0 && from <= tensor->size_bytes - size_bytes);
    SL_ASSERT(st->fd >= 0);
    return read_at(st, tensor->offset + from, size_bytes, out);
}
