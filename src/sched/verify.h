/* The proof: an abstract machine that plays the lowered program. Private to sched/verify*.c.
 *
 *     verify.c       the machine's loop, borders of segments, recurrence, the end
 *     verify_pass.c  F B I W RECOMPUTE REDUCE STEP PREDICT: versions, slots, gradients
 *     verify_own.c   STEP of replicas that divide the optimizer state
 *     verify_msg.c   SEND and RECV: channels and message buffers
 *     cut.c          plays to a place between the actions of every worker
 *
 * The machine has no clock: it runs any worker that can proceed. The order does not matter, because
 * workers share only in-order channels and barriers of groups.
 */
#ifndef SL_SCHED_VERIFY_H
#define SL_SCHED_VERIFY_H

#include "base/vec.h"
#include "sched/blocked.h"
#include "sched/deps.h"
#include "sched/watch.h"

enum { SL_DONE_F = 1, SL_DONE_RECOMPUTE = 2, SL_DONE_I = 4, SL_DONE_W = 8 };

/* A message buffer for one micro-batch on one edge: an input or an output of a pass. */
struct sl_buffer {
    int32_t micro;  /* -1: free */
    int32_t got;    /* inputs: pieces that have arrived; outputs: pieces that are not sent yet */
    int32_t posted; /* inputs: pieces that are posted or have arrived */
};

struct sl_ver_weights {
    int32_t version; /* -1: the slot is empty */
    uint8_t ahead;
};

struct sl_gradient {
    int32_t iter;    /* iteration; -1: empty */
    int32_t count;   /* micro-batches that it contains */
    int32_t reduced; /* groups that have summed it */
};

struct sl_ver_seat {
    int32_t newest;                 /* newest version = number of STEPs so far */
    int32_t *stash, *kept;          /* [slot] micro-batch, -1: free */
    int32_t full;                   /* micro-batch in RECOMPUTE's slot */
    struct sl_ver_weights *weights; /* [slot] weight versions, then predicted weights */
    struct sl_gradient *grads;      /* [slot] */
    struct sl_buffer **buffers;     /* [pool - SL_POOL_EDGES][slot] */
    struct {
        int32_t iter, version; /* iter -1: no bellwether yet */
    } bell[2];                 /* bellwethers of forwards [0] and backwards [1] */
};

struct sl_posting {
    int32_t micro, other, slot;
    uint16_t edge;
    uint8_t flags;
};

struct sl_ver_channel { /* messages from one worker to another, in order */
    int from, to;
    SL_VEC(struct sl_posting) posted; /* receives that wait for their send: [head, count) */
    int64_t head;
};

struct sl_meeting {
    int32_t version; /* all members have joined for versions up to this one */
    int arrived;     /* members that have joined for the next version */
};

struct sl_ver {
    struct sl_arena arena;
    const struct sl_sched_watch *watch; /* NULL: no progress reports */
    int64_t played, told, all;          /* actions: played so far, reported last, all */
    const struct sl_plan *plan;
    struct sl_sched view; /* the schedule with as many repetitions as are played */
    struct sl_ver_seat *seats;
    uint8_t **done;     /* [stage][micro] bits of the passes that have run */
    int32_t **versions; /* [stage][micro] version of the forward + 1; under rules stash and vsync */
    int entry;          /* entry stage, under rule vsync */
    struct sl_meeting *meetings; /* [group] */
    int32_t *stepped;            /* [seat] zero1: the newest STEP that it has begun */
    /* [seat][i] version for which it joined its i-th group; the last one is the decision */
    int32_t **joined;
    int32_t **given; /* global_step: [group][version] parts that have been contributed */
    SL_VEC(struct sl_ver_channel) channels;
    /* [worker] first channel that it receives on; next_channel links the others */
    int *first_channel;
    SL_VEC(int) next_channel;
    int64_t *at;            /* [worker] position in its list */
    bool *queued, *entered; /* entered: the worker has joined the group that it waits for */
    SL_VEC(int) ready;
    struct sl_blocked *waits;
    int segment;
    int32_t rep;
};

/* One action of a worker that is tried. *go = false: it must wait, and waits[worker] says for
 * whom. */
struct sl_turn {
    int worker, seat;
    struct sl_action a;
    bool go;
};

/* verify.c. open: the machine before the first action; the caller sets `plan` and `view` first.
 * action: runs one action; the caller sets its segment, repetition and position first. *went false:
 * the worker waits. */
void sl_sched_verify_open(struct sl_ver *v);
void sl_sched_verify_close(struct sl_ver *v);
sl_err sl_sched_verify_action(struct sl_ver *v, int worker, const struct sl_action *action,
                              bool *went);

/* The value of sl_ver.done when all passes of a micro-batch have run. B of a frozen stage counts as
 * I and W. */
uint8_t sl_sched_verify_all(const struct sl_ver *v, int stage);
sl_err sl_sched_verify_pass(struct sl_ver *v, struct sl_turn *t);
/* Runs REDUCE, STEP and PREDICT. */
sl_err sl_sched_verify_weights(struct sl_ver *v, struct sl_turn *t);
sl_err sl_sched_verify_gradient(struct sl_ver *v, struct sl_turn *t, struct sl_gradient **out);
sl_err sl_sched_verify_replicas_first(const struct sl_ver *v, const struct sl_turn *t);
int sl_sched_verify_group_index(const struct sl_plan *plan, int stage,
                                int group); /* -1: the stage is not in the group */
/* verify_global_step.c. Runs REDUCE, and checks whether a STEP must wait. */
void sl_sched_verify_global_step_open(struct sl_ver *v);
sl_err sl_sched_verify_global_step_reduce(struct sl_ver *v, struct sl_turn *t);
sl_err sl_sched_verify_global_step_ready(struct sl_ver *v, struct sl_turn *t);
/* verify_own.c: a STEP meets those of the other replicas; which schedules cannot do that. */
void sl_sched_verify_own(struct sl_ver *v, struct sl_turn *t);
sl_err sl_sched_verify_owners(const struct sl_sched *sched);
sl_err sl_sched_verify_send(struct sl_ver *v, struct sl_turn *t);
sl_err sl_sched_verify_recv(struct sl_ver *v, struct sl_turn *t);

/* Returns the buffer that holds an input of a micro-batch, or NULL. */
struct sl_buffer *sl_sched_verify_input(struct sl_ver *v, int seat, int pool, int32_t micro);
/* Puts a piece of micro-batch `micro` into an input buffer: a posted receive, or an output of the
 * same worker. */
sl_err sl_sched_verify_fill(struct sl_ver *v, const struct sl_turn *t, int seat, int pool,
                            int32_t slot, int32_t micro);

/* verify_border.c: sl_sched_verify_snapshot copies the state at a border of repetitions.
 * sl_sched_verify_recurs checks that the state now is the same, shifted by one iteration. */
struct sl_border;
struct sl_border *sl_sched_verify_snapshot(struct sl_ver *v);
sl_err sl_sched_verify_recurs(struct sl_ver *v, const struct sl_border *before);

void sl_sched_verify_wake(struct sl_ver *v, int worker);
void sl_sched_verify_wait(struct sl_ver *v, struct sl_turn *t, int on, const char *why);
sl_err sl_sched_verify_fail(const struct sl_ver *v, const struct sl_turn *t, const char *fmt, ...)
    SL_PRINTF(3, 4);

#endif
