/* Writes parts of model texts that several architectures share. */
#include "hf/arch.h"

#include <math.h>
#include <string.h>

enum { LONGEST = 1024 }; /* most tokens of a sample, unless the user sets T */

void sl_hf_put_size(struct sl_text *text, const char *name, int64_t value) {
    sl_text_printf(text, "size %s = %lld\n", name, (long long)value);
}

void sl_hf_put_number(struct sl_text *text, const char *name, double value) {
    sl_text_printf(text, "%s = ", name);
    sl_text_put_double(text, value);
    sl_text_put(text, "\n");
}

void sl_hf_put_flag(struct sl_text *text, const char *name, bool value) {
    sl_text_printf(text, "%s = %d\n", name, value);
}

/* Activations in transformers (ACT2FN) and in models/hf-layers.model. */
static const struct {
    const char *theirs, *ours;
} acts[] = {
    {"gelu", "gelu"},
    {"gelu_accurate", "gelu_tanh"},
    {"gelu_fast", "gelu_tanh"},
    {"gelu_new", "gelu_tanh"},
    {"gelu_python", "gelu"},
    {"gelu_pytorch_tanh", "gelu_tanh"},
    {"linear", "linear"},
    {"mish", "mish"},
    {"quick_gelu", "quick_gelu"},
    {"relu", "relu"},
    {"relu2", "relu2"},
    {"sigmoid", "sigmoid"},
    {"silu", "silu"},
    {"swish", "silu"},
    {"tanh", "tanh"},
};

void sl_hf_put_act(struct sl_hf_config *c, struct sl_text *text, const char *name, const char *key,
                   const char *fallback) {
    const char *theirs = sl_hf_text(c, key, fallback);
    for (int i = 0; i < SL_COUNT(acts); i++)
        if (strcmp(acts[i].theirs, theirs) == 0) {
            sl_text_printf(text, "%s = \"%s\"\n", name, acts[i].ours);
            return;
        }
    sl_hf_refuse(c, key, "this activation is not implemented");
}

void sl_hf_put_length(struct sl_text *text, const char *name, int64_t positions) {
    sl_hf_put_size(text, name, positions < LONGEST ? positions : LONGEST);
}

void sl_hf_put_dropouts(struct sl_text *text) {
    sl_text_put(text, "size dropout = 1.0   # 0: no dropout, whatever the config says\n");
}

void sl_hf_put_drop(struct sl_hf_config *c, struct sl_text *text, const char *name, const char *key,
                    double fallback) {
    double p = sl_hf_number(c, key, fallback);
    if (!(p >= 0 && p < 1))
        sl_hf_refuse(c, key, "a probability of dropout is from 0 to below 1");
    sl_text_printf(text, "%s = ", name);
    sl_text_put_double(text, p);
    sl_text_put(text, " * dropout\n");
}

void sl_hf_put_padding(struct sl_hf_config *c, struct sl_text *text, int64_t fallback,
                       int64_t rows) {
    int64_t padding =
        sl_hf_is_null(c, "pad_token_id") ? -1 : sl_hf_int(c, "pad_token_id", fallback);
    if (padding < -1 || padding >= rows)
        sl_hf_refuse(c, "pad_token_id", "it is no token of the vocabulary");
    sl_text_printf(text, "padding = %lld\n", (long long)padding);
}

/* ---- rotary positions ---- */

struct rope {
    struct sl_hf_config *c;
    const char *place; /* key of the object with the settings: "rope_parameters" */
    const char *ramp;  /* NULL: all pairs have the same rate */
    double theta, scale, low, high, gain;
    int64_t rotary;
};

static const char *key_of(const struct rope *r, const char *key) {
    return sl_arena_printf(&r->c->arena, "%s.%s", r->place, key);
}

static double need(const struct rope *r, const char *key) {
    double value = sl_hf_number(r->c, key_of(r, key), NAN);
    if (!isfinite(value) || value <= 0) {
        sl_hf_refuse(r->c, key_of(r, key), "expected a positive number");
        return 1;
    }
    return value;
}

static void set_default(struct rope *r) { (void)r; }
static void set_linear(struct rope *r) { r->scale = 1 / need(r, "factor"); }

/* Sets nothing: this type changes the base only beyond `max_position_embeddings`, which T may not
 * exceed. */
static void set_dynamic(struct rope *r) { (void)need(r, "factor"); }

static void set_llama3(struct rope *r) {
    double turns = 2 * 3.14159265358979323846 / need(r, "original_max_position_embeddings");
    r->scale = 1 / need(r, "factor");
    r->ramp = "frequency";
    r->low = need(r, "low_freq_factor") * turns;
    r->high = need(r, "high_freq_factor") * turns;
}

/* Returns the index of the pair that makes `turns` turns within the original context. */
static double pair_of(const struct rope *r, double turns, double context) {
    double tau = 2 * 3.14159265358979323846;
    return (double)r->rotary * log(context / (turns * tau)) / (2 * log(r->theta));
}

static double yarn_gain(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static void set_yarn(struct rope *r) {
    double factor = need(r, "factor"), context = need(r, "original_max_position_embeddings");
    double mscale = sl_hf_number(r->c, key_of(r, "mscale"), 0),
           all = sl_hf_number(r->c, key_of(r, "mscale_all_dim"), 0);
    double fast = sl_hf_number(r->c, key_of(r, "beta_fast"), 0),
           slow = sl_hf_number(r->c, key_of(r, "beta_slow"), 0);
    double from = pair_of(r, fast != 0 ? fast : 32, context),
           to = pair_of(r, slow != 0 ? slow : 1, context);
    if (sl_hf_flag(r->c, key_of(r, "truncate"), true)) {
        from = floor(from);
        to = ceil(to);
    }
    from = fmax(from, 0);
    to = fmin(to, (double)r->rotary - 1);
    if (from == to)
        to += 0.001;
    r->gain = mscale != 0 && all != 0 ? yarn_gain(factor, mscale) / yarn_gain(factor, all)
                                      : yarn_gain(factor, 1);
    r->gain = sl_hf_number(r->c, key_of(r, "attention_factor"), r->gain);
    r->scale = 1 / factor;
    r->ramp = "index";
    r->low = to; /* pairs below `from` keep their rate */
    r->high = from;
}

static const struct {
    const char *name;
    void (*set)(struct rope *rope);
    bool bounded; /* the config limits the number of positions */
} rope_types[] = {
    {"default", set_default, false}, {"dynamic", set_dynamic, true}, {"linear", set_linear, false},
    {"llama3", set_llama3, false},   {"yarn", set_yarn, false},
};

static void set_type(struct rope *r, struct sl_text *text) {
    const char *key = key_of(r, "rope_type");
    const char *type = sl_hf_text(r->c, key_of(r, "type"), "default");
    type = sl_hf_text(r->c, key, type);
    for (int i = 0; i < SL_COUNT(rope_types); i++) {
        if (strcmp(rope_types[i].name, type) != 0)
            continue;
        rope_types[i].set(r);
        if (rope_types[i].bounded)
            sl_text_printf(text,
                           "require T <= %lld, \"T is longer than the positions of the "
                           "model, from which on dynamic rotation changes\"\n",
                           (long long)sl_hf_size(r->c, "max_position_embeddings"));
        return;
    }
    sl_hf_refuse(r->c, sl_hf_find(r->c, key) ? key : key_of(r, "type"),
                 "this scaling of rotary positions is not implemented");
}

void sl_hf_put_rope(struct sl_hf_config *c, struct sl_text *text, int64_t head, double partial) {
    const struct sl_hf_value *object = sl_hf_find(c, "rope_parameters");
    struct rope r = {.c = c,
                     .place = object ? "rope_parameters" : "rope_scaling",
                     .scale = 1,
                     .high = 1,
                     .gain = 1};
    r.theta = sl_hf_number(c, "rope_theta", sl_hf_number(c, "rotary_emb_base", 10000));
    r.theta = sl_hf_number(c, key_of(&r, "rope_theta"), r.theta);
    partial = sl_hf_number(c, "rotary_pct", partial);
    partial = sl_hf_number(c, "partial_rotary_factor", partial);
    partial = sl_hf_number(c, key_of(&r, "partial_rotary_factor"), partial);
    r.rotary = (int64_t)((double)head * partial);
    if (!(r.theta > 1) || r.rotary < 2 || r.rotary % 2 || r.rotary > head)
        sl_hf_refuse(c, object ? key_of(&r, "partial_rotary_factor") : "rope_theta",
                     "the base must exceed 1, and the features that turn must be an even number "
                     "of those of a head");
    set_type(&r, text);
    if (r.ramp && r.low == r.high)
        sl_hf_refuse(c, key_of(&r, "high_freq_factor"), "it must differ from low_freq_factor");
    sl_hf_put_number(text, "theta", r.theta);
    sl_text_printf(text, "rotary = %lld\n", (long long)r.rotary);
    sl_text_printf(text, "rope_ramp = \"%s\"\n", r.ramp ? r.ramp : "none");
    sl_hf_put_number(text, "rope_scale", r.scale);
    sl_hf_put_number(text, "rope_low", r.low);
    sl_hf_put_number(text, "rope_high", r.high);
    sl_hf_put_number(text, "rope_gain", r.gain);
}

/* ---- heads ---- */

int64_t sl_hf_labels(struct sl_hf_config *c) {
    const struct sl_hf_value *names = sl_hf_find(c, "id2label");
    int64_t labels = sl_hf_int(c, "num_labels", names ? names->count : 2);
    const char *problem = sl_hf_text(c, "problem_type", "single_label_classification");
    if (strcmp(problem, "single_label_classification") != 0)
        sl_hf_refuse(c, "problem_type", "only single_label_classification is implemented");
    if (labels < 2)
        sl_hf_refuse(c, names ? "id2label" : "num_labels",
                     "one label means regression, which is not implemented");
    return labels;
}

void sl_hf_put_next_token(struct sl_text *text, const char *function) {
    sl_text_printf(text,
                   "input tokens : int[B, T] < V\n"
                   "input targets : int[B, T] < V\n"
                   "logits = %s(tokens) as _\n"
                   "output logits = logits\n"
                   "loss cross_entropy(logits, targets)\n",
                   function);
}
