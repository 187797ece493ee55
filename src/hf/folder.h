/* A Hugging Face folder: config.json, weights and tokenizer. */
#ifndef SL_HF_FOLDER_H
#define SL_HF_FOLDER_H

#include "hf/arch.h"

/* Is it a folder with a config.json that does not belong to a run? */
bool sl_hf_is_folder(const char *path);

/* Appends the model's text; *arch becomes its row. The text names the folder as the place of the
 * weights. */
SL_MUST_CHECK sl_err sl_hf_folder_read(const char *folder, const struct sl_hf_arch **arch,
                                       struct sl_text *text);
/* The same for a config.json in memory; `folder` is for the text and messages. */
SL_MUST_CHECK sl_err sl_hf_config_text(const char *folder, const char *config, size_t length,
                                       const struct sl_hf_arch **arch, struct sl_text *text);

/* Returns the name in the files of a parameter of the text, in one of several forms. Form 0 is the
 * name itself; others add or remove the prefix of a bare model. NULL: there is no such form. */
const char *sl_hf_tensor_name(struct sl_arena *arena, const char *name, int form);
/* May a file have this tensor although the model does not? `arch` NULL: for any architecture. */
bool sl_hf_is_spare(const struct sl_hf_arch *arch, const char *tensor);

#endif
