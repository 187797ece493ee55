/* The Hugging Face architectures that can be read: one row each, in alphabetical order.
 *
 *   config.json ──row->write──> model text: sizes and settings, `use hf-...`, inputs, head, loss
 *
 * The text names parameters as the row's files do. The functions are in models/hf-*.model. */
#ifndef SL_HF_ARCH_H
#define SL_HF_ARCH_H

#include "hf/config.h"

enum sl_hf_task {
    SL_HF_NEXT_TOKEN,
    SL_HF_MASKED_TOKEN,
    SL_HF_CLASS,       /* classifies a sample */
    SL_HF_TOKEN_CLASS, /* classifies every token */
    SL_HF_PAIRS,       /* matches images with texts */
    SL_HF_SEQUENCE,    /* to sequence */
};

struct sl_hf_head { /* a class of transformers with its task; a row {0} ends the list */
    const char *name;
    enum sl_hf_task task;
};

struct sl_hf_arch {
    const char *model_type, *brief;
    const struct sl_hf_head *heads;
    /* Appends the text after its first line. The first error is kept in `config`. */
    void (*write)(struct sl_hf_config *config, enum sl_hf_task task, struct sl_text *text);
    const char *base; /* prefix of tensors that files of the bare model lack: "transformer." */
    /* Ends of names of tensors that files may have in addition: buffers, and copies of tied
     * weights. The list ends with NULL. */
    const char *const *spare;
};

const struct sl_hf_arch *sl_hf_arch_find(const char *model_type); /* NULL: none */
const struct sl_hf_arch *sl_hf_arch_at(int i);                    /* NULL after the last */

/* ---- parts of the text (write.c) ---- */

void sl_hf_put_size(struct sl_text *text, const char *name, int64_t value);
void sl_hf_put_number(struct sl_text *text, const char *name, double value);
void sl_hf_put_flag(struct sl_text *text, const char *name, bool value);
/* Writes act = "gelu"; refuses an unknown activation of transformers. */
void sl_hf_put_act(struct sl_hf_config *c, struct sl_text *text, const char *name, const char *key,
                   const char *fallback);
/* Writes the size T of a model with this many positions, and `dropout`, the factor of all
 * probabilities. */
void sl_hf_put_length(struct sl_text *text, const char *name, int64_t positions);
void sl_hf_put_dropouts(struct sl_text *text);
/* Writes drop = 0.1 * dropout. */
void sl_hf_put_drop(struct sl_hf_config *c, struct sl_text *text, const char *name, const char *key,
                    double fallback);
/* Writes padding, the token whose embedding is not trained; -1: none. */
void sl_hf_put_padding(struct sl_hf_config *c, struct sl_text *text, int64_t fallback,
                       int64_t rows);
/* Writes rotary, theta, rope_*: the rotation of heads with `head` features. `partial`: the share
 * that is rotated, if the config gives none. */
void sl_hf_put_rope(struct sl_hf_config *c, struct sl_text *text, int64_t head, double partial);
/* Returns the number of labels; refuses problems other than one label per sample. */
int64_t sl_hf_labels(struct sl_hf_config *c);
/* Writes inputs, call of `function(tokens)`, output and loss of a model that predicts the next
 * token. */
void sl_hf_put_next_token(struct sl_text *text, const char *function);

#endif
