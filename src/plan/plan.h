/* A plan: a graph of stages, the placement of their replicas on workers, and their memory.
 *
 *        stage b (width 2)                    worker 0: a        a stage replica is a *seat*;
 *       /                 \                   worker 1: b/0      seats are numbered stage by
 *  stage a               stage d              worker 2: b/1      stage: a=0, b/0=1, b/1=2, ...
 *       \                 /                   worker 3: c d      a worker may hold several seats,
 *        stage c ---------                                       but one replica of a stage at most
 *
 * A worker is one device or, if its stages have `shards` t > 1, a team of t devices. Each device of
 * the team computes one shard of the worker's stages, and all t walk the worker's list of actions.
 * Devices are numbered worker by worker: worker_device[w] is the first of worker w. An expanded
 * plan, which runs, has a stage and a worker for each shard: part k of t, one after another.
 *
 * A micro-batch of a stage has `micro_size` samples; stages may have different sizes.
 * Micro-batch number j of an iteration belongs to replica j mod width (1F1B-RR). A plan is data:
 * read or built once, checked, then frozen. Text: docs/formats.md. */
#ifndef SL_PLAN_PLAN_H
#define SL_PLAN_PLAN_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include "plan/passes.h"

#include <stdint.h>

enum {
    SL_STAGE_MAX = 65535,
    SL_WORKER_MAX = 65535,
    SL_EDGE_MAX = 65535,
    SL_WIDTH_MAX = 65535,
    SL_SHARD_MAX = 1024,
    SL_COLLECTIVE_MAX = 1 << 16,
    SL_GROUP_MAX = 1 << 20,
    SL_SEAT_MAX = 1 << 20,
};

/* Bytes of a seat on one device (one shard). `stash`, `saved` and `kept` are per micro-batch. */
struct sl_stage_bytes {
    int64_t params; /* one copy of the trained weights */
    int64_t fixed;  /* frozen weights; there is always one copy */
    int64_t grads;  /* one gradient buffer */
    int64_t state;  /* optimizer state (with zero1 one replica's part) and running statistics */
    int64_t stash;  /* activations kept from F to I or B */
    int64_t saved;  /* the stage's inputs, kept from F to RECOMPUTE if the stage recomputes */
    int64_t kept;   /* tensors kept from I to W */
    int64_t work;   /* scratch while an action runs */
};
static const int64_t SL_STAGE_NS_MAX = INT64_MAX >> 24;

/* Collectives between the shards of a stage, in the order in which a pass runs them. */
enum sl_collective_kind {
    SL_COLLECTIVE_SUM,     /* all-reduce: every shard gets the sum of the parts, in shard order */
    SL_COLLECTIVE_GATHER,  /* all-gather: every shard gets all parts */
    SL_COLLECTIVE_SCATTER, /* reduce-scatter: every shard gets its part of the sum */
    SL_COLLECTIVE_KINDS,
};
enum sl_collective_pass {
    SL_COLLECTIVE_F, /* in F; a stage that recomputes repeats it */
    SL_COLLECTIVE_B, /* in B or I */
    SL_COLLECTIVE_W, /* in B or W */
    SL_COLLECTIVE_PASSES,
};
struct sl_collective {
    enum sl_collective_pass pass;
    enum sl_collective_kind kind;
    int64_t sample_bytes; /* bytes of the whole tensor for one sample */
    int count;            /* number of such collectives in a row */
};
extern const char *const sl_plan_collective_kinds[]; /* the last one is NULL */
extern const char *const sl_plan_collective_passes[];

/* Bytes that each of `shards` devices sends in a ring collective on a tensor of `bytes`. */
int64_t sl_plan_collective_traffic(enum sl_collective_kind kind, int shards, int64_t bytes);

/* Expected durations of the actions of one seat, in ns: passes of a full micro-batch with their
 * collectives, one reduce, one step. Some schedules order passes by them. All 0: unknown. */
struct sl_stage_times {
    int64_t f, b, i, w, recompute, reduce, step;
};

struct sl_stage {
    const char *name;
    int width;          /* number of replicas */
    int shards;         /* number t of devices of a replica; 0 in a draft means 1 */
    int part, parts;    /* expanded plans: shard `part` of `parts`; parts 0 in a draft means 1 */
    bool zero1;         /* the replicas divide the optimizer state among them */
    int64_t micro_size; /* samples of one micro-batch */
    const int *workers; /* [width] worker of each replica */
    const int *nodes;   /* [node_count] graph nodes, ascending; empty if the plan has no model */
    int node_count;
    int group; /* k of kFkB, for schedules with groups; 0: 1 */
    enum sl_stage_passes passes;
    bool recompute; /* F stores only the stage's inputs; RECOMPUTE runs before B or I */
    bool has_input; /* the stage reads training data (sources always do) */
    struct sl_stage_bytes bytes;
    struct sl_stage_times times;
    const struct sl_collective *collectives; /* [collective_count] */
    int collective_count;
    /* fields that sl_plan_build derives: */
    int height; /* number of edges on the longest path to a sink */
    int window; /* largest number of replicas on a path to a sink, with those of this stage */
    int seat;   /* its seats are seat .. seat + width - 1 */
    const int *in, *out; /* numbers of its edges, ascending */
    int in_count, out_count;
};

struct sl_edge {
    int from, to;         /* stages at its ends */
    int64_t sample_bytes; /* activation bytes of one sample; its gradient has the same size */
    /* derived; grads: the edge carries gradients, because both stages have backward passes */
    int from_place, to_place; /* position in from->out and in to->in */
    bool grads;
};

/* Stages that hold a copy of the same parameters; the copies are equal after every step. */
struct sl_tie {
    const char *name;
    const int *stages; /* [count] stages, ascending, at least two */
    int count;
    int64_t bytes; /* bytes of the shared parameters, which each stage's `params` also contains */
};

struct sl_seat {
    int stage, replica, worker;
};

struct sl_plan {
    const char *model; /* name of the model, or NULL */
    int node_count;    /* nodes of the model; 0: stages list no nodes */
    uint64_t graph;    /* sl_graph_model_hash of the model; 0: unknown */
    const char *sizes; /* sizes of the model, "L=4,C=128"; or NULL */
    const struct sl_stage *stages;
    int stage_count;
    const struct sl_edge *edges; /* includes skip edges */
    int edge_count;
    const struct sl_tie *ties;
    int tie_count;
    int worker_count;
    const int64_t *memory_bytes; /* [worker_count] limit of each of its devices; 0: no limit */
    /* What the planner chose; a schedule may be built with other values. NULL or 0: nothing. */
    const char *schedule;
    int64_t batch; /* number of samples per optimizer step */
    /* derived fields: */
    const struct sl_seat *seats;
    int seat_count;
    const int *const *worker_seats; /* [worker_count] numbers of its seats, ascending */
    const int *worker_seat_count;
    const int *worker_device; /* [worker_count + 1] first device; the last: number of devices */
    const int *worker_shards; /* [worker_count] number of devices; 1 if it has no seat */
    int shards;               /* largest number of shards of a stage */
    int depth;                /* number of stages on the longest path: 1 + largest height */
    int window;               /* largest window of a stage */
    const int *topo; /* [stage_count] topological order: every edge leads to a later stage */
};

/* Copies `draft` without its derived fields into `arena`, derives them and checks the plan. */
SL_MUST_CHECK sl_err sl_plan_build(struct sl_arena *arena, const struct sl_plan *draft,
                                   const struct sl_plan **out);

/* Checks the rules for a plan: names, ranges, acyclic, one replica of a stage per worker, every
 * node in exactly one stage, ties. sl_plan_build calls it. Returns SL_ERR_INPUT. */
SL_MUST_CHECK sl_err sl_plan_check(const struct sl_plan *plan);

/* Text form. `file` appears in messages. write(read(x)) == x for text that we wrote. */
SL_MUST_CHECK sl_err sl_plan_read(struct sl_arena *arena, const char *file, const char *text,
                                  size_t length, const struct sl_plan **out);
void sl_plan_write(const struct sl_plan *plan, struct sl_text *out);

/* Plans without a model, for sketches and tests. */
enum sl_layout {
    SL_LAYOUT_LOOP,  /* stage s on worker s mod workers (one stage each if workers == stages) */
    SL_LAYOUT_V,     /* stages r and 2p-1-r on worker r */
    SL_LAYOUT_CROSS, /* width 2: stage s on workers s and p-1-s (Chimera) */
};
SL_MUST_CHECK sl_err sl_plan_chain(struct sl_arena *arena, int stages, int workers,
                                   enum sl_layout layout, const struct sl_plan **out);
/* Parses "a>b,a>c,b>d,c>d": stages in order of appearance, on `workers` workers in a loop (0: one
 * worker per stage). */
SL_MUST_CHECK sl_err sl_plan_dag(struct sl_arena *arena, const char *text, int workers,
                                 const struct sl_plan **out);

/* Do the plans cut, replicate and place the model in the same way? Names, bytes, zero1 and the
 * planner's choices may differ. */
bool sl_plan_same_layout(const struct sl_plan *a, const struct sl_plan *b);

/* Is the plan such a sketch? Its bytes count units, so their sums mean nothing to a reader. */
bool sl_plan_is_sketch(const struct sl_plan *plan);

/* Undoes an expansion: returns the plan of which `plan` is the expansion, with `parts` shards per
 * stage. Stages, edges and ties are those of part 0. All stages must have the same number of parts,
 * and shard k of worker w must be worker w * parts + k; else SL_ERR_REFUSED. */
SL_MUST_CHECK sl_err sl_plan_fold(struct sl_arena *arena, const struct sl_plan *plan,
                                  const struct sl_plan **out);

/* Returns the stage of that name, or -1. */
int sl_plan_find_stage(const struct sl_plan *plan, struct sl_str name);

#endif
