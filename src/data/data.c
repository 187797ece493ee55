/* The interface of a data set: ranges, splits, shuffling, cursors, counting. open.c opens a data
 * set. */
#include "data/data.h"

#include "base/map.h"
#include "base/rng.h"
#include "base/vec.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t shuffle_stream = 0x73687566666c65; /* "shuffle"; plus the epoch */
/* All runs have this seed, so that the held-out samples are the same. */
static const uint64_t holdout_seed = 0x686f6c64;

int64_t sl_data_count(const struct sl_data *data, enum sl_data_split split) {
    return data->samples[split];
}

/* Map a global sample number to the sample of the set and to its number for random masking. */
struct sl_data_ask sl_data_place(const struct sl_data *data, enum sl_data_split split,
                                 int64_t number) {
    int64_t count = data->samples[split], epoch = number / count, at = number % count;
    struct sl_data_ask ask = {.number = number, .split = split};
    if (split == SL_DATA_TRAIN && !data->in_order)
        at = sl_rng_permute(data->seed, shuffle_stream + (uint64_t)epoch, at, count);
    ask.vary = split == SL_DATA_TRAIN && !data->in_order;
    int64_t sample = split == SL_DATA_TRAIN ? at : data->samples[SL_DATA_TRAIN] + at;
    /* the same number in every evaluation, so that validation masks the same tokens */
    ask.draw = split == SL_DATA_TRAIN ? (uint64_t)number : ((uint64_t)1 << 62) + (uint64_t)at;
    ask.sample = data->drawn ? sl_rng_permute(holdout_seed, 0, sample, data->total) : sample;
    return ask;
}

static sl_err check_range(const struct sl_data *data, enum sl_data_split split, int64_t first,
                          int64_t count) {
    SL_ASSERT(first >= 0 && count >= 0 && first <= INT64_MAX - count);
    if (!data->samples[split] && count)
        return sl_fail(SL_ERR_INPUT, "the %s split of the data is empty; try another `validation`",
                       split == SL_DATA_TRAIN ? "training" : "validation");
    return SL_OK;
}

sl_err sl_data_fill(const struct sl_data *data, enum sl_data_split split, int64_t first,
                    int64_t count, int input, void *dst) {
    SL_ASSERT(input >= 0 && input < data->bound_count);
    const int64_t step_bytes = data->bound[input].numel * 4; /* 4 bytes: float or int32_t */
    SL_TRY(check_range(data, split, first, count));
    for (int64_t i = 0; i < count; i++) {
        struct sl_data_ask ask = sl_data_place(data, split, first + i);
        ask.row = i;
        ask.input = input;
        ask.dst = (char *)dst + i * step_bytes;
        SL_TRY(data->kind->fill(data, &ask));
    }
    return SL_OK;
}

int64_t sl_data_verify_bytes(const struct sl_data *data) {
    int64_t most = 0;
    for (int i = 0; i < data->bound_count; i++)
        if (data->kind->late && data->bound[i].numel * 4 > most)
            most = data->bound[i].numel * 4;
    return most;
}

sl_err sl_data_verify(const struct sl_data *data, enum sl_data_split split, int64_t first,
                      int64_t count) {
    int64_t bytes = sl_data_verify_bytes(data);
    sl_err err = SL_OK;
    if (!bytes)
        return SL_OK;
    void *sample = sl_realloc(NULL, (size_t)bytes);
    for (int64_t n = 0; n < count && err == SL_OK; n++)
        for (int i = 0; i < data->bound_count && err == SL_OK; i++)
            err = sl_data_fill(data, split, first + n, 1, i, sample);
    free(sample);
    return err;
}

/* Counts by reading the data; needed if the ignore value also occurs in it. */
static sl_err count_by_reading(const struct sl_data *data, enum sl_data_split split, int64_t first,
                               int64_t count, int input, int64_t *valid) {
    const struct sl_data_bound *bound = &data->bound[input];
    int32_t *values = sl_realloc(NULL, sizeof *values * (size_t)bound->numel);
    sl_err err = SL_OK;
    for (int64_t i = 0; i < count; i++) {
        SL_TRY_OUT(sl_data_fill(data, split, first + i, 1, input, values));
        for (int64_t k = 0; k < bound->numel; k++)
            *valid += values[k] != bound->ignore;
    }
out:
    free(values);
    return err;
}

sl_err sl_data_count_valid(const struct sl_data *data, enum sl_data_split split, int64_t first,
                           int64_t count, int input, int64_t *valid) {
    SL_ASSERT(input >= 0 && input < data->bound_count);
    const struct sl_data_bound *bound = &data->bound[input];
    *valid = 0;
    SL_TRY(check_range(data, split, first, count));
    bool target = bound->in_seq && bound->role == SL_ROLE_TARGET;
    bool ignores =
        bound->role == SL_ROLE_TARGET && data->kind->ignores && !(target && data->seq->masked);
    if (bound->want.dtype == SL_DATA_INT && (bound->ignore >= 0 || ignores))
        return count_by_reading(data, split, first, count, input, valid);
    if (target && data->seq->masked)
        for (int64_t i = 0; i < count; i++)
            *valid +=
                sl_data_seq_masked_count(data->seq, sl_data_place(data, split, first + i).draw);
    else
        *valid = count * bound->numel;
    return SL_OK;
}

sl_err sl_data_next(const struct sl_data *data, enum sl_data_split split, enum sl_data_tail tail,
                    int64_t batch, struct sl_data_cursor *cursor, struct sl_data_range *range) {
    int64_t count = data->samples[split];
    SL_ASSERT(batch > 0);
    SL_TRY(check_range(data, split, 0, 1));
    if (cursor->epoch < 0 || cursor->position < 0 || cursor->position > count)
        return sl_fail(SL_ERR_INPUT,
                       "the data cursor (epoch %lld, position %lld) is outside of the %lld samples "
                       "of this split: it belongs to other data",
                       (long long)cursor->epoch, (long long)cursor->position, (long long)count);
    if (tail == SL_DATA_DROP && batch > count)
        return sl_fail(SL_ERR_INPUT, "a batch of %lld samples, but the split has only %lld",
                       (long long)batch, (long long)count);
    int64_t left = count - cursor->position;
    if (left == 0 || (tail == SL_DATA_DROP && left < batch)) {
        cursor->epoch++;
        cursor->position = 0;
        left = count;
    }
    range->first = cursor->epoch * count + cursor->position;
    range->count = tail == SL_DATA_PARTIAL && left < batch ? left : batch;
    cursor->epoch += (cursor->position + range->count) / count;
    cursor->position = (cursor->position + range->count) % count;
    return SL_OK;
}

bool sl_data_is_costly(const struct sl_data *data, int input) {
    const struct sl_data_kind *kind = data->mixed ? data->mixed->kind : data->kind;
    return kind->costly && data->bound[input].role == SL_ROLE_IMAGE;
}

const struct sl_tokenizer *sl_data_tokenizer(const struct sl_data *data) {
    return data->mixed ? data->mixed->tokenizer : data->tokenizer;
}

int64_t sl_data_bytes(const struct sl_data *data) {
    int64_t bytes = (int64_t)sizeof *data + data->arena.used_bytes + data->own_bytes;
    for (int i = 0; i < data->blob_count; i++)
        bytes += sl_data_blob_bytes(&data->blob[i]);
    return bytes + (data->tokenizer ? sl_tokenizer_bytes(data->tokenizer) : 0);
}

uint64_t sl_data_fingerprint(const struct sl_data *data) {
    SL_VEC(uint64_t) words = {0};
    SL_PUSH(&words, data->seed);
    SL_PUSH(&words, (uint64_t)data->total);
    SL_PUSH(&words, (uint64_t)data->samples[SL_DATA_TRAIN]);
    SL_PUSH(&words,
            (uint64_t)data->packed << 2 | (uint64_t)data->in_order << 1 | (uint64_t)data->drawn);
    SL_PUSH(&words, sl_hash(data->kind->name, strlen(data->kind->name)));
    if (data->seq)
        SL_PUSH(&words, (uint64_t)data->seq->length << 1 | (uint64_t)data->seq->masked);
    if (data->tokenizer)
        SL_PUSH(&words, (uint64_t)sl_tokenizer_vocab(data->tokenizer));
    for (int i = 0; i < data->blob_count; i++)
        SL_PUSH(&words, data->blob[i].print);
    if (data->print)
        SL_PUSH(&words, data->print);
    uint64_t hash = sl_hash(words.at, sizeof *words.at * (size_t)words.count);
    SL_VEC_FREE(&words);
    return hash;
}

sl_err sl_data_check(const struct sl_data *data) {
    sl_err err = SL_OK;
    for (int i = 0; i < data->bound_count && err == SL_OK; i++) {
        void *sample = sl_realloc(NULL, (size_t)data->bound[i].numel * 4);
        for (int split = 0; split < 2; split++)
            for (int64_t n = 0; n < data->samples[split] && err == SL_OK; n++)
                err = sl_data_fill(data, (enum sl_data_split)split, n, 1, i, sample);
        free(sample);
    }
    return err;
}

void sl_data_describe(const struct sl_data *data, struct sl_text *text) {
    char size[SL_HUMAN_BYTES];
    int64_t bytes = 0;
    for (int i = 0; i < data->blob_count; i++)
        bytes += data->blob[i].size_bytes;
    sl_text_printf(text, "%s", data->kind->name);
    if (data->blob_count)
        sl_text_printf(text, " %s%s", data->blob[0].name, data->blob_count > 1 ? " ..." : "");
    if (bytes)
        sl_text_printf(text, " (%s)", sl_human_bytes(bytes, size));
    if (data->tokenizer)
        sl_text_printf(text, ", %s", sl_tokenizer_name(data->tokenizer));
    if (data->seq)
        sl_text_printf(text, ", windows of %lld, %s", (long long)data->seq->length,
                       data->seq->masked ? "masked tokens" : "next token");
    sl_text_printf(text, ": %lld samples to train", (long long)data->samples[SL_DATA_TRAIN]);
    if (data->samples[SL_DATA_VALID])
        sl_text_printf(text, ", %lld to validate", (long long)data->samples[SL_DATA_VALID]);
}

void sl_data_write_json(const struct sl_data *data, struct sl_json_out *json) {
    char hash[20];
    struct sl_text print = {0};
    sl_json_open(json, '{');
    sl_json_put_string(json, "kind", data->kind->name);
    sl_json_key(json, "files");
    sl_json_open(json, '[');
    for (int i = 0; i < data->blob_count; i++)
        sl_json_string(json, data->blob[i].name);
    sl_json_close(json, ']');
    sl_json_put_int(json, "train_samples", data->samples[SL_DATA_TRAIN]);
    sl_json_put_int(json, "validation_samples", data->samples[SL_DATA_VALID]);
    sl_json_put_int(json, "memory_bytes", sl_data_bytes(data));
    sl_text_printf(&print, "%016llx", (unsigned long long)sl_data_fingerprint(data));
    memcpy(hash, print.at, print.length + 1);
    sl_text_free(&print);
    sl_json_put_string(json, "fingerprint", hash);
    if (data->tokenizer)
        sl_json_put_string(json, "tokenizer", sl_tokenizer_name(data->tokenizer));
    data->kind->describe(data, json);
    sl_json_close(json, '}');
}
