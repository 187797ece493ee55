/* A schedule states when everything happens: one list of actions per worker, in three segments.
 *
 *     worker 0 | prologue |  period  |  period  | ... |  epilogue |
 *     worker 1 | prologue |  period  |  period  | ... |  epilogue |
 *                  rep 0      rep 0      rep 1              rep = reps
 *
 * Numbers in the period are those of its first repetition; repetition r adds r iterations to
 * micro-batches and versions and turns slots by r steps (sl_sched_at does this). The epilogue is
 * numbered as if there were no repetition. So a schedule of any length has a fixed size. The
 * verifier proves all lengths by showing that the state after a period is the state before it,
 * turned by one iteration.
 *
 * Micro-batches are numbered from 0 over the whole run, per stage: iteration t of stage i holds
 * micro-batches t*m_i .. t*m_i + m_i - 1. Weight version v is made by STEP number v; version 0
 * is the initial weights. STEP v uses exactly the gradients of iteration v-1.
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
 *               PipeMare: `ahead` micro-batches back) */
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

/* Flag of SEND and RECV: the message is a gradient and goes against the direction of the edge. */
enum { SL_GRAD = 1 };

struct sl_action {
    uint8_t kind; /* enum sl_kind */
    uint8_t flags;
    uint16_t stage;
    int32_t micro; /* passes, SEND, RECV: micro-batch of this stage. Other actions: 0 */
    union {
        struct { /* passes, REDUCE, STEP, PREDICT */
            /* passes, PREDICT: version of the weights that are read. REDUCE, STEP: version that is
             * being made */
            int32_t version;
            /* passes: slot of these weights. STEP, PREDICT: slot of the result */
            uint16_t weight_slot;
            /* the weights are predicted this many steps beyond `version`; 0: not predicted */
            uint8_t ahead;
            uint8_t grad_slot; /* gradient buffer that B and W add to, and REDUCE and STEP use */
        };
        struct {           /* SEND, RECV */
            int32_t other; /* micro-batch of the stage at the other end */
            uint16_t peer; /* worker at the other end */
            uint16_t edge;
        };
    };
    /* passes: stash slot. SEND, RECV: message buffer. STEP, PREDICT: slot of the weights that are
     * read. REDUCE: group */
    int32_t slot;
    /* I, W: slot in pool SL_POOL_KEPT, which holds what I leaves for W. Other actions: 0 */
    int32_t slot2;
};

/* The rule that decides which weight version a pass must read. */
enum sl_rule {
    SL_RULE_SYNC,    /* the version of its iteration: F and B of iteration t read version t */
    SL_RULE_2BW,     /* F and B of iteration t read version max(t-1, 0) (PipeDream-2BW) */
    SL_RULE_STASH,   /* F reads the newest version, its B the same one */
    SL_RULE_VSYNC,   /* all stages read the version that was newest at F of the entry stage */
    SL_RULE_NEWEST,  /* F reads the newest version, B the then newest one */
    SL_RULE_FORWARD, /* evaluation: one iteration of F on version 0, without stash or step */
    SL_RULE_COUNT,
};

/* Each seat has pools of slots. Repetition r uses slot (slot + r * turn) mod count. */
enum sl_pool_kind {
    /* activations, from F to I or B; only the stage's inputs if the stage recomputes */
    SL_POOL_STASH,
    SL_POOL_FULL,   /* recomputed activations, from RECOMPUTE to I or B; one slot */
    SL_POOL_KEPT,   /* what I leaves for W */
    SL_POOL_WEIGHT, /* weight versions */
    SL_POOL_GRAD,
    /* predicted weights; their weight_slot numbers follow those of SL_POOL_WEIGHT */
    SL_POOL_PREDICT,
    /* two pools for each in-edge (RECV act, SEND grad), then two for each out-edge (SEND act, RECV
     * grad), in the order of stage->in and stage->out */
    SL_POOL_EDGES,
};

struct sl_slot_pool {
    int32_t count; /* number of slots */
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
    const char *name; /* name of the row, or the name in the file */
    enum sl_rule rule;
    struct sl_policy_use policy; /* policy that decides `ahead`; row NULL: none */
    bool global_step;    /* asynchronous: one decision (norm, clip, skip) per step for all stages */
    int32_t slack;       /* each edge counts as 1 + slack micro-batches in flight */
    bool lowered;        /* it has been lowered; false: passes only */
    int64_t batch;       /* samples per iteration */
    int64_t last_batch;  /* samples of the last iteration; equal to `batch` if all are equal */
    int32_t iters, reps; /* iterations in the whole run; repetitions of the period */
    int32_t buffers; /* buffers per channel that the sends in its file assume (send_buffers.h) */
    const int32_t *micros;                      /* [stage] micro-batches of a full iteration */
    struct sl_actions *lists[SL_SEGMENT_COUNT]; /* [worker] */
    struct sl_slot_pool *const *pools; /* [seat][pool], see sl_pool_kind; NULL before lowering */
    const int64_t (*dur_ns)[SL_KIND_COUNT]; /* [stage] expected durations; SEND, RECV: 0 */
};

/* Returns an action of the lists as it is in repetition `rep`. Prologue: rep 0. Epilogue: rep =
 * reps. */
struct sl_action sl_sched_at(const struct sl_sched *sched, int seat, const struct sl_action *action,
                             int32_t rep);

/* Returns the seat of a stage on a worker, or -1. */
int sl_sched_seat_replica(const struct sl_plan *plan, int stage, int worker);
static inline int sl_sched_seat(const struct sl_plan *plan, int stage, int worker) {
    const struct sl_stage *s = &plan->stages[stage];
    if (s->width > 1)
        return sl_sched_seat_replica(plan, stage, worker);
    return s->workers[0] == worker ? s->seat : -1;
}

/* Groups of REDUCE. Group g < stage_count: the replicas of stage g. Group stage_count + t: all
 * seats of tie t. A group of one seat needs no REDUCE. */
int sl_sched_group_count(const struct sl_plan *plan);
bool sl_sched_in_group(const struct sl_plan *plan, int group, int stage);
int sl_sched_group_size(const struct sl_plan *plan, int group);
/* Returns the i-th group of a stage that needs REDUCE; -1 if the stage has fewer. */
int sl_sched_group_of(const struct sl_plan *plan, int stage, int i);

/* With global_step. decision_group: the group of the decision. group_root: the stage that
 * contributes the group's part of the norm; it is the highest one, because its gradients are
 * complete last. step_delay: passes of a stage between its last gradient and the step (except under
 * rule twobw, which steps as late as possible). */
int sl_sched_decision_group(const struct sl_plan *plan);
int sl_sched_group_root(const struct sl_plan *plan, int group);
int sl_sched_step_delay(const struct sl_sched *sched, int stage);

/* micros: micro-batches of a stage in iteration t. total: in the whole run. */
int32_t sl_sched_micros(const struct sl_sched *sched, int stage, int32_t iter);
int64_t sl_sched_total(const struct sl_sched *sched, int stage);
/* Samples of a micro-batch. The last one of an iteration may be shorter. */
int64_t sl_sched_samples(const struct sl_sched *sched, int stage, int32_t micro);
/* With global_step. share_places: message places between two holders of a tie. tied_max: bytes of
 * the largest tie of a worker. */
int sl_sched_share_places(const struct sl_sched *sched);
int64_t sl_sched_tied_max(const struct sl_sched *sched, int worker);
/* worker_bytes: what a worker allocates for weights, gradients, state, pools and workspace.
 * message_bytes: the part of these that is for messages. */
int64_t sl_sched_worker_bytes(const struct sl_sched *sched, int worker);
int64_t sl_sched_message_bytes(const struct sl_sched *sched, int worker);

/* number of actions in the lists, each counted once */
int64_t sl_sched_action_count(const struct sl_sched *sched);

const char *sl_sched_kind_name(enum sl_kind kind); /* "F", "SEND", ... */
const char *sl_sched_rule_name(enum sl_rule rule); /* "sync", "twobw", ... */

/* Proves that a lowered schedule is right. Returns SL_ERR_REFUSED with the reason if it is
 * wrong. */
SL_MUST_CHECK sl_err sl_sched_verify(const struct sl_sched *sched);

/* The text form (.sched) of a schedule, lowered or passes only. The text contains the plan. */
SL_MUST_CHECK sl_err sl_sched_read(struct sl_arena *arena, const char *file, const char *text,
                                   size_t length, struct sl_sched **out);
void sl_sched_write(const struct sl_sched *sched, struct sl_text *out);

#endif
