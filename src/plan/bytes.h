/* Bytes of a stage on a worker, computed from the programs that run there. Planner, verifier and
 * run use this one source. */
#ifndef SL_PLAN_BYTES_H
#define SL_PLAN_BYTES_H

#include "graph/graph.h"
#include "optim/policy.h"
#include "pass/program.h"
#include "plan/plan.h"

struct sl_bytes_spec {
    const struct sl_program *full;      /* for full micro-batches */
    const struct sl_program *last;      /* for a shorter last one, or NULL */
    const struct sl_program *eval;      /* for evaluation in the same memory, or NULL */
    const struct sl_optim *optim;       /* row NULL: no training */
    const struct sl_policy_use *policy; /* NULL: none */
    int threads;
    int64_t (*extra_bytes)(const struct sl_program *program, int threads); /* of the device */
};

void sl_plan_bytes(const struct sl_bytes_spec *spec, struct sl_stage_bytes *out);

/* A worker with one stage, one weight version and one micro-batch in flight. */
int64_t sl_plan_stage_bytes_total(const struct sl_stage_bytes *bytes);

/* Bytes that threads of one process share but every worker counts: the graph, and the memory that a
 * process maps for the device (extra_bytes of its row, or NULL). */
int64_t sl_plan_shared_bytes(const struct sl_graph *graph,
                             int64_t (*extra_bytes)(const struct sl_program *program, int threads));

/* Shape and use of a parameter, for its optimizer. */
struct sl_optim_shape sl_plan_optim_shape(const struct sl_graph *graph, int param);

/* Slabs of optimizer state, each as large as the weights. */
int sl_plan_optim_slabs(const struct sl_optim *optim);
/* The same plus one slab if the policy keeps a tensor per parameter. */
int sl_plan_slabs(const struct sl_optim *optim, const struct sl_policy_use *policy);
/* Largest workspace of an optimizer step. */
int64_t sl_plan_optim_scratch(const struct sl_program *program, const struct sl_optim *optim);

/* The largest input of a micro-batch: staged in host memory before the upload. */
int64_t sl_plan_staging_bytes(const struct sl_program *program);

#endif
