/* The proof: an abstract machine that plays the lowered program. Private to sched/verify*.c.
 *
 *     verify.c       the machine's loop, borders of segments, recurrence, the end
 *     verify_pass.c  F B I W RECOMPUTE REDUCE STEP PREDICT: versions, slots, gradients
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

/* A message buffer: the input of one micro-batch over one edge, or its output. */
struct sl_buffer {
    int32_t micro;  /* -1: free */
    int32_t got;    /* inputs: pieces arrived. outputs: pieces not sent yet */
    int32_t posted; /* inputs: pieces posted or arrived */
};

struct sl_ver_weights {
    int32_t version; /* -1: nothing */
    uint8_t ahead;
};

struct sl_gradient {
    int32_t iter;    /* -1: empty */
    int32_t count;   /* micro-batches in it */
    int32_t reduced; /* groups it has gone into */
};

struct sl_ver_seat {
    int32_t newest;                 /* version = number of STEPs */
    int32_t *stash, *kept;          /* [slot] micro-batch, -1: free */
    int32_t full;                   /* RECOMPUTE's slot */
    struct sl_ver_weights *weights; /* [slot] true ones, then predicted */
    struct sl_gradient *grads;      /* [slot] */
    struct sl_buffer **buffers;     /* [pool - SL_POOL_EDGES][slot] */
    struct {
        int32_t iter, version; /* iter -1: none yet */
    } bell[2];                 /* bellwethers of forwards and backwards */
};

struct sl_posting {
    int32_t micro, other, slot;
    uint16_t edge;
    uint8_t flags;
};

struct sl_ver_channel { /* from one worker to another, in order */
    int from, to;
    SL_VEC(struct sl_posting) posted; /* receives without their send: [head, count) */
    int64_t head;
};

struct sl_meeting {
    int32_t version; /* complete up to this one */
    int arrived;     /* for the next */
};

struct sl_ver {
    struct sl_arena arena;
    const struct sl_sched_watch *watch; /* NULL: none */
    int64_t played, told, all;          /* actions */
    const struct sl_plan *plan;
    struct sl_sched view; /* with as many repetitions as are played */
    struct sl_ver_seat *seats;
    uint8_t **done;              /* [stage][micro] */
    int32_t **versions;          /* [stage][micro] of the forward + 1; rules STASH, VSYNC */
    int entry;                   /* VSYNC */
    struct sl_meeting *meetings; /* [group] */
    int32_t **joined; /* [seat][i] version contributed to its i-th group; last: decision */
    int32_t **given;  /* global_step: [group][version] parts */
    SL_VEC(struct sl_ver_channel) channels;
    int *first_channel; /* [worker] channels it receives on, linked */
    SL_VEC(int) next_channel;
    int64_t *at;            /* [worker] */
    bool *queued, *entered; /* entered: contributed to the barrier it waits at */
    SL_VEC(int) ready;
    struct sl_blocked *waits;
    int segment;
    int32_t rep;
};

/* One action of a worker. *go = false: it waits (waits[worker] says for whom). */
struct sl_turn {
    int worker, seat;
    struct sl_action a;
    bool go;
};

/* verify.c: the machine before the first action; it needs plan and view. Then single actions, whose
 * segment, repetition and place the caller has set. *went false: the worker waits. */
void sl_sched_verify_open(struct sl_ver *v);
void sl_sched_verify_close(struct sl_ver *v);
sl_err sl_sched_verify_action(struct sl_ver *v, int worker, const struct sl_action *action,
                              bool *went);

/* Bits of sl_ver.done when all passes of a micro-batch have run. B of a frozen stage counts as I and
 * W. */
uint8_t sl_sched_verify_all(const struct sl_ver *v, int stage);
sl_err sl_sched_verify_pass(struct sl_ver *v, struct sl_turn *t);
sl_err sl_sched_verify_weights(struct sl_ver *v, struct sl_turn *t); /* REDUCE STEP PREDICT */
sl_err sl_sched_verify_gradient(struct sl_ver *v, struct sl_turn *t, struct sl_gradient **out);
sl_err sl_sched_verify_replicas_first(const struct sl_ver *v, const struct sl_turn *t);
int sl_sched_verify_group_index(const struct sl_plan *plan, int stage,
                                int group); /* -1: not in it */
/* verify_global_step.c: REDUCE, and the waits of STEP. */
void sl_sched_verify_global_step_open(struct sl_ver *v);
sl_err sl_sched_verify_global_step_reduce(struct sl_ver *v, struct sl_turn *t);
sl_err sl_sched_verify_global_step_ready(struct sl_ver *v, struct sl_turn *t);
sl_err sl_sched_verify_send(struct sl_ver *v, struct sl_turn *t);
sl_err sl_sched_verify_recv(struct sl_ver *v, struct sl_turn *t);

/* The buffer that holds an input of a micro-batch, or NULL. */
struct sl_buffer *sl_sched_verify_input(struct sl_ver *v, int seat, int pool, int32_t micro);
/* Put a piece of `total` for `micro` into an input buffer: posted or handed over. */
sl_err sl_sched_verify_fill(struct sl_ver *v, const struct sl_turn *t, int seat, int pool,
                            int32_t slot, int32_t micro);

/* verify_border.c: the state at a border, and whether the state now is that one turned by one. */
struct sl_border;
struct sl_border *sl_sched_verify_snapshot(struct sl_ver *v);
sl_err sl_sched_verify_recurs(struct sl_ver *v, const struct sl_border *before);

void sl_sched_verify_wake(struct sl_ver *v, int worker);
void sl_sched_verify_wait(struct sl_ver *v, struct sl_turn *t, int on, const char *why);
sl_err sl_sched_verify_fail(const struct sl_ver *v, const struct sl_turn *t, const char *fmt, ...)
    SL_PRINTF(3, 4);

#endif
