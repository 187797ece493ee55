/* Parts of an opened job that several files of this component use. */
#ifndef SL_JOB_PARTS_H
#define SL_JOB_PARTS_H

#include "job/work.h"

struct sl_job_devices {
    int count;
    const struct sl_device_row *at[SL_KINDS_MAX];
};

/* Finds the rows that `device` names; SL_ERR_USAGE with the nearest name. The devices may be
 * missing on this machine. */
SL_MUST_CHECK sl_err sl_job_devices_find(const struct sl_job *job, struct sl_job_devices *out);

/* The type of activations, and the name of `dtype`. */
enum sl_dtype sl_job_activations(const struct sl_job *job);
const char *sl_job_dtype_name(const struct sl_job *job);

/* layout.c. Sets plan, stages of nodes, schedule and slack in work->pipe; needs work->train.
 * Resolves the fields that depend on the plan. */
SL_MUST_CHECK sl_err sl_job_layout(struct sl_job_work *work, const struct sl_plan *plan);
/* shards.c. With `tp` > 1: sets the graphs of the shards in work->train and the expanded plan in
 * work->pipe; work->plan keeps the plan that is saved. */
SL_MUST_CHECK sl_err sl_job_shard(struct sl_job_work *work);
/* layout_given.c. Sets work->pipe.row to the row of the job's schedule. A schedule from a file sets
 * those of the stages (unless a plan does), micro-batches, policy and slack that the job leaves
 * open. */
SL_MUST_CHECK sl_err sl_job_given_open(struct sl_job_work *work, bool planned);
/* Sets the workers of `spec` from the schedule. */
struct sl_model_plan_spec;
SL_MUST_CHECK sl_err sl_job_given_place(struct sl_arena *arena, const struct sl_job *job,
                                        const struct sl_sched *given,
                                        struct sl_model_plan_spec *spec);
/* Called when the plan is known: turns a schedule from a module into one from a file; `schedule`
 * becomes "schedule.sched", the copy in the run directory. */
SL_MUST_CHECK sl_err sl_job_given_keep(struct sl_job_work *work);
/* init.c. Lets the parameters and states of the graph start from the weights at `path`
 * (ckpt/weights.h). Refuses missing, unused and misshaped tensors, unless `partial`. */
struct sl_graph;
SL_MUST_CHECK sl_err sl_job_init_attach(struct sl_graph *graph, const char *path, bool partial);
/* run_dir.c. Opens the evaluation graph of a run or of a Hugging Face folder, and initialises the
 * job that evaluates it. Only the graph of a folder has its weights. */
SL_MUST_CHECK sl_err sl_job_eval_graph(const struct sl_job *given, const char *run,
                                       const struct sl_job_host *host, struct sl_job *job,
                                       struct sl_graph **eval);
/* forecast.c. Makes work->forecast from the job's cost file. */
SL_MUST_CHECK sl_err sl_job_forecast_make(struct sl_job_work *work);
/* open.c. Sets a text field that the job leaves open; it counts as given from now on. */
void sl_job_resolve(struct sl_job *job, const char *key, const char *value);

/* resume.c. The texts of the run that a job resumes. */
struct sl_job_stored {
    /* contents of these files; NULL: there is no such file */
    const char *config, *model, *plan, *sched;
    bool has_checkpoint; /* false: there is nothing that must continue exactly */
    bool use_model;      /* read the graph from `model`, because neither name nor sizes are given */
    bool use_plan;       /* read the plan from `plan`, because no layout is given */
    bool use_sched;      /* read the schedule from `sched`, because no other one is given */
    struct sl_job job;
};

/* Reads the run that work->job resumes. The job's fields become those of the run, except the given
 * ones. If there is no such run, the job and work->stored do not change. */
SL_MUST_CHECK sl_err sl_job_remember(struct sl_job_work *work, const struct sl_job_host *host);
/* Called when everything is resolved: lists the differences to the stored run, and refuses those
 * that break exactness unless the job allows them. */
SL_MUST_CHECK sl_err sl_job_compare_stored(struct sl_job_work *work);

#endif
