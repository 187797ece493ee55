/* Bytes of a stage on a worker, computed from the programs that run there. Planner, verifier and
 * runtime all use it. */
#ifndef SL_PLAN_BYTES_H
#define SL_PLAN_BYTES_H

#include "graph/graph.h"
#include "optim/policy.h"
#include "pass/program.h"
#include "plan/plan.h"

struct sl_bytes_spec {
    const struct sl_program *full;      /* program for full micro-batches */
    const struct sl_program *last;      /* program for a shorter last micro-batch, or NULL */
    const struct sl_program *eval;      /* program for evaluation in the same memory, or NULL */
    const struct sl_optim *optim;       /* row NULL: no training */
    const struct sl_policy_use *policy; /* NULL: none */
    int divided;                        /* zero1: replicas that divide the state; 0: 1 */
    int threads;
    /* the device's query for further bytes */
    int64_t (*extra_bytes)(const struct sl_program *program, int threads);
};

void sl_plan_bytes(const struct sl_bytes_spec *spec, struct sl_stage_bytes *out);

/* Returns the bytes of a worker with one stage, one weight version and one micro-batch in
 * flight. */
int64_t sl_plan_stage_bytes_total(const struct sl_stage_bytes *bytes);

/* Returns the bytes that the threads of one process share, although every worker counts them: the
 * graph, and the memory that a process maps for the device (extra_bytes of its row, or NULL). */
int64_t sl_plan_shared_bytes(const struct sl_graph *graph,
                             int64_t (*extra_bytes)(const struct sl_program *program, int threads));

/* Returns what an optimizer must know about a parameter: its shape and use. */
struct sl_optim_shape sl_plan_optim_shape(const struct sl_graph *graph, int param);

/* Number of slabs of optimizer state, each as large as the weights. */
int sl_plan_optim_slabs(const struct sl_optim *optim);
/* The same, with one slab more if the policy keeps a tensor per parameter. */
int sl_plan_slabs(const struct sl_optim *optim, const struct sl_policy_use *policy);
/* zero1: the floats of the weight slab that replica `replica` of `width` updates. Neighbours own
 * neighbouring ranges of about equal size; a parameter whose optimizer needs the whole matrix has one
 * owner. */
struct sl_owned {
    int64_t first, count;
};
struct sl_owned sl_plan_owned(const struct sl_program *program, const struct sl_optim *optim,
                              int width, int replica);
/* Returns the largest workspace of an optimizer step. */
int64_t sl_plan_optim_scratch(const struct sl_program *program, const struct sl_optim *optim);

/* Returns the bytes of the largest input of a micro-batch, which is staged in host memory before
 * the upload. */
int64_t sl_plan_staging_bytes(const struct sl_program *program);

#endif
