/* Models by name or path. */
#ifndef SL_JOB_MODEL_H
#define SL_JOB_MODEL_H

#include "graph/model.h"
#include "plan/plan.h"

/* Lists the names of the models in the first of `dirs` that has any, sorted, in the arena. `dirs`
 * ends with NULL, or is NULL. */
struct sl_job_model_names {
    int count;
    const char **at;
};
struct sl_job_model_names sl_job_model_names(const char *const *dirs, struct sl_arena *arena);

struct sl_job_model_request {
    /* without '/', '.model' and '.onnx' a name in `dirs`, unless it is a folder; else a path */
    const char *name;
    const char *const *dirs; /* ends with NULL, or is NULL */
    /* the model takes its sizes first, if it is a plan of this model; or NULL */
    const struct sl_plan *plan;
    const char *sizes;         /* "L=4,C=128" */
    const char *loss;          /* loss of an ONNX file; NULL or "": the file's own */
    const char *freeze, *lora; /* see tune/tune.h; NULL or "": none */
};

/* Reads the model (checked, not differentiated). Reads the file once: `eval`, if not NULL, becomes
 * the same model with dropout off and running statistics used. The caller closes both. `out` can
 * read the initial values that the model's file stores. */
SL_MUST_CHECK sl_err sl_job_model_open(const struct sl_job_model_request *request,
                                       struct sl_graph **out, struct sl_graph **eval);

/* Imports an ONNX file: writes the model to `path` and its initial values to the
 * same path with the ending .safetensors. `path` NULL or "": writes neither. Appends a summary. */
SL_MUST_CHECK sl_err sl_job_model_import(const struct sl_job_model_request *request,
                                         const char *path, struct sl_text *out);

/* Imports a folder of Hugging Face: writes the model to `path`, which names the folder as the place of
 * its weights. `path` NULL or "": writes nothing. Appends a summary. */
SL_MUST_CHECK sl_err sl_job_model_import_hf(const struct sl_job_model_request *request,
                                            const char *path, struct sl_text *out);

/* Reads the flat text of a run, RUN/model.model; `file` is for messages. Stored initial values are
 * NaN if their file is gone: a checkpoint must replace them. `tune`: freeze and lora for a text
 * that has neither; NULL: none. */
struct sl_job_model_tune {
    const char *freeze, *lora;
};
SL_MUST_CHECK sl_err sl_job_model_read(const char *text, const char *file,
                                       const struct sl_job_model_tune *tune, struct sl_graph **out,
                                       struct sl_graph **eval);

#endif
