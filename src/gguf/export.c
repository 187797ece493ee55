/* Translates to names and orders of llama.cpp: one row per architecture, with rules for the names
 * of its tensors. */
#include "gguf/gguf.h"

#include "base/half.h"
#include "base/outfile.h"
#include "hf/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 512 << 20 }; /* most elements of a tensor that is reordered */

/* HALVES: the rows of rotary heads are interleaved */
enum order { AS_IS, TURNED, HALVES, KEY_HALVES };

struct rule { /* "#" stands for the number of the layer */
    const char *theirs, *ours;
    enum order order;
};

static const struct rule gpt2_rules[] = {
    {"transformer.wte.weight", "token_embd.weight", AS_IS},
    {"transformer.wpe.weight", "position_embd.weight", AS_IS},
    {"transformer.ln_f.weight", "output_norm.weight", AS_IS},
    {"transformer.ln_f.bias", "output_norm.bias", AS_IS},
    {"lm_head.weight", "output.weight", AS_IS},
    {"transformer.h.#.ln_1.weight", "blk.#.attn_norm.weight", AS_IS},
    {"transformer.h.#.ln_1.bias", "blk.#.attn_norm.bias", AS_IS},
    {"transformer.h.#.attn.c_attn.weight", "blk.#.attn_qkv.weight", TURNED},
    {"transformer.h.#.attn.c_attn.bias", "blk.#.attn_qkv.bias", AS_IS},
    {"transformer.h.#.attn.c_proj.weight", "blk.#.attn_output.weight", TURNED},
    {"transformer.h.#.attn.c_proj.bias", "blk.#.attn_output.bias", AS_IS},
    {"transformer.h.#.ln_2.weight", "blk.#.ffn_norm.weight", AS_IS},
    {"transformer.h.#.ln_2.bias", "blk.#.ffn_norm.bias", AS_IS},
    {"transformer.h.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", TURNED},
    {"transformer.h.#.mlp.c_fc.bias", "blk.#.ffn_up.bias", AS_IS},
    {"transformer.h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", TURNED},
    {"transformer.h.#.mlp.c_proj.bias", "blk.#.ffn_down.bias", AS_IS},
    {0},
};

#define DECODER(q_order, k_order)                                                                  \
    {"model.embed_tokens.weight", "token_embd.weight", AS_IS},                                     \
        {"model.norm.weight", "output_norm.weight", AS_IS},                                        \
        {"lm_head.weight", "output.weight", AS_IS},                                                \
        {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", AS_IS},                \
        {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", q_order},                \
        {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", q_order},                    \
        {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", k_order},                \
        {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", k_order},                    \
        {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", AS_IS},                  \
        {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", AS_IS},                      \
        {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", AS_IS},             \
        {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", AS_IS},             \
        {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", AS_IS},             \
        {"model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", AS_IS},        \
        {"model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight", AS_IS},                   \
        {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", AS_IS},                       \
        {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", AS_IS}, {                 \
        0                                                                                          \
    }

static const struct rule llama_rules[] = {DECODER(HALVES, KEY_HALVES)};
static const struct rule qwen_rules[] = {DECODER(AS_IS, AS_IS)};

static const struct arch {
    const char *model_type, *name;
    const struct rule *rules;
    bool rotary;
    bool window;  /* in a config without a window, the architecture still has one */
    int64_t head; /* size of a head if the config does not give it; 0: width / heads */
} archs[] = {
    {"gpt2", "gpt2", gpt2_rules, false, false, 0},
    {"llama", "llama", llama_rules, true, false, 0},
    {"mistral", "llama", llama_rules, true, true, 0},
    {"qwen2", "qwen2", qwen_rules, true, false, 0},
    {"qwen3", "qwen3", qwen_rules, true, false, 128},
};

struct writer {
    const struct sl_gguf_export *what;
    const struct arch *arch;
    struct sl_arena arena;
    struct sl_hf_config config;
    struct sl_gguf file;
    int64_t heads, key_heads, head;
    bool has_tokenizer;
};

/* ---- names ---- */

static const char *match(struct sl_arena *arena, const struct rule *rule, const char *name) {
    const char *hash = strchr(rule->theirs, '#'), *to = strchr(rule->ours, '#');
    if (!hash)
        return strcmp(rule->theirs, name) == 0 ? rule->ours : NULL;
    size_t before = (size_t)(hash - rule->theirs), digits = 0;
    if (strncmp(name, rule->theirs, before) != 0)
        return NULL;
    while (isdigit((unsigned char)name[before + digits]))
        digits++;
    if (!digits || strcmp(name + before + digits, hash + 1) != 0)
        return NULL;
    return sl_arena_printf(arena, "%.*s%.*s%s", (int)(to - rule->ours), rule->ours, (int)digits,
                           name + before, to + 1);
}

static const struct rule *find_rule(struct writer *w, const char *name, const char **ours) {
    for (const struct rule *rule = w->arch->rules; rule->theirs; rule++)
        if ((*ours = match(&w->arena, rule, name)) != NULL)
            return rule;
    return NULL;
}

/* ---- hyperparameters ---- */

static const char *key(struct writer *w, const char *name) {
    return sl_arena_printf(&w->arena, "%s.%s", w->arch->name, name);
}

static void put_size(struct writer *w, const char *name, const char *theirs, int64_t fallback) {
    sl_gguf_put_u32(&w->file, key(w, name), sl_hf_int(&w->config, theirs, fallback));
}

static void put_gpt2(struct writer *w) {
    struct sl_hf_config *c = &w->config;
    int64_t width = sl_hf_size(c, "n_embd");
    put_size(w, "context_length", "n_positions", 1024);
    put_size(w, "embedding_length", "n_embd", 768);
    put_size(w, "block_count", "n_layer", 12);
    put_size(w, "feed_forward_length", "n_inner", 4 * width);
    put_size(w, "attention.head_count", "n_head", 12);
    sl_gguf_put_f32(&w->file, key(w, "attention.layer_norm_epsilon"),
                    sl_hf_number(c, "layer_norm_epsilon", 1e-5));
    sl_hf_only_text(c, "activation_function", "gelu_new", "llama.cpp computes gelu_new");
    sl_hf_only_flag(c, "scale_attn_by_inverse_layer_idx", false, "llama.cpp does not scale so");
    sl_hf_only_flag(c, "scale_attn_weights", true, "llama.cpp scales");
}

/* Writes rotary settings, from rope_parameters (new name) or rope_scaling. */
static void put_rope(struct writer *w) {
    struct sl_hf_config *c = &w->config;
    const char *place = sl_hf_find(c, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    const char *type_key = sl_arena_printf(&w->arena, "%s.rope_type", place);
    const char *type = sl_hf_text(c, sl_arena_printf(&w->arena, "%s.type", place), "default");
    type = sl_hf_text(c, type_key, type);
    const char *share_key = sl_arena_printf(&w->arena, "%s.partial_rotary_factor", place);
    double share = sl_hf_number(c, "rotary_pct", 1);
    share = sl_hf_number(c, "partial_rotary_factor", share);
    share = sl_hf_number(c, share_key, share);
    if (share < 1)
        sl_hf_refuse(c, share_key, "GGUF export turns all features of a head");
    double theta = sl_hf_number(c, "rope_theta", sl_hf_number(c, "rotary_emb_base", 10000));
    theta = sl_hf_number(c, sl_arena_printf(&w->arena, "%s.rope_theta", place), theta);
    sl_gguf_put_f32(&w->file, key(w, "rope.freq_base"), theta);
    sl_gguf_put_u32(&w->file, key(w, "rope.dimension_count"), w->head);
    if (strcmp(type, "default") == 0)
        return;
    if (strcmp(type, "linear") != 0) {
        sl_hf_refuse(c, type_key, "GGUF export has the rotary positions default and linear");
        return;
    }
    sl_gguf_put_string(&w->file, key(w, "rope.scaling.type"), "linear");
    sl_gguf_put_f32(&w->file, key(w, "rope.scaling.factor"),
                    sl_hf_number(c, sl_arena_printf(&w->arena, "%s.factor", place), 1));
}

static void put_decoder(struct writer *w) {
    struct sl_hf_config *c = &w->config;
    put_size(w, "context_length", "max_position_embeddings", 2048);
    put_size(w, "embedding_length", "hidden_size", 0);
    put_size(w, "block_count", "num_hidden_layers", 0);
    put_size(w, "feed_forward_length", "intermediate_size", 0);
    sl_gguf_put_u32(&w->file, key(w, "attention.head_count"), w->heads);
    sl_gguf_put_u32(&w->file, key(w, "attention.head_count_kv"), w->key_heads);
    sl_gguf_put_u32(&w->file, key(w, "attention.key_length"), w->head);
    sl_gguf_put_u32(&w->file, key(w, "attention.value_length"), w->head);
    sl_gguf_put_f32(&w->file, key(w, "attention.layer_norm_rms_epsilon"),
                    sl_hf_number(c, "rms_norm_eps", 1e-6));
    sl_hf_only_text(c, "hidden_act", "silu", "llama.cpp computes silu");
    sl_hf_only_flag(c, "use_sliding_window", false, "GGUF export has no windows");
    put_rope(w);
}

static int64_t vocab_of(struct writer *w) { return sl_hf_size(&w->config, "vocab_size"); }

static sl_err put_keys(struct writer *w) {
    struct sl_hf_config *c = &w->config;
    static const struct {
        const char *theirs, *ours;
    } ids[] = {{"bos_token_id", "tokenizer.ggml.bos_token_id"},
               {"eos_token_id", "tokenizer.ggml.eos_token_id"},
               {"pad_token_id", "tokenizer.ggml.padding_token_id"}};
    sl_gguf_put_string(&w->file, "general.architecture", w->arch->name);
    sl_gguf_put_string(&w->file, "general.name", w->what->graph->name);
    sl_gguf_put_u32(&w->file, "general.file_type",
                    w->what->dtype == SL_ST_F32   ? 0
                    : w->what->dtype == SL_ST_F16 ? 1
                                                  : 32);
    sl_gguf_put_u32(&w->file, key(w, "vocab_size"), vocab_of(w));
    if (w->arch->rotary)
        put_decoder(w);
    else
        put_gpt2(w);
    SL_TRY(sl_gguf_put_tokenizer(&w->file, w->what->source, vocab_of(w), &w->has_tokenizer));
    for (int i = 0; i < SL_COUNT(ids); i++) {
        const struct sl_hf_value *v = sl_hf_find(c, ids[i].theirs);
        if (w->has_tokenizer && v && v->kind == SL_JSON_NUMBER && v->number >= 0)
            sl_gguf_put_u32(&w->file, ids[i].ours, (int64_t)v->number);
    }
    return c->err == SL_OK ? SL_OK : sl_fail(c->err, "%s", c->message.at);
}

static sl_err read_config(struct writer *w) {
    const char *path = sl_arena_printf(&w->arena, "%s/config.json", w->what->source);
    char *text = NULL;
    size_t length;
    SL_TRY(sl_file_read(path, SL_HF_CONFIG_BYTES, &text, &length));
    sl_err err = sl_hf_config_read(path, text, length, &w->config);
    free(text);
    SL_TRY(err);
    struct sl_hf_config *c = &w->config;
    const char *type = sl_hf_text(c, "model_type", "");
    for (int i = 0; i < SL_COUNT(archs); i++)
        if (strcmp(archs[i].model_type, type) == 0)
            w->arch = &archs[i];
    if (!w->arch)
        return sl_fail(SL_ERR_REFUSED,
                       "%s: GGUF export has gpt2, llama, mistral, qwen2 and qwen3, not '%.60s'",
                       path, type);
    if (w->arch->window && !sl_hf_is_null(c, "sliding_window"))
        sl_hf_refuse(c, "sliding_window", "GGUF export has no windows: it must be null");
    w->heads = sl_hf_int(c, w->arch->rotary ? "num_attention_heads" : "n_head", 12);
    w->key_heads = sl_hf_int(c, "num_key_value_heads", w->heads);
    int64_t width = sl_hf_int(c, w->arch->rotary ? "hidden_size" : "n_embd", 768);
    int64_t head = width / (w->heads > 0 ? w->heads : 1);
    w->head = sl_hf_int(c, "head_dim", w->arch->head ? w->arch->head : head);
    return c->err == SL_OK ? SL_OK : sl_fail(c->err, "%s", c->message.at);
}

/* ---- tensors ---- */

static enum sl_st_dtype dtype_of(const struct writer *w, const struct sl_shape *shape) {
    return shape->rank == 1 ? SL_ST_F32 : w->what->dtype;
}

static sl_err put_tensors(struct writer *w) {
    const struct sl_graph *graph = w->what->graph;
    for (int64_t i = 0; i < graph->params.count; i++) {
        const char *name = graph->params.at[i].name, *ours;
        const struct sl_shape *shape = &sl_graph_value(graph, graph->params.at[i].value)->shape;
        const struct rule *rule = find_rule(w, name, &ours);
        int64_t dim[SL_MAX_RANK];
        if (!rule)
            return sl_fail(SL_ERR_REFUSED, "tensor '%s' has no place in a GGUF file of %s", name,
                           w->arch->name);
        for (int k = 0; k < shape->rank; k++)
            dim[k] = shape->dim[rule->order == TURNED ? shape->rank - 1 - k : k];
        sl_gguf_put_tensor(&w->file, ours, dtype_of(w, shape), shape->rank, dim);
    }
    return SL_OK;
}

static void turn(const float *from, int64_t rows, int64_t cols, float *to) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            to[c * rows + r] = from[r * cols + c];
}

/* Interleaves: row i of the two halves of a head become rows 2 i and 2 i + 1. */
static void weave(const float *from, int64_t heads, int64_t half, int64_t cols, float *to) {
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < half; i++)
            for (int64_t s = 0; s < 2; s++)
                memcpy(to + ((h * half + i) * 2 + s) * cols, from + ((h * 2 + s) * half + i) * cols,
                       sizeof *to * (size_t)cols);
}

static sl_err write_values(struct sl_outfile *file, enum sl_st_dtype dtype, const float *values,
                           int64_t count) {
    uint16_t halves[4096];
    if (dtype == SL_ST_F32)
        return sl_outfile_write(file, values, sizeof *values * (size_t)count);
    for (int64_t at = 0; at < count; at += SL_COUNT(halves)) {
        int64_t part = count - at < SL_COUNT(halves) ? count - at : SL_COUNT(halves);
        for (int64_t i = 0; i < part; i++)
            halves[i] =
                dtype == SL_ST_BF16 ? sl_bf16_of(values[at + i]) : sl_fp16_of(values[at + i]);
        SL_TRY(sl_outfile_write(file, halves, sizeof *halves * (size_t)part));
    }
    return SL_OK;
}

static sl_err write_tensor(struct writer *w, int64_t index, struct sl_outfile *file) {
    static const char zeros[SL_GGUF_ALIGN];
    const struct sl_graph *graph = w->what->graph;
    const struct sl_param *param = &graph->params.at[index];
    const struct sl_shape *shape = &sl_graph_value(graph, param->value)->shape;
    const char *ours;
    const struct rule *rule = find_rule(w, param->name, &ours);
    int64_t numel = sl_graph_shape_numel(shape, 1), cols = numel / shape->dim[0];
    int64_t bytes = numel * sl_st_dtype_bytes(dtype_of(w, shape));
    if (numel > LONGEST)
        return sl_fail(SL_ERR_REFUSED, "tensor '%s' is larger than 2 GiB", param->name);
    float *values = sl_realloc(NULL, sizeof *values * (size_t)numel * 2), *out = values;
    sl_err err = SL_OK;
    SL_TRY_OUT(graph->stored.read(graph->stored.ctx, param->name, 0, numel, values));
    if (rule->order != AS_IS)
        out = values + numel;
    if (rule->order == TURNED)
        turn(values, shape->dim[0], cols, out);
    else if (rule->order != AS_IS)
        weave(values, rule->order == HALVES ? w->heads : w->key_heads, w->head / 2, cols, out);
    SL_TRY_OUT(write_values(file, dtype_of(w, shape), out, numel));
    SL_TRY_OUT(sl_outfile_write(file, zeros,
                                (size_t)((SL_GGUF_ALIGN - bytes % SL_GGUF_ALIGN) % SL_GGUF_ALIGN)));
out:
    free(values);
    return err;
}

static sl_err write_file(struct writer *w, struct sl_outfile *file) {
    struct sl_text head = {0};
    sl_gguf_head(&w->file, &head);
    sl_err err = sl_outfile_write(file, head.at, head.length);
    for (int64_t i = 0; err == SL_OK && i < w->what->graph->params.count; i++)
        err = write_tensor(w, i, file);
    sl_text_free(&head);
    return err;
}

sl_err sl_gguf_export(const struct sl_gguf_export *what, struct sl_text *summary) {
    struct writer w = {.what = what};
    struct sl_outfile file;
    char bytes[SL_HUMAN_BYTES];
    sl_err err = SL_OK;
    SL_TRY_OUT(read_config(&w));
    SL_TRY_OUT(put_keys(&w));
    SL_TRY_OUT(put_tensors(&w));
    SL_TRY_OUT(sl_outfile_open(&file, what->to));
    SL_TRY_OUT(sl_outfile_close(&file, write_file(&w, &file)));
    sl_text_printf(summary, "%s: %s, %lld tensors, %s%s\n", what->to, w.arch->name,
                   (long long)w.file.tensor_count, sl_human_bytes(w.file.data_bytes, bytes),
                   w.has_tokenizer ? "" : "; no tokenizer: the source has no tokenizer.json");
out:
    sl_gguf_free(&w.file);
    sl_hf_config_close(&w.config);
    sl_arena_free(&w.arena);
    return err;
}
