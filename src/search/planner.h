/* Planners: rows that look for a good plan of the same problem, judged by the same simulation.
 *
 * A planner offers candidates to a contest; the contest plays the promising ones (smallest bound
 * first) and keeps the best. So every planner is measured with one rule, and `sluice`, which offers
 * what all others offer and more, never loses to any of them.
 */
#ifndef SL_SEARCH_PLANNER_H
#define SL_SEARCH_PLANNER_H

#include "search/bound.h"
#include "search/cuts.h"

struct sl_found {
    struct sl_candidate c;
    struct sl_score score;
    int64_t bottleneck, bound;
    int64_t passes;      /* what playing it costs */
    double lacks;        /* bytes, estimated */
    const char *planner; /* who offered it */
};

struct sl_result;

struct sl_query {
    const struct sl_problem *problem;
    const char *schedule;         /* NULL: the synchronous ones, or: */
    const char *const *schedules; /* ends with NULL */
    int64_t until_ns;             /* sl_clock_ns at which to stop; 0: never */
    int threads;                  /* of the search; 0: all cores */
    double memory_scale;          /* plans may use so much of the memory; 0: all */
    double cut_scale; /* and searches aim at so much of that, as their sums are estimates */
    int effort;       /* nodes that the final search may visit; 0: usual */
    /* Called now and then by the thread that asked; NULL: not. */
    void (*progress)(void *ctx, const char *phase, const struct sl_result *so_far);
    void *progress_ctx;
};

enum { SL_RUNNERS = 5 };

struct sl_result {
    struct sl_found best;
    bool found;
    struct sl_found runner[SL_RUNNERS]; /* next best ones that differ, best first */
    int runner_count;
    int64_t lower_bound; /* no plan of the space has a smaller step */
    bool proven;         /* best is optimal in its space */
    bool complete;       /* all cuts of the graph were considered */
    bool timed_out;
    int64_t played, offered, pairs;
    /* nothing fits: */
    int tight_unit;
    int64_t tight_bytes;  /* what this unit lacks on a device of its own */
    struct sl_found near; /* the candidate that misses by least */
    bool near_found;
};

struct sl_planner {
    const char *name, *brief;
    int64_t replays; /* passes of runners-up that are played as a whole; 0: few */
    sl_err (*run)(struct sl_arena *arena, const struct sl_query *query, struct sl_result *out);
};

extern const struct sl_planner *const sl_search_planners[]; /* alphabetical; ends with NULL */
/* SL_ERR_USAGE with the nearest name. */
SL_MUST_CHECK sl_err sl_search_planner_find(const char *name, const struct sl_planner **out);

/* ---- for planners ---- */

struct sl_contest {
    struct sl_arena *arena;
    const struct sl_query *query;
    struct sl_result *out;
    SL_VEC(struct sl_found) at;
    int played;     /* the first so many have a score */
    int64_t passes; /* played so far */
};

/* Copies the candidate unless the contest has its equal. */
void sl_search_contest_offer(struct sl_contest *contest, const struct sl_candidate *candidate,
                             const char *planner);
/* Plays those offered since, smallest bound first, until none can win, the time is up, or so many
 * passes have been played that a large machine would take too long. */
void sl_search_contest_play(struct sl_contest *contest);
/* Plays one candidate at once and takes it when it is better; true: it fits. */
bool sl_search_contest_try(struct sl_contest *contest, const struct sl_candidate *candidate,
                           const char *planner, struct sl_score *score);
/* Has the final search played enough? */
bool sl_search_contest_tired(const struct sl_contest *contest);
void sl_search_contest_close(struct sl_contest *contest);

/* The planners' offers, for `sluice`. */
void sl_search_offer_even(struct sl_contest *contest);
void sl_search_offer_2bw(struct sl_contest *contest);
void sl_search_offer_hetpipe(struct sl_contest *contest);
void sl_search_offer_shapes(struct sl_contest *contest); /* depth x width, balanced (shapes.c) */
/* What was offered with recomputation, without it wherever that should fit. */
void sl_search_offer_eased(struct sl_contest *contest);
/* Units of `order` in runs of nearly equal time, at most `stages`; returns how many. */
int sl_search_even_cut(const struct sl_problem *problem, const int *order, int size, int stages,
                       int *stage_of);
void sl_search_offer_cuts(struct sl_contest *contest,
                          const char *planner); /* graphpipe, pipedream, piper */

enum { SL_QUERY_SCHEDULES = 32 };
/* Schedules to try: the query's, else all rows with SL_SEARCHED_EQUAL. Ends with NULL. `names` is
 * room for the list. */
const char *const *sl_search_query_schedules(const struct sl_query *query,
                                             const char *names[SL_QUERY_SCHEDULES]);
/* May stages have micro-batches of their own size? */
bool sl_search_query_mixes(const struct sl_query *query);
/* The share of the memory that searches aim at. */
double sl_search_query_memory(const struct sl_query *query);
bool sl_search_query_over(const struct sl_query *query); /* is the time up? */
void sl_search_contest_tell(const struct sl_contest *contest, const char *phase);

/* The final search over sequences of downsets (refine.c). */
void sl_search_refine(struct sl_contest *contest, const struct sl_family *family,
                      const char *planner);
/* Small moves from the best plan (climb.c). */
void sl_search_climb(struct sl_contest *contest, const char *planner);
/* Can no plan with this micro-batch size win any more? */
bool sl_search_contest_hopeless(const struct sl_contest *contest, const char *schedule, int size);

#endif
