/* A planning problem: units of a model, tensors between them, times on every kind of device, a
 * machine and a batch.
 *
 *     unit u --tensor--> unit v        A unit is a group of nodes that no stage border may cut
 *        \----------------> unit w     (sl_pass_units). A tensor is sent once to every stage that
 *                                      reads it, and its gradient comes back.
 *
 * Planners read nothing else, so they can be compared, and tests can invent small problems. Times
 * are whole nanoseconds of one micro-batch.
 */
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
    const int *nodes; /* of the graph, ascending; NULL without a graph */
    int node_count;
    int block; /* equal for the units of a repeated block of the model; -1: in none */
    int64_t params, fixed, grads, state; /* bytes; fixed: frozen weights */
    bool back, trains;                   /* computes gradients; of parameters */
    double stash;                        /* bytes per sample from F to the backward pass */
    double work;                         /* bytes per sample of workspace */
    bool reads_data;
    const struct sl_collective *collectives; /* between shards, in the order of the unit's nodes */
    int collective_count;
};

struct sl_search_tensor {
    int from;
    const int *to; /* [to_count] ascending units, not `from` */
    int to_count;
    int64_t sample_bytes;
    bool whole; /* no leading batch dimension: all its ends need one micro-batch size */
};

struct sl_unit_tie { /* units that share a parameter */
    const char *name;
    const int *units; /* ascending */
    int count;
    int64_t bytes;
};

struct sl_unit_time {
    int64_t f, i, w, step; /* ns; step: optimizer, once per iteration */
};

/* The price of stale weights, given by the user: the schedule needs `tokens` times the tokens for
 * the same loss. At least 1. */
struct sl_staleness_cost {
    const char *schedule;
    double tokens;
};

/* Which stages may recompute. */
enum sl_recompute { SL_RECOMPUTE_MAY, SL_RECOMPUTE_NEVER, SL_RECOMPUTE_ALWAYS };

struct sl_problem {
    const char *model;
    int graph_nodes;        /* forward nodes; 0: no graph */
    uint64_t graph_hash;    /* sl_plan.graph */
    const char *sizes_text; /* sl_plan.sizes */
    const struct sl_unit *units;
    int unit_count;
    const struct sl_search_tensor *tensors;
    int tensor_count;
    const struct sl_unit_tie *ties;
    int tie_count;
    struct sl_dag dag; /* of units */
    const struct sl_machine *machine;
    const int64_t *memory; /* [device] bytes; 0: no limit */
    int64_t batch;
    const int64_t *sizes; /* [size_count] micro-batch sizes to try, ascending, divisors of batch */
    int size_count;
    const struct sl_unit_time *times; /* [size][kind][unit]; see sl_search_problem_times */
    bool estimated;                   /* roofline; else measured */
    int64_t action_ns;                /* overhead of every pass */
    double recompute_ratio;           /* time of a recomputation / forward pass; 0: 1 */
    struct sl_cold cold;              /* cost/cold.h */
    struct sl_tempo tempo;            /* cost/tempo.h; for forecasts only */
    double version_bytes_per_s;       /* of steps that write a new version; 0: as other steps */
    double copy_bytes_per_s;          /* workers copy messages at this rate; 0: links move them */
    const struct sl_cost *cost;       /* measured times; NULL: a roofline */
    bool freezes;                     /* some parameter is frozen */
    bool straight;                    /* no replicas */
    int shards;                       /* t: each device of `machine` is a team of t; 0: 1 */
    struct sl_team_link team;         /* inside of a team; shards > 1 */
    bool zero1;                       /* replicas divide the optimizer state */
    const int *whole_of; /* [forward nodes of a shard's graph] node of the model; NULL */
    enum sl_recompute recompute;
    const struct sl_staleness_cost *staleness;
    int staleness_count;
    const char *precision;
    bool exact_bytes; /* stage programs have this precision: their bytes are exact */
};

/* Time of a recomputation of a forward pass that takes f. */
static inline int64_t sl_search_recompute_ns(const struct sl_problem *p, int64_t f) {
    return p->recompute_ratio > 0 ? (int64_t)((double)f * p->recompute_ratio) : f;
}

static inline int sl_search_problem_shards(const struct sl_problem *p) {
    return p->shards ? p->shards : 1;
}

/* Time of an all-reduce of a tensor over the shards: a ring, in which every device sends its parts of the
 * sum and of the result to its neighbour. */
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

/* Bytes of an element of an activation, and per parameter of weights, gradients and the extra
 * copies that the optimizer keeps. */
struct sl_precision {
    const char *name, *brief;
    enum sl_math math;
    int element, weight, grad, extra;
    bool exact_bytes; /* stage programs have this precision: their bytes are exact */
};
extern const struct sl_precision sl_search_precisions[];
extern const int sl_search_precision_count;
const struct sl_precision *sl_search_precision_find(const char *name);

/* Tensor parallelism: the graph of the problem is that of one shard (SL_SHARD_ALONE). */
struct sl_problem_shards {
    int count;
    const struct sl_graph *whole; /* of which `graph` is a shard; plans name its nodes */
    const int *whole_of;          /* [forward nodes of the shard] node of `whole` */
    struct sl_team_link link;
};

struct sl_problem_spec {
    const struct sl_graph *graph;           /* differentiated */
    const struct sl_problem_shards *shards; /* NULL: no tensor parallelism */
    bool zero1;
    bool (*has_kernel)(const char *name); /* of the device: decides what is fused */
    const struct sl_machine *machine;
    const struct sl_cost *cost;           /* NULL: a roofline estimate */
    const struct sl_optim *optim;         /* NULL: sgd */
    const struct sl_precision *precision; /* NULL: fp32 */
    int64_t batch;
    int64_t micro_size;   /* 0: try several */
    const int64_t *sizes; /* [size_count] micro-batch sizes; NULL: from micro_size */
    int size_count;
    int64_t memory; /* limit per device; 0: the machine's */
    bool straight;
    bool whole_layers; /* cut between repeated blocks only (graph/blocks.h) */
    enum sl_recompute recompute;
    const struct sl_staleness_cost *staleness; /* the problem keeps the pointer */
    int staleness_count;
};

/* Tokens of sl_staleness_cost; 1 if the schedule has none. */
double sl_search_problem_tokens(const struct sl_problem *problem, const char *schedule);

SL_MUST_CHECK sl_err sl_search_problem_build(struct sl_arena *arena,
                                             const struct sl_problem_spec *spec,
                                             const struct sl_problem **out);
/* Fills `dag` from the tensors; for problems that tests invent. */
void sl_search_problem_finish(struct sl_arena *arena, struct sl_problem *problem);

#endif
