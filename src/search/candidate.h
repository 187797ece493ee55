/* A candidate: one way to cut, replicate and place; and what it costs.
 *
 * Three figures, each at most the next one on a machine with equal links:
 *     bottleneck  the busiest worker or wire of one iteration
 *     bound       bottleneck with the way to that worker and back: nothing can be faster
 *     step        the simulated iteration, with every message, fill, drain, reduction and step
 */
#ifndef SL_SEARCH_CANDIDATE_H
#define SL_SEARCH_CANDIDATE_H

#include "plan/plan.h"
#include "sched/schedule.h"
#include "search/problem.h"
#include "sim/sim.h"

/* Iterations to play of an asynchronous schedule: long enough to be in the steady state. */
enum { SL_ASYNC_ITERS = 64 };

struct sl_candidate {
    int stage_count;
    const int *stage_of;   /* [unit] stages in pipeline order: no tensor goes backwards */
    const int *width;      /* [stage] */
    const bool *recompute; /* [stage] */
    int size;              /* which of problem->sizes; the smallest of size_of */
    const int *size_of;    /* [stage] likewise, where stages differ in it; NULL: all have `size` */
    const char *schedule;
    bool sequential;  /* stages stand in a row although their tensors would not need it */
    bool across;      /* replicas r of all stages are neighbours; else replicas of a stage are */
    const int *order; /* [devices] the devices to use, first stage first; NULL: 0, 1, 2, ... */
};

static inline int sl_candidate_size(const struct sl_candidate *c, int stage) {
    return c->size_of ? c->size_of[stage] : c->size;
}

/* Is it sound? Every replica has a micro-batch, and where the ends of a tensor differ in the size
 * of theirs, samples come first in it. */
bool sl_search_candidate_check(const struct sl_problem *problem,
                               const struct sl_candidate *candidate);

struct sl_setup_stage {
    int64_t f, i, w, step;       /* ns of one pass; of one iteration */
    int64_t reduce;              /* over replicas and stages with tied parameters */
    int meetings;                /* of which that is the sum */
    int64_t in_bytes, out_bytes; /* per sample */
    struct sl_stage_bytes bytes;
    int first; /* position of its first device */
    bool reads_data;
};

/* A candidate with everything summed up. */
struct sl_setup {
    const struct sl_problem *problem;
    struct sl_candidate c;
    struct sl_setup_stage *stages;
    struct sl_edge *edges; /* true tensors, and those that make a row of it (0 bytes); by `from` */
    int *edge_at;          /* [stage + 1] where the edges of a stage begin */
    int edge_count, device_count;
    int *device_of;               /* [worker] */
    int **workers;                /* [stage][replica] */
    const struct sl_setup *whole; /* this is one of its pipelines and stands for all; NULL: not */
};

void sl_search_setup_build(struct sl_arena *arena, const struct sl_problem *problem,
                           const struct sl_candidate *candidate, struct sl_setup *out);

/* Where a schedule has several versions of the weights, workers step one by one, into a copy: bytes
 * of parameters per second; 0: it has not, or that was not measured. */
double sl_search_version_rate(const struct sl_problem *problem, const char *schedule);
/* The busiest worker or wire of an iteration, and which stage it is. */
int64_t sl_search_setup_bottleneck(const struct sl_setup *layout, int *stage);
/* No schedule of this layout ends an iteration sooner. */
int64_t sl_search_setup_bound(const struct sl_setup *layout);
/* Does the schedule part the gradients of weights from those of inputs? */
bool sl_search_schedule_splits(const char *schedule);
/* Is it 1F1B, with as many micro-batches in flight as replicas from the stage on? */
bool sl_search_schedule_windowed(const char *schedule);
/* The schedule to try with a micro-batch size per stage: the row with SL_SEARCHED_MIXED. */
const char *sl_search_mixed_schedule(void);
/* The part of `busy_ns` per iteration that must lie between the first and the last step of an
 * asynchronous run: as many micro-batches as are in flight may have been done before. */
int64_t sl_search_async_bound(int64_t busy_ns, int64_t micros, int devices);
/* How many micro-batches those are, at most. */
int64_t sl_search_async_before(int64_t micros, int devices);
/* Bytes that the fullest worker is likely to lack, from sums and windows; <= 0: it should fit. */
double sl_search_setup_lacks(const struct sl_setup *setup);
/* Turns recomputation off wherever the stage should fit without, in `recompute` [stage]; true:
 * something changed. `scale`: so much of the memory may be used. */
bool sl_search_setup_ease(const struct sl_setup *setup, double scale, bool *recompute);
/* Micro-batches of an iteration: of a stage, and the most of any. */
int64_t sl_search_setup_stage_micros(const struct sl_setup *layout, int stage);
int64_t sl_search_setup_micros(const struct sl_setup *layout);

/* The plan as data. Bytes are sums over units, or those in `exact` [stage] when it is given. */
SL_MUST_CHECK sl_err sl_search_setup_plan(struct sl_arena *arena, const struct sl_setup *layout,
                                          const struct sl_stage_bytes *exact,
                                          const struct sl_plan **out);
/* What lies between two of its workers: a route of sl_sim_net, whose context is the setup. */
void sl_search_setup_route(const void *layout, int from, int to, struct sl_sim_route *out);
/* Durations of its actions. */
void sl_search_setup_times(const struct sl_setup *layout, int64_t (*out)[SL_KIND_COUNT]);

struct sl_score {
    int64_t step_ns;    /* of one iteration; asynchronous: from step to step; times the tokens that
                           staleness costs: what planners minimise */
    int64_t sim_ns;     /* the same as it was played */
    int64_t over_bytes; /* the most that a worker lacks; <= 0: everything fits */
    int over_worker, over_stage;
    int64_t peak_bytes; /* of the fullest worker */
    int64_t all_bytes;  /* of all workers */
    double bubble;      /* idle share, mean over workers */
};

/* Build the schedule (which verifies it) and play it. SL_ERR_REFUSED: outside the schedule's domain. */
SL_MUST_CHECK sl_err sl_search_setup_score(const struct sl_setup *layout,
                                           const struct sl_stage_bytes *exact,
                                           struct sl_score *out);

/* A step of a schedule as a run has it, which was played with these times, one iteration of it when
 * it is synchronous. */
int64_t sl_search_step_ns(const struct sl_sched *sched, const struct sl_sim *sim,
                          const int64_t (*dur_ns)[SL_KIND_COUNT]);

/* The same as the tempo of the workers lets it be: synchronous steps begin anywhere in it, and the
 * middle one counts; of a schedule without a flush the mean from step to step. */
SL_MUST_CHECK sl_err sl_search_tempo_step(const struct sl_sched *sched,
                                          const struct sl_sim_opts *opts,
                                          const struct sl_tempo *tempo,
                                          const int64_t (*dur_ns)[SL_KIND_COUNT], int64_t *out);
/* That of a setup, whose problem has a tempo. */
SL_MUST_CHECK sl_err sl_search_setup_forecast(const struct sl_setup *layout,
                                              const struct sl_stage_bytes *exact, int64_t *out);

/* The same for searches: large setups of equal widths are played as one of their pipelines, with
 * its share of the links that all of them use. */
SL_MUST_CHECK sl_err sl_search_setup_score_fast(const struct sl_setup *setup, struct sl_score *out);
/* Passes of one iteration: what playing it costs so, and as a whole. */
int64_t sl_search_setup_passes(const struct sl_setup *setup);
int64_t sl_search_setup_all_passes(const struct sl_setup *setup);

/* Bytes of tied parameters over the slowest link. */
int64_t sl_search_tie_ns(const struct sl_machine *machine, double bytes);
/* A ring over w replicas on the devices of a stage. */
int64_t sl_search_reduce_ns(const struct sl_machine *machine, const int *devices, int width,
                            double bytes);

#endif
