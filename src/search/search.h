/* From a query to a checked plan with exact bytes.
 *
 *     sl_search_run
 *       1  planner->run finds candidates; their bytes are sums over units
 *       2  exact bytes from the programs that will run; if the best does not fit, its
 *         runners-up;
 *          if none fits, back to 1 with less memory
 *       3  runners-up are simulated without folding and sorted
 *       4  forecast, what-if searches, and the plan as data
 *
 * Reports only print the result; they never search. */
#ifndef SL_SEARCH_SEARCH_H
#define SL_SEARCH_SEARCH_H

#include "pass/program.h"
#include "search/data_parallel.h"
#include "search/planner.h"

struct sl_search_spec {
    const struct sl_planner *planner;
    struct sl_search_query query;
    /* These give exact bytes. graph NULL: bytes are sums over units. */
    const struct sl_graph *graph;
    /* the device's kernel query; extra_bytes is the device's too */
    bool (*has_kernel)(const char *name);
    int64_t (*extra_bytes)(const struct sl_program *program, int threads);
    const struct sl_optim *optim;
    int threads;  /* threads of a worker, which need memory; 0: one */
    bool what_if; /* search with a changed machine too, if the search itself was quick */
};

/* The result of a search on a machine with more memory or bandwidth. */
struct sl_search_what_if {
    double memory, bandwidth; /* factors of the memory of devices and of the bandwidth of links */
    int64_t step_ns;          /* step of the best plan; 0: none was found */
};

enum { SL_SEARCH_WHAT_IFS = 2 };

struct sl_search {
    struct sl_search_result result;
    struct sl_candidate_detail detail;  /* detail of the best candidate */
    const struct sl_stage_bytes *bytes; /* [stage] exact bytes, or NULL */
    const struct sl_plan *plan;
    int bottleneck_stage;
    /* predicted step with the tempo of the workers; 0: there is no tempo, or the plan is too
     * large */
    int64_t forecast_ns;
    bool retried;      /* the best plan by sums over units did not fit with its exact bytes */
    int rounds;        /* number of searches until a plan fitted with its exact bytes */
    int64_t search_ns; /* duration of the search, without what-if searches */
    struct sl_search_what_if what_if[SL_SEARCH_WHAT_IFS];
    /* for a plan of one stage with replicas: the step with other ways to sum gradients */
    struct sl_search_all_reduce all_reduce[SL_SEARCH_ALL_REDUCES];
    int all_reduce_count;
    int what_if_count; /* 0: not requested, or the search took too long */
};

/* Searches. SL_ERR_REFUSED if nothing fits; the message says how much memory is missing. */
SL_MUST_CHECK sl_err sl_search_run(struct sl_arena *arena, const struct sl_search_spec *spec,
                                   struct sl_search *out);

/* Computes the bytes of every stage from its program. */
SL_MUST_CHECK sl_err sl_search_candidate_exact_bytes(struct sl_arena *arena,
                                                     const struct sl_candidate_detail *detail,
                                                     const struct sl_search_spec *spec,
                                                     const struct sl_stage_bytes **out);

#endif
