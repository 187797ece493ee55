/* Uses of finished checkpoints by tools: list any path, convert to one file. */
#ifndef SL_CKPT_CONVERT_H
#define SL_CKPT_CONVERT_H

#include "ckpt/ckpt.h"

/* Writes the weights, with `state` also optimizer state and older weight versions, to one
 * safetensors file; "-" is standard output. A damaged checkpoint leaves no file. */
SL_MUST_CHECK sl_err sl_ckpt_convert(const struct sl_ckpt *ckpt, bool state, const char *path);

/* As sl_ckpt_list, but `path` may also be the directory of one step. SL_ERR_INPUT: no checkpoint. */
SL_MUST_CHECK sl_err sl_ckpt_list_any(const char *path, struct sl_arena *arena,
                                      struct sl_ckpt_list *out);

#endif
