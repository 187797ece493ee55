/* Writes a model as a Hugging Face folder, which from_pretrained of transformers loads.
 *
 *   config.json                   that of the source, with the type of the written tensors
 *   tokenizer.json, ...           copied from the source
 *   model.safetensors             or model-00001-of-00003.safetensors, ... and an index
 *
 * config.json is written last: a folder that is not complete does not load. */
#ifndef SL_HF_EXPORT_H
#define SL_HF_EXPORT_H

#include "base/safetensors.h"
#include "graph/graph.h"

struct sl_hf_export {
    /* graph made from the source's config; all its parameters have stored values */
    const struct sl_graph *graph;
    const char *source;     /* a folder with config.json */
    const char *tokenizer;  /* file or folder to use if the source has no tokenizer; NULL: none */
    const char *to;         /* target folder, which does not exist or is empty */
    enum sl_st_dtype dtype; /* SL_ST_F32, SL_ST_BF16 or SL_ST_F16 */
    int64_t shard_bytes;    /* largest file, unless a single tensor is larger */
};

/* Exports and appends a summary. After an error, it removes the files that it has written. */
SL_MUST_CHECK sl_err sl_hf_export(const struct sl_hf_export *what, struct sl_text *summary);

/* Returns the name of a type in config.json ("bfloat16"); NULL: it cannot be exported. */
const char *sl_hf_dtype_name(enum sl_st_dtype dtype);
/* Writes config.json with another type of tensors. */
SL_MUST_CHECK sl_err sl_hf_export_config(const char *file, const char *text, size_t length,
                                         enum sl_st_dtype dtype, struct sl_text *out);

/* ---- shards.c ---- */

/* The files with the weights; the caller frees `names` with sl_text_free. */
struct sl_hf_shards {
    int64_t tensors, files, bytes;
    struct sl_text names; /* one per line */
};
SL_MUST_CHECK sl_err sl_hf_shards_write(const struct sl_hf_export *what, struct sl_hf_shards *out);

#endif
