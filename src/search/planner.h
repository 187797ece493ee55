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

/* A candidate with its estimates and, after its simulation, its score. */
struct sl_candidate_entry {
    struct sl_candidate c;
    struct sl_candidate_score score;
    int64_t bottleneck, bound; /* ns; see candidate.h */
    int64_t passes;      /* passes that its simulation plays (sl_search_candidate_folded_passes) */
    double shortfall;    /* in bytes (sl_search_candidate_shortfall) */
    const char *planner; /* name of the planner that added it */
};

struct sl_search_result;

struct sl_search_query {
    const struct sl_problem *problem;
    const char *schedule; /* NULL: try the schedules in `schedules` */
    /* list that ends with NULL; NULL: the default synchronous schedules */
    const char *const *schedules;
    int width;           /* number of replicas of every stage; 0: any */
    int workers;         /* number of workers in a pipeline; 0: any */
    int64_t until_ns;    /* deadline by sl_clock_ns; 0: none */
    int threads;         /* threads of the search; 0: all cores */
    double memory_scale; /* the part of the memory that plans may use; 0: all */
    /* the part of that which cut searches may use, because their bytes are estimates; 0: all */
    double cut_scale;
    int effort; /* number of nodes that branch and bound may visit; 0: the default */
    bool quiet; /* print no notes: this is a part of another search */
    /* Called from time to time by the calling thread; NULL: never. */
    void (*progress)(void *ctx, const char *phase, const struct sl_search_result *so_far);
    void *progress_ctx;
};

enum { SL_RUNNERS = 5, SL_TRIED_PLANNERS = 16 };

/* A planner that added candidates. */
struct sl_search_tried {
    const char *planner;
    /* number of candidates that fit by estimate and, if simulated, by simulation */
    int64_t may_fit;
};

struct sl_search_result {
    struct sl_candidate_entry best;
    bool found;
    struct sl_candidate_entry runner[SL_RUNNERS]; /* the next best plans that differ, best first */
    int runner_count;
    int64_t lower_bound; /* no plan of the search space has a smaller step */
    bool proven;         /* `best` is optimal among plans without groups (k = 1) */
    bool complete;       /* all cuts of the graph were considered */
    bool timed_out;
    bool out_of_budget; /* a limit on effort ended the search, so there may be better plans */
    /* simulated, offered: candidates; pairs: pairs of downsets that cut searches evaluated */
    int64_t simulated, offered, pairs;
    /* set if nothing fits: */
    int tight_unit; /* the unit that exceeds a device's memory by most when it is alone there */
    int64_t tight_bytes;               /* how many bytes it lacks */
    struct sl_candidate_entry nearest; /* the candidate that lacks the fewest bytes */
    bool nearest_found;
    struct sl_search_tried tried[SL_TRIED_PLANNERS];
    int tried_count;
};

/* Degrees of tensor parallelism to try if a request leaves them open. */
enum sl_teams {
    SL_TEAMS_NONE,     /* one shard */
    SL_TEAMS_SEARCHED, /* all degrees within a host; the best one wins */
    SL_TEAMS_HOST,     /* the devices of a host, or as many of them as divide the model */
};

struct sl_planner {
    const char *name, *brief;
    /* an older name that sl_planners_find (planners/registry.h) still accepts; NULL: none */
    const char *old_name;
    bool plans_imported; /* also plans imported files (peers/) */
    bool shares_workers; /* it puts several stages on a worker, for schedules that need it */
    /* Planners that this one must not be worse than; the list ends with NULL. Their plans are
     * searched too if this one's best plan did not fit with its exact bytes. NULL: none. */
    const struct sl_planner *const *covers;
    enum sl_teams teams;
    /* row that replaces this one where it would take minutes; NULL: none */
    const struct sl_planner *large;
    bool oracle; /* it is an oracle for tests of other planners, and too slow for anything else */
    /* for an imported file, uses sl_peers_cost_model.even instead of its search */
    bool even_stages;
    /* number of passes of runners-up that are simulated without folding; 0: the default */
    int64_t replays;
    sl_err (*run)(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out);
};

/* ---- questions about a query ---- */

enum { SL_QUERY_SCHEDULES = 32 };
/* Returns the schedules to try, a list that ends with NULL: those of the query, else all rows with
 * SL_SEARCHED_EQUAL. `names` is memory for the list. */
const char *const *sl_search_query_schedules(const struct sl_search_query *query,
                                             const char *names[SL_QUERY_SCHEDULES]);
/* May stages differ in micro-batch size? */
bool sl_search_query_mixes_sizes(const struct sl_search_query *query);
/* May stages run groups (k of kFkB above 1)? */
bool sl_search_query_groups(const struct sl_search_query *query);
/* Returns the part of the memory that cut searches may use. */
double sl_search_query_memory(const struct sl_search_query *query);
/* Does the candidate have the width and number of workers that the query asks for? */
bool sl_search_query_takes(const struct sl_search_query *query, const struct sl_candidate *c);
bool sl_search_query_timed_out(const struct sl_search_query *query);

#endif
