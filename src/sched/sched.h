/* A schedule: when everything happens. Lists of actions, one per worker, in three segments.
 *
 *     worker 0 | prologue |  period  |  period  | ... |  epilogue |
 *     worker 1 | prologue |  period  |  period  | ... |  epilogue |
 *                  rep 0      rep 0      rep 1              rep = reps
 *
 * Numbers in the period are those of its first repetition; repetition r adds r iterations to
 * micro-batches and versions and turns slots by r steps (sl_sched_at does it). The epilogue is
 * numbered as if there were no repetition. So a schedule of any length has a fixed size, and the
 * verifier proves all lengths by showing that one period returns to its own start, turned by one.
 *
 * Micro-batches are numbered from 0 over the whole run, per stage: iteration t of stage i holds
 * micro-batches t*m_i .. t*m_i + m_i - 1. Weight version v is what STEP number v made; 0 is the
 * start. STEP v uses exactly the gradients of iteration v-1.
 *
 * Actions run in order on their worker:
 *     F B I W RECOMPUTE  a pass of one micro-batch; waits until its inputs have arrived
 *     RECV      posts a receive into a buffer and does not wait; the pass that reads it does
 *     SEND      gives a buffer to a posted receive; in the proof it waits for that receive (no
 *               buffering anywhere); channels between two workers are in order, per direction
 *     REDUCE    adds the gradient to its group; a worker's last REDUCE of a group and version waits
 *               for all other members
 *               global_step adds a group of all seats, for the decision of the step: global norm,
 *               clip factor, skip. Then REDUCE waits for replicas only. For ties and the decision it
 *               contributes; the decision needs the sums of the ties whose root is this stage. STEP
 *               waits for all groups of its stage and for the decision
 *     STEP      makes version `version` from the newest one, and empties the gradient buffer
 *     PREDICT   makes weights `ahead` steps beyond `version`, the newest one (staleness policies;
 *               PipeMare: `ahead` micro-batches back)
 */
#ifndef SL_SCHED_SCHED_H
#define SL_SCHED_SCHED_H

#include "optim/policy.h"
#include "plan/plan.h"

enum sl_kind {
    SL_FORWARD,
    SL_BACKWARD,        /* whole backward = I and W at once */
    SL_BACKWARD_INPUT,  /* gradient of the inputs */
    SL_BACKWARD_WEIGHT, /* gradient of the weights */
    SL_RECOMPUTE,
    SL_SEND,
    SL_RECV,
    SL_REDUCE,
    SL_STEP,
    SL_PREDICT,
    SL_KIND_COUNT,
};

enum { SL_GRAD = 1 }; /* flag of SEND and RECV: a gradient, against the direction of the edge */

struct sl_action {
    uint8_t kind; /* enum sl_kind */
    uint8_t flags;
    uint16_t stage;
    int32_t micro; /* passes, SEND, RECV: of this stage. Others: 0 */
    union {
        struct {                  /* passes, REDUCE, STEP, PREDICT */
            int32_t version;      /* weights it reads; REDUCE, STEP: version in the making */
            uint16_t weight_slot; /* where they are; STEP, PREDICT: where the result goes */
            uint8_t ahead;        /* predicted so many steps beyond `version`; 0 = true weights */
            uint8_t grad_slot;    /* gradient buffer that B, W add to, REDUCE and STEP use */
        };
        struct {           /* SEND, RECV */
            int32_t other; /* micro-batch of the stage at the other end */
            uint16_t peer; /* worker at the other end */
            uint16_t edge;
        };
    };
    int32_t slot;  /* passes: stash. SEND, RECV: message buffer. STEP, PREDICT: weight slot read.
                      REDUCE: group */
    int32_t slot2; /* I, W: kept. Others: 0 */
};

/* Which weight version a pass must read. */
enum sl_rule {
    SL_RULE_SYNC,    /* that of its iteration: F and B of iteration t read version t */
    SL_RULE_2BW,     /* max(t-1, 0) in F and B of iteration t (PipeDream-2BW) */
    SL_RULE_STASH,   /* the newest in F, the same in B */
    SL_RULE_VSYNC,   /* the newest at F of the entry stage, on all stages */
    SL_RULE_NEWEST,  /* the newest at F, the newest at B */
    SL_RULE_FORWARD, /* version 0: evaluation, one iteration of F, no stash, no step */
    SL_RULE_COUNT,
};

/* Slots come in pools, per seat. Repetition r uses slot (slot + r * turn) mod count. */
enum sl_pool_kind {
    SL_POOL_STASH,  /* F to I or B; holds the inputs only when the stage recomputes */
    SL_POOL_FULL,   /* RECOMPUTE to I or B; one slot */
    SL_POOL_KEPT,   /* I to W */
    SL_POOL_WEIGHT, /* versions */
    SL_POOL_GRAD,
    SL_POOL_PREDICT, /* predicted weights; weight_slot counts on behind SL_POOL_WEIGHT */
    SL_POOL_EDGES,   /* then two for each in-edge (RECV act, SEND grad) and two for each out-edge
                        (SEND act, RECV grad), in the order of stage->in, stage->out */
};

struct sl_slot_pool {
    int32_t count; /* slots */
    int32_t turn;
    int64_t bytes; /* of one slot */
};

enum { SL_PROLOGUE, SL_PERIOD, SL_EPILOGUE, SL_SEGMENT_COUNT };

struct sl_actions {
    struct sl_action *at;
    int64_t count;
};

struct sl_sched {
    const struct sl_plan *plan;
    const char *name; /* of the row, or from the file */
    enum sl_rule rule;
    struct sl_policy_use policy; /* decides `ahead`; row NULL: none */
    bool global_step;            /* asynchronous: one decision (norm, clip, skip) for all stages */
    int32_t slack;               /* an edge counts as 1 + slack micro-batches in flight */
    bool lowered;                /* else passes only */
    int64_t batch;               /* samples of an iteration */
    int64_t last_batch;          /* of the last iteration; == batch when even */
    int32_t iters, reps;         /* iterations in the whole run; repetitions of the period */
    int32_t buffers;       /* that the sends of its file assume, per channel (send_buffers.h) */
    const int32_t *micros; /* [stage] micro-batches of a full iteration */
    struct sl_actions *lists[SL_SEGMENT_COUNT]; /* [worker] */
    struct sl_slot_pool *const *pools; /* [seat][pool], see sl_pool_kind; NULL before lowering */
    const int64_t (*dur_ns)[SL_KIND_COUNT]; /* [stage] expected durations; SEND, RECV: 0 */
};

/* The action as it is in repetition `rep`. Prologue: rep 0. Epilogue: rep = reps. */
struct sl_action sl_sched_at(const struct sl_sched *sched, int seat, const struct sl_action *action,
                             int32_t rep);

/* Seat of a stage on a worker, or -1. */
int sl_sched_seat(const struct sl_plan *plan, int stage, int worker);

/* Groups of REDUCE: group g < stage_count = the replicas of stage g; stage_count + t = all seats of
 * tie t. A group that has one seat needs no REDUCE. */
int sl_sched_group_count(const struct sl_plan *plan);
bool sl_sched_in_group(const struct sl_plan *plan, int group, int stage);
int sl_sched_group_size(const struct sl_plan *plan, int group);
/* The i-th group of a stage that needs REDUCE; -1: fewer than that. */
int sl_sched_group_of(const struct sl_plan *plan, int stage, int i);

/* global_step. The group of the decision; the root of a group, the stage that contributes its part of
 * the norm (the highest one: its gradients are complete last); passes of a stage between its last
 * gradient and the step, unless it steps as late as possible (rule twobw). */
int sl_sched_decision_group(const struct sl_plan *plan);
int sl_sched_group_root(const struct sl_plan *plan, int group);
int sl_sched_step_delay(const struct sl_sched *sched, int stage);

/* Micro-batches of a stage in iteration t, and in the whole run. */
int32_t sl_sched_micros(const struct sl_sched *sched, int stage, int32_t iter);
int64_t sl_sched_total(const struct sl_sched *sched, int stage);
/* Samples of a micro-batch (the last of an iteration may be short). */
int64_t sl_sched_samples(const struct sl_sched *sched, int stage, int32_t micro);
/* global_step: message places between two holders of a tie; bytes of the largest tie of a worker. */
int sl_sched_share_places(const struct sl_sched *sched);
int64_t sl_sched_tied_max(const struct sl_sched *sched, int worker);
/* Bytes a worker allocates: weights, gradients, state, pools, workspace; of these, for messages. */
int64_t sl_sched_worker_bytes(const struct sl_sched *sched, int worker);
int64_t sl_sched_message_bytes(const struct sl_sched *sched, int worker);

int64_t sl_sched_action_count(const struct sl_sched *sched); /* in the lists, not repeated */

const char *sl_sched_kind_name(enum sl_kind kind); /* "F", "SEND", ... */
const char *sl_sched_rule_name(enum sl_rule rule); /* "sync", "twobw", ... */

/* Proves a lowered schedule. SL_ERR_REFUSED with the reason if it is wrong. */
SL_MUST_CHECK sl_err sl_sched_verify(const struct sl_sched *sched);

/* Text (.sched); holds its plan. Lowered or passes only. */
SL_MUST_CHECK sl_err sl_sched_read(struct sl_arena *arena, const char *file, const char *text,
                                   size_t length, struct sl_sched **out);
void sl_sched_write(const struct sl_sched *sched, struct sl_text *out);

#endif
