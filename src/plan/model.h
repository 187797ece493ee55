/* A plan for a model: from a list that says which stage has which node, to a checked plan with
 * exact bytes. */
#ifndef SL_PLAN_MODEL_H
#define SL_PLAN_MODEL_H

#include "graph/graph.h"
#include "optim/policy.h"
#include "pass/program.h"
#include "plan/plan.h"

struct sl_model_plan_spec {
    const struct sl_graph *graph; /* the differentiated graph */
    const int *stage_of;          /* [forward nodes] stage of each */
    int stage_count;
    int64_t micro_size; /* samples of a micro-batch */
    bool split, recompute;
    /* shards per stage: stages s*parts .. s*parts + parts-1 are the shards of one; 0: 1 */
    int parts;
    /* [stage_count] does the stage recompute? NULL: `recompute` for all */
    const bool *recompute_of;
    const struct sl_optim *optim;
    /* policy, which may keep a tensor per parameter; NULL: none */
    const struct sl_policy_use *policy;
    int worker_count;
    /* [stage_count] worker of each stage; the next two instead if stages have replicas */
    const int *worker_of;
    const int *width_of;          /* [stage_count] NULL: one replica each */
    const int *const *workers_of; /* [stage_count][width] worker of each replica */
    const int64_t *micro_of; /* [stage_count] micro-batch size of each stage; NULL: micro_size */
    const bool *zero1_of;    /* [stage_count] do replicas divide the state? NULL: none do */
    /* Functions of the device, for the bytes; extra_bytes may be NULL. */
    bool (*has_kernel)(const char *name);
    int64_t (*extra_bytes)(const struct sl_program *program, int threads);
    int threads;
    enum sl_dtype dtype; /* type of activations, for the bytes */
};

SL_MUST_CHECK sl_err sl_plan_from_model(struct sl_arena *arena,
                                        const struct sl_model_plan_spec *spec,
                                        const struct sl_plan **out);

/* Cuts the forward nodes, in graph order, into `stages` runs of nearly equal flops (forward and
 * backward), never between fused nodes. Refuses more stages than there are nodes with weights. */
SL_MUST_CHECK sl_err sl_plan_cut_even(const struct sl_graph *graph,
                                      bool (*has_kernel)(const char *name), int stages,
                                      int *stage_of);

/* Cuts along the parallel branches of the model: one stage before them, one per branch, one after
 * them. Then halves the costliest stages until there are `stages` of them (0: does not halve).
 * *count becomes the number of stages. */
SL_MUST_CHECK sl_err sl_plan_cut_branches(const struct sl_graph *graph,
                                          bool (*has_kernel)(const char *name), int stages,
                                          int *stage_of, int *count);

/* Places stages on fewer workers: the costliest first, each on the worker with the least load. */
void sl_plan_spread(const struct sl_graph *graph, const int *stage_of, int stages, int workers,
                    int *worker_of);

/* Fills stage_of for every forward node, from a plan that lists nodes. */
SL_MUST_CHECK sl_err sl_plan_stage_of(const struct sl_plan *plan, const struct sl_graph *graph,
                                      int *stage_of);

#endif
