/* Models by name or path. */
#ifndef SL_JOB_MODEL_H
#define SL_JOB_MODEL_H

#include "graph/model.h"
#include "plan/plan.h"

/* Names of the models in the first of `dirs` that has any, sorted; in the arena. `dirs` ends with
 * NULL, or is NULL. */
struct sl_job_model_names {
    int count;
    const char **at;
};
struct sl_job_model_names sl_job_model_names(const char *const *dirs, struct sl_arena *arena);

/* Reads the model `name` (checked, not differentiated). A name without '/' and '.model' is looked
 * for in `dirs`. `sizes`: "L=4,C=128"; the sizes in a plan of this model (NULL: no plan) come first,
 * so that `sizes` replaces them. The file is read once: `eval`, if not NULL, gets the same
 * model with dropout off and running statistics used. The caller closes both. */
SL_MUST_CHECK sl_err sl_job_model_open(const char *name, const char *const *dirs,
                                       const struct sl_plan *plan, const char *sizes,
                                       struct sl_graph **out, struct sl_graph **eval);

/* Reads a flat text, such as RUN/model.model; `file` is for messages. */
SL_MUST_CHECK sl_err sl_job_model_read(const char *text, const char *file, struct sl_graph **out,
                                       struct sl_graph **eval);

#endif
