/* Raw float32 tables: rows of little-endian floats, no header. A row holds the inputs of the
 * model in their order (integers for int inputs), so the model determines its length. */
#include "data/source.h"

#include <math.h>
#include <string.h>

struct float_set {
    int64_t row_floats;
    int64_t *start; /* [inputs] column of the first element; -1: the file does not have it */
};

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct float_set *set = SL_NEW(&data->arena, struct float_set, 1);
    const struct sl_blob *blob = &data->blob[0];
    (void)spec;
    data->state = set;
    set->start = SL_NEW(&data->arena, int64_t, data->bound_count);
    for (int i = 0; i < data->bound_count; i++) {
        set->start[i] = data->bound[i].role == SL_ROLE_ROW ? -1 : set->row_floats;
        set->row_floats += set->start[i] < 0 ? 0 : data->bound[i].numel;
    }
    if (!set->row_floats || !blob->size_bytes || blob->size_bytes / 4 % set->row_floats ||
        blob->size_bytes % 4)
        return sl_fail(
            SL_ERR_INPUT,
            "%s: %lld bytes are not a whole number of rows; the inputs of the model make "
            "a row of %lld floats (%lld bytes)",
            blob->name, (long long)blob->size_bytes, (long long)set->row_floats,
            (long long)set->row_floats * 4);
    data->total = blob->size_bytes / 4 / set->row_floats;
    return SL_OK;
}

static sl_err put_value(const struct sl_data *data, const struct sl_data_ask *ask, int64_t i,
                        float value) {
    const struct sl_data_bound *bound = &data->bound[ask->input];
    double below = bound->want.below ? (double)bound->want.below : 2147483648.0;
    bool is_int = bound->want.dtype == SL_DATA_INT;
    if (!isfinite(value) || (is_int && (value != floorf(value) || value < 0 || value >= below)))
        return sl_fail(SL_ERR_INPUT, "%s: row %lld, value %lld of input '%s' is %g, expected %s",
                       data->blob[0].name, (long long)ask->sample, (long long)i, bound->want.name,
                       (double)value, is_int ? "a whole number that the model takes" : "a number");
    if (is_int)
        ((int32_t *)ask->dst)[i] = (int32_t)value;
    else
        ((float *)ask->dst)[i] = value;
    return SL_OK;
}

static sl_err fill(const struct sl_data *data, const struct sl_data_ask *ask) {
    enum { PART = 1024 };
    unsigned char chunk[PART * 4];
    const struct float_set *set = data->state;
    const struct sl_data_bound *bound = &data->bound[ask->input];
    if (set->start[ask->input] < 0)
        return sl_data_fill_plain(bound, ask) ? SL_OK : sl_data_refuse(data, &bound->want);
    int64_t first = ask->sample * set->row_floats + set->start[ask->input];
    for (int64_t at = 0; at < bound->numel; at += PART) {
        int64_t part = bound->numel - at < PART ? bound->numel - at : PART;
        SL_TRY(sl_data_blob_read(&data->blob[0], (first + at) * 4, chunk, part * 4));
        for (int64_t i = 0; i < part; i++) {
            uint32_t word = sl_le32(chunk + i * 4);
            float value;
            memcpy(&value, &word, sizeof value);
            SL_TRY(put_value(data, ask, at + i, value));
        }
    }
    return SL_OK;
}

static void describe(const struct sl_data *data, struct sl_json_out *json) {
    const struct float_set *set = data->state;
    sl_json_put_int(json, "columns", set->row_floats);
}

const struct sl_data_kind sl_data_f32 = {
    .name = "f32",
    .brief = "rows of float32 without a header: the inputs of the model in their order",
    .offers = "all inputs of the model",
    .suffixes = ".f32",
    .files_max = 1,
    .open = open_set,
    .fill = fill,
    .late = true,
    .describe = describe,
};
