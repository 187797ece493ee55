/* A candidate: one way to cut the model, replicate the stages and place them on devices.
 *
 *     sl_candidate              the choice itself; planners make these
 *         | sl_search_candidate_expand          sums over units, edges, workers
 *     sl_candidate_detail       the choice worked out on its problem
 *         |                                     bottleneck, bound, shortfall: no simulation
 *         | sl_search_candidate_plan            the plan as data
 *         | sl_search_candidate_simulate        schedule + simulation
 *     sl_candidate_score        its simulated step, bytes and bubble
 *
 * A detail points into its candidate and its problem. Pools (pool.h) keep candidates and scores;
 * details live in scratch arenas.
 *
 * Three times of one iteration; on a machine with equal links each is at most the next:
 *     bottleneck  the busiest worker or wire
 *     bound       bottleneck plus the way to that worker and back; no schedule is faster
 *     step        the simulated iteration: every message, fill, drain, reduction and step
 */
#ifndef SL_SEARCH_CANDIDATE_H
#define SL_SEARCH_CANDIDATE_H

#include "plan/plan.h"
#include "schedules/schedule.h"
#include "search/problem.h"
#include "sim/sim.h"

/* Simulated iterations of an asynchronous schedule: enough to reach the steady state. */
enum { SL_ASYNC_ITERS = 64 };

struct sl_candidate {
    int stage_count;
    const int *stage_of;   /* [unit] stages in pipeline order: every tensor goes forward */
    const int *width;      /* [stage] replicas */
    const bool *recompute; /* [stage] */
    int size;              /* index into problem->sizes; the smallest of size_of */
    const int *size_of;    /* [stage] index into problem->sizes; NULL: all stages have `size` */
    const int *group_of;   /* [stage] k of kFkB; NULL: 1 */
    const char *schedule;
    bool sequential;  /* adds an edge from every stage to the next one */
    bool across;      /* workers in order of replica, then stage; else stage, then replica */
    const int *order; /* [devices used] device of each worker; NULL: 0, 1, 2, ... */
    /* Workers of one pipeline, if they hold several stages each, in the layout of the schedule's
     * row; all widths are equal. 0: every stage has workers of its own. */
    int ranks;
};

/* Do plans for this schedule put several stages, or replicas of two, on a worker? */
bool sl_search_schedule_shares(const char *schedule);
/* The rank of its pipeline that has the replica of a stage. */
int sl_search_candidate_rank(const struct sl_candidate *c, int stage, int replica);
/* Devices in use. */
int sl_search_candidate_devices(const struct sl_candidate *c);

static inline int sl_search_candidate_size(const struct sl_candidate *c, int stage) {
    return c->size_of ? c->size_of[stage] : c->size;
}

static inline int sl_search_candidate_group(const struct sl_candidate *c, int stage) {
    return c->group_of ? c->group_of[stage] : 1;
}

/* False if a replica has no micro-batch, or if the stages at the ends of a tensor without a batch
 * dimension differ in micro-batch size. */
bool sl_search_candidate_check(const struct sl_problem *problem,
                               const struct sl_candidate *candidate);

struct sl_candidate_stage {
    int64_t f, i, w, step;       /* ns: of one pass; step: of one iteration */
    int64_t reduce;              /* ns: over replicas and over stages with tied parameters */
    int meetings;                /* reductions that `reduce` sums up */
    int64_t in_bytes, out_bytes; /* per sample */
    struct sl_stage_bytes bytes;
    enum sl_stage_passes passes;
    int first; /* first worker */
    bool reads_data;
};

struct sl_candidate_detail {
    const struct sl_problem *problem;
    struct sl_candidate c;
    struct sl_candidate_stage *stages;
    struct sl_edge *edges; /* by `from`; those of `sequential` have 0 bytes */
    int *edge_at;          /* [stage + 1] first edge of each stage */
    int edge_count, device_count;
    int *device_of; /* [worker] */
    int **workers;  /* [stage][replica] */
    /* If not NULL: this is one of the equal pipelines of `folded_from` and represents them all. */
    const struct sl_candidate_detail *folded_from;
};

void sl_search_candidate_expand(struct sl_arena *arena, const struct sl_problem *problem,
                                const struct sl_candidate *candidate,
                                struct sl_candidate_detail *out);

/* Does the stage recompute? One without a backward pass has nothing to recompute for. */
static inline bool sl_search_candidate_recomputes(const struct sl_candidate_detail *detail,
                                                  int stage) {
    return detail->c.recompute[stage] && detail->stages[stage].passes != SL_STAGE_FORWARD;
}

/* ---- without simulation ---- */

/* Time of the busiest worker or wire; *stage (may be NULL) is its stage. */
int64_t sl_search_candidate_bottleneck(const struct sl_candidate_detail *detail, int *stage);
/* Lower bound on an iteration. */
int64_t sl_search_candidate_bound(const struct sl_candidate_detail *detail);
/* Bytes missing on the fullest worker, estimated from sums and windows; <= 0: it should fit. */
double sl_search_candidate_shortfall(const struct sl_candidate_detail *detail);
/* Sets recompute[stage] to false where the stage should fit without recomputation into `scale`
 * times the memory. True if any flag changed. */
bool sl_search_candidate_drop_recompute(const struct sl_candidate_detail *detail, double scale,
                                        bool *recompute);
/* Micro-batches of an iteration: of one stage, and the maximum over stages. */
int64_t sl_search_candidate_stage_micros(const struct sl_candidate_detail *detail, int stage);
int64_t sl_search_candidate_micros(const struct sl_candidate_detail *detail);
/* Durations of its actions, ns. */
void sl_search_candidate_times(const struct sl_candidate_detail *detail,
                               int64_t (*out)[SL_KIND_COUNT]);

/* Bytes of parameters per second of a step that writes a new weight version. 0: the schedule has
 * one version, or the rate was not measured. */
double sl_search_version_rate(const struct sl_problem *problem, const char *schedule);
/* Does the schedule split the backward pass into I and W? */
bool sl_search_schedule_splits(const char *schedule);
/* Is it 1F1B: micro-batches in flight = replicas from this stage to the sink? */
bool sl_search_schedule_windowed(const char *schedule);
/* The schedule for stages of different micro-batch sizes: the row with SL_SEARCHED_MIXED. */
const char *sl_search_mixed_schedule(void);
/* The part of `busy_ns` per iteration that lies between the first and the last step of an
 * asynchronous run; micro-batches in flight may be done before the first step. */
int64_t sl_search_async_bound(int64_t busy_ns, int64_t micros, int devices);
/* Upper bound on those micro-batches. */
int64_t sl_search_async_in_flight(int64_t micros, int devices);
/* Time to move tied parameters over the slowest link. */
int64_t sl_search_tie_ns(const struct sl_machine *machine, double bytes);
/* Time of a ring all-reduce over the devices of a stage. */
int64_t sl_search_reduce_ns(const struct sl_machine *machine, const int *devices, int width,
                            double bytes);

/* ---- plan and simulation ---- */

/* Bytes are sums over units, or exact[stage] if `exact` is not NULL. */
SL_MUST_CHECK sl_err sl_search_candidate_plan(struct sl_arena *arena,
                                              const struct sl_candidate_detail *detail,
                                              const struct sl_stage_bytes *exact,
                                              const struct sl_plan **out);
/* The wires between two workers: a route function of sl_sim_net; the context is the detail. */
void sl_search_candidate_route(const void *detail, int from, int to, struct sl_sim_route *out);

struct sl_candidate_score {
    int64_t step_ns;    /* the objective: sim_ns times the tokens that staleness costs */
    int64_t sim_ns;     /* one iteration; asynchronous: mean time from step to step */
    int64_t over_bytes; /* largest excess over a worker's memory; <= 0: everything fits */
    int over_worker, over_stage;
    int64_t peak_bytes; /* of the fullest worker */
    int64_t all_bytes;  /* of all workers */
    double bubble;      /* idle share, mean over workers */
};

/* Build the schedule (which verifies it) and simulate it. SL_ERR_REFUSED: outside the schedule's
 * domain. */
SL_MUST_CHECK sl_err sl_search_candidate_simulate(const struct sl_candidate_detail *detail,
                                                  const struct sl_stage_bytes *exact,
                                                  struct sl_candidate_score *out);
/* The same, faster: a large candidate of equal widths is folded, that is, one of its pipelines is
 * simulated with its share of the links that all of them use. */
SL_MUST_CHECK sl_err sl_search_candidate_simulate_folded(const struct sl_candidate_detail *detail,
                                                         struct sl_candidate_score *out);
/* The same with the schedule and the simulation in the arena. Of equal pipelines one is simulated. */
struct sl_candidate_play {
    const struct sl_sched *sched;
    const struct sl_sim *sim; /* with a timeline if it was requested */
    struct sl_candidate_score score;
};
SL_MUST_CHECK sl_err sl_search_candidate_play(struct sl_arena *arena,
                                              const struct sl_candidate_detail *detail,
                                              bool timeline, struct sl_candidate_play *out);
/* Passes to simulate, the cost of a simulation: of the whole candidate, and folded. */
int64_t sl_search_candidate_passes(const struct sl_candidate_detail *detail);
int64_t sl_search_candidate_folded_passes(const struct sl_candidate_detail *detail);
/* Its step with the measured tempo of the workers, which the problem must have. */
SL_MUST_CHECK sl_err sl_search_candidate_forecast(const struct sl_candidate_detail *detail,
                                                  const struct sl_stage_bytes *exact, int64_t *out);

#endif
