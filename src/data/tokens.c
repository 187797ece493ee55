/* Sets of token windows: sample n is the n-th window of T tokens. Windows are adjacent and do
 * not cross shards; tokens left over at the end of a shard are not used.
 *
 *   shard 0: |--T--|--T--|--T--|..      shard 1: |--T--|--T--|.
 *   window      0     1     2                       3     4 */
#include "data/source.h"

#include <string.h>

enum { CHUNK_BYTES = 8192, EARLY_TOKENS = 1 << 16 };

static int64_t window_count(const struct sl_token_shard *shard, const struct sl_seq *seq) {
    int64_t usable = seq->masked ? shard->count : shard->count - 1;
    return usable > 0 ? usable / seq->length : 0;
}

static int64_t token_at(const unsigned char *p, int width, bool is_signed) {
    switch (width) {
    case 1: return is_signed ? (int64_t)(signed char)p[0] : (int64_t)p[0];
    case 2: {
        uint16_t value = (uint16_t)(p[0] | p[1] << 8);
        return is_signed ? (int64_t)(int16_t)value : (int64_t)value;
    }
    case 4: return is_signed ? (int64_t)(int32_t)sl_le32(p) : (int64_t)sl_le32(p);
    default: return (int64_t)sl_le64(p);
    }
}

static sl_err bad_token(const struct sl_token_shard *shard, const struct sl_data_bound *bound,
                        int64_t place, int64_t value) {
    sl_err err = sl_data_bad_value(bound, value, shard->blob->name);
    return sl_err_context(err, "token %lld", (long long)place);
}

/* Reads tokens [first, first + count) of a shard and checks them against the bound of the input. */
static sl_err read_tokens(const struct sl_token_shard *shard, const struct sl_data_bound *bound,
                          int64_t first, int64_t count, int32_t *dst) {
    unsigned char chunk[CHUNK_BYTES];
    int64_t below = bound->want.below ? bound->want.below : INT32_MAX;
    int width = shard->width;
    while (count > 0) {
        int64_t part = count < CHUNK_BYTES / width ? count : CHUNK_BYTES / width;
        SL_TRY(sl_data_blob_read(shard->blob, shard->offset_bytes + first * width, chunk,
                                 part * width));
        for (int64_t i = 0; i < part; i++) {
            int64_t value = token_at(chunk + i * width, width, shard->is_signed);
            if (value < 0 || value >= below)
                return bad_token(shard, bound, first + i, value);
            dst[i] = (int32_t)value;
        }
        dst += part;
        first += part;
        count -= part;
    }
    return SL_OK;
}

/* Checks the first tokens when the set is opened: this detects most wrong vocabularies before
 * training. */
static sl_err check_early(const struct sl_data *data, const struct sl_token_set *set) {
    int32_t buffer[1024];
    for (int i = 0; i < data->bound_count; i++) {
        const struct sl_data_bound *bound = &data->bound[i];
        for (int s = 0; bound->in_seq && s < set->shard_count && s < 16; s++) {
            int64_t max = set->shard[s].count < EARLY_TOKENS ? set->shard[s].count : EARLY_TOKENS;
            for (int64_t at = 0; at < max; at += 1024)
                SL_TRY(read_tokens(&set->shard[s], bound, at, max - at < 1024 ? max - at : 1024,
                                   buffer));
        }
    }
    return SL_OK;
}

sl_err sl_data_token_set_open(struct sl_data *data, const struct sl_data_spec *spec,
                              struct sl_token_set *set) {
    SL_TRY(sl_data_seq_bind(data, spec, &set->seq));
    set->tokens = 0;
    for (int i = 0; i < set->shard_count; i++) {
        struct sl_token_shard *shard = &set->shard[i];
        shard->first_window = data->total;
        data->total += window_count(shard, &set->seq);
        set->tokens += shard->count;
    }
    if (!data->total)
        return sl_fail(SL_ERR_INPUT,
                       "%s: %lld tokens are too few: one sample of the model needs %lld%s",
                       set->shard[0].blob->name, (long long)set->tokens, (long long)set->seq.length,
                       set->seq.masked ? "" : " and one more as the last target");
    return check_early(data, set);
}

static const struct sl_token_shard *shard_of(const struct sl_token_set *set, int64_t window) {
    int low = 0, high = set->shard_count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (set->shard[middle].first_window <= window)
            low = middle;
        else
            high = middle - 1;
    }
    return &set->shard[low];
}

sl_err sl_data_token_set_fill(const struct sl_data *data, const struct sl_data_ask *ask) {
    const struct sl_token_set *set = data->state;
    const struct sl_data_bound *bound = &data->bound[ask->input];
    if (sl_data_fill_plain(bound, ask))
        return SL_OK;
    const struct sl_token_shard *shard = shard_of(set, ask->sample);
    int64_t first = (ask->sample - shard->first_window) * set->seq.length;
    if (bound->role == SL_ROLE_TARGET && !set->seq.masked)
        first++;
    SL_TRY(read_tokens(shard, bound, first, set->seq.length, ask->dst));
    if (set->seq.masked)
        sl_data_seq_mask(&set->seq, bound, ask);
    return SL_OK;
}

void sl_data_token_set_describe(const struct sl_data *data, struct sl_json_out *json) {
    const struct sl_token_set *set = data->state;
    sl_json_put_int(json, "tokens", set->tokens);
    sl_json_put_int(json, "token_bytes", set->shard[0].width);
    sl_json_put_int(json, "window", set->seq.length);
    sl_json_put_string(json, "objective", set->seq.masked ? "masked" : "next");
    if (set->seq.masked)
        sl_json_put_int(json, "mask_token", set->seq.mask_token);
}

void sl_data_token_set_close(struct sl_data *data) {
    struct sl_token_set *set = data->state;
    if (set)
        sl_data_blob_close(&set->packed);
}
