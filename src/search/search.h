/* From a question to a checked plan: a planner, exact bytes from the programs that will run, and
 * what would change with more memory or faster links. */
#ifndef SL_SEARCH_SEARCH_H
#define SL_SEARCH_SEARCH_H

#include "pass/program.h"
#include "search/planner.h"

struct sl_search_spec {
    const struct sl_planner *planner;
    struct sl_query query;
    /* for exact bytes; graph NULL: sums over units stay */
    const struct sl_graph *graph;
    bool (*has_kernel)(const char *name); /* of the device, as extra_bytes */
    int64_t (*extra_bytes)(const struct sl_program *program, int threads);
    const struct sl_optim *optim;
    int threads; /* of a worker, for its bytes; 0: one */
};

struct sl_search {
    struct sl_result result;
    struct sl_setup setup;              /* of the best */
    const struct sl_stage_bytes *bytes; /* [stage] exact, or NULL */
    const struct sl_plan *plan;
    int bottleneck_stage;
    int64_t forecast_ns; /* of a step, with the tempo of the workers; 0: nobody measured it,
                            or it would take long */
    int rounds; /* how often the search began anew because a plan was larger than estimated */
};

/* SL_ERR_REFUSED when nothing fits; the message says what would. */
SL_MUST_CHECK sl_err sl_search_run(struct sl_arena *arena, const struct sl_search_spec *spec,
                                   struct sl_search *out);

/* The best step with `memory` times the memory and `bandwidth` times the speed of all links; 0: no
 * plan. */
int64_t sl_search_what_if(const struct sl_search_spec *spec, double memory, double bandwidth);

/* Bytes of every stage as its program has them. */
SL_MUST_CHECK sl_err sl_search_setup_exact(struct sl_arena *arena, const struct sl_setup *setup,
                                           const struct sl_search_spec *spec,
                                           const struct sl_stage_bytes **out);

#endif
