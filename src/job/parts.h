/* Parts of an opened job that several files of this component share. */
#ifndef SL_JOB_PARTS_H
#define SL_JOB_PARTS_H

#include "job/work.h"

struct sl_job_devices {
    int count;
    const struct sl_device_row *at[SL_KINDS_MAX];
};

/* The rows that `device` names; SL_ERR_USAGE with the nearest name. They may be missing on this
 * machine. */
SL_MUST_CHECK sl_err sl_job_devices_find(const struct sl_job *job, struct sl_job_devices *out);

/* Type of activations, and the name of `dtype`. */
enum sl_dtype sl_job_activations(const struct sl_job *job);
const char *sl_job_dtype_name(const struct sl_job *job);

/* layout.c: plan, stages of nodes, schedule and slack into work->pipe; needs work->train. Resolves
 * the fields that depend on the plan. */
SL_MUST_CHECK sl_err sl_job_layout(struct sl_job_work *work, const struct sl_plan *plan);
/* shards.c. With `tp` > 1: the graphs of the shards into work->train, the expanded plan into
 * work->pipe; work->plan keeps the plan that is saved. */
SL_MUST_CHECK sl_err sl_job_shard(struct sl_job_work *work);
/* layout_given.c. The row of the job's schedule into work->pipe.row. A schedule from a file sets
 * the stages (unless a plan does), micro-batches, policy and slack that the job leaves open. */
SL_MUST_CHECK sl_err sl_job_given_open(struct sl_job_work *work, bool planned);
/* Its workers into `spec`. */
struct sl_model_plan_spec;
SL_MUST_CHECK sl_err sl_job_given_place(struct sl_arena *arena, const struct sl_job *job,
                                        const struct sl_sched *given,
                                        struct sl_model_plan_spec *spec);
/* After the plan is known: a schedule from a module becomes one from a file; `schedule` becomes
 * "schedule.sched", the copy in the run directory. */
SL_MUST_CHECK sl_err sl_job_given_keep(struct sl_job_work *work);
/* init.c: the parameters and states of the graph start from the weights at `path` (ckpt/weights.h).
 * Refuses tensors that are missing, left over or of another shape, unless `partial`. */
struct sl_graph;
SL_MUST_CHECK sl_err sl_job_init_attach(struct sl_graph *graph, const char *path, bool partial);
/* run_dir.c: the evaluation graph of a run or of a folder of Hugging Face, and the job that evaluates
 * it, which is initialised. Only the graph of a folder has its weights. */
SL_MUST_CHECK sl_err sl_job_eval_graph(const struct sl_job *given, const char *run,
                                       const struct sl_job_host *host, struct sl_job *job,
                                       struct sl_graph **eval);
/* forecast.c: work->forecast from `cost`. */
SL_MUST_CHECK sl_err sl_job_forecast_make(struct sl_job_work *work);
/* open.c: a text field that the job leaves open; the value counts as given from now on. */
void sl_job_resolve(struct sl_job *job, const char *key, const char *value);

/* resume.c: the texts of the run that a job resumes. */
struct sl_job_stored {
    const char *config, *model, *plan, *sched; /* NULL: no such file */
    bool has_checkpoint;                       /* else there is nothing to continue exactly */
    bool use_model; /* the graph is read from `model`: neither name nor sizes are given */
    bool use_plan;  /* the plan is read from `plan`: no layout is given */
    bool use_sched; /* the schedule is read from `sched`: no other is given */
    struct sl_job job;
};

/* Reads the run that work->job resumes. Its fields become those of the run, replaced by the given
 * ones. No such run: the job and work->stored stay as they are. */
SL_MUST_CHECK sl_err sl_job_remember(struct sl_job_work *work, const struct sl_job_host *host);
/* After everything is resolved: lists the differences to the stored run, and refuses those that
 * break exactness unless the job allows them. */
SL_MUST_CHECK sl_err sl_job_compare_stored(struct sl_job_work *work);

#endif
