/* From a query to a checked plan with exact bytes.
 *
 *     sl_search_run
 *       1  planner->run finds candidates; their bytes are sums over units
 *       2  exact bytes from the programs that will run; if the best does not fit, its runners-up;
 *          if none fits, back to 1 with less memory
 *       3  runners-up are simulated without folding and sorted
 *       4  forecast, what-if searches, and the plan as data
 *
 * Reports only print the result; they never search.
 */
#ifndef SL_SEARCH_SEARCH_H
#define SL_SEARCH_SEARCH_H

#include "pass/program.h"
#include "search/data_parallel.h"
#include "search/planner.h"

struct sl_search_spec {
    const struct sl_planner *planner;
    struct sl_search_query query;
    /* For exact bytes. graph NULL: bytes are sums over units. */
    const struct sl_graph *graph;
    bool (*has_kernel)(const char *name); /* of the device; so is extra_bytes */
    int64_t (*extra_bytes)(const struct sl_program *program, int threads);
    const struct sl_optim *optim;
    int threads;  /* of a worker, for its bytes; 0: one */
    bool what_if; /* also search with a changed machine, if the search itself was quick */
};

/* The same search on a machine with more of one thing. */
struct sl_search_what_if {
    double memory, bandwidth; /* times the memory of devices, times the bandwidth of links */
    int64_t step_ns;          /* of the best plan; 0: none found */
};

enum { SL_SEARCH_WHAT_IFS = 2 };

struct sl_search {
    struct sl_search_result result;
    struct sl_candidate_detail detail;  /* of the best */
    const struct sl_stage_bytes *bytes; /* [stage] exact, or NULL */
    const struct sl_plan *plan;
    int bottleneck_stage;
    int64_t forecast_ns; /* a step with the tempo of the workers; 0: no tempo, or too large */
    bool retried;        /* the best by sums over units did not fit with its exact bytes */
    int rounds;          /* searches until a plan fit with its exact bytes */
    int64_t search_ns;   /* duration of the search, without what-if searches */
    struct sl_search_what_if what_if[SL_SEARCH_WHAT_IFS];
    /* of a plan of one stage with replicas: the step with other ways to sum up gradients */
    struct sl_search_all_reduce all_reduce[SL_SEARCH_ALL_REDUCES];
    int all_reduce_count;
    int what_if_count; /* 0: not requested, or the search took too long */
};

/* SL_ERR_REFUSED if nothing fits; the message says how much memory is missing. */
SL_MUST_CHECK sl_err sl_search_run(struct sl_arena *arena, const struct sl_search_spec *spec,
                                   struct sl_search *out);

/* Bytes of every stage from its program. */
SL_MUST_CHECK sl_err sl_search_candidate_exact_bytes(struct sl_arena *arena,
                                                     const struct sl_candidate_detail *detail,
                                                     const struct sl_search_spec *spec,
                                                     const struct sl_stage_bytes **out);

#endif
