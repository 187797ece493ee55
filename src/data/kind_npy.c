/* Arrays of NumPy: .npy files, one array each, and .npz archives of named arrays. The first dimension
 * counts the samples. Values are converted, never scaled. npy_bind.c chooses the array of an input.
 *
 * Tokens of an array [N,T+1] have the following tokens as targets. One array [N] of integers for
 * tokens [B,T] is a long text, cut into windows.
 */
#include "data/npy_set.h"

#include <math.h>
#include <string.h>

enum { ARRAYS_MAX = 1024, CHUNK_BYTES = 8192 };

/* ---- files ---- */

/* Returns "x" for "dir/x.npy". */
static const char *stem_of(struct sl_arena *arena, struct sl_str path) {
    size_t from = path.length, end = path.length;
    while (from > 0 && path.at[from - 1] != '/')
        from--;
    if (end >= from + 4 && memcmp(path.at + end - 4, ".npy", 4) == 0)
        end -= 4;
    return sl_arena_dup(arena, path.at + from, end - from);
}

static sl_err add_array(struct sl_npy_set *set, const struct sl_npy *array) {
    for (int64_t i = 0; i < set->arrays.count; i++)
        if (strcmp(set->arrays.at[i].name, array->name) == 0)
            return sl_fail(SL_ERR_INPUT, "%s: two arrays are called '%s'; name them: NAME=FILE",
                           array->blob->name, array->name);
    if (set->arrays.count == ARRAYS_MAX)
        return sl_fail(SL_ERR_INPUT, "%s: more than %d arrays", array->blob->name, ARRAYS_MAX);
    SL_PUSH(&set->arrays, *array);
    return SL_OK;
}

/* Makes a blob for a member; deflated content is in memory that the blob owns. */
static sl_err add_member(struct sl_data *data, struct sl_npy_set *set, struct sl_zip *zip,
                         const struct sl_zip_member *member, const char *label) {
    struct sl_npy array = {.name = stem_of(&data->arena, member->name)};
    struct sl_str name = member->name;
    int64_t from;
    if (name.length < 4 || memcmp(name.at + name.length - 4, ".npy", 4) != 0)
        return SL_OK;
    if (label && strcmp(label, array.name) != 0)
        return SL_OK;
    struct sl_blob *blob = SL_NEW(&data->arena, struct sl_blob, 1);
    *blob = *zip->blob;
    blob->name = sl_arena_printf(&data->arena, "%s: %s", zip->blob->name, array.name);
    SL_TRY(sl_data_zip_place(zip, member, &from));
    if (member->method) {
        unsigned char *content;
        SL_TRY(sl_data_zip_inflate(zip, member, &content));
        SL_PUSH(&set->memory, content);
        blob->at = content;
        blob->size_bytes = member->size_bytes;
        data->own_bytes += member->size_bytes;
        from = 0;
    }
    SL_TRY(sl_data_npy_read(blob, from, member->size_bytes, &array));
    return add_array(set, &array);
}

static sl_err open_archive(struct sl_data *data, struct sl_npy_set *set, const struct sl_blob *blob,
                           const char *label) {
    struct sl_zip zip;
    struct sl_zip_member member;
    bool found;
    int64_t before = set->arrays.count;
    SL_TRY(sl_data_zip_open(blob, &zip));
    sl_err err = SL_OK;
    do {
        err = sl_data_zip_next(&zip, &member, &found);
        if (err == SL_OK && found)
            err = add_member(data, set, &zip, &member, label);
    } while (err == SL_OK && found);
    sl_data_zip_close(&zip);
    SL_TRY(err);
    if (set->arrays.count == before)
        return sl_fail(SL_ERR_INPUT, "%s: has no array%s%s", blob->name, label ? " called " : "",
                       label ? label : "");
    return SL_OK;
}

static sl_err open_file(struct sl_data *data, struct sl_npy_set *set, const struct sl_blob *blob,
                        const char *label) {
    unsigned char head[SL_NPY_MAGIC] = {0};
    int64_t part = blob->size_bytes < SL_NPY_MAGIC ? blob->size_bytes : SL_NPY_MAGIC;
    SL_TRY(sl_data_blob_read(blob, 0, head, part));
    if (sl_data_is_zip(head, part))
        return open_archive(data, set, blob, label);
    struct sl_npy array = {.name = label ? label : stem_of(&data->arena, sl_str(blob->name))};
    SL_TRY(sl_data_npy_read(blob, 0, blob->size_bytes, &array));
    return add_array(set, &array);
}

/* ---- the set ---- */

/* Loads arrays in Fortran order into memory, because their samples are not contiguous. */
static sl_err load_fortran(struct sl_data *data, struct sl_npy_set *set) {
    for (int i = 0; i < data->bound_count; i++) {
        struct sl_npy *a = NULL;
        for (int64_t k = 0; k < set->arrays.count; k++)
            if (&set->arrays.at[k] == set->source[i].array)
                a = &set->arrays.at[k];
        if (!a || !a->fortran || a->rank < 2 || a->blob->at)
            continue;
        struct sl_blob *copy = SL_NEW(&data->arena, struct sl_blob, 1);
        int64_t size_bytes = a->numel * a->width;
        *copy = (struct sl_blob){.name = a->blob->name, .size_bytes = size_bytes, .fd = -1};
        unsigned char *content = malloc((size_t)size_bytes);
        if (!content)
            return sl_fail(SL_ERR_SYSTEM, "%s: no memory for %lld bytes", copy->name,
                           (long long)size_bytes);
        SL_PUSH(&set->memory, content);
        copy->at = content;
        data->own_bytes += size_bytes;
        SL_TRY(sl_data_blob_read(a->blob, a->offset_bytes, content, size_bytes));
        a->blob = copy;
        a->offset_bytes = 0;
    }
    return SL_OK;
}

static sl_err open_text(struct sl_data *data, const struct sl_data_spec *spec,
                        struct sl_npy_set *set) {
    const struct sl_npy *a = &set->arrays.at[0];
    struct sl_token_set *tokens = &set->tokens;
    tokens->shard = SL_NEW(&data->arena, struct sl_token_shard, 1);
    tokens->shard_count = 1;
    tokens->shard[0] = (struct sl_token_shard){.blob = a->blob,
                                               .offset_bytes = a->offset_bytes,
                                               .count = a->numel,
                                               .width = a->width,
                                               .is_signed = a->type == 'i'};
    set->is_text = data->ordered = true;
    return sl_data_token_set_open(data, spec, tokens);
}

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct sl_npy_set *set = SL_NEW(&data->arena, struct sl_npy_set, 1);
    data->state = set;
    set->tokens.packed.fd = -1;
    for (int i = 0; i < data->blob_count; i++)
        SL_TRY(open_file(data, set, &data->blob[i], data->label ? data->label[i] : NULL));
    set->used = SL_NEW(&data->arena, bool, set->arrays.count);
    set->source = SL_NEW(&data->arena, struct sl_npy_source, data->bound_count);
    if (sl_data_npy_is_text(data, set))
        return open_text(data, spec, set);
    SL_TRY(sl_data_npy_bind(data, set));
    return load_fortran(data, set);
}

/* ---- samples ---- */

static sl_err bad_value(const struct sl_data_bound *bound, const struct sl_npy *a, int64_t sample,
                        const unsigned char *at) {
    if (bound->want.dtype == SL_DATA_INT && a->type != 'f') {
        sl_err err = sl_data_bad_value(bound, sl_data_npy_int(a, at), a->blob->name);
        return sl_err_context(err, "sample %lld", (long long)sample);
    }
    return sl_fail(SL_ERR_INPUT, "%s: sample %lld: the value %g for input '%s', expected %s",
                   a->blob->name, (long long)sample, sl_data_npy_double(a, at), bound->want.name,
                   bound->want.dtype == SL_DATA_INT ? "a whole number that the model takes"
                                                    : "a number");
}

static bool put_value(const struct sl_data_bound *bound, const struct sl_npy *a,
                      const unsigned char *at, void *dst, int64_t i) {
    if (bound->want.dtype == SL_DATA_FLOAT) {
        float value = sl_data_npy_float(a, at);
        ((float *)dst)[i] = value;
        return isfinite(value);
    }
    int64_t below = bound->want.below ? bound->want.below : (int64_t)INT32_MAX + 1, value;
    if (a->type == 'f') {
        double real = sl_data_npy_double(a, at);
        if (!(fabs(real) < 1e18) || real != floor(real))
            return false;
        value = (int64_t)real;
    } else {
        value = sl_data_npy_int(a, at);
    }
    ((int32_t *)dst)[i] = (int32_t)value;
    bool ignored = bound->role == SL_ROLE_TARGET && value == bound->ignore;
    return ignored || (value >= 0 && value < below);
}

/* Returns where value k of a sample (last index fastest) is in the input. */
static int64_t place_of(const struct sl_npy_source *s, int64_t k) {
    if (!s->channels_last)
        return k;
    int64_t channels = s->array->dim[3], pixels = s->size / channels;
    return k % channels * pixels + k / channels;
}

static sl_err fill_rows(const struct sl_data_bound *bound, const struct sl_npy_source *s,
                        int64_t sample, void *dst) {
    unsigned char chunk[CHUNK_BYTES];
    const struct sl_npy *a = s->array;
    int64_t per_chunk = CHUNK_BYTES / a->width, part;
    for (int64_t done = 0; done < bound->numel; done += part) {
        part = bound->numel - done < per_chunk ? bound->numel - done : per_chunk;
        int64_t at = sample * s->size + s->skip + done;
        SL_TRY(sl_data_blob_read(a->blob, a->offset_bytes + at * a->width, chunk, part * a->width));
        for (int64_t i = 0; i < part; i++)
            if (!put_value(bound, a, chunk + i * a->width, dst, place_of(s, done + i)))
                return bad_value(bound, a, sample, chunk + i * a->width);
    }
    return SL_OK;
}

static sl_err fill_columns(const struct sl_data_bound *bound, const struct sl_npy_source *s,
                           int64_t sample, void *dst) {
    const struct sl_npy *a = s->array;
    for (int64_t i = 0; i < bound->numel; i++) {
        int64_t rest = i + s->skip, at = sample, stride = a->numel;
        for (int k = a->rank - 1; k > 0; k--) {
            stride /= a->dim[k];
            at += rest % a->dim[k] * stride;
            rest /= a->dim[k];
        }
        const unsigned char *value = a->blob->at + a->offset_bytes + at * a->width;
        if (!put_value(bound, a, value, dst, place_of(s, i)))
            return bad_value(bound, a, sample, value);
    }
    return SL_OK;
}

static sl_err fill(const struct sl_data *data, const struct sl_data_ask *ask) {
    const struct sl_npy_set *set = data->state;
    const struct sl_data_bound *bound = &data->bound[ask->input];
    if (set->is_text)
        return sl_data_token_set_fill(data, ask);
    const struct sl_npy_source *s = &set->source[ask->input];
    if (!s->array)
        return sl_data_fill_plain(bound, ask) ? SL_OK : sl_data_refuse(data, &bound->want);
    if (s->array->fortran && s->array->rank > 1)
        return fill_columns(bound, s, ask->sample, ask->dst);
    return fill_rows(bound, s, ask->sample, ask->dst);
}

static void describe(const struct sl_data *data, struct sl_json_out *json) {
    const struct sl_npy_set *set = data->state;
    struct sl_text text = {0};
    if (set->is_text) {
        sl_data_token_set_describe(data, json);
        return;
    }
    sl_json_key(json, "arrays");
    sl_json_open(json, '{');
    for (int i = 0; i < data->bound_count; i++) {
        if (!set->source[i].array)
            continue;
        text.length = 0;
        sl_data_npy_put_shape(&text, set->source[i].array);
        sl_json_put_string(json, data->bound[i].want.name, text.at);
    }
    sl_json_close(json, '}');
    sl_text_free(&text);
}

static void close_set(struct sl_data *data) {
    struct sl_npy_set *set = data->state;
    if (!set)
        return;
    for (int64_t i = 0; i < set->memory.count; i++)
        free(set->memory.at[i]);
    SL_VEC_FREE(&set->memory);
    SL_VEC_FREE(&set->arrays);
}

static bool sniff(const unsigned char *head, int64_t length) {
    return sl_data_is_npy(head, length);
}

const struct sl_data_kind sl_data_npy = {
    .name = "npy",
    .brief = "arrays of NumPy: .npy files, or .npz archives of named arrays",
    .offers = "an input per array, by name: NAME=FILE, or the names in the archive",
    .suffixes = ".npy.npz",
    .files_max = SL_DATA_FILES,
    .named = true,
    .sniff = sniff,
    .open = open_set,
    .fill = fill,
    .late = true,
    .ignores = true,
    .describe = describe,
    .close = close_set,
};
