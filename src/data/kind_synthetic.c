/* Synthetic sets: samples generated from the declared inputs of a model, so that every model can
 * train without files. Latent variables (a class, two numbers, a box) are drawn by the sample
 * number. Features are noisy functions of them and labels state them, so the loss falls. synth.c
 * defines the distributions. */
#include "base/rng.h"
#include "data/synth.h"

#include <string.h>

static const int64_t samples_default = 1 << 20;
static const int64_t samples_max = (int64_t)1 << 40;

static bool is_int(const struct sl_data_bound *bound) { return bound->want.dtype == SL_DATA_INT; }

/* Finds the sequence: the first pair of tokens and targets with equal length. */
static const struct sl_data_bound *find_sequence(const struct sl_data *data) {
    static const enum sl_data_role partner[] = {SL_ROLE_TOKENS, SL_ROLE_FEATURE};
    for (int p = 0; p < SL_COUNT(partner); p++)
        for (int t = 0; t < data->bound_count; t++) {
            const struct sl_data_bound *target = &data->bound[t];
            if (target->role != SL_ROLE_TARGET || !is_int(target) || target->numel < 2)
                continue;
            for (int i = 0; i < data->bound_count; i++) {
                const struct sl_data_bound *tokens = &data->bound[i];
                if (tokens->role == partner[p] && is_int(tokens) && tokens->numel == target->numel)
                    return tokens;
            }
        }
    return NULL;
}

static enum sl_synth_how how_to(const struct sl_synth_set *set, const struct sl_data_bound *bound,
                                const struct sl_data_bound *tokens) {
    bool target = bound->role == SL_ROLE_TARGET;
    switch (bound->role) {
    case SL_ROLE_MASK:
    case SL_ROLE_SEGMENT:
    case SL_ROLE_POSITION:
    case SL_ROLE_MATCH:
    case SL_ROLE_ROW: return SL_SYNTH_PLAIN;
    default: break;
    }
    if (set->has_seq && is_int(bound) &&
        (bound == tokens || (target && bound->numel == tokens->numel)))
        return SL_SYNTH_STREAM;
    if (target && bound->want.rank >= 2)
        return SL_SYNTH_DENSE;
    if (target && is_int(bound))
        return bound->numel == 1 ? SL_SYNTH_CLASS : SL_SYNTH_CODE;
    if (target)
        return SL_SYNTH_VALUE;
    return is_int(bound) ? SL_SYNTH_CATEGORY : SL_SYNTH_FLOATS;
}

/* With pairs, classes must be distinguishable. */
enum { PAIR_CLASSES = 64 };

static void bind_pairs(const struct sl_data *data, struct sl_synth_set *set) {
    set->pairs = 1;
    for (int i = 0; i < data->bound_count; i++)
        if (data->bound[i].role == SL_ROLE_MATCH)
            set->pairs = data->bound[i].numel;
    if (set->pairs > 1 && set->classes < PAIR_CLASSES) {
        set->has_class = true;
        set->classes = PAIR_CLASSES;
    }
}

static void bind(struct sl_data *data, struct sl_synth_set *set,
                 const struct sl_data_bound *tokens) {
    bool floats = false;
    set->how = SL_NEW(&data->arena, enum sl_synth_how, data->bound_count);
    set->stream = SL_NEW(&data->arena, uint64_t, data->bound_count);
    set->classes = 1;
    for (int i = 0; i < data->bound_count; i++) {
        struct sl_data_bound *bound = &data->bound[i];
        enum sl_synth_how how = how_to(set, bound, tokens);
        set->how[i] = how;
        /* even, because stream ^ 1 is the stream of the templates */
        set->stream[i] = sl_rng_stream(bound->want.name) & ~(uint64_t)1;
        bound->in_seq = how == SL_SYNTH_STREAM;
        if (bound->in_seq && bound->want.below && bound->want.below < set->seq.draw_below)
            set->seq.draw_below = bound->want.below;
        floats |= how == SL_SYNTH_FLOATS;
        set->has_dense |= how == SL_SYNTH_DENSE;
        if (how == SL_SYNTH_CLASS || how == SL_SYNTH_CODE || how == SL_SYNTH_DENSE) {
            int64_t below = bound->want.below ? bound->want.below : 2;
            int64_t classes = how == SL_SYNTH_DENSE ? below - 1 : how == SL_SYNTH_CODE ? 16 : below;
            set->has_class |= is_int(bound);
            set->classes = is_int(bound) && classes > set->classes ? classes : set->classes;
        }
    }
    bind_pairs(data, set);
    set->shifts = set->has_seq && !set->seq.masked && (floats || set->has_class);
}

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct sl_synth_set *set = SL_NEW(&data->arena, struct sl_synth_set, 1);
    const struct sl_data_bound *tokens = find_sequence(data);
    data->state = set;
    if (!data->bound_count)
        return sl_fail(SL_ERR_INPUT, "the model has no inputs, there is nothing to make up");
    if (tokens) {
        set->has_seq = true;
        data->seq = &set->seq;
        SL_TRY(sl_data_seq_open(data, spec, tokens, &set->seq));
        if (!tokens->want.below)
            set->seq.draw_below = 256;
    }
    bind(data, set, tokens);
    data->total = spec->synthetic_samples ? spec->synthetic_samples : samples_default;
    if (data->total < 1 || data->total > samples_max)
        return sl_fail(SL_ERR_USAGE, "%lld synthetic samples: expected from 1 to 2^40",
                       (long long)data->total);
    return SL_OK;
}

static void fill_one(const struct sl_synth_set *set, const struct sl_data_bound *bound,
                     const struct sl_data_ask *ask) {
    switch (set->how[ask->input]) {
    case SL_SYNTH_PLAIN: (void)sl_data_fill_plain(bound, ask); break;
    case SL_SYNTH_STREAM: sl_data_synth_stream(set, bound, ask); break;
    case SL_SYNTH_FLOATS: sl_data_synth_floats(set, bound, ask); break;
    case SL_SYNTH_CATEGORY: sl_data_synth_category(set, bound, ask); break;
    default: sl_data_synth_label(set, bound, ask);
    }
}

static sl_err fill(const struct sl_data *data, const struct sl_data_ask *ask) {
    const struct sl_synth_set *set = data->state;
    const struct sl_data_bound *bound = &data->bound[ask->input];
    bool whole = set->pairs == 1 || set->how[ask->input] == SL_SYNTH_PLAIN ||
                 bound->want.rank < 1 || bound->want.dim[0] != set->pairs;
    if (whole) {
        fill_one(set, bound, ask);
        return SL_OK;
    }
    /* the input is [pairs, ...]: each pair is filled like a sample */
    struct sl_data_bound part = *bound;
    struct sl_data_ask one = *ask;
    part.numel /= set->pairs;
    part.want.rank--;
    memmove(part.want.dim, part.want.dim + 1, sizeof *part.want.dim * (size_t)part.want.rank);
    for (int64_t i = 0; i < set->pairs; i++) {
        one.sample = ask->sample * set->pairs + i;
        one.dst = (char *)ask->dst + i * part.numel * 4;
        fill_one(set, &part, &one);
    }
    return SL_OK;
}

static void describe(const struct sl_data *data, struct sl_json_out *json) {
    static const char *const names[] = {"plain", "stream", "class",  "code",
                                        "value", "dense",  "floats", "category"};
    const struct sl_synth_set *set = data->state;
    sl_json_put_int(json, "classes", set->has_class ? set->classes : 0);
    sl_json_key(json, "inputs");
    sl_json_open(json, '{');
    for (int i = 0; i < data->bound_count; i++)
        sl_json_put_string(json, data->bound[i].want.name, names[set->how[i]]);
    sl_json_close(json, '}');
}

const struct sl_data_kind sl_data_synthetic = {
    .name = "synthetic",
    .brief = "generated for the inputs of the model; learnable, endless, needs no file",
    .offers = "all inputs of the model",
    .suffixes = "",
    .ordered = true,
    .describe = describe,
    .open = open_set,
    .fill = fill,
};
