/* A plan for a model: from "which stage has which node" to a checked plan with exact bytes. */
#ifndef SL_PLAN_MODEL_H
#define SL_PLAN_MODEL_H

#include "graph/graph.h"
#include "optim/policy.h"
#include "pass/program.h"
#include "plan/plan.h"

struct sl_model_plan_spec {
    const struct sl_graph *graph; /* differentiated */
    const int *stage_of;          /* [forward nodes] */
    int stage_count;
    int64_t micro_size; /* samples */
    bool split, recompute;
    int parts; /* stages s*parts .. s*parts + parts-1 are the shards of one stage; 0: 1 */
    const bool *recompute_of; /* [stage_count] NULL: recompute */
    const struct sl_optim *optim;
    const struct sl_policy_use *policy; /* may keep a tensor per parameter; NULL: none */
    int worker_count;
    const int *worker_of;         /* [stage_count]; or, for stages with replicas: */
    const int *width_of;          /* [stage_count] NULL: one each */
    const int *const *workers_of; /* [stage_count][width] */
    const int64_t *micro_of;      /* [stage_count] own micro-batch sizes, NULL: micro_size */
    /* Of the device, for the bytes; extra_bytes may be NULL. */
    bool (*has_kernel)(const char *name);
    int64_t (*extra_bytes)(const struct sl_program *program, int threads);
    int threads;
    enum sl_dtype dtype; /* of activations, for the bytes */
};

SL_MUST_CHECK sl_err sl_plan_from_model(struct sl_arena *arena,
                                        const struct sl_model_plan_spec *spec,
                                        const struct sl_plan **out);

/* Cuts the forward nodes, in graph order, into `stages` runs of nearly equal flops (forward and
 * backward), never inside a fused pair. Refuses more stages than nodes with weights. */
SL_MUST_CHECK sl_err sl_plan_cut_even(const struct sl_graph *graph,
                                      bool (*has_kernel)(const char *name), int stages,
                                      int *stage_of);

/* Cuts along the parallel branches of the model: one stage before them, one per branch, one after
 * them. Then halves the costliest stages until there are `stages` (0: none). *count: the number of
 * stages. */
SL_MUST_CHECK sl_err sl_plan_cut_branches(const struct sl_graph *graph,
                                          bool (*has_kernel)(const char *name), int stages,
                                          int *stage_of, int *count);

/* Puts stages on fewer workers: the costliest first, each on the least loaded worker. */
void sl_plan_spread(const struct sl_graph *graph, const int *stage_of, int stages, int workers,
                    int *worker_of);

/* The stage of every forward node according to a plan that has nodes. */
SL_MUST_CHECK sl_err sl_plan_stage_of(const struct sl_plan *plan, const struct sl_graph *graph,
                                      int *stage_of);

#endif
