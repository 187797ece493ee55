/* Exports weights: writes a model for other programs, from a run or a Hugging Face folder. */
#ifndef SL_USE_EXPORT_H
#define SL_USE_EXPORT_H

#include "base/safetensors.h"

/* A request. Zero and NULL fields take the default in brackets. */
struct sl_use_export {
    const char *from;              /* a run, or a Hugging Face folder */
    const char *to;                /* folder or file to write */
    const char *source;            /* folder with config.json [where the run's model came from] */
    const char *const *model_dirs; /* search path of models by name; ends with NULL */
    enum sl_st_dtype dtype;        /* SL_ST_F32, SL_ST_BF16 or SL_ST_F16 */
    int64_t shard_bytes;
};

struct sl_use_target {
    const char *name, *brief;
    sl_err (*write)(const struct sl_use_export *request, struct sl_text *summary);
};

/* rows: in alphabetical order; ends with NULL. find: NULL if no target has this name. */
extern const struct sl_use_target *const sl_use_targets[];
const struct sl_use_target *sl_use_target_find(const char *name);

#endif
