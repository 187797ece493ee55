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

/* The value of `tp` that leaves it open, for sl_sizing_plan; elsewhere it counts as 1. */
enum { SL_JOB_TP_SEARCH = -1 };

struct sl_job_plan_request {
    const struct sl_graph *graph;           /* the differentiated graph */
    const char *machine;                    /* name, file, "here" or "2x4:mem=16G,..." [here] */
    const struct sl_machine *given_machine; /* used instead of `machine`; or NULL */
    const char *cost_file;                  /* X.cost of 'sluice profile' [roofline estimate] */
    const char *planner;                    /* [sluice] */
    const char *schedule;                   /* [auto: the best synchronous schedule] */
    /* "2bw=1.2,stash=1.05": try these too, with their factor on tokens [none] */
    const char *staleness_cost;
    const char *dtype;     /* fp32, fp16, bf16 [fp32] */
    const char *optimizer; /* [adamw] */
    const char *recompute; /* auto, none, all [auto] */
    int64_t batch;         /* samples per optimizer step [64] */
    int64_t micros;        /* micro-batches per batch [the best number] */
    const int64_t *sizes;  /* [size_count] micro-batch sizes to plan with [from micros] */
    int size_count;
    int64_t micro_size;   /* samples of a micro-batch; used instead of `micros` */
    int64_t tp;           /* shards of a stage, or SL_JOB_TP_SEARCH [1] */
    int64_t dp;           /* replicas of every stage [the best numbers] */
    int64_t pp;           /* workers in a pipeline [the best number] */
    bool zero1;           /* replicas divide the optimizer state */
    bool no_zero1;        /* they do not, also where that would be faster or needed to fit */
    int64_t devices;      /* use only this many devices of the machine [all] */
    int64_t memory_bytes; /* per device [the machine's] */
    int threads;          /* threads of the search [all cores] */
    double time_limit_s;  /* return the best plan found in this time [no limit] */
    bool straight;        /* no replicas */
    bool uniform;         /* stages with equal replicas and recomputation only */
    bool whole_layers;    /* cut between repeated blocks only */
    bool what_if;         /* also search for better machines, if the search was quick */
    /* Called by the thread that searches; NULL: never. until_ns: deadline by sl_clock_ns, or 0. */
    void (*progress)(void *ctx, const char *phase, const struct sl_search_result *so_far,
                     int64_t until_ns);
    void *progress_ctx;
};

struct sl_job_planned {
    struct sl_search_spec spec;
    struct sl_search search; /* search.plan is the resulting plan */
    struct sl_graph *shard;  /* with `tp`: the graph of one shard of the request's graph */
};

void sl_job_planned_close(struct sl_job_planned *planned);

/* SL_ERR_USAGE: a field is wrong. SL_ERR_REFUSED: nothing fits; the message says what would. */
SL_MUST_CHECK sl_err sl_job_plan(struct sl_arena *arena, const struct sl_job_plan_request *request,
                                 struct sl_job_planned *out);

/* A request to plan a graph imported from another planner. */
struct sl_job_peer_request {
    const char *file;
    const char *cost_model; /* name in sl_peers_cost_models [that of the file's format] */
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
