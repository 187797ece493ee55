/* For tools that use finished checkpoints: list them at any path, convert one to a single file. */
#ifndef SL_CKPT_CONVERT_H
#define SL_CKPT_CONVERT_H

#include "ckpt/ckpt.h"

/* Writes the weights to one safetensors file; `state`: also optimizer state and older weight
 * versions. path "-" is standard output. If the checkpoint is damaged, no file remains. */
SL_MUST_CHECK sl_err sl_ckpt_convert(const struct sl_ckpt *ckpt, bool state, const char *path);

/* Like sl_ckpt_list, but `path` may also be the directory of one step. SL_ERR_INPUT: there is no
 * checkpoint. */
SL_MUST_CHECK sl_err sl_ckpt_list_any(const char *path, struct sl_arena *arena,
                                      struct sl_ckpt_list *out);

#endif
