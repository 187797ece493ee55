/* A schedule row: version rule, domain, facts, claims, and the generator of the lists of passes. To
 * add one, write a gen_*.c with a row and a line in registry.c. */
#ifndef SL_SCHEDULES_SCHEDULE_H
#define SL_SCHEDULES_SCHEDULE_H

#include "sched/sched.h"

/* Claims of a row for one seat; tests/table/test_sched_rows.c checks them. */
struct sl_claim {
    int64_t live;     /* micro-batches between F and B or I, at most; exact for width 1, unless: */
    bool live_bound;  /* `live` is only an upper bound */
    int64_t versions; /* weight slots, at most */
    int64_t delay;    /* steps by which weights read in F are behind, at most */
};

/* Memory of a stage, as planners estimate it. `window`: replicas on its longest path to a sink. */
enum sl_memory_rule {
    SL_MEMORY_WINDOW,       /* min(m, window) stashes, one weight version */
    SL_MEMORY_ONE,          /* one stash, one weight version */
    SL_MEMORY_ALL,          /* m stashes (all of an iteration), one weight version */
    SL_MEMORY_TWO_VERSIONS, /* min(m, window) stashes, two weight versions */
    SL_MEMORY_STASHED,      /* min(m, window) stashes, 1 + ceil((window - 1) / m) weight versions */
};

/* When do planners try a schedule? */
enum sl_searched {
    SL_SEARCHED_NAMED, /* only if the request names it */
    SL_SEARCHED_EQUAL, /* also if the request names none; with one micro-batch size */
    SL_SEARCHED_MIXED, /* also if the request names none; with a micro-batch size per stage */
};

/* Options of a schedule. */
struct sl_schedule_opts {
    const char *schedule;
    const struct sl_schedule *row; /* NULL: the one called `schedule` */
    int64_t batch;                 /* samples per iteration; or 0 and: */
    int64_t micros;     /* micro-batches per iteration of the stages with the smallest micro_size */
    int64_t last_batch; /* samples of the last iteration; 0 = same as the others */
    int64_t iters;      /* 0 = 1 */
    int64_t group;      /* k of kFkB; 0 = 1 */
    int64_t slack;      /* extra micro-batches in flight per edge; cost stash memory */
    const struct sl_policy_use *policy; /* NULL: none */
    bool global_step; /* asynchronous schedules: one decision for all stages before each step */
    const int64_t (*dur_ns)[SL_KIND_COUNT]; /* [stage]; NULL: the plan's, or F=I=W=1, B=2 ... */
};

struct sl_gen;

struct sl_schedule {
    const char *name, *brief;
    const char *domain; /* in words; "any": no constraint */
    enum sl_rule rule;
    enum sl_layout layout; /* placement of its stages */
    bool layout_chunks;    /* several stages per worker */

    /* Facts about what it generates; tests/table/test_sched_rows.c checks each. */
    bool splits_backward; /* runs backward passes as I and W, */
    bool mixes_backward;  /* but only some of them; the others as B */
    /* Without slack, in groups of one, a stage has at least min(m, window) and at most `window`
     * micro-batches in flight (window: see sl_memory_rule). Planners raise their lower bounds by
     * it. False: no claim. */
    bool windowed;
    enum sl_memory_rule memory;
    enum sl_searched searched;
    /* The row that gives the same schedule for one micro-batch size and takes several; NULL: none. */
    const struct sl_schedule *mixed;
    bool any_micro_size;         /* stages may have different micro-batch sizes */
    bool groups;                 /* meant for --group K */
    int micros_per_worker;       /* least number of micro-batches, per worker; 0: one in all */
    bool micros_divide;          /* micro-batches must be a multiple of the workers */
    const char *torch_name;      /* class in torch.distributed.pipelining; NULL: none */
    const char *torchtitan_name; /* its pipeline_parallel_schedule; NULL: hand it over as CSV */
    bool torch_fills;            /* torch refuses fewer micro-batches than stages */
    bool in_megatron;            /* options of Megatron-LM request it */
    bool automodel_v;            /* NeMo Automodel places its stages in a V */

    /* Default slack. Nonzero only if it adds no staleness. */
    int slack;
    /* SL_ERR_REFUSED outside the domain; the message names the constraint. */
    sl_err (*check)(const struct sl_gen *gen);
    /* Synchronous rows: put the passes of one iteration, numbered from 0 (sl_schedules_gen_put). NULL: a
     * stream of 1F1B over all iterations with the windows of `window`. */
    sl_err (*iteration)(struct sl_gen *gen);
    /* Max micro-batches of a stage between F and B. */
    int64_t (*window)(const struct sl_gen *gen, int stage);
    void (*claim)(const struct sl_gen *gen, int seat, struct sl_claim *out);
    /* Rows that are not in the registry (given.h): put all segments for gen->iters iterations. */
    sl_err (*segments)(struct sl_gen *gen);
    const void *own; /* of the functions of such a row */
};

/* generate -> lower -> verify. The result may be simulated and executed. SL_ERR_REFUSED outside the
 * schedule's domain (the message names the constraint) or if it does not verify. */
SL_MUST_CHECK sl_err sl_schedules_build(struct sl_arena *arena, const struct sl_plan *plan,
                                        const struct sl_schedule_opts *opts,
                                        const struct sl_sched **out);
/* The first of these: passes only. */
SL_MUST_CHECK sl_err sl_schedules_generate(struct sl_arena *arena, const struct sl_plan *plan,
                                           const struct sl_schedule_opts *opts,
                                           struct sl_sched **out);

/* All rows in alphabetical order; *count of them. */
const struct sl_schedule *const *sl_schedules_row_registry(int *count);
const struct sl_schedule *sl_schedules_row_find(const char *name); /* NULL when absent */
/* SL_ERR_USAGE with the nearest name. */
SL_MUST_CHECK sl_err sl_schedules_row_require(const char *name, const struct sl_schedule **out);

/* Does a run take global steps if its job does not say so? Only where they add no delay, so that a
 * bare name means the published rule. Synchronous rows are global anyway. */
bool sl_schedules_row_is_global(const struct sl_schedule *row);

/* Do two weight versions stall the pipeline, because an iteration has fewer micro-batches than are
 * in flight? */
bool sl_schedules_row_is_crowded(const struct sl_sched *sched);
/* The row's slack, or 0 if it does not fit in memory, is refused, or stalls the pipeline
 * (sl_schedules_row_is_crowded). */
int64_t sl_schedules_row_slack(const struct sl_plan *plan, const struct sl_schedule_opts *opts);

/* One edge of GraphPipe's in-flight rule (schedules/gen.h): samples in flight of a stage with
 * micro-batches of b, groups of k and one replica, before a successor with f samples in flight. */
int64_t sl_schedules_row_need(int64_t b, int64_t k, int64_t next_f, int64_t next_b, int64_t next_k);

/* The claim of a schedule for a seat. */
SL_MUST_CHECK sl_err sl_schedules_row_claim(struct sl_arena *arena, const struct sl_plan *plan,
                                            const struct sl_schedule_opts *opts, int seat,
                                            struct sl_claim *out);

#endif
