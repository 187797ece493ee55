/* A schedule row: version rule, domain, facts, claims, and the generator of the lists of passes.
 * docs/adding/schedule.md shows how to add one. */
#ifndef SL_SCHEDULES_SCHEDULE_H
#define SL_SCHEDULES_SCHEDULE_H

#include "sched/sched.h"

/* What a row claims for one seat; tests/table/test_sched_rows.c checks the claims. */
struct sl_claim {
    int64_t live; /* most micro-batches between F and B or I; exact for width 1 unless live_bound */
    bool live_bound;  /* `live` is only an upper bound */
    int64_t versions; /* most weight slots */
    int64_t delay;    /* most steps by which the weights that F reads are behind */
};

/* The memory of a stage, as planners estimate it. `window` counts the replicas on the stage's
 * longest path to a sink. */
enum sl_memory_rule {
    SL_MEMORY_WINDOW,       /* min(m, window) stashes, one weight version */
    SL_MEMORY_ONE,          /* one stash, one weight version */
    SL_MEMORY_ALL,          /* m stashes (all of an iteration), one weight version */
    SL_MEMORY_TWO_VERSIONS, /* min(m, window) stashes, two weight versions */
    SL_MEMORY_STASHED,      /* min(m, window) stashes, 1 + ceil((window - 1) / m) weight versions */
};

/* When do planners try a schedule? */
enum sl_searched {
    SL_SEARCHED_NAMED, /* only if the request names the schedule */
    SL_SEARCHED_EQUAL, /* also if the request names none; only with one micro-batch size */
    SL_SEARCHED_MIXED, /* also if the request names none; only with a micro-batch size per stage */
};

/* Options of a schedule. */
struct sl_schedule_opts {
    const char *schedule;
    const struct sl_schedule *row; /* NULL: the row with the name `schedule` */
    int64_t batch;                 /* samples per iteration; 0: `micros` decides */
    int64_t micros;     /* micro-batches per iteration of the stages with the smallest micro_size */
    int64_t last_batch; /* samples of the last iteration; 0: as the others */
    int64_t iters;      /* iterations of the run; 0: 1 */
    int64_t group;      /* k of kFkB; 0: 1 */
    int64_t slack;      /* extra micro-batches in flight per edge; they cost stash memory */
    const struct sl_policy_use *policy; /* NULL: none */
    bool global_step; /* asynchronous schedules: one decision for all stages before each step */
    /* [stage]; NULL: those of the plan, or F=I=W=1, B=2 ... */
    const int64_t (*dur_ns)[SL_KIND_COUNT];
};

struct sl_gen;

struct sl_schedule {
    const char *name, *brief;
    const char *domain; /* what it can schedule, in words; "any": everything */
    enum sl_rule rule;
    enum sl_layout layout; /* placement of its stages */
    bool layout_chunks;    /* the layout has several stages per worker */

    /* Facts about the generated passes; tests/table/test_sched_rows.c checks each. */
    bool splits_backward; /* some backward passes are split into I and W */
    bool mixes_backward;  /* only some are; the others are B */
    /* A stage without slack and in groups of one has at least min(m, window) and at most `window`
     * micro-batches in flight (window: see sl_memory_rule). Planners use it to raise their lower
     * bounds. False: no claim. */
    bool windowed;
    enum sl_memory_rule memory;
    enum sl_searched searched;
    /* The row that gives the same schedule for one micro-batch size and also takes several; NULL:
     * none. */
    const struct sl_schedule *mixed;
    bool any_micro_size; /* stages may have different micro-batch sizes */
    bool groups;         /* made for --group K */
    /* least number of micro-batches per worker; 0: one micro-batch suffices */
    int micros_per_worker;
    /* the number of micro-batches must be a multiple of the number of workers */
    bool micros_divide;
    const char *torch_name; /* class in torch.distributed.pipelining; NULL: none */
    /* its pipeline_parallel_schedule; NULL: torchtitan gets it as CSV */
    const char *torchtitan_name;
    bool torch_fills; /* torch refuses it with fewer micro-batches than stages */
    bool in_megatron; /* Megatron-LM has options that request it */
    bool automodel_v; /* NeMo Automodel places its stages in a V */

    /* Default slack. Nonzero only if it adds no staleness. */
    int slack;
    /* Returns SL_ERR_REFUSED for a plan outside the domain; the message names the constraint. */
    sl_err (*check)(const struct sl_gen *gen);
    /* For synchronous rows: puts the passes of one iteration, numbered from 0
     * (sl_schedules_gen_put). NULL: the row is a stream of 1F1B over all iterations with the
     * windows of `window`. */
    sl_err (*iteration)(struct sl_gen *gen);
    /* Most micro-batches of a stage between F and B. */
    int64_t (*window)(const struct sl_gen *gen, int stage);
    void (*claim)(const struct sl_gen *gen, int seat, struct sl_claim *out);
    /* For rows outside the registry (given.h): puts all segments of gen->iters iterations. */
    sl_err (*segments)(struct sl_gen *gen);
    const void *own; /* data of the functions of such a row */
};

/* Generates, lowers and verifies. The result may be simulated and executed. SL_ERR_REFUSED if the
 * plan is outside the schedule's domain (the message names the constraint) or the result does not
 * verify. */
SL_MUST_CHECK sl_err sl_schedules_build(struct sl_arena *arena, const struct sl_plan *plan,
                                        const struct sl_schedule_opts *opts,
                                        const struct sl_sched **out);
/* Only generates: the result has passes only. */
SL_MUST_CHECK sl_err sl_schedules_generate(struct sl_arena *arena, const struct sl_plan *plan,
                                           const struct sl_schedule_opts *opts,
                                           struct sl_sched **out);

/* Returns all rows in alphabetical order; there are *count. */
const struct sl_schedule *const *sl_schedules_row_registry(int *count);
const struct sl_schedule *sl_schedules_row_find(const char *name); /* NULL if there is none */
/* Like find; SL_ERR_USAGE with the nearest name if there is none. */
SL_MUST_CHECK sl_err sl_schedules_row_require(const char *name, const struct sl_schedule **out);

/* Does a run take global steps if its job does not say? Only if they add no delay, so that a
 * schedule's name alone means the published rule. Synchronous rows always take global steps. */
bool sl_schedules_row_is_global(const struct sl_schedule *row);

/* Do two weight versions stall the pipeline, because an iteration has fewer micro-batches than are
 * in flight? */
bool sl_schedules_row_is_crowded(const struct sl_sched *sched);
/* Returns the row's default slack, or 0 if that does not fit in memory, is refused, or stalls the
 * pipeline (sl_schedules_row_is_crowded). */
int64_t sl_schedules_row_slack(const struct sl_plan *plan, const struct sl_schedule_opts *opts);

/* Returns the in-flight samples that one edge demands, by GraphPipe's rule (schedules/gen.h): for a
 * stage with micro-batches of b, groups of k and one replica, whose successor has next_f samples in
 * flight. */
int64_t sl_schedules_row_need(int64_t b, int64_t k, int64_t next_f, int64_t next_b, int64_t next_k);

/* Returns the claim of a schedule for a seat. */
SL_MUST_CHECK sl_err sl_schedules_row_claim(struct sl_arena *arena, const struct sl_plan *plan,
                                            const struct sl_schedule_opts *opts, int seat,
                                            struct sl_claim *out);

#endif
