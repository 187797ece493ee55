/* Wait-for state of a running pipeline: the action of every worker at one moment, and the diagnosis
 * of a stall.
 *
 *     worker 0  B of a, waits for the gradient of b --> worker 1  B of b, waits ... --> worker 2
 *
 * A worker waits for at most one other, so the waits form chains. Each chain ends at a worker that
 * works (or is stuck), at one that has exited, or in a cycle. A verified schedule has no cycle: then
 * a message was lost. Pure functions; pipe/ fills the table.
 */
#ifndef SL_SCHED_WAITS_H
#define SL_SCHED_WAITS_H

#include "sched/sched.h"

enum sl_wait {
    SL_WAIT_NONE,     /* it works */
    SL_WAIT_MESSAGE,  /* for a message over edge `of`, made by `peer` */
    SL_WAIT_PLACE,    /* to send over edge `of`, until `peer` has taken an older message */
    SL_WAIT_GROUP,    /* for the other members of group `of`; SL_WAIT_ALL: for all workers */
    SL_WAIT_DECISION, /* for the part of `peer` in the decision of a step */
    SL_WAIT_SHARDS,   /* for `peer`, a shard of the same stage, in a collective */
    SL_WAIT_COUNT,
};
enum { SL_WAIT_ALL = 0xffff };

/* State of a worker; sent between ranks as raw bytes. */
struct sl_work {
    int32_t known; /* 0: no state received */
    int32_t busy;  /* runs an action; 0: not begun or finished */
    int32_t kind, stage, micro;
    int32_t wait, grad, of, peer, peer_micro;
    int64_t done;       /* actions done: progress */
    int64_t moved;      /* messages or bytes received by its process: progress, too */
    int64_t starved_ns; /* total time ready to run without a CPU */
    int64_t expect_ns;  /* max measured or expected time of this kind of action */
    int64_t still_ns;   /* ns without progress, minus time without a CPU, by the observer's clock */
};

/* Numbers are checked against the plan; the sender is not trusted. */
bool sl_sched_work_is_valid(const struct sl_plan *plan, const struct sl_work *work);
/* Text: "B of stage b, micro-batch 3", and the reason of the wait. */
void sl_sched_work_put(struct sl_text *out, const struct sl_plan *plan, const struct sl_work *all,
                       int worker);

/* The worker that a worker waits for; itself if it does not wait. all[worker_count]. */
int sl_sched_waits_next(const struct sl_plan *plan, const struct sl_work *all, int worker);
/* The longest chain of waiting workers that leads to `last`, which is its end: out[worker_count];
 * returns its length, at least 1. */
int sl_sched_waits_chain(const struct sl_plan *plan, const struct sl_work *all, int last, int *out);

/* Thresholds of a stall. */
struct sl_stall_rule {
    int64_t floor_ns;     /* minimum time of a stall */
    int64_t remote_ns;    /* added for workers of other ranks: their state arrives late */
    int64_t circle_ns;    /* for a cycle: no worker works, no progress */
    int first, last_here; /* workers of this rank: first .. last_here */
};
enum { SL_STALL_FACTOR = 10, SL_SLOW_FACTOR = 3 };
int64_t sl_sched_stall_limit_ns(int64_t floor_ns, int64_t expect_ns);

enum sl_verdict { SL_MOVES, SL_STALLED, SL_CIRCLE };
/* SL_STALLED: `*who` has been in one action for too long. SL_CIRCLE: no worker works; `*who` has
 * waited longest. */
enum sl_verdict sl_sched_stall_judge(const struct sl_plan *plan, const struct sl_work *all,
                                     const struct sl_stall_rule *rule, int *who);
/* Slow, but not stalled: SL_SLOW_FACTOR times what is expected, and a fifth of the floor. */
bool sl_sched_stall_is_slow(const struct sl_work *work, int64_t floor_ns);

#endif
