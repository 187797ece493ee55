/* Requests to build, verify and simulate a schedule without training.
 *
 *     sl_job_sched_request -- sl_job_sched_plan -> plan -- sl_job_sched_opts -> options of a row
 *     sl_job_sim_request   -- sl_job_sim -> schedule, simulation, timeline
 *
 * The commands sched, sim, verify and report fill the requests, as studies do for simulated step
 * times. Zero and NULL fields take the default in brackets. */
#ifndef SL_JOB_SIM_H
#define SL_JOB_SIM_H

#include "report/sched.h"
#include "schedules/schedule.h"

struct sl_job_sched_request {
    /* exactly one of these is given: */
    const char *plan_file; /* X.plan */
    int64_t chain;         /* number of stages in a chain */
    const char *dag;       /* edges: "a>b,a>c,b>d,c>d" */

    const char *schedule;          /* name, X.sched or X.csv [the plan's] */
    const char *module;            /* X.so with its generator [none] */
    const struct sl_schedule *row; /* row of a file or module; sl_job_sched_open sets it */
    const char *policy;            /* staleness policy [none] */
    const char *costs;             /* "F=3,I=2,W=2", or per stage "a:F=3;b:F=1" [the plan's] */
    int64_t micros;                /* micro-batches per iteration [from batch] */
    int64_t batch;                 /* samples per iteration [the plan's] */
    int64_t last_batch;            /* samples of the last iteration [batch] */
    int64_t iters;                 /* [1] */
    int64_t group;                 /* k of kfkb and graph [1] */
    int64_t slack;                 /* micro-batches that may wait between stages [0] */
    int64_t ranks;                 /* workers [one per stage, or per chunk of stages] */
    int64_t chunks;                /* stages per worker of a chain [the layout's] */
    bool global_step;              /* asynchronous: one global norm and skip decision per step */
    bool tied;                     /* the first and the last stage share weights */
};

/* Opens the file or module of the schedule; call it before the two functions below. A file has its
 * own sketch of a plan, which is used if the request has no plan. */
SL_MUST_CHECK sl_err sl_job_sched_open(struct sl_arena *arena,
                                       struct sl_job_sched_request *request);
SL_MUST_CHECK sl_err sl_job_sched_plan(struct sl_arena *arena,
                                       const struct sl_job_sched_request *request,
                                       const struct sl_plan **out);
SL_MUST_CHECK sl_err sl_job_sched_opts(struct sl_arena *arena,
                                       const struct sl_job_sched_request *request,
                                       const struct sl_plan *plan, struct sl_schedule_opts *out);

/* Reads X.sched, or X.csv of PyTorch; for X.plan it generates the schedule that the plan names. The
 * result is neither lowered nor verified. */
SL_MUST_CHECK sl_err sl_job_sched_read(struct sl_arena *arena, const char *path,
                                       struct sl_sched **out);
/* Reads X.plan. */
SL_MUST_CHECK sl_err sl_job_plan_read(struct sl_arena *arena, const char *path,
                                      const struct sl_plan **out);

struct sl_job_sim_request {
    struct sl_job_sched_request sched; /* what to build if there is no file: */
    /* X.sched or X.csv. Of `sched` only the costs count, and `schedule`: another one for the plan and
     * the batch of the file. */
    const char *sched_file;
    const char *links; /* "latency=5us,bandwidth=10Gb/s" [messages take no time] */
    const char *cold;  /* "F=40us,B=90us,after=5ms" [none] */
    const char *send;  /* overlap, rendezvous, blocking [overlap] */
    bool picture;      /* also build the timeline */
};

/* Builds or reads a schedule, then lowers, verifies and simulates it. */
SL_MUST_CHECK sl_err sl_job_sim(struct sl_arena *arena, const struct sl_job_sim_request *request,
                                struct sl_report_sim *out);

#endif
