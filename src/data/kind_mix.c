/* Several sets with weights: A:0.7,B:0.3. Every block of 1024 samples of a run has each set as often as
 * its weight says, in an order that depends on (seed, block). Sample n is therefore a pure function of
 * (sets, seed, n):
 *
 *   block n / 1024, place in it -> permutation -> set i, its k-th sample in the block
 *                               -> sample block * share(i) + k of set i, in its own epochs
 *
 * An epoch has as many samples as all sets. Validation is that of all sets, one after the other.
 */
#include "base/rng.h"
#include "data/mix.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1024 };

static const uint64_t stream = 0x6d6978; /* "mix"; plus the block */

struct part {
    struct sl_data *data;
    double weight;
    int64_t first, share; /* places of a block */
};

struct mix_set {
    struct part *part;
    int count;
};

/* ---- opening ---- */

/* The held-out samples of part i, if they are a number for all. */
static double held_out(double all, int i, int count) {
    if (all < 1)
        return all;
    double each = floor(all / count);
    return each + (i < (int)(all - each * count) ? 1 : 0);
}

static sl_err open_part(struct sl_data *data, const struct sl_data_spec *spec, int i,
                        struct part *part) {
    struct mix_set *set = data->state;
    struct sl_data_spec own = *spec;
    struct sl_text source = {0};
    const char *at = data->mix[i].source;
    sl_text_printf(&source, "%.*s%s", (int)data->mix_prefix.length, data->mix_prefix.at, at);
    own.source = source.at;
    own.validation = held_out(spec->validation, i, set->count);
    part->weight = data->mix[i].weight;
    sl_err err = sl_data_open_like(&own, i ? set->part[0].data : NULL, &part->data);
    sl_text_free(&source);
    return err != SL_OK ? sl_err_context(err, "%s", at) : SL_OK;
}

/* Shares of a block: the largest remainders get what rounding down leaves. */
static void divide_block(struct mix_set *set) {
    double sum = 0;
    int64_t left = BLOCK, first = 0;
    for (int i = 0; i < set->count; i++)
        sum += set->part[i].weight;
    for (int i = 0; i < set->count; i++) {
        set->part[i].share = (int64_t)floor(set->part[i].weight / sum * BLOCK);
        left -= set->part[i].share;
    }
    for (; left > 0; left--) {
        int best = 0;
        double most = -1;
        for (int i = 0; i < set->count; i++) {
            double rest = set->part[i].weight / sum * BLOCK - (double)set->part[i].share;
            if (rest > most) {
                most = rest;
                best = i;
            }
        }
        set->part[best].share++;
    }
    for (int i = 0; i < set->count; i++) {
        set->part[i].first = first;
        first += set->part[i].share;
    }
}

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct mix_set *set = SL_NEW(&data->arena, struct mix_set, 1);
    if (!data->mix_count)
        return sl_fail(SL_ERR_INPUT, "mix: give files with weights: A:0.7,B:0.3");
    set->part = SL_NEW(&data->arena, struct part, data->mix_count);
    set->count = data->mix_count;
    data->state = set;
    for (int i = 0; i < set->count; i++) {
        SL_TRY(open_part(data, spec, i, &set->part[i]));
        const struct sl_data *part = set->part[i].data;
        data->total += part->total;
        data->own_bytes += sl_data_bytes(part);
        uint64_t words[3] = {data->print, sl_data_fingerprint(part), 0};
        memcpy(&words[2], &set->part[i].weight, 8);
        data->print = sl_hash(words, sizeof words);
    }
    divide_block(set);
    const struct sl_data *first = set->part[0].data;
    memcpy(data->bound, first->bound, sizeof *data->bound * (size_t)data->bound_count);
    data->seq = first->seq;
    data->list = first->list;
    data->list_count = first->list_count;
    data->mixed = first;
    return SL_OK;
}

void sl_data_mix_split(struct sl_data *data) {
    const struct mix_set *set = data->state;
    for (int split = 0; split < 2; split++) {
        data->samples[split] = 0;
        for (int i = 0; i < set->count; i++)
            data->samples[split] += set->part[i].data->samples[split];
    }
    data->drawn = false;
}

/* ---- samples ---- */

/* In the order of the sets: validation, and training that is not shuffled. */
static const struct part *part_in_order(const struct mix_set *set, enum sl_data_split split,
                                        int64_t *number) {
    int i = 0;
    while (*number >= set->part[i].data->samples[split])
        *number -= set->part[i++].data->samples[split];
    return &set->part[i];
}

static const struct part *part_of(const struct sl_data *data, enum sl_data_split split,
                                  int64_t *number) {
    const struct mix_set *set = data->state;
    if (split == SL_DATA_VALID || data->in_order) {
        *number %= data->samples[split];
        return part_in_order(set, split, number);
    }
    int64_t block = *number / BLOCK;
    int64_t place = sl_rng_permute(data->seed, stream + (uint64_t)block, *number % BLOCK, BLOCK);
    int i = 0;
    while (place >= set->part[i].first + set->part[i].share)
        i++;
    *number = block * set->part[i].share + place - set->part[i].first;
    return &set->part[i];
}

static sl_err fill(const struct sl_data *data, const struct sl_data_ask *ask) {
    int64_t number = ask->number;
    const struct part *part = part_of(data, ask->split, &number);
    struct sl_data_ask own = sl_data_place(part->data, ask->split, number);
    own.row = ask->row;
    own.input = ask->input;
    own.dst = ask->dst;
    own.draw = ask->draw; /* a sample that comes again is changed in another way */
    return part->data->kind->fill(part->data, &own);
}

static void describe(const struct sl_data *data, struct sl_json_out *json) {
    const struct mix_set *set = data->state;
    sl_json_key(json, "sets");
    sl_json_open(json, '[');
    for (int i = 0; i < set->count; i++) {
        sl_json_open(json, '{');
        sl_json_put_string(json, "source", data->mix[i].source);
        sl_json_put_double(json, "weight", set->part[i].weight);
        sl_json_put_double(json, "share", (double)set->part[i].share / BLOCK);
        sl_json_put_int(json, "train_samples", sl_data_count(set->part[i].data, SL_DATA_TRAIN));
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

static void close_set(struct sl_data *data) {
    struct mix_set *set = data->state;
    for (int i = 0; set && i < set->count; i++)
        sl_data_close(set->part[i].data);
}

const struct sl_data_kind sl_data_mix = {
    .name = "mix",
    .brief = "several sets with weights: FILE:0.7,FILE:0.3",
    .offers = "what its sets offer",
    .suffixes = "",
    .open = open_set,
    .fill = fill,
    .late = true,
    .ignores = true,
    .describe = describe,
    .close = close_set,
};
