/* A pipeline: a plan (stages on workers), its schedule, and a simulation of the schedule.
 *
 *     open: plan a net | chain | dag | read a file
 *       -> schedule (generate, lower, verify), or verify the schedule of the file
 *       -> simulate -> stat, text -> close
 *
 * Texts use the formats of the program (docs/formats-sched.md).
 */
#ifndef SLUICE_PIPELINE_H
#define SLUICE_PIPELINE_H

#include "sluice/net.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sl_pipeline;

/* Input of sl_pipeline_plan. Set `size`; a field that is zero or NULL takes the default. Later
 * versions add fields at the end. */
struct sl_plan_request {
    size_t size;                /* sizeof(struct sl_plan_request) */
    const char *machine;        /* a name, a .machine file or "2x4:mem=16G,..."; default "here" */
    const char *planner;        /* a name that 'sluice list planners' shows */
    const char *schedule;       /* default: the fastest synchronous schedule */
    const char *optimizer;      /* default "adamw" */
    const char *dtype;          /* "fp32" (default), "fp16", "bf16" */
    int64_t batch;              /* samples per optimizer step; default 64 */
    int64_t micros;             /* micro-batches per step; default: the planner chooses */
    int64_t memory_bytes;       /* memory per device; default: what the machine states */
    double seconds;             /* time limit of the search; default: none */
    const char *cost;           /* X.cost file of 'sluice profile'; default: a roofline estimate */
    const char *recompute;      /* "auto" (default), "none", "all" */
    const char *staleness_cost; /* "2bw=1.2": also tries 2bw, which needs 1.2 times the tokens */
    int64_t devices;            /* uses only so many devices of the machine; default: all */
    int threads;                /* threads of the search; default: all cores */
    int straight;               /* not 0: no stage has replicas */
    int whole_layers;           /* not 0: cuts only between repeated blocks */
};

/* Plans a net for a machine; call it after sl_net_autodiff. SL_ERR_REFUSED: no plan fits the
 * memory; the message says how much memory would be enough. */
SL_API sl_err sl_pipeline_plan(const struct sl_net *net, const struct sl_plan_request *request,
                               struct sl_pipeline **out);
/* Creates a chain of stages without a model, one stage per worker. */
SL_API sl_err sl_pipeline_chain(int stages, struct sl_pipeline **out);
/* Creates a graph of stages without a model, for example "a>b,a>c,b>d,c>d". */
SL_API sl_err sl_pipeline_dag(const char *edges, struct sl_pipeline **out);
/* Reads a .plan file, a .sched file, or a .csv file of PyTorch's pipelining. */
SL_API sl_err sl_pipeline_read(const char *file, struct sl_pipeline **out);
/* Reads such a file from memory. The ending of `name` selects the format; messages contain it. */
SL_API sl_err sl_pipeline_read_text(const char *name, const char *text, size_t length,
                                    struct sl_pipeline **out);
SL_API void sl_pipeline_close(struct sl_pipeline *pipeline); /* NULL is allowed */

/* Sets durations of passes: "F=3us,I=2us,W=2us" for all stages, or "a:F=3;b:F=5" per stage. Call it
 * before schedule or verify. A planned net has durations already. */
SL_API sl_err sl_pipeline_costs(struct sl_pipeline *pipeline, const char *costs);

/* Generates a schedule ('sluice list schedules') and verifies it. schedule NULL and micros
 * 0 take the plan's. SL_ERR_REFUSED: this plan cannot have this schedule; the message says why. */
SL_API sl_err sl_pipeline_schedule(struct sl_pipeline *pipeline, const char *schedule,
                                   int64_t micros, int64_t iterations);
/* Verifies the schedule that was read. If it has passes only, the messages are added first.
 * SL_ERR_REFUSED: it is wrong; the message is the shortest counterexample. */
SL_API sl_err sl_pipeline_verify(struct sl_pipeline *pipeline);

/* Simulates the schedule. links, as "latency=5us,bandwidth=10Gb/s"; NULL: messages take no time. */
SL_API sl_err sl_pipeline_simulate(struct sl_pipeline *pipeline, const char *links);

enum sl_pipeline_stat {
    SL_PIPELINE_STAGES,
    SL_PIPELINE_WORKERS,
    SL_PIPELINE_DEPTH,        /* stages on the longest path */
    SL_PIPELINE_ACTIONS,      /* actions of the schedule; those of the repeated period count once */
    SL_PIPELINE_MEMORY_BYTES, /* bytes that a worker allocates */
    SL_PIPELINE_STEP_NS,      /* duration of a step; this and all below need sl_pipeline_simulate */
    SL_PIPELINE_END_NS,
    SL_PIPELINE_BUSY_NS,    /* time in which a worker computes */
    SL_PIPELINE_BUBBLE,     /* idle fraction of a worker's time */
    SL_PIPELINE_PEAK_BYTES, /* largest memory that a worker uses */
};
/* `worker` counts from 0 and is ignored by statistics of the whole pipeline. NAN: not known yet, or
 * no such worker. */
SL_API double sl_pipeline_stat(const struct sl_pipeline *pipeline, enum sl_pipeline_stat stat,
                               int worker);

/* Writes the pipeline as "plan", "sched" or "csv", and after simulate as "grid", "svg", "html" or
 * "trace". Valid until the next call with the same pipeline. NULL on an error. */
SL_API const char *sl_pipeline_text(struct sl_pipeline *pipeline, const char *format);

#ifdef __cplusplus
}
#endif

#endif
