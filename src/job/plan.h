/* Planning requests: what to plan for, with the defaults that every caller gets.
 *
 *     sl_job_plan_request --sl_job_plan-->  machine, costs, problem, search  -> struct sl_job_planned
 *     sl_job_peer_request --sl_job_plan_peer-> graph of another planner, its cost model -> its plan
 *
 * The command `sluice plan`, the C interface and studies fill a request; zero and NULL fields take
 * the default in brackets. Results live in the arena of the call.
 */
#ifndef SL_JOB_PLAN_H
#define SL_JOB_PLAN_H

#include "report/peer_plan.h"
#include "report/search.h"

/* `tp` is open, for sl_sizing_plan; else it counts as 1. */
enum { SL_JOB_TP_SEARCH = -1 };

struct sl_job_plan_request {
    const struct sl_graph *graph;           /* differentiated */
    const char *machine;                    /* name, file, "here" or "2x4:mem=16G,..." [here] */
    const struct sl_machine *given_machine; /* instead of `machine`; or NULL */
    const char *cost_file;                  /* X.cost of 'sluice profile' [roofline estimate] */
    const char *planner;                    /* [sluice] */
    const char *schedule;                   /* [auto: the best synchronous schedule] */
    const char *staleness_cost; /* "2bw=1.2,stash=1.05": try these; factor on tokens [none] */
    const char *dtype;          /* fp32, fp16, bf16 [fp32] */
    const char *optimizer;      /* [adamw] */
    const char *recompute;      /* auto, none, all [auto] */
    int64_t batch;              /* samples per optimizer step [64] */
    int64_t micros;             /* micro-batches per batch [the best number] */
    const int64_t *sizes;       /* [size_count] micro-batch sizes to plan with [by micros] */
    int size_count;
    int64_t micro_size;   /* samples of a micro-batch, instead of `micros` */
    int64_t tp;           /* shards of a stage, or SL_JOB_TP_SEARCH [1] */
    int64_t dp;           /* replicas of every stage [the best numbers] */
    int64_t pp;           /* workers in a pipeline [the best number] */
    bool zero1;           /* replicas divide the optimizer state */
    int64_t devices;      /* the first so many of the machine [all] */
    int64_t memory_bytes; /* per device [the machine's] */
    int threads;          /* of the search [all cores] */
    double time_limit_s;  /* return the best plan found until then [no limit] */
    bool straight;        /* no replicas */
    bool uniform;         /* stages with equal replicas and recomputation only */
    bool whole_layers;    /* cut between repeated blocks only */
    bool what_if;         /* search better machines too, if the search was quick */
    /* Called by the searching thread; NULL: never. until_ns: deadline by sl_clock_ns, or 0. */
    void (*progress)(void *ctx, const char *phase, const struct sl_search_result *so_far,
                     int64_t until_ns);
    void *progress_ctx;
};

struct sl_job_planned {
    struct sl_search_spec spec;
    struct sl_search search; /* search.plan is the plan */
    struct sl_graph *shard;  /* with `tp`: the graph of one shard, of spec.graph */
};

void sl_job_planned_close(struct sl_job_planned *planned);

/* SL_ERR_USAGE: a field is wrong; SL_ERR_REFUSED: nothing fits, and the message says what would. */
SL_MUST_CHECK sl_err sl_job_plan(struct sl_arena *arena, const struct sl_job_plan_request *request,
                                 struct sl_job_planned *out);

/* A graph imported from another planner. */
struct sl_job_peer_request {
    const char *file;
    const char *cost_model; /* name of sl_peers_cost_models [that of the file's format] */
    const char *planner;    /* even, sluice [sluice] */
    const char *levels;     /* "8,2": devices per host, hosts, ... [one level] */
    const char *bandwidths; /* "30GB/s,3GB/s": one per level [the file's, or 1 GB/s] */
    int64_t devices;        /* [the file's] */
    int64_t micros;         /* [the file's, or 1] */
    int64_t cpus;           /* -1: the file's */
    int64_t memory_bytes;   /* -1: the file's; 0: no limit */
    double time_limit_s;    /* [no limit] */
    bool straight, all_devices, free_links, scattered; /* as in struct sl_peers_query */
};

SL_MUST_CHECK sl_err sl_job_plan_peer(struct sl_arena *arena,
                                      const struct sl_job_peer_request *request,
                                      struct sl_report_peer_plan *out);

#endif
