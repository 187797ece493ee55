/* Reads arrays of NumPy. Their header is a Python dictionary of three entries. */
#include "data/npy.h"

#include "base/half.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 1 << 16 };

static const unsigned char magic[SL_NPY_MAGIC] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

bool sl_data_is_npy(const unsigned char *head, int64_t length) {
    return length >= SL_NPY_MAGIC && memcmp(head, magic, SL_NPY_MAGIC) == 0;
}

struct header {
    const char *at, *end, *name;
    bool has_type, has_order, has_shape;
};

static sl_err header_fail(const struct header *h, const char *what) {
    return sl_fail(SL_ERR_INPUT, "%s: not an array of NumPy: %s", h->name, what);
}

static void skip_blanks(struct header *h) {
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t'))
        h->at++;
}

static bool take(struct header *h, char c) {
    skip_blanks(h);
    if (h->at == h->end || *h->at != c)
        return false;
    h->at++;
    return true;
}

static bool take_word(struct header *h, const char *word) {
    size_t length = strlen(word);
    skip_blanks(h);
    if ((size_t)(h->end - h->at) < length || memcmp(h->at, word, length) != 0)
        return false;
    h->at += length;
    return true;
}

static bool take_string(struct header *h, struct sl_str *out) {
    skip_blanks(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"'))
        return false;
    const char *close = memchr(h->at + 1, *h->at, (size_t)(h->end - h->at - 1));
    if (!close)
        return false;
    *out = (struct sl_str){h->at + 1, (size_t)(close - h->at - 1)};
    h->at = close + 1;
    return true;
}

/* Reads a type: '<f4', '|u1', '>i8', '|b1'. */
static sl_err read_type(struct header *h, struct sl_npy *out) {
    struct sl_str text;
    if (!take_string(h, &text))
        return sl_fail(SL_ERR_INPUT,
                       "%s: arrays of records are not read; store one array per field", h->name);
    const char *known[] = {"f2f4f8", "i1i2i4i8", "u1u2u4u8", "b1"};
    bool fine = text.length == 3 && strchr("<>|", text.at[0]);
    bool found = false;
    for (int i = 0; fine && i < SL_COUNT(known); i++)
        for (const char *at = known[i]; *at; at += 2)
            found |= at[0] == text.at[1] && at[1] == text.at[2];
    if (!found || (text.at[0] == '|' && text.at[2] != '1'))
        return sl_fail(
            SL_ERR_INPUT,
            "%s: values of type '%.*s' are not read; known: f2 f4 f8, i1 to i8, u1 to u8, "
            "b1 (objects and strings are refused)",
            h->name, (int)(text.length < 40 ? text.length : 40), text.at);
    out->big = text.at[0] == '>';
    out->type = text.at[1];
    out->width = text.at[2] - '0';
    return SL_OK;
}

static sl_err read_shape(struct header *h, struct sl_npy *out) {
    if (!take(h, '('))
        return header_fail(h, "its shape is no tuple");
    while (!take(h, ')')) {
        int64_t size = 0;
        const char *first = h->at;
        while (h->at < h->end && *h->at >= '0' && *h->at <= '9' && size < INT64_MAX / 100)
            size = size * 10 + (*h->at++ - '0');
        if (h->at == first || size >= INT64_MAX / 100)
            return header_fail(h, "its shape is damaged");
        take_word(h, "L"); /* a suffix that Python 2 writes */
        if (out->rank == SL_NPY_RANK)
            return header_fail(h, "more than 8 dimensions");
        out->dim[out->rank++] = size;
        if (!take(h, ',')) {
            if (!take(h, ')'))
                return header_fail(h, "its shape is damaged");
            break;
        }
    }
    return SL_OK;
}

static sl_err read_entry(struct header *h, struct sl_npy *out) {
    struct sl_str key;
    if (!take_string(h, &key) || !take(h, ':'))
        return header_fail(h, "its header is damaged");
    if (sl_str_is(key, "descr") && !h->has_type) {
        h->has_type = true;
        return read_type(h, out);
    }
    if (sl_str_is(key, "shape") && !h->has_shape) {
        h->has_shape = true;
        return read_shape(h, out);
    }
    if (!sl_str_is(key, "fortran_order") || h->has_order)
        return header_fail(h, "its header is damaged");
    h->has_order = true;
    out->fortran = take_word(h, "True");
    return out->fortran || take_word(h, "False") ? SL_OK
                                                 : header_fail(h, "fortran_order is not a bool");
}

static sl_err read_header(struct header *h, struct sl_npy *out) {
    if (!take(h, '{'))
        return header_fail(h, "its header is damaged");
    while (!take(h, '}')) {
        SL_TRY(read_entry(h, out));
        if (!take(h, ',')) {
            if (!take(h, '}'))
                return header_fail(h, "its header is damaged");
            break;
        }
    }
    if (!h->has_type || !h->has_order || !h->has_shape)
        return header_fail(h, "its header lacks descr, fortran_order or shape");
    skip_blanks(h);
    return h->at == h->end ? SL_OK : header_fail(h, "its header is damaged");
}

/* Checks that the number of values fits the number of bytes after the header. */
static sl_err check_size(const struct sl_npy *a, const char *name, int64_t size_bytes) {
    int64_t numel = 1, most = size_bytes / a->width;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] == 0)
            return sl_fail(SL_ERR_INPUT, "%s: the array is empty (a dimension of 0)", name);
        if (numel > most / a->dim[i])
            return sl_fail(SL_ERR_INPUT,
                           "%s: %lld bytes of values are fewer than its header states", name,
                           (long long)size_bytes);
        numel *= a->dim[i];
    }
    if (numel * a->width != size_bytes)
        return sl_fail(SL_ERR_INPUT, "%s: %lld bytes of values, its header states %lld", name,
                       (long long)size_bytes, (long long)numel * a->width);
    return SL_OK;
}

sl_err sl_data_npy_read(const struct sl_blob *blob, int64_t from, int64_t size_bytes,
                        struct sl_npy *out) {
    unsigned char head[12] = {0};
    int64_t part = size_bytes < (int64_t)sizeof head ? size_bytes : (int64_t)sizeof head;
    struct header h = {.name = blob->name};
    *out = (struct sl_npy){.name = out->name, .blob = blob};
    SL_TRY(sl_data_blob_read(blob, from, head, part));
    if (part < 10 || !sl_data_is_npy(head, part))
        return header_fail(&h, "it does not begin with \\x93NUMPY");
    if (head[6] < 1 || head[6] > 3)
        return header_fail(&h, "its version is not 1, 2 or 3");
    int64_t fixed = head[6] == 1 ? 10 : 12;
    int64_t length = head[6] == 1 ? (int64_t)(head[8] | head[9] << 8) : (int64_t)sl_le32(head + 8);
    if (length > HEADER_MAX || fixed + length > size_bytes)
        return header_fail(&h, "its header is longer than the file, or than 64 KiB");
    char *text = sl_realloc(NULL, (size_t)length + 1);
    sl_err err = sl_data_blob_read(blob, from + fixed, text, length);
    h.at = text;
    h.end = text + length;
    if (err == SL_OK)
        err = read_header(&h, out);
    free(text);
    SL_TRY(err);
    out->offset_bytes = from + fixed + length;
    SL_TRY(check_size(out, blob->name, size_bytes - fixed - length));
    out->numel = (size_bytes - fixed - length) / out->width;
    return SL_OK;
}

/* ---- values ---- */

static uint64_t bits_at(const struct sl_npy *a, const unsigned char *at) {
    uint64_t bits = 0;
    for (int i = 0; i < a->width; i++)
        bits = bits << 8 | at[a->big ? i : a->width - 1 - i];
    return bits;
}

int64_t sl_data_npy_int(const struct sl_npy *a, const unsigned char *at) {
    uint64_t bits = bits_at(a, at);
    if (a->type == 'b')
        return bits != 0;
    if (a->type == 'u')
        return bits > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)bits;
    switch (a->width) {
    case 1: return (int8_t)bits;
    case 2: return (int16_t)bits;
    case 4: return (int32_t)bits;
    default: return (int64_t)bits;
    }
}

double sl_data_npy_double(const struct sl_npy *a, const unsigned char *at) {
    uint64_t bits = bits_at(a, at);
    uint32_t word = (uint32_t)bits;
    float f;
    double d;
    if (a->type == 'u')
        return (double)bits;
    if (a->type != 'f')
        return (double)sl_data_npy_int(a, at);
    switch (a->width) {
    case 2: return (double)sl_from_fp16((uint16_t)bits);
    case 4: memcpy(&f, &word, sizeof f); return (double)f;
    default: memcpy(&d, &bits, sizeof d); return d;
    }
}

float sl_data_npy_float(const struct sl_npy *a, const unsigned char *at) {
    if (a->type == 'u')
        return (float)bits_at(a, at);
    return a->type == 'f' ? (float)sl_data_npy_double(a, at) : (float)sl_data_npy_int(a, at);
}
