/* A planner: a row that searches for a good plan of a problem.
 *
 *     sl_search_query --> planner->run --> candidates --> pool (pool.h) --> sl_search_result
 *
 * Every planner adds its candidates to a pool, which simulates the promising ones and keeps the
 * best: all planners are scored by one rule. `sluice` adds what all others add and more, so it
 * never loses to any of them. The rows are in planners/.
 */
#ifndef SL_SEARCH_PLANNER_H
#define SL_SEARCH_PLANNER_H

#include "search/candidate.h"

/* A candidate with its estimates and, once simulated, its score. */
struct sl_candidate_entry {
    struct sl_candidate c;
    struct sl_candidate_score score;
    int64_t bottleneck, bound; /* ns */
    int64_t passes;            /* cost of its simulation (sl_search_candidate_folded_passes) */
    double shortfall;          /* bytes (sl_search_candidate_shortfall) */
    const char *planner;       /* that added it */
};

struct sl_search_result;

struct sl_search_query {
    const struct sl_problem *problem;
    const char *schedule;         /* NULL: try those in `schedules` */
    const char *const *schedules; /* ends with NULL; NULL: the default synchronous ones */
    int width;                    /* replicas of every stage; 0: any numbers */
    int workers;                  /* in a pipeline; 0: any number */
    int64_t until_ns;             /* deadline by sl_clock_ns; 0: none */
    int threads;                  /* of the search; 0: all cores */
    double memory_scale;          /* plans may use this part of the memory; 0: all */
    double cut_scale; /* cut searches, whose bytes are estimates, aim at this part of it; 0: all */
    int effort;       /* nodes that branch and bound may visit; 0: the default */
    bool quiet;       /* a part of another search: print no notes */
    /* Called now and then by the calling thread; NULL: never. */
    void (*progress)(void *ctx, const char *phase, const struct sl_search_result *so_far);
    void *progress_ctx;
};

enum { SL_RUNNERS = 5, SL_TRIED_PLANNERS = 16 };

/* A planner with candidates. */
struct sl_search_tried {
    const char *planner;
    int64_t may_fit; /* those that fit by estimate, and by simulation if they were simulated */
};

struct sl_search_result {
    struct sl_candidate_entry best;
    bool found;
    struct sl_candidate_entry runner[SL_RUNNERS]; /* next best different ones, best first */
    int runner_count;
    int64_t lower_bound; /* no plan of the search space has a smaller step */
    bool proven;         /* best is optimal among plans without groups (k = 1) */
    bool complete;       /* all cuts of the graph were considered */
    bool timed_out;
    bool out_of_budget;                /* ended by a limit on effort: better plans may be unseen */
    int64_t simulated, offered, pairs; /* candidates; pairs of downsets that cut searches priced */
    /* if nothing fits: */
    int tight_unit;                    /* the unit that misses by most alone on a device, */
    int64_t tight_bytes;               /* and by how much */
    struct sl_candidate_entry nearest; /* the candidate that misses by least */
    bool nearest_found;
    struct sl_search_tried tried[SL_TRIED_PLANNERS];
    int tried_count;
};

/* Degrees of tensor parallelism that a request leaves open. */
enum sl_teams {
    SL_TEAMS_NONE,     /* one shard */
    SL_TEAMS_SEARCHED, /* the best, inside of a host */
    SL_TEAMS_HOST,     /* all devices of a host, or as many as divide the model */
};

struct sl_planner {
    const char *name, *brief;
    const char *old_name; /* still accepted by sl_planners_find (planners/registry.h); NULL: none */
    bool plans_imported;  /* also plans imported files (peers/) */
    bool shares_workers;  /* plans several stages per worker for the schedules that need it */
    /* Planners that this one must not be worse than; ends with NULL. Their plans are searched too if
     * the best plan of this one did not fit with its exact bytes. NULL: none. */
    const struct sl_planner *const *covers;
    enum sl_teams teams;
    const struct sl_planner *large; /* replaces this row where it would take minutes; NULL: none */
    bool oracle;                    /* too slow for that: a test of others */
    bool even_stages; /* of an imported file: sl_peers_cost_model.even instead of its search */
    int64_t replays;  /* passes of runners-up simulated without folding; 0: the default */
    sl_err (*run)(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out);
};

/* ---- questions about a query ---- */

enum { SL_QUERY_SCHEDULES = 32 };
/* The schedules to try: the query's, else all rows with SL_SEARCHED_EQUAL. Ends with NULL. `names`
 * is memory for the list. */
const char *const *sl_search_query_schedules(const struct sl_search_query *query,
                                             const char *names[SL_QUERY_SCHEDULES]);
/* May stages differ in micro-batch size? */
bool sl_search_query_mixes_sizes(const struct sl_search_query *query);
/* May stages run groups (k of kFkB above 1)? */
bool sl_search_query_groups(const struct sl_search_query *query);
/* The part of the memory that cut searches aim at. */
double sl_search_query_memory(const struct sl_search_query *query);
/* Has the candidate the degrees of the query? */
bool sl_search_query_takes(const struct sl_search_query *query, const struct sl_candidate *c);
bool sl_search_query_timed_out(const struct sl_search_query *query);

#endif
