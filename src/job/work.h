/* An opened job: model, data, devices, plan and schedule options, each read or built once.
 *
 *   sl_job ──sl_job_open──> sl_job_work ──sl_job_train──> sl_job_outcome, run directory
 *                                       ──sl_pipe_check──> report
 *          ──sl_job_eval_open──> sl_job_eval: weights of a run directory, to evaluate or sample
 *
 * Opening decides what the job leaves open and records it in work->job, so that config.json
 * shows every value that the run used:
 *
 *   batch, schedule   the plan's, if the job gives none
 *   slack             the schedule's default, if memory and staleness allow it (sl_schedules_row_slack)
 *   lr                the optimizer's usual one
 *   loss_scale        dynamic for fp16, else none
 *   sizes             all sizes of the model
 *   plan              "plan.plan": the copy in the run directory
 *
 * A job that resumes a run starts from the fields of the run; fields that the job gives replace them
 * and are listed in work->differences. A difference after which the run would not continue with the
 * same bits (sl_job_field.change) is refused unless the job sets `allow_change`. Another graph is
 * always refused. */
#ifndef SL_JOB_WORK_H
#define SL_JOB_WORK_H

#include "job/job.h"
#include "pipe/pipe.h"
#include "report/forecast.h"
#include "run/session.h"

/* What the process provides to a job. Any field may be NULL. */
struct sl_job_host {
    const char *const *model_dirs;       /* search path of models by name; ends with NULL */
    const struct sl_graph *graph;        /* differentiated graph, used instead of reading `model` */
    const char *model_text;              /* flat model text, used instead of reading `model` */
    const struct sl_data_provider *data; /* used instead of reading `data` */
    const struct sl_grad_watch *grads;   /* sees the gradients of every step */
    bool evaluates;                      /* at any time: read the evaluation graph */
    bool embeddings;                     /* sl_job_eval_open: an output of this name */
    const struct sl_plan *plan;          /* used instead of reading `plan` */
    const char *run;      /* has the categories of the data; NULL: `out` if resumed */
    struct sl_comm *comm; /* ranks; NULL: one process */
};

/* A field in which a resumed job differs from its run, with both values as in config.json. */
struct sl_job_difference {
    const struct sl_job_field *field;
    const char *was, *now;
    bool breaks; /* the change breaks exactness */
};

struct sl_job_stored; /* the run that the job resumes */

/* Do not move or copy it, because its parts point to each other. */
struct sl_job_work {
    struct sl_job job; /* the job with all fields resolved */
    struct sl_arena arena;
    const struct sl_graph *graph;
    struct sl_graph *own_graph, *eval_graph; /* eval_graph: only if the job evaluates */
    struct sl_data *data;
    const char *categories; /* file of the run with those of the data; NULL: none */
    struct sl_ahead *ahead;
    struct sl_train_config train;
    struct sl_pipe_config pipe; /* pipe.plan is NULL for one worker */
    const struct sl_plan *plan; /* pipe.plan before its expansion; NULL: one worker */
    struct sl_graph *shard_graph, *shard_eval_graph; /* tp > 1: the graphs that `train` uses */
    struct sl_forecast forecast;
    /* [stages] mean number of steps by which weights are old: with global steps, and as published;
     * NULL: there is no difference */
    const double *delays, *published;
    struct sl_job_stored *stored;          /* the run that the job resumes; NULL: none */
    struct sl_job_difference *differences; /* differences to that run */
    int difference_count;
    int64_t start_bytes; /* memory of the process before anything was opened */
};

/* Checks the job (sl_job_check), opens what it names and builds its plan. Copies the job. Close
 * `out` even after an error. */
SL_MUST_CHECK sl_err sl_job_open(const struct sl_job *job, const struct sl_job_host *host,
                                 struct sl_job_work *out);
void sl_job_close(struct sl_job_work *work);
/* Of a pipeline with shards: the graph of all of them for one worker, the reference of a check. Close it
 * with sl_graph_close. */
SL_MUST_CHECK sl_err sl_job_shard_together(struct sl_job_work *work, struct sl_graph **out);

/* Compares program, model, data and plan of all ranks; every rank calls. SL_ERR_PEER or
 * SL_ERR_USAGE if they differ, or if there are more ranks than workers. One process: SL_OK. */
SL_MUST_CHECK sl_err sl_job_agree(const struct sl_job_work *work);

/* Finds a device by name; SL_ERR_USAGE with the nearest name. The device may be missing on this
 * machine. */
SL_MUST_CHECK sl_err sl_job_device_find(const char *name, const struct sl_device_row **out);

/* The items of a job: tokens if the first loss counts items of an input, else samples. */
struct sl_job_items {
    const char *name;
    int64_t per_sample;
};
struct sl_job_items sl_job_items(const struct sl_graph *graph);

/* Returns the flops per second that the devices in use can reach; 0: unknown. On a CPU it measures
 * them, for about 30 ms. */
double sl_job_peak_flops(const struct sl_job_work *work);

/* ---- run directories ---- */

/* Sets the job's fields from RUN/config.json. A pipeline without `stages` uses RUN/plan.plan. */
SL_MUST_CHECK sl_err sl_job_read_run(struct sl_job *job, const char *run);

/* The newest weights of a run, or those of a Hugging Face folder, on one worker. `job`: fields that
 * replace those of the run. `samples` per micro-batch; 0: as in the run. Close `out` even after an
 * error. */
struct sl_job_eval {
    struct sl_job_work work;
    struct sl_train *train; /* runs only forward passes */
};
SL_MUST_CHECK sl_err sl_job_eval_open(const struct sl_job *job, const char *run, int64_t samples,
                                      struct sl_job_eval *out);
/* The same with data that the host provides; the host's graph is ignored. */
SL_MUST_CHECK sl_err sl_job_eval_open_on(const struct sl_job *job, const char *run, int64_t samples,
                                         const struct sl_job_host *host, struct sl_job_eval *out);
void sl_job_eval_close(struct sl_job_eval *eval);

/* predict.c. Adds an output `embeddings`: the values that the last matrix product before `logits`
 * reads. SL_ERR_REFUSED: there is no such product. */
SL_MUST_CHECK sl_err sl_job_add_embeddings(struct sl_graph *graph);

#endif
