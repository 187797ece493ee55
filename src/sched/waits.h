/* Wait-for state of a running pipeline: the action of every worker at one moment, and the diagnosis
 * of a stall.
 *
 *     worker 0  B of a, waits for the gradient of b --> worker 1  B of b, waits ... --> worker 2
 *
 * A worker waits for at most one other, so the waits form chains. Each chain ends at a worker that
 * works (or is stuck), at one that has exited, or in a cycle. A verified schedule has no cycle,
 * so a cycle means that a message was lost. The functions are pure; pipe/ fills the table. */
#ifndef SL_SCHED_WAITS_H
#define SL_SCHED_WAITS_H

#include "sched/sched.h"

enum sl_wait {
    SL_WAIT_NONE,     /* it works */
    SL_WAIT_MESSAGE,  /* waits for a message over edge `of` from `peer` */
    SL_WAIT_PLACE,    /* waits to send over edge `of`, until `peer` has taken an older message */
    SL_WAIT_GROUP,    /* waits for the other members of group `of`; SL_WAIT_ALL: for all workers */
    SL_WAIT_DECISION, /* waits for the part of `peer` in the decision of a step */
    SL_WAIT_SHARDS,   /* waits for `peer`, a shard of the same stage, in a collective */
    SL_WAIT_COUNT,
};
enum { SL_WAIT_ALL = 0xffff };

/* State of a worker; sent between ranks as raw bytes. */
struct sl_work {
    int32_t known; /* 0: no state has been received */
    int32_t busy;  /* it runs an action; 0: not begun or finished */
    int32_t kind, stage, micro;
    int32_t wait, grad, of, peer, peer_micro;
    int64_t done;       /* number of actions done; a change is progress */
    int64_t moved;      /* messages or bytes that its process has received; a change is progress */
    int64_t starved_ns; /* total time ready to run without a CPU */
    int64_t expect_ns;  /* longest measured or expected time of this kind of action */
    int64_t still_ns;   /* ns without progress, minus time without a CPU, by the observer's clock */
};

/* Are the numbers possible in this plan? The sender is not trusted. */
bool sl_sched_work_is_valid(const struct sl_plan *plan, const struct sl_work *work);
/* Writes "B of stage b, micro-batch 3", and the reason of the wait. */
void sl_sched_work_put(struct sl_text *out, const struct sl_plan *plan, const struct sl_work *all,
                       int worker);

/* Returns the worker that a worker waits for; itself if it does not wait. The table is
 * all[worker_count]. */
int sl_sched_waits_next(const struct sl_plan *plan, const struct sl_work *all, int worker);
/* Writes the longest chain of waiting workers that ends at `last` into out[worker_count], and
 * returns its length, at least 1. */
int sl_sched_waits_chain(const struct sl_plan *plan, const struct sl_work *all, int last, int *out);

/* The limits from which a wait counts as a stall. */
struct sl_stall_rule {
    int64_t floor_ns;     /* least time of a stall */
    int64_t remote_ns;    /* added for workers of other ranks: their state arrives late */
    int64_t circle_ns;    /* time after which a cycle counts: no worker works or makes progress */
    int first, last_here; /* the workers of this rank: first .. last_here */
};
enum { SL_STALL_FACTOR = 10, SL_SLOW_FACTOR = 3 };
int64_t sl_sched_stall_limit_ns(int64_t floor_ns, int64_t expect_ns);

enum sl_verdict { SL_MOVES, SL_STALLED, SL_CIRCLE };
/* Judges the table. SL_STALLED: `*who` has been in one action for too long. SL_CIRCLE: no worker
 * works, and `*who` has waited longest. */
enum sl_verdict sl_sched_stall_judge(const struct sl_plan *plan, const struct sl_work *all,
                                     const struct sl_stall_rule *rule, int *who);
/* Is the worker slow but not stalled? It has taken SL_SLOW_FACTOR times the expected time and more
 * than a fifth of the floor. */
bool sl_sched_stall_is_slow(const struct sl_work *work, int64_t floor_ns);

#endif
