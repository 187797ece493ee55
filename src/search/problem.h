/* A planning problem: units of a model, tensors between them, times on every kind of device, a
 * machine and a batch.
 *
 *     unit u --tensor--> unit v        A unit is a group of nodes that no stage border may cut
 *        \----------------> unit w     (sl_pass_units). A tensor is sent once to every stage that
 *                                      reads it, and its gradient comes back.
 *
 * Planners read only the problem, so they can be compared, and tests can invent small problems.
 * Times are integers, in nanoseconds per micro-batch. */
#ifndef SL_SEARCH_PROBLEM_H
#define SL_SEARCH_PROBLEM_H

#include "cost/cost.h"
#include "cost/machine.h"
#include "graph/graph.h"
#include "graph/ideals.h"
#include "optim/optim.h"
#include "plan/plan.h"

struct sl_unit {
    const char *name; /* scope and op of its first node, for reports */
    const int *nodes; /* nodes of the graph, ascending; NULL without a graph */
    int node_count;
    int block; /* equal for the units of one repeated block of the model; -1: the unit is in none */
    int64_t params, fixed, grads, state; /* bytes; fixed: of frozen weights */
    bool back, trains; /* back: it computes gradients; trains: also of parameters */
    double stash;      /* bytes per sample that are kept from F to the backward pass */
    double work;       /* bytes per sample of workspace */
    bool reads_data;
    /* collectives between shards, in the order of the unit's nodes */
    const struct sl_collective *collectives;
    int collective_count;
};

struct sl_search_tensor {
    int from;
    const int *to; /* [to_count] units that read it, ascending, without `from` */
    int to_count;
    int64_t sample_bytes;
    bool whole; /* it has no leading batch dimension, so all its units need one micro-batch size */
};

struct sl_unit_tie { /* units that share a parameter */
    const char *name;
    const int *units; /* ascending */
    int count;
    int64_t bytes;
};

struct sl_unit_time {
    int64_t f, i, w, step; /* ns; step: optimizer step, once per iteration */
};

/* The price of stale weights, which the user states: with this schedule, training needs `tokens`
 * times as many tokens for the same loss. At least 1. */
struct sl_staleness_cost {
    const char *schedule;
    double tokens;
};

/* Which stages may recompute. */
enum sl_recompute { SL_RECOMPUTE_MAY, SL_RECOMPUTE_NEVER, SL_RECOMPUTE_ALWAYS };

struct sl_problem {
    const char *model;
    int graph_nodes;        /* number of forward nodes; 0: there is no graph */
    uint64_t graph_hash;    /* see sl_plan.graph */
    const char *sizes_text; /* see sl_plan.sizes */
    const struct sl_unit *units;
    int unit_count;
    const struct sl_search_tensor *tensors;
    int tensor_count;
    const struct sl_unit_tie *ties;
    int tie_count;
    struct sl_dag dag; /* the graph of units */
    const struct sl_machine *machine;
    const int64_t *memory; /* [device] bytes; 0: no limit */
    int64_t batch;
    const int64_t *sizes; /* [size_count] micro-batch sizes to try, ascending; divisors of batch */
    int size_count;
    const struct sl_unit_time *times; /* [size][kind][unit]; see sl_search_problem_times */
    bool estimated;                   /* times are from a roofline; false: measured */
    int64_t action_ns;                /* overhead of every pass */
    double recompute_ratio; /* time of a recomputation relative to the forward pass; 0: 1 */
    struct sl_cold cold;    /* cost/cold.h */
    struct sl_tempo tempo;  /* cost/tempo.h; used only for forecasts */
    /* rate of steps that write a new weight version; 0: the rate of other steps */
    double version_bytes_per_s;
    double copy_bytes_per_s;    /* rate at which workers copy messages; 0: links move them */
    const struct sl_cost *cost; /* measured times; NULL: times are from a roofline */
    bool freezes;               /* a parameter is frozen */
    bool straight;              /* plans must have no replicas */
    bool uniform;               /* all stages must have equal replicas, sizes and recomputation */
    int shards;                 /* t: each device of `machine` is a team of t devices; 0: 1 */
    struct sl_team_link team;   /* links inside a team, if shards > 1 */
    bool zero1;                 /* replicas divide the optimizer state among them */
    /* [forward nodes of a shard's graph] node of the whole model; NULL: no shards */
    const int *whole_of;
    enum sl_recompute recompute;
    const struct sl_staleness_cost *staleness;
    int staleness_count;
    const char *precision;
    /* stage programs have the precision of the problem, so their bytes are exact */
    bool exact_bytes;
};

/* Returns the time to recompute a forward pass that takes f. */
static inline int64_t sl_search_recompute_ns(const struct sl_problem *p, int64_t f) {
    return p->recompute_ratio > 0 ? (int64_t)((double)f * p->recompute_ratio) : f;
}

static inline int sl_search_problem_shards(const struct sl_problem *p) {
    return p->shards ? p->shards : 1;
}

/* Returns the time of an all-reduce of a tensor over the shards. It is a ring: every device sends
 * its parts of the sum, then of the result, to its neighbour. */
static inline double sl_search_collective_ns(const struct sl_problem *p, double bytes) {
    const struct sl_team_link *team = &p->team;
    double share = bytes / p->shards;
    return team->sum_bandwidth > 0
               ? (double)team->sum_latency_ns +
                     1e9 * 2.0 * (p->shards - 1) * share / team->sum_bandwidth
               : 2.0 * (p->shards - 1) * ((double)team->latency_ns + 1e9 * share / team->bandwidth);
}

static inline const struct sl_unit_time *sl_search_problem_times(const struct sl_problem *p,
                                                                 int size, int kind) {
    return p->times + ((int64_t)size * p->machine->kind_count + kind) * p->unit_count;
}

/* A precision: bytes per element of an activation, and bytes per parameter of weights, gradients
 * and the extra copies that the optimizer keeps. */
struct sl_precision {
    const char *name, *brief;
    enum sl_math math;
    int element, weight, grad, extra;
    bool exact_bytes; /* stage programs have this precision, so their bytes are exact */
};
extern const struct sl_precision sl_search_precisions[];
extern const int sl_search_precision_count;
const struct sl_precision *sl_search_precision_find(const char *name);

/* Tensor parallelism. The graph of the problem is that of one shard (SL_SHARD_ALONE). */
struct sl_problem_shards {
    int count;
    /* the whole model, whose nodes plans name; `graph` is a shard of it */
    const struct sl_graph *whole;
    const int *whole_of; /* [forward nodes of the shard] node of `whole` */
    struct sl_team_link link;
};

struct sl_problem_spec {
    const struct sl_graph *graph;           /* the differentiated graph */
    const struct sl_problem_shards *shards; /* NULL: no tensor parallelism */
    bool zero1;
    /* the device's kernel query, which decides what is fused */
    bool (*has_kernel)(const char *name);
    const struct sl_machine *machine;
    const struct sl_cost *cost;           /* NULL: a roofline estimate */
    const struct sl_optim *optim;         /* NULL: sgd */
    const struct sl_precision *precision; /* NULL: fp32 */
    int64_t batch;
    int64_t micro_size;   /* micro-batch size; 0: try several */
    const int64_t *sizes; /* [size_count] micro-batch sizes; NULL: use micro_size */
    int size_count;
    int64_t memory; /* limit per device; 0: that of the machine */
    bool straight, uniform;
    bool whole_layers; /* cut only between repeated blocks (graph/blocks.h) */
    enum sl_recompute recompute;
    const struct sl_staleness_cost *staleness; /* the problem points to these rows */
    int staleness_count;
};

/* Returns `tokens` of the schedule's sl_staleness_cost; 1 if it has none. */
double sl_search_problem_tokens(const struct sl_problem *problem, const char *schedule);

SL_MUST_CHECK sl_err sl_search_problem_build(struct sl_arena *arena,
                                             const struct sl_problem_spec *spec,
                                             const struct sl_problem **out);
/* Fills `dag` from the tensors; for tests that invent problems. */
void sl_search_problem_finish(struct sl_arena *arena, struct sl_problem *problem);

#endif
