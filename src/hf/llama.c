/* The architectures llama, mistral, qwen2, qwen3, phi3, gemma2: decoders that differ in a few
 * settings. */
#include "hf/arch.h"

#include <math.h>
#include <string.h>

struct shape {
    int64_t vocab, layers, width, heads, key_heads, head;
};

struct settings {
    bool qkv_bias, out_bias, mlp_bias, fused, qk_norms, plus, sandwich;
    double scale, cap, final_cap, embed_scale;
    const char *act_key, *act;
    double eps;
    int64_t padding;
    const char *resid_key; /* key of the dropout of the residual sums; NULL: none */
    bool tied;             /* used if the config does not say */
};

static struct settings plain(void) {
    return (struct settings){
        .embed_scale = 1, .act_key = "hidden_act", .act = "silu", .eps = 1e-6, .padding = -1};
}

static struct shape read_shape(struct sl_hf_config *c) {
    struct shape s = {.vocab = sl_hf_size(c, "vocab_size"),
                      .layers = sl_hf_size(c, "num_hidden_layers"),
                      .width = sl_hf_size(c, "hidden_size"),
                      .heads = sl_hf_size(c, "num_attention_heads")};
    s.key_heads = sl_hf_int(c, "num_key_value_heads", s.heads);
    s.head = sl_hf_int(c, "head_dim", s.width / s.heads);
    if (s.key_heads < 1 || s.heads % s.key_heads)
        sl_hf_refuse(c, "num_key_value_heads", "the heads are not a multiple of the key heads");
    if (s.head < 2 || s.head > 65536)
        sl_hf_refuse(c, "head_dim", "expected 2 to 65536");
    return s;
}

static void put_sizes(struct sl_hf_config *c, const struct shape *s, struct sl_text *text) {
    int64_t positions = sl_hf_size(c, "max_position_embeddings");
    sl_hf_put_size(text, "V", s->vocab);
    sl_hf_put_length(text, "T", positions);
    sl_hf_put_size(text, "L", s->layers);
    sl_hf_put_size(text, "C", s->width);
    sl_hf_put_size(text, "H", s->heads);
    sl_hf_put_size(text, "K", s->key_heads);
    sl_hf_put_size(text, "D", s->head);
    sl_hf_put_size(text, "F", sl_hf_size(c, "intermediate_size"));
    sl_hf_put_dropouts(text);
}

static void put_settings(struct sl_hf_config *c, const struct shape *s, const struct settings *o,
                         struct sl_text *text) {
    sl_hf_put_number(text, "std", sl_hf_number(c, "initializer_range", 0.02));
    sl_hf_put_number(text, "eps", sl_hf_number(c, "rms_norm_eps", o->eps));
    sl_hf_put_act(c, text, "act", o->act_key, o->act);
    sl_hf_put_flag(text, "qkv_bias", o->qkv_bias);
    sl_hf_put_flag(text, "out_bias", o->out_bias);
    sl_hf_put_flag(text, "mlp_bias", o->mlp_bias);
    sl_hf_put_flag(text, "fused", o->fused);
    sl_hf_put_flag(text, "qk_norms", o->qk_norms);
    sl_hf_put_flag(text, "plus", o->plus);
    sl_hf_put_flag(text, "sandwich", o->sandwich);
    sl_hf_put_flag(text, "tied", sl_hf_flag(c, "tie_word_embeddings", o->tied));
    sl_hf_put_number(text, "scale", o->scale > 0 ? o->scale : 1 / sqrt((double)s->head));
    sl_hf_put_number(text, "cap", o->cap);
    sl_hf_put_number(text, "final_cap", o->final_cap);
    sl_hf_put_number(text, "embed_scale", o->embed_scale);
    sl_hf_put_drop(c, text, "attn_drop", "attention_dropout", 0);
    if (o->resid_key)
        sl_hf_put_drop(c, text, "resid_drop", o->resid_key, 0);
    else
        sl_hf_put_number(text, "resid_drop", 0);
    sl_hf_put_padding(c, text, o->padding, s->vocab);
}

/* Returns the window size if the config has the key and it is not null; `fallback` if the key is
 * absent. */
static int64_t window_size(struct sl_hf_config *c, int64_t fallback) {
    return sl_hf_is_null(c, "sliding_window") ? 0 : sl_hf_int(c, "sliding_window", fallback);
}

/* Writes the window of each layer, from layer_types or by the rule of the architecture. */
static void put_windows(struct sl_hf_config *c, const struct shape *s,
                        int64_t (*window)(struct sl_hf_config *c, int64_t layer),
                        struct sl_text *text) {
    int64_t types = sl_hf_count(c, "layer_types"), size = window_size(c, 4096);
    if (size < 0 || (size == 0 && sl_hf_find(c, "sliding_window")))
        sl_hf_refuse(c, "sliding_window", "expected a positive number or null");
    if (types && types != s->layers)
        sl_hf_refuse(c, "layer_types", "expected one type per layer");
    if (s->layers > 65536)
        sl_hf_refuse(c, "num_hidden_layers", "more layers than a model text can list");
    sl_text_put(text, "windows = [");
    for (int64_t i = 0; i < s->layers && c->err == SL_OK; i++) {
        const char *key = sl_arena_printf(&c->arena, "layer_types.%lld", (long long)i);
        const char *type = types ? sl_hf_text(c, key, "") : "";
        int64_t width = types && strcmp(type, "sliding_attention") == 0 ? size
                        : types                                         ? 0
                                                                        : window(c, i);
        if (types && strcmp(type, "sliding_attention") != 0 && strcmp(type, "full_attention") != 0)
            sl_hf_refuse(c, key, "only full_attention and sliding_attention are implemented");
        sl_text_printf(text, "%s%lld", i ? ", " : "", (long long)width);
    }
    sl_text_put(text, "]\n");
}

static int64_t no_window(struct sl_hf_config *c, int64_t layer) {
    (void)c;
    (void)layer;
    return 0;
}

static int64_t window_everywhere(struct sl_hf_config *c, int64_t layer) {
    (void)layer;
    return window_size(c, 0);
}

static int64_t window_of_mistral(struct sl_hf_config *c, int64_t layer) {
    (void)layer;
    return window_size(c, 4096);
}

/* Rule of Qwen: windows from layer max_window_layers on, if windows are used at all. */
static int64_t window_above(struct sl_hf_config *c, int64_t layer) {
    bool used = sl_hf_flag(c, "use_sliding_window", false);
    int64_t from = sl_hf_int(c, "max_window_layers", 28);
    return used && layer >= from ? window_size(c, 4096) : 0;
}

/* Rule of Gemma 2: a window in every other layer, from the first on. */
static int64_t window_alternating(struct sl_hf_config *c, int64_t layer) {
    return layer % 2 == 0 ? window_size(c, 4096) : 0;
}

static void put_model(struct sl_hf_config *c, const struct shape *s, const struct settings *o,
                      int64_t (*window)(struct sl_hf_config *c, int64_t layer),
                      struct sl_text *text) {
    put_sizes(c, s, text);
    put_settings(c, s, o, text);
    sl_hf_put_rope(c, text, s->head, 1);
    put_windows(c, s, window, text);
    sl_text_put(text, "\nuse hf-llama\n\n");
    sl_hf_put_next_token(text, "llama_lm");
}

/* ---- rows ---- */

static void write_llama(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    struct shape s = read_shape(c);
    struct settings o = plain();
    (void)task;
    o.qkv_bias = o.out_bias = sl_hf_flag(c, "attention_bias", false);
    o.mlp_bias = sl_hf_flag(c, "mlp_bias", false);
    /* changes how the same function is computed, not the function */
    (void)sl_hf_int(c, "pretraining_tp", 1);
    put_model(c, &s, &o, no_window, text);
}

static void write_mistral(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    struct shape s = read_shape(c);
    struct settings o = plain();
    (void)task;
    put_model(c, &s, &o, window_of_mistral, text);
}

static void write_qwen2(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    struct shape s = read_shape(c);
    struct settings o = plain();
    (void)task;
    o.qkv_bias = true;
    (void)window_above(c, 0);
    put_model(c, &s, &o, window_above, text);
}

static void write_qwen3(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    struct settings o = plain();
    struct shape s = read_shape(c);
    (void)task;
    s.head = sl_hf_int(c, "head_dim", 128);
    o.qkv_bias = o.out_bias = sl_hf_flag(c, "attention_bias", false);
    o.qk_norms = true;
    (void)window_above(c, 0);
    put_model(c, &s, &o, window_above, text);
}

static void write_phi3(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    struct shape s = read_shape(c);
    struct settings o = plain();
    (void)task;
    o.fused = true;
    o.eps = 1e-5;
    o.padding = 32000;
    o.resid_key = "resid_pdrop";
    (void)sl_hf_number(c, "embd_pdrop", 0);                    /* transformers does not use it */
    (void)sl_hf_int(c, "original_max_position_embeddings", 0); /* only longrope uses it */
    put_model(c, &s, &o, window_everywhere, text);
}

static double cap_of(struct sl_hf_config *c, const char *key, double fallback) {
    double cap = sl_hf_is_null(c, key) ? 0 : sl_hf_number(c, key, fallback);
    if (cap < 0 || (cap == 0 && sl_hf_find(c, key)))
        sl_hf_refuse(c, key, "expected a positive number or null");
    return cap;
}

static void write_gemma2(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    struct shape s = read_shape(c);
    struct settings o = plain();
    (void)task;
    s.head = sl_hf_int(c, "head_dim", 256);
    o.qkv_bias = o.out_bias = sl_hf_flag(c, "attention_bias", false);
    o.plus = o.sandwich = o.tied = true;
    o.scale = 1 / sqrt(sl_hf_number(c, "query_pre_attn_scalar", 256));
    o.cap = cap_of(c, "attn_logit_softcapping", 50);
    o.final_cap = cap_of(c, "final_logit_softcapping", 30);
    o.embed_scale = sqrt((double)s.width);
    o.act_key = sl_hf_find(c, "hidden_activation") ? "hidden_activation" : "hidden_act";
    o.act = "gelu_pytorch_tanh";
    o.padding = 0;
    if (sl_hf_find(c, "hidden_activation"))
        (void)sl_hf_text(c, "hidden_act", ""); /* an older name of the key, which is then unused */
    sl_hf_only_flag(c, "use_bidirectional_attention", false,
                    "only causal attention is implemented");
    put_model(c, &s, &o, window_alternating, text);
}

static const char *const spare[] = {"lm_head.weight", "rotary_emb.inv_freq", NULL};

/* NOLINTBEGIN(bugprone-macro-parentheses): names of definitions */
#define ROW(name_, type_, class_, brief_)                                                          \
    static const struct sl_hf_head name_##_heads[] = {{class_, SL_HF_NEXT_TOKEN}, {0}};            \
    const struct sl_hf_arch sl_hf_##name_ = {                                                      \
        .model_type = type_,                                                                       \
        .brief = brief_,                                                                           \
        .heads = name_##_heads,                                                                    \
        .write = write_##name_,                                                                    \
        .base = "model.",                                                                          \
        .spare = spare,                                                                            \
    };
/* NOLINTEND(bugprone-macro-parentheses) */

ROW(gemma2, "gemma2", "Gemma2ForCausalLM", "capped scores, four norms a layer, windows")
ROW(llama, "llama", "LlamaForCausalLM", "rotary positions, rmsnorm, gated feed-forward")
ROW(mistral, "mistral", "MistralForCausalLM", "llama with a window")
ROW(phi3, "phi3", "Phi3ForCausalLM", "llama with fused products")
ROW(qwen2, "qwen2", "Qwen2ForCausalLM", "llama with biases of q, k and v")
ROW(qwen3, "qwen3", "Qwen3ForCausalLM", "llama with norms of q and k")
