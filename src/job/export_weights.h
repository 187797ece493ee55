/* Exporting weights: a model for other programs, from a run or a folder of Hugging Face. */
#ifndef SL_JOB_EXPORT_WEIGHTS_H
#define SL_JOB_EXPORT_WEIGHTS_H

#include "base/safetensors.h"

/* Zero and NULL fields take the default in brackets. */
struct sl_job_export_weights {
    const char *from;              /* a run, or a folder of Hugging Face */
    const char *to;                /* folder or file to write */
    const char *source;            /* folder with config.json [where the run's model came from] */
    const char *const *model_dirs; /* search path of models by name; ends with NULL */
    enum sl_st_dtype dtype;        /* SL_ST_F32, SL_ST_BF16 or SL_ST_F16 */
    int64_t shard_bytes;
};

struct sl_job_weights_target {
    const char *name, *brief;
    sl_err (*write)(const struct sl_job_export_weights *request, struct sl_text *summary);
};

/* In alphabetical order; ends with NULL. NULL: no target has this name. */
extern const struct sl_job_weights_target *const sl_job_weights_targets[];
const struct sl_job_weights_target *sl_job_weights_target_find(const char *name);

#endif
