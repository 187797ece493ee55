/* The architectures gpt2 and gpt_neox. The matrices of gpt2 are [in, out]: models/hf-gpt2.model reads
 * them with conv1d_linear, so nothing is transposed. */
#include "hf/arch.h"

static void check_heads(struct sl_hf_config *c, const char *key, int64_t width, int64_t heads) {
    if (width % heads)
        sl_hf_refuse(c, key, "the width is not a multiple of the heads");
}

static void write_gpt2(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    int64_t width = sl_hf_size(c, "n_embd"), heads = sl_hf_size(c, "n_head"),
            positions = sl_hf_size(c, "n_positions");
    (void)task;
    check_heads(c, "n_head", width, heads);
    if (sl_hf_int(c, "n_ctx", positions) != positions)
        sl_hf_refuse(c, "n_ctx", "expected n_positions");
    sl_hf_put_size(text, "V", sl_hf_size(c, "vocab_size"));
    sl_hf_put_length(text, "T", positions);
    sl_hf_put_size(text, "P", positions);
    sl_hf_put_size(text, "L", sl_hf_size(c, "n_layer"));
    sl_hf_put_size(text, "C", width);
    sl_hf_put_size(text, "H", heads);
    sl_hf_put_size(text, "F", sl_hf_int(c, "n_inner", 4 * width));
    sl_hf_put_dropouts(text);
    sl_hf_put_number(text, "std", sl_hf_number(c, "initializer_range", 0.02));
    sl_hf_put_number(text, "eps", sl_hf_number(c, "layer_norm_epsilon", 1e-5));
    sl_hf_put_act(c, text, "act", "activation_function", "gelu_new");
    sl_hf_put_flag(text, "scaled", sl_hf_flag(c, "scale_attn_weights", true));
    sl_hf_put_flag(text, "by_layer", sl_hf_flag(c, "scale_attn_by_inverse_layer_idx", false));
    sl_hf_put_flag(text, "tied", sl_hf_flag(c, "tie_word_embeddings", true));
    sl_hf_put_drop(c, text, "embd_drop", "embd_pdrop", 0.1);
    sl_hf_put_drop(c, text, "attn_drop", "attn_pdrop", 0.1);
    sl_hf_put_drop(c, text, "resid_drop", "resid_pdrop", 0.1);
    sl_hf_only_flag(c, "add_cross_attention", false, "cross attention is not implemented");
    /* settings of heads that are refused */
    (void)sl_hf_number(c, "summary_first_dropout", 0);
    (void)sl_hf_text(c, "summary_activation", "");
    (void)sl_hf_text(c, "summary_type", "");
    (void)sl_hf_flag(c, "summary_use_proj", true);
    (void)sl_hf_flag(c, "summary_proj_to_labels", true);
    sl_text_put(text, "\nuse hf-gpt2\n\n");
    sl_hf_put_next_token(text, "gpt2_lm");
}

static void write_gpt_neox(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    int64_t width = sl_hf_size(c, "hidden_size"), heads = sl_hf_size(c, "num_attention_heads");
    (void)task;
    check_heads(c, "num_attention_heads", width, heads);
    sl_hf_put_size(text, "V", sl_hf_size(c, "vocab_size"));
    sl_hf_put_length(text, "T", sl_hf_size(c, "max_position_embeddings"));
    sl_hf_put_size(text, "L", sl_hf_size(c, "num_hidden_layers"));
    sl_hf_put_size(text, "C", width);
    sl_hf_put_size(text, "H", heads);
    sl_hf_put_size(text, "F", sl_hf_size(c, "intermediate_size"));
    sl_hf_put_dropouts(text);
    sl_hf_put_number(text, "std", sl_hf_number(c, "initializer_range", 0.02));
    sl_hf_put_number(text, "eps", sl_hf_number(c, "layer_norm_eps", 1e-5));
    sl_hf_put_act(c, text, "act", "hidden_act", "gelu");
    sl_hf_put_flag(text, "attn_bias", sl_hf_flag(c, "attention_bias", true));
    sl_hf_put_flag(text, "parallel", sl_hf_flag(c, "use_parallel_residual", true));
    sl_hf_put_flag(text, "tied", sl_hf_flag(c, "tie_word_embeddings", false));
    sl_hf_put_drop(c, text, "attn_drop", "attention_dropout", 0);
    sl_hf_put_drop(c, text, "resid_drop", "hidden_dropout", 0);
    (void)sl_hf_number(c, "classifier_dropout", 0); /* belongs to a head that is refused */
    sl_hf_put_rope(c, text, width / heads, 0.25);
    sl_text_put(text, "\nuse hf-gpt-neox\n\n");
    sl_hf_put_next_token(text, "neox_lm");
}

static const struct sl_hf_head gpt2_heads[] = {{"GPT2LMHeadModel", SL_HF_NEXT_TOKEN}, {0}};
static const struct sl_hf_head neox_heads[] = {{"GPTNeoXForCausalLM", SL_HF_NEXT_TOKEN}, {0}};
static const char *const gpt2_spare[] = {".attn.bias", ".attn.masked_bias", "lm_head.weight", NULL};
static const char *const neox_spare[] = {".attention.bias", ".attention.masked_bias",
                                         ".rotary_emb.inv_freq", "embed_out.weight", NULL};

const struct sl_hf_arch sl_hf_gpt2 = {
    .model_type = "gpt2",
    .brief = "learned positions, layernorm, tied embeddings",
    .heads = gpt2_heads,
    .write = write_gpt2,
    .base = "transformer.",
    .spare = gpt2_spare,
};

const struct sl_hf_arch sl_hf_gpt_neox = {
    .model_type = "gpt_neox",
    .brief = "attention and feed-forward in parallel, partly rotary",
    .heads = neox_heads,
    .write = write_gpt_neox,
    .base = "gpt_neox.",
    .spare = neox_spare,
};
