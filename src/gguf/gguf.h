/* Writes a model as one GGUF file (version 3), which llama.cpp and the Python package `gguf`
 * read.
 *
 *   "GGUF" | version | tensors | keys | key, type, value ... | name, sizes, type, offset ... | data
 *
 * Hyperparameters come from config.json, the tokenizer from tokenizer.json in the same folder.
 * Names of tensors and keys, and the order of the rows of q and k, follow llama.cpp. */
#ifndef SL_GGUF_GGUF_H
#define SL_GGUF_GGUF_H

#include "base/safetensors.h"
#include "graph/graph.h"

struct sl_gguf_export {
    /* graph made from the source's config; all its parameters have stored values */
    const struct sl_graph *graph;
    const char *source;     /* a folder with config.json */
    const char *to;         /* target file */
    enum sl_st_dtype dtype; /* SL_ST_F32, SL_ST_BF16 or SL_ST_F16; vectors are always SL_ST_F32 */
};

/* Exports and appends a summary. SL_ERR_REFUSED: we know of no such architecture, setting or
 * tokenizer in llama.cpp. */
SL_MUST_CHECK sl_err sl_gguf_export(const struct sl_gguf_export *what, struct sl_text *summary);

/* ---- file.c: the parts of a file ---- */

struct sl_gguf {
    struct sl_text keys, tensors; /* the bytes of both lists */
    int64_t key_count, tensor_count, data_bytes;
};

enum { SL_GGUF_ALIGN = 32 };

void sl_gguf_put_string(struct sl_gguf *g, const char *key, const char *value);
void sl_gguf_put_u32(struct sl_gguf *g, const char *key, int64_t value);
void sl_gguf_put_f32(struct sl_gguf *g, const char *key, double value);
void sl_gguf_put_flag(struct sl_gguf *g, const char *key, bool value);
void sl_gguf_put_strings(struct sl_gguf *g, const char *key, const char *const *values,
                         int64_t count);
void sl_gguf_put_i32s(struct sl_gguf *g, const char *key, const int32_t *values, int64_t count);
void sl_gguf_put_f32s(struct sl_gguf *g, const char *key, const float *values, int64_t count);
/* Adds a tensor. `dim` has the order of a shape: the last size is contiguous. */
void sl_gguf_put_tensor(struct sl_gguf *g, const char *name, enum sl_st_dtype dtype, int rank,
                        const int64_t *dim);
/* Writes all bytes before the data. */
void sl_gguf_head(const struct sl_gguf *g, struct sl_text *out);
void sl_gguf_free(struct sl_gguf *g);

/* tokenizer.c. Adds the keys for tokenizer.json; *found is false if there is none. */
SL_MUST_CHECK sl_err sl_gguf_put_tokenizer(struct sl_gguf *g, const char *folder, int64_t vocab,
                                           bool *found);
/* The same for a file in memory. */
SL_MUST_CHECK sl_err sl_gguf_read_tokenizer(struct sl_gguf *g, const char *file, const char *text,
                                            size_t length, int64_t vocab);

#endif
