/* Samples from the program that calls the library: arrays in its memory, or a callback. */
#include "data/source.h"

struct program_set {
    const struct sl_data_provider *provider;
    bool *has; /* [inputs] does the program fill it? Otherwise its name tells its content */
};

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct program_set *set = SL_NEW(&data->arena, struct program_set, 1);
    struct sl_data_input *inputs = SL_NEW(&data->arena, struct sl_data_input, spec->input_count);
    set->provider = spec->provider;
    data->state = set;
    if (!set->provider)
        return sl_fail(SL_ERR_REFUSED,
                       "the data 'program' are those of the program that started the run, which "
                       "can continue it; from the command line, set `data` to a file");
    if (set->provider->count < 1)
        return sl_fail(SL_ERR_INPUT, "the program provides %lld samples, at least one is needed",
                       (long long)set->provider->count);
    for (int i = 0; i < data->bound_count; i++)
        inputs[i] = data->bound[i].want;
    data->total = set->provider->count;
    data->in_order = set->provider->in_order;
    data->print = set->provider->print;
    set->has = SL_NEW(&data->arena, bool, data->bound_count);
    SL_TRY(set->provider->bind(set->provider->ctx, inputs, data->bound_count, set->has));
    for (int i = 0; i < data->bound_count; i++)
        set->has[i] &= data->bound[i].role != SL_ROLE_ROW; /* no: it is the index in the
                                                            * micro-batch */
    for (int i = 0; i < data->bound_count; i++)
        if (!set->has[i] && !sl_data_is_plain(data->bound[i].role))
            return sl_data_refuse(data, &data->bound[i].want);
    return SL_OK;
}

static sl_err check_values(const struct sl_data_bound *bound, const int32_t *values) {
    for (int64_t i = 0; i < bound->numel; i++)
        if (values[i] != bound->ignore && bound->want.below &&
            (values[i] < 0 || values[i] >= bound->want.below))
            return sl_data_bad_value(bound, values[i], "program");
    return SL_OK;
}

static sl_err fill(const struct sl_data *data, const struct sl_data_ask *ask) {
    const struct program_set *set = data->state;
    const struct sl_data_bound *bound = &data->bound[ask->input];
    if (!set->has[ask->input])
        return sl_data_fill_plain(bound, ask) ? SL_OK : sl_data_refuse(data, &bound->want);
    SL_TRY(set->provider->fill(set->provider->ctx, ask->sample, ask->input, ask->dst));
    return bound->want.dtype == SL_DATA_INT ? check_values(bound, ask->dst) : SL_OK;
}

static void describe(const struct sl_data *data, struct sl_json_out *json) {
    const struct program_set *set = data->state;
    sl_json_put_int(json, "samples", set->provider->count);
}

const struct sl_data_kind sl_data_program = {
    .name = "program",
    .brief = "samples of the program that calls the library; not from the command line",
    .offers = "inputs that the program fills",
    .suffixes = "",
    .open = open_set,
    .fill = fill,
    .late = true,
    .provided = true,
    .describe = describe,
};
