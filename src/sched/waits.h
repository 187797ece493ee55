/* Who waits for whom: what every worker is at, at one moment, and what that says about a pipeline
 * that does not move.
 *
 *     worker 0  B of a, waits for the gradient of b --> worker 1  B of b, waits ... --> worker 2
 *
 * A worker waits for one other at most, so the waits form chains, and each chain ends: with a
 * worker that works (or is stuck), with one that is not there any more, or in a circle, which no
 * verified schedule has (a message was lost). Pure: run/ fills the table.
 */
#ifndef SL_SCHED_WAITS_H
#define SL_SCHED_WAITS_H

#include "sched/sched.h"

enum sl_wait {
    SL_WAIT_NONE,     /* it works */
    SL_WAIT_MESSAGE,  /* for a message over edge `of`, made by `peer` */
    SL_WAIT_PLACE,    /* to send over edge `of`, until `peer` has taken an older message */
    SL_WAIT_GROUP,    /* for the other members of group `of`; SL_WAIT_ALL: for all workers */
    SL_WAIT_DECISION, /* for the part of `peer` in a step of all */
    SL_WAIT_COUNT,
};
enum { SL_WAIT_ALL = 0xffff };

/* What a worker is at. Travels between ranks as it is. */
struct sl_work {
    int32_t known; /* 0: nothing was heard of it */
    int32_t busy;  /* in an action; 0: its list is done, or not begun */
    int32_t kind, stage, micro;
    int32_t wait, grad, of, peer, peer_micro;
    int64_t done;       /* actions so far: changes when it moves */
    int64_t moved;      /* messages or bytes that its process has got: the same */
    int64_t starved_ns; /* so far: ready to work, without a processor */
    int64_t expect_ns;  /* the longest that this kind of action took here, or is expected to */
    int64_t still_ns;   /* it has not moved for, and was not starved; by the clock of who looks */
};

/* Numbers are those of the plan, whoever sent them. */
bool sl_sched_work_is_valid(const struct sl_plan *plan, const struct sl_work *work);
/* "B of stage b, micro-batch 3", with what it waits for. */
void sl_sched_work_put(struct sl_text *out, const struct sl_plan *plan, const struct sl_work *all,
                       int worker);

/* Whom a worker waits for; itself when for nobody. all[worker_count]. */
int sl_sched_waits_next(const struct sl_plan *plan, const struct sl_work *all, int worker);
/* The longest chain of waiting workers that leads to `last`, which is its end: out[worker_count];
 * returns its length, at least 1. */
int sl_sched_waits_chain(const struct sl_plan *plan, const struct sl_work *all, int last, int *out);

/* What counts as standing still. */
struct sl_stall_rule {
    int64_t floor_ns;     /* nothing is stalled sooner */
    int64_t remote_ns;    /* more for workers of other ranks, of which news comes late */
    int64_t circle_ns;    /* nobody works and nothing moves */
    int first, last_here; /* workers of this rank: first .. last_here */
};
enum { SL_STALL_FACTOR = 10, SL_SLOW_FACTOR = 3 };
int64_t sl_sched_stall_limit_ns(int64_t floor_ns, int64_t expect_ns);

enum sl_verdict { SL_MOVES, SL_STALLED, SL_CIRCLE };
/* SL_STALLED: `*who` has worked at one action for too long. SL_CIRCLE: nobody works, and `*who`
 * has waited longest. */
enum sl_verdict sl_sched_stall_judge(const struct sl_plan *plan, const struct sl_work *all,
                                     const struct sl_stall_rule *rule, int *who);
/* Slow, but not stalled: SL_SLOW_FACTOR times what is expected, and a fifth of the floor. */
bool sl_sched_stall_is_slow(const struct sl_work *work, int64_t floor_ns);

#endif
