/* The architectures bert, roberta and distilbert. */
#include "hf/arch.h"

#include <string.h>

/* Writes the inputs, and the loss of the scores `logits`. */
static void put_inputs(struct sl_text *text, bool segments) {
    sl_text_printf(text,
                   "input tokens : int[B, T] < V\n%s"
                   "input mask : int[B, T] < 2      # 0: padding\n",
                   segments ? "input segments : int[B, T] < S\n" : "");
}

static void put_loss(struct sl_text *text, enum sl_hf_task task) {
    const char *shape = task == SL_HF_CLASS ? "B" : "B, T";
    const char *below = task == SL_HF_MASKED_TOKEN ? "V" : "classes";
    const char *name = task == SL_HF_CLASS ? "label" : "targets";
    sl_text_printf(text,
                   "input %s : int[%s] < %s\n"
                   "output logits = logits\n"
                   "loss cross_entropy(logits, %s)\n",
                   name, shape, below, name);
}

static void put_classes(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    if (task != SL_HF_MASKED_TOKEN)
        sl_hf_put_size(text, "classes", sl_hf_labels(c));
}

/* Writes the dropout of classifiers; if absent, that of the hidden states. */
static void put_head_drop(struct sl_hf_config *c, struct sl_text *text) {
    sl_hf_put_drop(
        c, text, "head_drop",
        sl_hf_find(c, "classifier_dropout") ? "classifier_dropout" : "hidden_dropout_prob", 0.1);
}

static void put_bert(struct sl_hf_config *c, enum sl_hf_task task, int64_t padding, bool is_counted,
                     struct sl_text *text) {
    int64_t width = sl_hf_size(c, "hidden_size"), heads = sl_hf_size(c, "num_attention_heads"),
            positions = sl_hf_size(c, "max_position_embeddings"),
            vocab = sl_hf_size(c, "vocab_size");
    if (width % heads)
        sl_hf_refuse(c, "num_attention_heads", "the width is not a multiple of the heads");
    padding = sl_hf_int(c, "pad_token_id", padding);
    if (is_counted && (padding < 0 || padding + 2 > positions))
        sl_hf_refuse(c, "pad_token_id",
                     "positions are counted from it: expected 0 or more, and "
                     "fewer than max_position_embeddings");
    sl_hf_put_size(text, "V", vocab);
    sl_hf_put_length(text, "T", is_counted ? positions - padding - 1 : positions);
    sl_hf_put_size(text, "P", positions);
    sl_hf_put_size(text, "S", sl_hf_int(c, "type_vocab_size", 2));
    sl_hf_put_size(text, "L", sl_hf_size(c, "num_hidden_layers"));
    sl_hf_put_size(text, "C", width);
    sl_hf_put_size(text, "H", heads);
    sl_hf_put_size(text, "F", sl_hf_size(c, "intermediate_size"));
    put_classes(c, task, text);
    sl_hf_put_dropouts(text);
    sl_hf_put_number(text, "std", sl_hf_number(c, "initializer_range", 0.02));
    sl_hf_put_number(text, "eps", sl_hf_number(c, "layer_norm_eps", 1e-12));
    sl_hf_put_act(c, text, "act", "hidden_act", "gelu");
    sl_hf_put_flag(text, "tied", sl_hf_flag(c, "tie_word_embeddings", true));
    sl_hf_put_drop(c, text, "attn_drop", "attention_probs_dropout_prob", 0.1);
    sl_hf_put_drop(c, text, "drop", "hidden_dropout_prob", 0.1);
    put_head_drop(c, text);
    sl_hf_put_padding(c, text, padding, vocab);
    sl_hf_only_text(c, "position_embedding_type", "absolute", "only absolute is implemented");
    sl_hf_only_flag(c, "is_decoder", false, "decoders are not implemented");
    sl_hf_only_flag(c, "add_cross_attention", false, "cross attention is not implemented");
    sl_text_put(text, "\nuse hf-bert\n\n");
    put_inputs(text, true);
}

static void write_bert(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    put_bert(c, task, 0, false, text);
    sl_text_put(text, "x, words = bert_encode(tokens, segments, mask) as bert\n");
    if (task == SL_HF_MASKED_TOKEN)
        sl_text_put(text, "logits = bert_words(x, words, tied) as cls.predictions\n");
    else if (task == SL_HF_CLASS)
        sl_text_put(text, "logits = bert_class(x, classes) as _\n");
    else
        sl_text_put(text, "logits = token_class(x, classes) as _\n");
    put_loss(text, task);
}

static void write_roberta(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    put_bert(c, task, 1, true, text);
    sl_text_put(text, "x, words = bert_encode(tokens, segments, mask, 1) as roberta\n");
    if (task == SL_HF_MASKED_TOKEN)
        sl_text_put(text, "logits = roberta_words(x, words, tied) as lm_head\n");
    else if (task == SL_HF_CLASS)
        sl_text_put(text, "logits = roberta_class(x, classes) as _\n");
    else
        sl_text_put(text, "logits = token_class(x, classes) as _\n");
    put_loss(text, task);
}

static void write_distilbert(struct sl_hf_config *c, enum sl_hf_task task, struct sl_text *text) {
    int64_t width = sl_hf_size(c, "dim"), heads = sl_hf_size(c, "n_heads"),
            positions = sl_hf_size(c, "max_position_embeddings"),
            vocab = sl_hf_size(c, "vocab_size");
    if (width % heads)
        sl_hf_refuse(c, "n_heads", "the width is not a multiple of the heads");
    sl_hf_put_size(text, "V", vocab);
    sl_hf_put_length(text, "T", positions);
    sl_hf_put_size(text, "P", positions);
    sl_hf_put_size(text, "L", sl_hf_size(c, "n_layers"));
    sl_hf_put_size(text, "C", width);
    sl_hf_put_size(text, "H", heads);
    sl_hf_put_size(text, "F", sl_hf_size(c, "hidden_dim"));
    put_classes(c, task, text);
    sl_hf_put_dropouts(text);
    sl_hf_put_number(text, "std", sl_hf_number(c, "initializer_range", 0.02));
    sl_hf_put_act(c, text, "act", "activation", "gelu");
    sl_hf_put_flag(text, "tied", sl_hf_flag(c, "tie_word_embeddings", true));
    (void)sl_hf_flag(c, "sinusoidal_pos_embds", false); /* matters only for initial values */
    sl_hf_put_drop(c, text, "attn_drop", "attention_dropout", 0.1);
    sl_hf_put_drop(c, text, "drop", "dropout", 0.1);
    if (task == SL_HF_TOKEN_CLASS) /* this head uses the dropout of the encoder */
        sl_hf_put_drop(c, text, "head_drop", "dropout", 0.1);
    else
        sl_hf_put_drop(c, text, "head_drop", "seq_classif_dropout", 0.2);
    (void)sl_hf_number(c, "seq_classif_dropout", 0);
    (void)sl_hf_number(c, "qa_dropout", 0); /* belongs to a head that is refused */
    sl_hf_put_padding(c, text, 0, vocab);
    sl_text_put(text, "\nuse hf-distilbert\n\n");
    put_inputs(text, false);
    sl_text_put(text, "x, words = distil_encode(tokens, mask) as distilbert\n");
    sl_text_put(text, task == SL_HF_MASKED_TOKEN ? "logits = distil_words(x, words) as _\n"
                      : task == SL_HF_CLASS      ? "logits = distil_class(x, classes) as _\n"
                                                 : "logits = token_class(x, classes) as _\n");
    put_loss(text, task);
}

static const struct sl_hf_head bert_heads[] = {
    {"BertForMaskedLM", SL_HF_MASKED_TOKEN},
    {"BertForSequenceClassification", SL_HF_CLASS},
    {"BertForTokenClassification", SL_HF_TOKEN_CLASS},
    {0},
};
static const struct sl_hf_head roberta_heads[] = {
    {"RobertaForMaskedLM", SL_HF_MASKED_TOKEN},
    {"RobertaForSequenceClassification", SL_HF_CLASS},
    {"RobertaForTokenClassification", SL_HF_TOKEN_CLASS},
    {0},
};
static const struct sl_hf_head distilbert_heads[] = {
    {"DistilBertForMaskedLM", SL_HF_MASKED_TOKEN},
    {"DistilBertForSequenceClassification", SL_HF_CLASS},
    {"DistilBertForTokenClassification", SL_HF_TOKEN_CLASS},
    {0},
};

static const char *const bert_spare[] = {"embeddings.position_ids",
                                         "embeddings.token_type_ids",
                                         "cls.predictions.decoder.weight",
                                         "cls.predictions.decoder.bias",
                                         "cls.seq_relationship.weight",
                                         "cls.seq_relationship.bias",
                                         "cls.predictions.bias",
                                         "pooler.dense.weight",
                                         "pooler.dense.bias",
                                         NULL};
static const char *const roberta_spare[] = {"embeddings.position_ids",
                                            "embeddings.token_type_ids",
                                            "lm_head.decoder.weight",
                                            "lm_head.decoder.bias",
                                            "lm_head.bias",
                                            "pooler.dense.weight",
                                            "pooler.dense.bias",
                                            NULL};
static const char *const distilbert_spare[] = {"embeddings.position_ids", "vocab_projector.weight",
                                               NULL};

const struct sl_hf_arch sl_hf_bert = {
    .model_type = "bert",
    .brief = "encoder: masked tokens, classes of samples or tokens",
    .heads = bert_heads,
    .write = write_bert,
    .base = "bert.",
    .spare = bert_spare,
};

const struct sl_hf_arch sl_hf_roberta = {
    .model_type = "roberta",
    .brief = "bert with counted positions",
    .heads = roberta_heads,
    .write = write_roberta,
    .base = "roberta.",
    .spare = roberta_spare,
};

const struct sl_hf_arch sl_hf_distilbert = {
    .model_type = "distilbert",
    .brief = "bert without segments",
    .heads = distilbert_heads,
    .write = write_distilbert,
    .base = "distilbert.",
    .spare = distilbert_spare,
};
