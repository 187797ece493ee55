/* A job holds everything that a user asked for, as one struct of plain values with a text form
 * (config.json).
 *
 *   sl_job_init                    every field has its default, none counts as given
 *   sl_job_read, sl_job_set ...    later values replace earlier ones: file, then options
 *   sl_job_check                   refuses bad combinations; needs no file and no device
 *   sl_job_open (job/work.h)       opens model, data and devices, builds the plan, resolves the rest
 *   sl_job_write                   the given fields as JSON; in a resolved job these are all
 *     that apply
 *   sl_job_free
 *
 * The command line fills a job from options, the C interface from a request, a study from its file,
 * and a run directory from its config.json. All of them use the same defaults and refusals.
 *
 * Messages write the name of a field in backquotes: "`batch`: expected 1 to 1073741824, found 'x'".
 * The command line replaces such a name with the option that sets the field. */
#ifndef SL_JOB_JOB_H
#define SL_JOB_JOB_H

#include "base/text.h"

enum sl_job_cut { SL_JOB_CUT_EVEN, SL_JOB_CUT_BRANCHES };
enum sl_job_dtype { SL_JOB_FP32, SL_JOB_TF32, SL_JOB_BF16, SL_JOB_FP16 };
enum sl_job_bind { SL_JOB_BIND_AUTO, SL_JOB_BIND_CORES, SL_JOB_BIND_NONE };
enum sl_job_scope { SL_JOB_SCOPE_GLOBAL, SL_JOB_SCOPE_STAGE };
enum sl_job_save { SL_JOB_SAVE_ASYNC, SL_JOB_SAVE_SYNC };

/* Texts are never NULL; "" means none. */
struct sl_job {
    /* model and data: */
    const char *model;         /* name or path */
    const char *sizes;         /* "L=4,C=128": override sizes of the model */
    const char *loss;          /* of an ONNX file: "cross_entropy:logits,labels" */
    const char *freeze, *lora; /* what trains: see tune/tune.h */
    const char *data, *tokenizer, *chat_template, *images;
    double validation;
    /* computation: */
    const char *device; /* "cpu", or "cuda,cpu": workers use them in turn */
    int dtype;          /* enum sl_job_dtype */
    int64_t threads;
    bool recompute;
    int64_t batch, micro, steps, seed;
    /* optimizer: */
    const char *optimizer, *policy, *lr_schedule, *loss_scale;
    double lr, clip;
    int clip_scope; /* enum sl_job_scope; if not given: see sl_job_is_global */
    /* pipeline: either `plan`, or `stages` and how to cut and place them: */
    const char *plan, *schedule, *schedule_module;
    int64_t stages, workers, replicas, tp, slack, group;
    bool zero1;
    int cut;  /* enum sl_job_cut */
    int bind; /* enum sl_job_bind */
    bool lend;
    bool emulate; /* run the pipeline's semantics on one worker */
    /* evaluation, checkpoints, observation */
    int64_t eval_every, eval_samples;
    int64_t checkpoint_every, keep;
    bool keep_best;
    int64_t patience;
    int save; /* enum sl_job_save */
    const char *init, *cost;
    bool init_partial;
    bool trace, log_staleness;
    int64_t audit;
    double stall_timeout; /* seconds */
    /* where to run; not part of the text form: */
    const char *out;
    bool resume, allow_change;
    int64_t from_step;

    uint64_t given; /* bit i: field i of sl_job_fields was set */
    struct sl_arena text;
};

enum sl_job_kind {
    SL_JOB_INT,    /* int64_t */
    SL_JOB_NUMBER, /* double */
    SL_JOB_TEXT,   /* const char * */
    SL_JOB_FLAG,   /* bool; its text form is true or false */
    SL_JOB_CHOICE, /* int, index into `choices` */
    SL_JOB_SIZES,  /* const char * such as "A=1,B=2"; its text form is an object of numbers */
};

enum sl_job_role {
    /* decides the result (model, data, optimization): in config.json and in checkpoints */
    SL_JOB_RESULT,
    SL_JOB_WAY,   /* layout, observation, saving: only in config.json */
    SL_JOB_LOCAL, /* where to run: not written */
};

/* What a resumed run does if the value has changed. */
enum sl_job_change {
    SL_JOB_KEEPS,  /* the results have the same bits as without the change */
    SL_JOB_BREAKS, /* the results have other bits */
    SL_JOB_LAYOUT, /* the same bits, unless version rule or sums change: see job/resume.c */
    SL_JOB_DATA,   /* depends on the fingerprint of the data in the checkpoint */
    SL_JOB_GRAPH,  /* depends on the hash of the graph; another graph is never allowed */
};

struct sl_job_field {
    const char *key;
    enum sl_job_kind kind;
    size_t offset;
    const char *fallback;       /* the default as text; NULL: zero, or sl_job_open decides */
    double low, high;           /* inclusive range of SL_JOB_INT and SL_JOB_NUMBER */
    const char *const *choices; /* names for SL_JOB_CHOICE, ends with NULL */
    enum sl_job_role role;
    enum sl_job_change change;
    const char *brief;
};

/* All fields in the order in which they are written; the last row has no key. */
extern const struct sl_job_field sl_job_fields[];
/* Returns the field with this key; NULL: no field has it, now or in an older version. */
const struct sl_job_field *sl_job_field_find(const char *key);

void sl_job_init(struct sl_job *job);
void sl_job_free(struct sl_job *job);
/* Initialises `to` as a copy, with its own texts. */
void sl_job_copy(struct sl_job *to, const struct sl_job *from);

/* Sets a field. SL_ERR_USAGE: there is no such field, or the text is not one of its values. Sizes
 * are added to those given before; other values are replaced. */
SL_MUST_CHECK sl_err sl_job_set(struct sl_job *job, const char *key, const char *text);
bool sl_job_has(const struct sl_job *job, const char *key); /* is the field given? */
void sl_job_mark(struct sl_job *job, const char *key); /* from now on the field counts as given */
/* Sets a field to its default; it no longer counts as given. */
void sl_job_reset(struct sl_job *job, const char *key);
/* Copies a field if it is given. */
void sl_job_take(struct sl_job *to, const struct sl_job *from, const char *key);

/* Sets the fields of a JSON object. Unknown keys are errors, because a job without them would be
 * another job. Keys of older versions are understood ("verdict" is `clip_scope`). */
SL_MUST_CHECK sl_err sl_job_read(struct sl_job *job, const char *file, const char *text,
                                 size_t length);
/* The same for TOML (job/toml.c). */
SL_MUST_CHECK sl_err sl_job_read_toml(struct sl_job *job, const char *file, const char *text,
                                      size_t length);
void sl_job_write_toml(const struct sl_job *job, struct sl_text *text);
/* Reads TOML if the name ends with .toml, else JSON. */
SL_MUST_CHECK sl_err sl_job_read_file(struct sl_job *job, const char *path);
/* Writes the given fields as JSON. Reading the text and writing it again gives the same text. */
void sl_job_write(const struct sl_job *job, struct sl_text *text);
/* Writes the value of one field, as sl_job_write does. */
void sl_job_write_value(const struct sl_job *job, const struct sl_job_field *field,
                        struct sl_text *text);
/* Writes only fields of role SL_JOB_RESULT, for checkpoints: runs that differ in other fields may
 * have checkpoints with equal bytes. */
void sl_job_write_results(const struct sl_job *job, struct sl_text *text);

/* Does the job clip and skip by the global norm? The given scope decides, or the default of the
 * schedule. `row` NULL: the schedule that the job names in the registry. */
struct sl_schedule;
bool sl_job_is_global(const struct sl_job *job, const struct sl_schedule *row);
/* Does the job need a pipeline rather than one worker? */
bool sl_job_is_pipeline(const struct sl_job *job);
SL_MUST_CHECK sl_err sl_job_check(const struct sl_job *job);

#endif
