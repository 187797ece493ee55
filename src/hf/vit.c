/* The architecture vit. */
#include "hf/arch.h"

static void write_vit(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    int64_t width = sl_hf_size(c, "hidden_size"), heads = sl_hf_size(c, "num_attention_heads");
    (void)task;
    if (width % heads)
        sl_hf_refuse(c, "num_attention_heads", "the width is not a multiple of the heads");
    sl_hf_put_size(text, "G", sl_hf_int(c, "num_channels", 3));
    sl_hf_put_size(text, "S", sl_hf_size(c, "image_size"));
    sl_hf_put_size(text, "patch", sl_hf_size(c, "patch_size"));
    sl_hf_put_size(text, "L", sl_hf_size(c, "num_hidden_layers"));
    sl_hf_put_size(text, "C", width);
    sl_hf_put_size(text, "H", heads);
    sl_hf_put_size(text, "F", sl_hf_size(c, "intermediate_size"));
    sl_hf_put_size(text, "classes", sl_hf_labels(c));
    sl_hf_put_dropouts(text);
    sl_hf_put_number(text, "std", sl_hf_number(c, "initializer_range", 0.02));
    sl_hf_put_number(text, "eps", sl_hf_number(c, "layer_norm_eps", 1e-12));
    sl_hf_put_act(c, text, "act", "hidden_act", "gelu");
    sl_hf_put_flag(text, "qkv_bias", sl_hf_flag(c, "qkv_bias", true));
    sl_hf_put_drop(c, text, "attn_drop", "attention_probs_dropout_prob", 0);
    sl_hf_put_drop(c, text, "drop", "hidden_dropout_prob", 0);
    /* settings of heads that are refused */
    (void)sl_hf_int(c, "encoder_stride", 16);
    (void)sl_hf_text(c, "pooler_act", "");
    (void)sl_hf_int(c, "pooler_output_size", 0);
    sl_text_put(text, "\nuse hf-vit\n\n"
                      "input image : float[B, G, S, S]\n"
                      "input label : int[B] < classes\n"
                      "x = vit_encode(image) as vit\n"
                      "logits = linear(x, classes, std) as classifier\n"
                      "output logits = logits\n"
                      "loss cross_entropy(logits, label)\n");
}

static const struct sl_hf_head heads[] = {{"ViTForImageClassification", SL_HF_CLASS}, {0}};
static const char *const spare[] = {"pooler.dense.weight", "pooler.dense.bias", NULL};

const struct sl_hf_arch sl_hf_vit = {
    .model_type = "vit",
    .brief = "encoder of image patches: classes of images",
    .heads = heads,
    .write = write_vit,
    .base = "vit.",
    .spare = spare,
};
