/* Exports a plan: reads it, opens what the target needs, writes the target's text. */
#ifndef SL_JOB_EXPORT_H
#define SL_JOB_EXPORT_H

#include "base/text.h"

/* A request. Zero and NULL fields take the default in brackets. */
struct sl_job_export_request {
    const char *plan_file;
    const char *target;            /* name of a row of interop/exporter.h */
    const char *model;             /* name or path of the model [the plan's] */
    const char *const *model_dirs; /* search path of models by name; ends with NULL */
    const char *sizes;             /* sizes of the model: "L=4,C=128" */
    const char *loss;              /* loss of an ONNX file */
    const char *freeze, *lora;     /* freeze and lora that the plan was made with */
    const char *schedule;          /* [the plan's] */
    int64_t batch;                 /* [the plan's] */
    bool comms;                    /* export the schedule with its messages */
};

/* Appends the exported text. SL_ERR_REFUSED: the target lacks a feature that the plan uses. */
SL_MUST_CHECK sl_err sl_job_export(const struct sl_job_export_request *request,
                                   struct sl_text *out);

#endif
