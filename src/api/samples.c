/* Samples of the caller: checks them, converts a sample, computes the fingerprint. */
#include "api/samples.h"

#include "api/request.h"
#include "base/map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int type_bytes[] = {4, 8, 1, 2, 2, 4, 8};

sl_err sl_api_array_check(const struct sl_sample_array *a, int64_t samples) {
    if (!a->input || !a->at)
        return sl_fail(SL_ERR_USAGE, "struct sl_sample_array: `%s` is NULL",
                       a->input ? "at" : "input");
    if ((unsigned)a->type >= (unsigned)SL_COUNT(type_bytes))
        return sl_fail(SL_ERR_USAGE, "array '%s': there is no type %d", a->input, (int)a->type);
    if (a->samples < 1 || a->values < 1 || a->values > INT64_MAX / 8 / a->samples)
        return sl_fail(SL_ERR_USAGE, "array '%s': %lld samples of %lld values are out of range",
                       a->input, (long long)a->samples, (long long)a->values);
    if (samples >= 0 && a->samples != samples)
        return sl_fail(SL_ERR_USAGE, "array '%s' has %lld samples, the others have %lld", a->input,
                       (long long)a->samples, (long long)samples);
    return SL_OK;
}

static double value_at(enum sl_array_type type, const void *at, int64_t i) {
    switch (type) {
    case SL_ARRAY_F32: return ((const float *)at)[i];
    case SL_ARRAY_F64: return ((const double *)at)[i];
    case SL_ARRAY_U8: return ((const uint8_t *)at)[i];
    case SL_ARRAY_I16: return ((const int16_t *)at)[i];
    case SL_ARRAY_U16: return ((const uint16_t *)at)[i];
    case SL_ARRAY_I32: return ((const int32_t *)at)[i];
    case SL_ARRAY_I64: return (double)((const int64_t *)at)[i];
    }
    return NAN;
}

sl_err sl_api_array_fill(const struct sl_sample_array *a, int64_t sample, bool is_int, void *dst) {
    int64_t stride = a->stride_bytes ? a->stride_bytes : a->values * type_bytes[a->type];
    const char *at = (const char *)a->at + sample * stride;
    if (a->type == (is_int ? SL_ARRAY_I32 : SL_ARRAY_F32)) {
        memcpy(dst, at, (size_t)a->values * 4);
        return SL_OK;
    }
    for (int64_t i = 0; i < a->values; i++) {
        double value = value_at(a->type, at, i);
        if (!is_int) {
            ((float *)dst)[i] = (float)value;
            continue;
        }
        if (!(value >= INT32_MIN && value <= INT32_MAX) || value != floor(value))
            return sl_fail(SL_ERR_INPUT,
                           "array '%s', sample %lld: %g is not a whole number that an input of "
                           "integers takes",
                           a->input, (long long)sample, value);
        ((int32_t *)dst)[i] = (int32_t)value;
    }
    return SL_OK;
}

static const struct sl_sample_array *find_array(const struct sl_api_samples *s, const char *input) {
    for (int i = 0; i < s->given.array_count; i++)
        if (strcmp(s->arrays[i].input, input) == 0)
            return &s->arrays[i];
    return NULL;
}

static sl_err bind(void *ctx, const struct sl_data_input *inputs, int count, bool *has) {
    struct sl_api_samples *s = ctx;
    s->inputs = inputs;
    s->input_count = count;
    s->of = sl_realloc(s->of, sizeof *s->of * (size_t)(count + 1));
    for (int i = 0; i < count; i++) {
        int64_t numel = 1;
        for (int k = 0; k < inputs[i].rank; k++)
            numel *= inputs[i].dim[k];
        s->of[i] = find_array(s, inputs[i].name);
        has[i] = s->of[i] || s->given.fill;
        if (s->of[i] && s->of[i]->values != numel)
            return sl_fail(SL_ERR_INPUT,
                           "array '%s' has %lld values a sample, the input of the model %lld",
                           inputs[i].name, (long long)s->of[i]->values, (long long)numel);
    }
    return SL_OK;
}

static sl_err fill(void *ctx, int64_t sample, int input, void *dst) {
    const struct sl_api_samples *s = ctx;
    const struct sl_data_input *want = &s->inputs[input];
    int64_t values = 1;
    if (s->of[input])
        return sl_api_array_fill(s->of[input], sample, want->dtype == SL_DATA_INT, dst);
    for (int k = 0; k < want->rank; k++)
        values *= want->dim[k];
    int status = s->given.fill(s->given.ctx, sample, want->name, dst, values);
    if (status == 0)
        return SL_OK;
    return sl_fail(SL_ERR_INPUT, "the callback for samples returned %d for sample %lld of '%s'",
                   status, (long long)sample, want->name);
}

static uint64_t print_of(const struct sl_api_samples *s) {
    uint64_t words[2] = {(uint64_t)s->provider.count, 0};
    for (int i = 0; i < s->given.array_count; i++) {
        const struct sl_sample_array *a = &s->arrays[i];
        int64_t bytes = a->values * type_bytes[a->type];
        int64_t stride = a->stride_bytes ? a->stride_bytes : bytes;
        bool whole = stride == bytes;
        for (int64_t n = 0; n < (whole ? 1 : a->samples); n++) {
            size_t length = (size_t)(whole ? bytes * a->samples : bytes);
            words[1] = sl_hash((const char *)a->at + n * stride, length);
            words[0] = sl_hash(words, sizeof words);
        }
    }
    return sl_hash(words, sizeof words);
}

static sl_err check(const struct sl_samples *g, int64_t *count) {
    *count = g->count;
    if (g->array_count < 0 || (g->array_count > 0 && !g->arrays))
        return sl_fail(SL_ERR_USAGE, "struct sl_samples: %d arrays at %s", g->array_count,
                       g->arrays ? "an address" : "NULL");
    if (!g->array_count && !g->fill)
        return sl_fail(SL_ERR_USAGE, "struct sl_samples: neither arrays nor fill are set");
    for (int i = 0; i < g->array_count; i++) {
        SL_TRY(sl_api_array_check(&g->arrays[i], *count > 0 ? *count : -1));
        *count = g->arrays[i].samples;
    }
    if (*count < 1)
        return sl_fail(SL_ERR_USAGE, "struct sl_samples: count is %lld, at least 1 is needed",
                       (long long)*count);
    return SL_OK;
}

sl_err sl_api_samples_open(const struct sl_samples *samples, struct sl_api_samples *out) {
    *out = (struct sl_api_samples){0};
    SL_TRY(sl_api_request_copy("sl_samples", samples, &out->given, SL_SAMPLES_FIRST,
                               sizeof out->given));
    struct sl_samples *g = &out->given;
    SL_TRY(check(g, &out->provider.count));
    size_t bytes = sizeof *out->arrays * (size_t)g->array_count;
    out->arrays = sl_realloc(NULL, bytes + 1);
    if (bytes)
        memcpy(out->arrays, g->arrays, bytes);
    out->provider.ctx = out;
    out->provider.in_order = g->in_order != 0;
    out->provider.print = g->fingerprint ? g->fingerprint : print_of(out);
    out->provider.bind = bind;
    out->provider.fill = fill;
    return SL_OK;
}

void sl_api_samples_close(struct sl_api_samples *samples) {
    free(samples->arrays);
    free(samples->of);
    *samples = (struct sl_api_samples){0};
}
