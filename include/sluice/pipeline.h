/* A pipeline: where the stages are (plan), when everything happens (schedule), how long it takes.
 *
 *     open: plan a net | chain | dag | read a file
 *       -> schedule (generate, lower, verify)  or, of a file with a schedule, verify
 *       -> simulate -> stat, text -> close
 *
 * Texts are the formats of the program (docs/formats-sched.md): what one writes the other reads.
 */
#ifndef SLUICE_PIPELINE_H
#define SLUICE_PIPELINE_H

#include "sluice/net.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sl_pipeline;

/* What to plan for; zeros and NULLs are what the program takes by default. */
struct sl_plan_request {
    const char *machine;   /* a name, a .machine file, "2x4:mem=16G,..."; NULL: "here" */
    const char *planner;   /* 'sluice list planners' */
    const char *schedule;  /* NULL: the best synchronous one */
    const char *optimizer; /* "adamw" */
    const char *dtype;     /* "fp32", "fp16", "bf16" */
    int64_t batch;         /* samples per optimizer step, 64 */
    int64_t micros;        /* micro-batches they are cut into; 0: as is best */
    int64_t memory_bytes;  /* of a device; 0: the machine's */
    double seconds;        /* for the search; 0: no limit */
};

/* Cut a net (autodiff must have run) for a machine. SL_ERR_REFUSED when nothing fits; the message says
 * what would. */
sl_err sl_pipeline_plan(const struct sl_net *net, const struct sl_plan_request *request,
                        struct sl_pipeline **out);
/* Stages without a model: a chain, a stage for each worker; or a graph "a>b,a>c,b>d,c>d". */
sl_err sl_pipeline_chain(int stages, struct sl_pipeline **out);
sl_err sl_pipeline_dag(const char *edges, struct sl_pipeline **out);
/* A .plan, .sched or .csv (PyTorch's pipelining), by the ending of the name. Of a text in memory
 * the name is for messages and its ending. */
sl_err sl_pipeline_read(const char *file, struct sl_pipeline **out);
sl_err sl_pipeline_read_text(const char *name, const char *text, size_t length,
                             struct sl_pipeline **out);
void sl_pipeline_close(struct sl_pipeline *pipeline); /* NULL is allowed */

/* What passes cost: "F=3us,I=2us,W=2us", or per stage "a:F=3;b:F=5". Before schedule or verify; of
 * a planned net they are known. */
sl_err sl_pipeline_costs(struct sl_pipeline *pipeline, const char *costs);

/* Build a schedule of this name ('sluice list schedules') with so many micro-batches (0: those of
 * the plan) and iterations, and prove it. SL_ERR_REFUSED: outside of its domain, and why. */
sl_err sl_pipeline_schedule(struct sl_pipeline *pipeline, const char *schedule, int64_t micros,
                            int64_t iterations);
/* Prove the schedule that was read; a file of passes is lowered first. SL_ERR_REFUSED: it is wrong, and
 * the message is the shortest reason. */
sl_err sl_pipeline_verify(struct sl_pipeline *pipeline);

/* Play it, on links "latency=5us,bandwidth=10Gb/s" or NULL: messages take no time. */
sl_err sl_pipeline_simulate(struct sl_pipeline *pipeline, const char *links);

enum sl_pipeline_stat {
    SL_PIPELINE_STAGES,
    SL_PIPELINE_WORKERS,
    SL_PIPELINE_DEPTH,        /* stages on the longest path */
    SL_PIPELINE_ACTIONS,      /* of the schedule, not repeated */
    SL_PIPELINE_MEMORY_BYTES, /* that a worker allocates */
    SL_PIPELINE_STEP_NS,      /* simulated, as the rest */
    SL_PIPELINE_END_NS,
    SL_PIPELINE_BUSY_NS,    /* of a worker */
    SL_PIPELINE_BUBBLE,     /* idle part of a worker's time */
    SL_PIPELINE_PEAK_BYTES, /* of a worker */
};
/* `worker` counts from 0; for what is no worker's it is ignored. NAN when it is not known (yet). */
double sl_pipeline_stat(const struct sl_pipeline *pipeline, enum sl_pipeline_stat stat, int worker);

/* "plan", "sched", "csv"; after simulate also "grid", "svg", "html", "trace". Valid until the next
 * call with the same pipeline; NULL with a message when it cannot be written. */
const char *sl_pipeline_text(struct sl_pipeline *pipeline, const char *format);

#ifdef __cplusplus
}
#endif

#endif
