/* A plan for a model: from "which stage has which node" to a checked plan with exact bytes. */
#ifndef SL_PLAN_MODEL_H
#define SL_PLAN_MODEL_H

#include "graph/graph.h"
#include "optim/optim.h"
#include "plan/plan.h"

struct sl_model_plan_spec {
    const struct sl_graph *graph; /* differentiated */
    const int *stage_of;          /* [forward nodes] */
    int stage_count;
    int64_t micro_size; /* samples */
    bool split, recompute;
    const struct sl_optim *optim;
    int worker_count;
    const int *worker_of;                 /* [stage_count] */
    bool (*has_kernel)(const char *name); /* of the device, for the bytes */
    enum sl_dtype dtype;                  /* of activations, for the bytes */
};

SL_MUST_CHECK sl_err sl_plan_from_model(struct sl_arena *arena,
                                        const struct sl_model_plan_spec *spec,
                                        const struct sl_plan **out);

/* Cut the forward nodes, in graph order, into `stages` runs of nearly equal flops (forward and
 * backward), never inside a fused pair. Refuses more stages than there are nodes with weights. */
SL_MUST_CHECK sl_err sl_plan_cut_even(const struct sl_graph *graph,
                                      bool (*has_kernel)(const char *name), int stages,
                                      int *stage_of);

/* The stage of every forward node according to a plan that has nodes. */
SL_MUST_CHECK sl_err sl_plan_stage_of(const struct sl_plan *plan, const struct sl_graph *graph,
                                      int *stage_of);

#endif
