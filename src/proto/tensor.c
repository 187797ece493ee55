/* Types and data of ONNX tensors. */
#define _GNU_SOURCE
#include "base/half.h"
#include "proto/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum kind { NOT_READ, FLOATS, INTS };

static const struct {
    const char *name;
    int bytes;
    enum kind kind;
} types[SL_ONNX_TYPE_COUNT] = {
    [SL_ONNX_FLOAT] = {"float", 4, FLOATS},   [SL_ONNX_UINT8] = {"uint8", 1, INTS},
    [SL_ONNX_INT8] = {"int8", 1, INTS},       [SL_ONNX_UINT16] = {"uint16", 2, INTS},
    [SL_ONNX_INT16] = {"int16", 2, INTS},     [SL_ONNX_INT32] = {"int32", 4, INTS},
    [SL_ONNX_INT64] = {"int64", 8, INTS},     [SL_ONNX_STRING] = {"string", 0, NOT_READ},
    [SL_ONNX_BOOL] = {"bool", 1, INTS},       [SL_ONNX_FLOAT16] = {"float16", 2, FLOATS},
    [SL_ONNX_DOUBLE] = {"double", 8, FLOATS}, [SL_ONNX_UINT32] = {"uint32", 4, INTS},
    [SL_ONNX_UINT64] = {"uint64", 8, INTS},   [SL_ONNX_BFLOAT16] = {"bfloat16", 2, FLOATS},
};

static bool known(int type) {
    return type > 0 && type < SL_ONNX_TYPE_COUNT && types[type].name != NULL;
}

const char *sl_proto_type_name(int type) {
    if (known(type))
        return types[type].name;
    return type == SL_ONNX_NONE ? "no tensor type" : "a type that is not read";
}

int64_t sl_proto_type_bytes(int type) { return known(type) ? types[type].bytes : 0; }
bool sl_proto_type_is_float(int type) { return known(type) && types[type].kind == FLOATS; }
bool sl_proto_type_is_int(int type) { return known(type) && types[type].kind == INTS; }

/* Loads one element at `at`, stored as `type`. */
#define LOAD(ctype)                                                                                \
    do {                                                                                           \
        ctype x_;                                                                                  \
        memcpy(&x_, at, sizeof x_);                                                                \
        return x_;                                                                                 \
    } while (0)

static double load_float(const char *at, int type) {
    uint16_t half;
    switch (type) {
    case SL_ONNX_FLOAT: LOAD(float);
    case SL_ONNX_DOUBLE: LOAD(double);
    default: break;
    }
    memcpy(&half, at, sizeof half);
    return type == SL_ONNX_FLOAT16 ? sl_from_fp16(half) : sl_from_bf16(half);
}

static int64_t load_int(const char *at, int type) {
    switch (type) {
    case SL_ONNX_UINT8:
    case SL_ONNX_BOOL: LOAD(uint8_t);
    case SL_ONNX_INT8: LOAD(int8_t);
    case SL_ONNX_UINT16: LOAD(uint16_t);
    case SL_ONNX_INT16: LOAD(int16_t);
    case SL_ONNX_INT32: LOAD(int32_t);
    case SL_ONNX_UINT32: LOAD(uint32_t);
    default: break;
    }
    LOAD(int64_t);
}

/* Returns an element. Halves and small integers are in the list of int32, one per slot. */
static double typed_float(const struct sl_proto_tensor *t, int64_t i) {
    if (t->typed_type != SL_ONNX_INT32)
        return load_float((const char *)t->typed + i * types[t->typed_type].bytes, t->typed_type);
    uint16_t half = (uint16_t)((const int32_t *)t->typed)[i];
    return t->type == SL_ONNX_FLOAT16 ? sl_from_fp16(half) : sl_from_bf16(half);
}

static sl_err open_external(struct sl_proto_file *file, const struct sl_proto_tensor *t) {
    if (file->open_fd >= 0 && strcmp(file->open_path, t->file) == 0)
        return SL_OK;
    if (file->open_fd >= 0)
        close(file->open_fd);
    file->open_path = t->file;
    file->open_fd = open(t->file, O_RDONLY | O_CLOEXEC);
    if (file->open_fd < 0)
        return sl_fail(sl_file_absence(errno), "%s: tensor '%s': external data %s: %s", file->path,
                       t->name, t->file, strerror(errno));
    return SL_OK;
}

/* Reads `count` elements of external data as bytes. */
static sl_err read_external(struct sl_proto_file *file, const struct sl_proto_tensor *t,
                            int64_t from, int64_t count, char *out) {
    int64_t each = types[t->type].bytes, left = count * each;
    int64_t at = t->offset + from * each;
    SL_TRY(open_external(file, t));
    while (left) {
        ssize_t got = pread(file->open_fd, out, (size_t)left, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return sl_fail(SL_ERR_INPUT, "%s: tensor '%s': external data %s ends before byte %lld",
                           file->path, t->name, t->file, (long long)(at + left));
        out += got;
        at += got;
        left -= got;
    }
    return SL_OK;
}

static sl_err need(const struct sl_proto_file *file, const struct sl_proto_tensor *t,
                   enum kind kind, int64_t from, int64_t count) {
    if (!known(t->type) || types[t->type].kind != kind)
        return sl_fail(SL_ERR_REFUSED, "%s: tensor '%s' has type %s, %s are needed here",
                       file->path, t->name, sl_proto_type_name(t->type),
                       kind == FLOATS ? "floating-point numbers" : "whole numbers");
    if (from < 0 || count < 0 || from > t->count || count > t->count - from)
        return sl_fail(SL_ERR_INPUT, "%s: tensor '%s' has only %lld elements", file->path, t->name,
                       (long long)t->count);
    if (count && !t->raw && !t->typed && !t->file)
        return sl_fail(SL_ERR_INPUT, "%s: tensor '%s' has no data", file->path, t->name);
    return SL_OK;
}

enum { PIECE = 4096 };

sl_err sl_proto_read_floats(struct sl_proto_file *file, const struct sl_proto_tensor *t,
                            int64_t from, int64_t count, double *out) {
    char buffer[PIECE * 8];
    SL_TRY(need(file, t, FLOATS, from, count));
    for (int64_t done = 0, n; done < count; done += n) {
        int64_t each = types[t->type].bytes;
        n = count - done < PIECE ? count - done : PIECE;
        const char *at = t->raw ? (const char *)t->raw + (from + done) * each : buffer;
        if (t->file)
            SL_TRY(read_external(file, t, from + done, n, buffer));
        for (int64_t i = 0; i < n; i++)
            out[done + i] =
                t->typed ? typed_float(t, from + done + i) : load_float(at + i * each, t->type);
    }
    return SL_OK;
}

sl_err sl_proto_read_ints(struct sl_proto_file *file, const struct sl_proto_tensor *t, int64_t from,
                          int64_t count, int64_t *out) {
    char buffer[PIECE * 8];
    SL_TRY(need(file, t, INTS, from, count));
    for (int64_t done = 0, n; done < count; done += n) {
        int type = t->typed ? t->typed_type : t->type;
        int64_t each = types[type].bytes;
        const char *base = t->typed ? t->typed : t->raw;
        n = count - done < PIECE ? count - done : PIECE;
        if (t->file)
            SL_TRY(read_external(file, t, from + done, n, buffer));
        const char *at = base ? base + (from + done) * each : buffer;
        for (int64_t i = 0; i < n; i++)
            out[done + i] = load_int(at + i * each, type);
    }
    return SL_OK;
}

sl_err sl_proto_read_f32(struct sl_proto_file *file, const struct sl_proto_tensor *t, int64_t from,
                         int64_t count, float *out) {
    double wide[PIECE];
    SL_TRY(need(file, t, FLOATS, from, count));
    if (t->type == SL_ONNX_FLOAT && t->file)
        return read_external(file, t, from, count, (char *)out);
    if (t->type == SL_ONNX_FLOAT && count) {
        const char *at = t->raw ? t->raw : t->typed;
        memcpy(out, at + from * 4, (size_t)count * 4);
        return SL_OK;
    }
    for (int64_t done = 0, n; done < count; done += n) {
        n = count - done < PIECE ? count - done : PIECE;
        SL_TRY(sl_proto_read_floats(file, t, from + done, n, wide));
        for (int64_t i = 0; i < n; i++)
            out[done + i] = (float)wide[i];
    }
    return SL_OK;
}
