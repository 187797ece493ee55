/* What a planner is asked: units of a model, tensors between them, times on every kind of device, a
 * machine and a batch.
 *
 *     unit u --tensor--> unit v        a unit is a group of nodes that no stage border may part
 *        \----------------> unit w     (sl_pass_glue); a tensor is sent once to every stage that
 *                                      reads it, and its gradient comes back
 *
 * Everything a planner knows is in here, so that planners can be compared and small problems can be
 * made up by tests. All times are whole nanoseconds of one micro-batch.
 */
#ifndef SL_SEARCH_PROBLEM_H
#define SL_SEARCH_PROBLEM_H

#include "cost/cost.h"
#include "cost/machine.h"
#include "graph/graph.h"
#include "graph/ideals.h"
#include "optim/optim.h"

struct sl_unit {
    const char *name; /* scope of its first node, for people */
    const int *nodes; /* of the graph, ascending; NULL without a graph */
    int node_count;
    int64_t params, grads, state; /* bytes */
    double stash;                 /* bytes per sample that F leaves for the backward pass */
    double work;                  /* bytes per sample of scratch */
    bool reads_data;
};

struct sl_tensor {
    int from;
    const int *to; /* [to_count] ascending units, not `from` */
    int to_count;
    int64_t sample_bytes;
    bool whole; /* its first size is not the batch: all its ends need one micro-batch size */
};

struct sl_unit_tie { /* units that read one parameter */
    const char *name;
    const int *units; /* ascending */
    int count;
    int64_t bytes;
};

struct sl_unit_time {
    int64_t f, i, w, step; /* step: optimizer, once per iteration */
};

/* What stale weights cost, as the user states it: with this schedule so many times the tokens are
 * needed for the same loss. At least 1. */
struct sl_staleness_cost {
    const char *schedule;
    double tokens;
};

/* Zero is the usual one. */
enum sl_recompute { SL_RECOMPUTE_MAY, SL_RECOMPUTE_NEVER, SL_RECOMPUTE_ALWAYS };

struct sl_problem {
    const char *model;
    int graph_nodes; /* forward nodes; 0: no graph */
    const struct sl_unit *units;
    int unit_count;
    const struct sl_tensor *tensors;
    int tensor_count;
    const struct sl_unit_tie *ties;
    int tie_count;
    struct sl_dag dag; /* of units */
    const struct sl_machine *machine;
    const int64_t *memory; /* [device] bytes that may be used */
    int64_t batch;
    const int64_t *sizes; /* [size_count] micro-batch sizes to try, ascending, divisors of batch */
    int size_count;
    const struct sl_unit_time *times; /* [size][kind][unit]; see sl_problem_time */
    bool estimated;                   /* roofline; else measured */
    int64_t action_ns;                /* of every pass, beside its kernels */
    double again;                     /* a forward pass computed again, of the first; 0: as long */
    struct sl_cold cold;              /* of a pass that its worker has waited for */
    struct sl_tempo tempo;            /* of the workers; for forecasts, not for searches */
    double version_bytes_per_s;       /* of steps that make a new version; 0: as other steps */
    double copy_bytes_per_s;          /* both ends of a message copy it themselves; 0: links do */
    bool straight;                    /* no replicas */
    enum sl_recompute recompute;      /* which stages may */
    const struct sl_staleness_cost *staleness;
    int staleness_count;
    const char *precision;
};

/* A forward pass of f that is computed again. */
static inline int64_t sl_recompute_ns(const struct sl_problem *p, int64_t f) {
    return p->again > 0 ? (int64_t)((double)f * p->again) : f;
}

static inline const struct sl_unit_time *sl_problem_times(const struct sl_problem *p, int size,
                                                          int kind) {
    return p->times + ((int64_t)size * p->machine->kind_count + kind) * p->unit_count;
}

/* How numbers are held: bytes of an activation, and per parameter of weights, gradients, and
 * whatever the optimizer keeps beside its own tensors. */
struct sl_precision {
    const char *name, *brief;
    enum sl_math math;
    int element, weight, grad, extra;
};
extern const struct sl_precision sl_search_precisions[];
extern const int sl_search_precision_count;
const struct sl_precision *sl_search_precision_find(const char *name);

struct sl_problem_spec {
    const struct sl_graph *graph;         /* differentiated */
    bool (*has_kernel)(const char *name); /* of the device: what is fused */
    const struct sl_machine *machine;
    const struct sl_cost *cost;           /* NULL: a roofline estimate */
    const struct sl_optim *optim;         /* NULL: sgd */
    const struct sl_precision *precision; /* NULL: fp32 */
    int64_t batch;
    int64_t micro_size; /* 0: try several */
    int64_t memory;     /* limit per device, instead of the machine's; 0: the machine's */
    bool straight;
    bool whole_layers; /* cut between repeated blocks only (graph/blocks.h) */
    enum sl_recompute recompute;
    const struct sl_staleness_cost *staleness; /* kept, not copied */
    int staleness_count;
};

/* 1 where nothing is said. */
double sl_search_problem_tokens(const struct sl_problem *problem, const char *schedule);

SL_MUST_CHECK sl_err sl_search_problem_build(struct sl_arena *arena,
                                             const struct sl_problem_spec *spec,
                                             const struct sl_problem **out);
/* Fills dag from the tensors and checks ranges; for problems that tests make up. */
void sl_search_problem_finish(struct sl_arena *arena, struct sl_problem *problem);

#endif
