#include "hf/arch.h"

#include <string.h>

#define ROWS(ROW)                                                                                  \
    ROW(bert)                                                                                      \
    ROW(distilbert)                                                                                \
    ROW(gemma2)                                                                                    \
    ROW(gpt2)                                                                                      \
    ROW(gpt_neox)                                                                                  \
    ROW(llama)                                                                                     \
    ROW(mistral)                                                                                   \
    ROW(phi3)                                                                                      \
    ROW(qwen2)                                                                                     \
    ROW(qwen3)                                                                                     \
    ROW(roberta)                                                                                   \
    ROW(vit)

#define DECLARE(name) extern const struct sl_hf_arch sl_hf_##name;
ROWS(DECLARE)

#define LIST(name) &sl_hf_##name,
static const struct sl_hf_arch *const rows[] = {ROWS(LIST) NULL};

const struct sl_hf_arch *sl_hf_arch_at(int i) {
    return i >= 0 && i < SL_COUNT(rows) ? rows[i] : NULL;
}

const struct sl_hf_arch *sl_hf_arch_find(const char *model_type) {
    for (int i = 0; rows[i]; i++)
        if (strcmp(rows[i]->model_type, model_type) == 0)
            return rows[i];
    return NULL;
}
