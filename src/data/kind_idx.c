/* IDX: the array format of MNIST, plain or gzip; one file of images and one of labels.
 *
 *   00 00 type rank  u32be dim[rank]  values, big-endian       [N,H,W] or [N,C,H,W]; labels [N]
 *
 * Bytes are normalised to mean 0 and standard deviation 1 over the whole file; other types are not
 * changed. An image of another size than the model's is padded with zeros or cropped, centred.
 */
#include "data/source.h"

#include <math.h>
#include <string.h>

enum { RANK_MAX = 4, LOAD_MAX_BYTES = 1 << 30, ROW_BYTES = 4096 };

struct array {
    const struct sl_blob *blob;
    int type, width, rank;
    int64_t dim[RANK_MAX], offset_bytes, numel;
};

struct image_set {
    struct array images, labels; /* blob NULL: not given */
    int64_t channels, height, width;
    double mean, deviation; /* of the stored values; 0 and 1 for types other than bytes */
};

static int type_width(int type) {
    switch (type) {
    case 0x08:
    case 0x09: return 1;
    case 0x0B: return 2;
    case 0x0C:
    case 0x0D: return 4;
    case 0x0E: return 8;
    default: return 0;
    }
}

static bool sniff(const unsigned char *head, int64_t length) {
    return length >= 8 && !head[0] && !head[1] && type_width(head[2]) && head[3] >= 1 &&
           head[3] <= RANK_MAX;
}

static sl_err read_array(const struct sl_blob *blob, struct array *array) {
    unsigned char head[4 + 4 * RANK_MAX];
    int64_t size = blob->size_bytes;
    int64_t part = size < (int64_t)sizeof head ? size : (int64_t)sizeof head;
    SL_TRY(sl_data_blob_read(blob, 0, head, part));
    if (!sniff(head, part) || part < 4 + 4 * head[3])
        return sl_fail(SL_ERR_INPUT,
                       "%s: not an IDX file (%lld bytes): expected two zero bytes, a type, 1 to %d "
                       "dimensions and their sizes",
                       blob->name, (long long)size, RANK_MAX);
    *array = (struct array){.blob = blob, .type = head[2], .rank = head[3], .numel = 1};
    array->width = type_width(array->type);
    array->offset_bytes = 4 + 4 * array->rank;
    for (int i = 0; i < array->rank; i++) {
        array->dim[i] = sl_be32(head + 4 + 4 * i);
        if (!array->dim[i] || array->numel > size / array->dim[i])
            return sl_fail(SL_ERR_INPUT, "%s: %lld bytes are fewer than its header states%s",
                           blob->name, (long long)size,
                           array->dim[i] ? ": truncated" : " (a dimension of 0)");
        array->numel *= array->dim[i];
    }
    if (array->offset_bytes + array->numel * array->width != size)
        return sl_fail(SL_ERR_INPUT, "%s: %lld bytes, its header states %lld", blob->name,
                       (long long)size,
                       (long long)array->offset_bytes + array->numel * array->width);
    return SL_OK;
}

static double value_at(const unsigned char *p, int type) {
    uint32_t word = type_width(type) >= 4 ? sl_be32(p) : 0;
    uint64_t pair = type == 0x0E ? (uint64_t)word << 32 | sl_be32(p + 4) : 0;
    float f;
    double d;
    switch (type) {
    case 0x08: return p[0];
    case 0x09: return (signed char)p[0];
    case 0x0B: return (int16_t)(uint16_t)(p[0] << 8 | p[1]);
    case 0x0C: return (int32_t)word;
    case 0x0D: memcpy(&f, &word, sizeof f); return f;
    default: memcpy(&d, &pair, sizeof d); return d;
    }
}

/* Computes mean and deviation. Integer sums are exact, so the result does not depend on the
 * order. */
static sl_err normalise(struct image_set *set) {
    unsigned char chunk[ROW_BYTES];
    const struct array *a = &set->images;
    uint64_t sum = 0, squares = 0;
    set->deviation = 1;
    if (a->type != 0x08)
        return SL_OK;
    for (int64_t at = 0; at < a->numel; at += ROW_BYTES) {
        int64_t part = a->numel - at < ROW_BYTES ? a->numel - at : ROW_BYTES;
        SL_TRY(sl_data_blob_read(a->blob, a->offset_bytes + at, chunk, part));
        for (int64_t i = 0; i < part; i++) {
            sum += chunk[i];
            squares += (uint64_t)chunk[i] * chunk[i];
        }
    }
    set->mean = (double)sum / (double)a->numel;
    double variance = (double)squares / (double)a->numel - set->mean * set->mean;
    set->deviation = variance > 1e-6 ? sqrt(variance) : 1;
    return SL_OK;
}

static sl_err check_image(const struct sl_data *data, const struct image_set *set,
                          const struct sl_data_input *want) {
    char text[SL_DATA_INPUT_TEXT];
    int64_t flat = set->channels * set->height * set->width;
    bool fits = (want->rank == 3 && want->dim[0] == set->channels) ||
                (want->rank == 2 && set->channels == 1) ||
                (want->rank == 1 && want->dim[0] == flat);
    if (fits)
        return SL_OK;
    return sl_fail(SL_ERR_INPUT,
                   "input %s of the model: the images of %s are [%lld,%lld,%lld]; a model may have "
                   "another height and width (padded or cropped), or take them flat [B,%lld], but "
                   "not another number of channels",
                   sl_data_input_text(want, text), data->blob[0].name, (long long)set->channels,
                   (long long)set->height, (long long)set->width, (long long)flat);
}

static sl_err check_labels(const struct image_set *set, const struct sl_data_bound *bound) {
    const struct array *a = &set->labels;
    unsigned char value[8];
    if (!a->blob)
        return sl_fail(SL_ERR_INPUT,
                       "input '%s' of the model needs labels: give both files, IMAGES,LABELS",
                       bound->want.name);
    if (a->numel != set->images.dim[0])
        return sl_fail(SL_ERR_INPUT, "%s: %lld labels for %lld images", a->blob->name,
                       (long long)a->numel, (long long)set->images.dim[0]);
    for (int64_t i = 0; i < a->numel; i++) {
        SL_TRY(sl_data_blob_read(a->blob, a->offset_bytes + i * a->width, value, a->width));
        double label = value_at(value, a->type);
        if (!(label >= 0) || label != floor(label) || label > INT32_MAX ||
            (bound->want.below && label >= (double)bound->want.below))
            return sl_data_bad_value(bound, label > -1e18 && label < 1e18 ? (int64_t)label : -1,
                                     a->blob->name);
    }
    return SL_OK;
}

static sl_err bind(struct sl_data *data, const struct image_set *set) {
    for (int i = 0; i < data->bound_count; i++) {
        struct sl_data_bound *bound = &data->bound[i];
        bool is_float = bound->want.dtype == SL_DATA_FLOAT;
        if (bound->role == SL_ROLE_ROW)
            continue;
        if (is_float && (bound->role == SL_ROLE_IMAGE || bound->role == SL_ROLE_FEATURE)) {
            SL_TRY(check_image(data, set, &bound->want));
            bound->role = SL_ROLE_IMAGE;
        } else if (!is_float && bound->role == SL_ROLE_TARGET && bound->numel == 1) {
            SL_TRY(check_labels(set, bound));
        } else {
            return sl_data_refuse(data, &bound->want);
        }
    }
    return SL_OK;
}

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct image_set *set = SL_NEW(&data->arena, struct image_set, 1);
    (void)spec;
    data->state = set;
    for (int i = 0; i < data->blob_count; i++) {
        struct array array;
        SL_TRY(sl_data_blob_inflate(&data->blob[i]));
        SL_TRY(read_array(&data->blob[i], &array));
        struct array *place = array.rank == 1 ? &set->labels : &set->images;
        if (place->blob || array.rank == 2)
            return sl_fail(SL_ERR_INPUT,
                           "%s: has %d dimensions; expected one file of images (3 or 4) and one of "
                           "labels (1)",
                           data->blob[i].name, array.rank);
        if (data->blob[i].size_bytes <= LOAD_MAX_BYTES)
            SL_TRY(sl_data_blob_load(&data->blob[i]));
        *place = array;
    }
    if (!set->images.blob)
        return sl_fail(SL_ERR_INPUT, "%s: holds labels only; expected images (3 or 4 dimensions)",
                       data->blob[0].name);
    const int64_t *dim = set->images.dim;
    bool grey = set->images.rank == 3;
    set->channels = grey ? 1 : dim[1];
    set->height = grey ? dim[1] : dim[2];
    set->width = grey ? dim[2] : dim[3];
    data->total = dim[0];
    SL_TRY(normalise(set));
    return bind(data, set);
}

/* Fills one row of the model's image with `n` values; the source starts at column `left`. */
static sl_err fill_row(const struct image_set *set, int64_t source, int64_t left, int64_t n,
                       float *dst) {
    unsigned char chunk[ROW_BYTES];
    const struct array *a = &set->images;
    double scale = 1 / set->deviation;
    int64_t from = left < 0 ? -left : 0, at = left > 0 ? left : 0;
    int64_t count = set->width - from < n - at ? set->width - from : n - at;
    while (count > 0) {
        int64_t part = count < ROW_BYTES / 8 ? count : ROW_BYTES / 8;
        SL_TRY(sl_data_blob_read(a->blob, a->offset_bytes + (source + from) * a->width, chunk,
                                 part * a->width));
        for (int64_t i = 0; i < part; i++)
            dst[at + i] = (float)((value_at(chunk + i * a->width, a->type) - set->mean) * scale);
        from += part;
        at += part;
        count -= part;
    }
    return SL_OK;
}

static sl_err fill_image(const struct image_set *set, const struct sl_data_bound *bound,
                         int64_t sample, float *dst) {
    int rank = bound->want.rank;
    int64_t height = rank > 1 ? bound->want.dim[rank - 2] : set->height;
    int64_t width = rank > 1 ? bound->want.dim[rank - 1] : set->width;
    int64_t top = (height - set->height) / 2, left = (width - set->width) / 2;
    float zero = (float)((0 - set->mean) / set->deviation);
    bool padded = top > 0 || left > 0 || height > set->height || width > set->width;
    for (int64_t i = 0; padded && i < bound->numel; i++)
        dst[i] = zero;
    for (int64_t c = 0; c < set->channels; c++) {
        for (int64_t y = 0; y < height; y++) {
            int64_t row = y - top;
            if (row < 0 || row >= set->height)
                continue;
            int64_t source = ((sample * set->channels + c) * set->height + row) * set->width;
            SL_TRY(fill_row(set, source, left, width, dst + (c * height + y) * width));
        }
    }
    return SL_OK;
}

static sl_err fill(const struct sl_data *data, const struct sl_data_ask *ask) {
    const struct image_set *set = data->state;
    const struct sl_data_bound *bound = &data->bound[ask->input];
    if (sl_data_fill_plain(bound, ask))
        return SL_OK;
    if (bound->role == SL_ROLE_IMAGE)
        return fill_image(set, bound, ask->sample, ask->dst);
    const struct array *a = &set->labels;
    unsigned char value[8];
    SL_TRY(sl_data_blob_read(a->blob, a->offset_bytes + ask->sample * a->width, value, a->width));
    *(int32_t *)ask->dst = (int32_t)value_at(value, a->type);
    return SL_OK;
}

static void describe(const struct sl_data *data, struct sl_json_out *json) {
    const struct image_set *set = data->state;
    sl_json_put_int(json, "channels", set->channels);
    sl_json_put_int(json, "height", set->height);
    sl_json_put_int(json, "width", set->width);
    sl_json_put_double(json, "mean", set->mean);
    sl_json_put_double(json, "deviation", set->deviation);
}

/* Adds the labels file, whose name MNIST's naming scheme gives, from the same folder. */
static void expand(struct sl_data *data, const char *path) {
    static const char *const change[][2] = {{"images", "labels"}, {"idx3", "idx1"}};
    char *other = sl_arena_dup(&data->arena, path, strlen(path));
    sl_data_add_file(data, path);
    for (int i = 0; i < SL_COUNT(change); i++) {
        char *base = strrchr(other, '/');
        char *found = strstr(base ? base : other, change[i][0]);
        if (!found)
            return;
        memcpy(found, change[i][1], strlen(change[i][1]));
    }
    if (sl_file_exists(other))
        sl_data_add_file(data, other);
}

const struct sl_data_kind sl_data_idx = {
    .name = "idx",
    .brief = "images and labels in IDX files such as MNIST's (also gzip)",
    .offers = "image [C,H,W] or flat, label, row",
    .suffixes = ".idx3.idx1",
    .files_max = 2,
    .sniff = sniff,
    .expand = expand,
    .open = open_set,
    .fill = fill,
    .describe = describe,
};
