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
 *     bound       bottleneck plus the path to that worker and back; no schedule is faster
 *     step        the simulated iteration: every message, fill, drain, reduction and step */
#ifndef SL_SEARCH_CANDIDATE_H
#define SL_SEARCH_CANDIDATE_H

#include "plan/plan.h"
#include "schedules/schedule.h"
#include "search/problem.h"
#include "sim/sim.h"

/* Number of simulated iterations of an asynchronous schedule: enough to reach the steady state. */
enum { SL_ASYNC_ITERS = 64 };

struct sl_candidate {
    int stage_count;
    /* [unit] its stage; stages are in pipeline order: every tensor goes forward */
    const int *stage_of;
    const int *width;      /* [stage] number of replicas */
    const bool *recompute; /* [stage] does it recompute? */
    int size;              /* index into problem->sizes; the smallest of size_of */
    const int *size_of;    /* [stage] index into problem->sizes; NULL: all stages have `size` */
    const int *group_of;   /* [stage] k of kFkB; NULL: 1 */
    const char *schedule;
    bool sequential; /* an edge is added from every stage to the next one */
    /* workers are numbered by replica, then by stage; false: by stage, then by replica */
    bool across;
    const int *order; /* [devices used] device of each worker; NULL: 0, 1, 2, ... */
    /* Number of workers of one pipeline, if they hold several stages each, in the layout of the
     * schedule's row; all widths are then equal. 0: every stage has its own workers. */
    int ranks;
};

/* Does this schedule put several stages, or replicas of two stages, on one worker? */
bool sl_search_schedule_shares(const char *schedule);
/* Returns the rank, within its pipeline, of the worker that has a replica of a stage. */
int sl_search_candidate_rank(const struct sl_candidate *c, int stage, int replica);
/* Returns the number of devices that the candidate uses. */
int sl_search_candidate_devices(const struct sl_candidate *c);

static inline int sl_search_candidate_size(const struct sl_candidate *c, int stage) {
    return c->size_of ? c->size_of[stage] : c->size;
}

static inline int sl_search_candidate_group(const struct sl_candidate *c, int stage) {
    return c->group_of ? c->group_of[stage] : 1;
}

/* Returns false if a replica would have no micro-batch, or if a tensor without a batch dimension
 * connects stages of different micro-batch size. */
bool sl_search_candidate_check(const struct sl_problem *problem,
                               const struct sl_candidate *candidate);

struct sl_candidate_stage {
    int64_t f, i, w, step; /* ns; f, i, w: one pass; step: one optimizer step */
    /* ns per iteration: all reductions over replicas and over stages with tied parameters */
    int64_t reduce;
    int meetings;                /* number of reductions in `reduce` */
    int64_t in_bytes, out_bytes; /* bytes per sample that it receives and sends */
    struct sl_stage_bytes bytes;
    enum sl_stage_passes passes;
    int first; /* its first worker */
    bool reads_data;
};

struct sl_candidate_detail {
    const struct sl_problem *problem;
    struct sl_candidate c;
    struct sl_candidate_stage *stages;
    struct sl_edge *edges; /* sorted by `from`; the edges that `sequential` added have 0 bytes */
    int *edge_at;          /* [stage + 1] index of the first edge of each stage */
    int edge_count, device_count;
    int *device_of; /* [worker] its device */
    int **workers;  /* [stage][replica] its worker */
    /* Not NULL: this detail is one of the equal pipelines of `folded_from` and represents them
     * all. */
    const struct sl_candidate_detail *folded_from;
};

void sl_search_candidate_expand(struct sl_arena *arena, const struct sl_problem *problem,
                                const struct sl_candidate *candidate,
                                struct sl_candidate_detail *out);

/* Does the stage recompute? A stage without a backward pass never does. */
static inline bool sl_search_candidate_recomputes(const struct sl_candidate_detail *detail,
                                                  int stage) {
    return detail->c.recompute[stage] && detail->stages[stage].passes != SL_STAGE_FORWARD;
}

/* ---- without simulation ---- */

/* Returns the time of the busiest worker or wire; *stage becomes its stage (stage may be NULL). */
int64_t sl_search_candidate_bottleneck(const struct sl_candidate_detail *detail, int *stage);
/* Returns a lower bound on the time of an iteration. */
int64_t sl_search_candidate_bound(const struct sl_candidate_detail *detail);
/* Returns how many bytes the fullest worker lacks, estimated from sums and windows; <= 0: it should
 * fit. */
double sl_search_candidate_shortfall(const struct sl_candidate_detail *detail);
/* Clears recompute[stage] where the stage should fit into `scale` times the memory without
 * recomputation. Returns whether a flag changed. */
bool sl_search_candidate_drop_recompute(const struct sl_candidate_detail *detail, double scale,
                                        bool *recompute);
/* Number of micro-batches of an iteration: of one stage, and the maximum over stages. */
int64_t sl_search_candidate_stage_micros(const struct sl_candidate_detail *detail, int stage);
int64_t sl_search_candidate_micros(const struct sl_candidate_detail *detail);
/* Fills the durations of the actions of each stage, in ns. */
void sl_search_candidate_times(const struct sl_candidate_detail *detail,
                               int64_t (*out)[SL_KIND_COUNT]);

/* Returns how many bytes of parameters per second a step handles that writes a new weight version.
 * 0: the schedule has one version, or the rate was not measured. */
double sl_search_version_rate(const struct sl_problem *problem, const char *schedule);
/* Does the schedule split the backward pass into I and W? */
bool sl_search_schedule_splits(const char *schedule);
/* Is it 1F1B, where the number of micro-batches in flight is the number of replicas from this stage
 * to the sink? */
bool sl_search_schedule_windowed(const char *schedule);
/* Returns the schedule for stages of different micro-batch sizes: the row with
 * SL_SEARCHED_MIXED. */
const char *sl_search_mixed_schedule(void);
/* Returns the part of `busy_ns` per iteration that lies between the first and the last step of an
 * asynchronous run. Micro-batches in flight may be finished before the first step, so they do not
 * count. */
int64_t sl_search_async_bound(int64_t busy_ns, int64_t micros, int devices);
/* Returns an upper bound on the number of micro-batches in flight for sl_search_async_bound. */
int64_t sl_search_async_in_flight(int64_t micros, int devices);
/* Returns the time to move tied parameters over the slowest link. */
int64_t sl_search_tie_ns(const struct sl_machine *machine, double bytes);
/* Returns the time of a ring all-reduce over the devices of a stage. */
int64_t sl_search_reduce_ns(const struct sl_machine *machine, const int *devices, int width,
                            double bytes);

/* ---- plan and simulation ---- */

/* Makes the plan of a candidate. Its bytes are exact[stage], or sums over units if `exact` is
 * NULL. */
SL_MUST_CHECK sl_err sl_search_candidate_plan(struct sl_arena *arena,
                                              const struct sl_candidate_detail *detail,
                                              const struct sl_stage_bytes *exact,
                                              const struct sl_plan **out);
/* Lists the wires between two workers: a route function of sl_sim_net, whose context is the
 * detail. */
void sl_search_candidate_route(const void *detail, int from, int to, struct sl_sim_route *out);

struct sl_candidate_score {
    int64_t step_ns; /* what the search minimizes: sim_ns times the tokens that staleness costs */
    int64_t sim_ns;  /* time of an iteration; asynchronous: mean time between steps */
    int64_t over_bytes; /* largest excess over a worker's memory; <= 0: all workers fit */
    int over_worker, over_stage;
    int64_t peak_bytes; /* bytes of the fullest worker */
    int64_t all_bytes;  /* bytes of all workers together */
    double bubble;      /* share of time in which a worker is idle, mean over workers */
};

/* Builds the schedule (which verifies it) and simulates it. SL_ERR_REFUSED: the plan is outside the
 * schedule's domain. */
SL_MUST_CHECK sl_err sl_search_candidate_simulate(const struct sl_candidate_detail *detail,
                                                  const struct sl_stage_bytes *exact,
                                                  struct sl_candidate_score *out);
/* Like simulate, but faster: a large candidate of equal widths is folded, that is, only one of its
 * pipelines is simulated, with its share of the links that all pipelines use. */
SL_MUST_CHECK sl_err sl_search_candidate_simulate_folded(const struct sl_candidate_detail *detail,
                                                         struct sl_candidate_score *out);
/* The result of a simulation that keeps schedule and simulation in the arena. Of equal pipelines
 * only one is simulated. */
struct sl_candidate_play {
    const struct sl_sched *sched;
    const struct sl_sim *sim; /* has a timeline if the caller asked for it */
    struct sl_candidate_score score;
};
SL_MUST_CHECK sl_err sl_search_candidate_play(struct sl_arena *arena,
                                              const struct sl_candidate_detail *detail,
                                              bool timeline, struct sl_candidate_play *out);
/* Number of passes that a simulation must play, which is its cost: for the whole candidate, and
 * folded. */
int64_t sl_search_candidate_passes(const struct sl_candidate_detail *detail);
int64_t sl_search_candidate_folded_passes(const struct sl_candidate_detail *detail);
/* Predicts the step with the measured tempo of the workers, which the problem must have. */
SL_MUST_CHECK sl_err sl_search_candidate_forecast(const struct sl_candidate_detail *detail,
                                                  const struct sl_stage_bytes *exact, int64_t *out);

#endif
