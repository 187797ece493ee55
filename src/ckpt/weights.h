/* Weights from outside: named tensors to start from, read on demand.
 *
 *   model.safetensors                     one file
 *   FOLDER, model.safetensors.index.json  the shards that the index names (Hugging Face)
 *   RUN, RUN/ckpt/step-00000100           a checkpoint; every tensor's checksum is verified
 *
 * Only headers are held in memory. Files hold fp32, bf16, fp16 or fp64; readers get fp32. */
#ifndef SL_CKPT_WEIGHTS_H
#define SL_CKPT_WEIGHTS_H

#include "base/safetensors.h"

enum { SL_CKPT_INDEX_BYTES = 64 << 20, SL_CKPT_SHARDS = 4096 };

struct sl_ckpt_weights;

SL_MUST_CHECK sl_err sl_ckpt_weights_open(const char *path, struct sl_ckpt_weights **out);
void sl_ckpt_weights_close(struct sl_ckpt_weights *weights); /* weights may be NULL */

/* Tensors are in the order of their names. find returns -1 if no tensor has this name. */
int64_t sl_ckpt_weights_count(const struct sl_ckpt_weights *weights);
void sl_ckpt_weights_at(const struct sl_ckpt_weights *weights, int64_t index,
                        struct sl_st_tensor *out);
int64_t sl_ckpt_weights_find(const struct sl_ckpt_weights *weights, const char *name);

/* Reads elements [from, from + count) of a tensor. Calls must not overlap; those for one tensor
 * start at 0 and ascend. */
SL_MUST_CHECK sl_err sl_ckpt_weights_read(struct sl_ckpt_weights *weights, int64_t index,
                                          int64_t from, int64_t count, float *out);

/* ---- index.json ---- */

struct sl_ckpt_index {
    struct sl_arena arena;
    int64_t count;
    /* [count] a tensor and its file, which is a plain name without a folder */
    const char **names, **files;
};

/* Reads and checks an index: files must be names in the folder. Close `out` even after an error. */
SL_MUST_CHECK sl_err sl_ckpt_index_read(const char *file, const char *text, size_t length,
                                        struct sl_ckpt_index *out);
void sl_ckpt_index_close(struct sl_ckpt_index *index);

#endif
