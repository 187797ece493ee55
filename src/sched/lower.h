/* Lowering: passes become a program. Private to sched/lower*.c.
 *
 *     passes --expand--> + RECOMPUTE REDUCE STEP, versions      (lower_expand.c)
 *            --time----> a reference simulation, by segment   (lower_time.c)
 *            --message-> + RECV and SEND                        (lower.c)
 *            --slots---> buffer and version slots               (lower_slots.c)
 *
 * All of it works on the flat schedule (one repetition at most), numbered from the start.
 */
#ifndef SL_SCHED_LOWER_H
#define SL_SCHED_LOWER_H

#include "base/vec.h"
#include "sched/deps.h"

struct sl_items {
    SL_VEC(struct sl_action) vec;
    int64_t *ends; /* [timed items] end in the reference simulation */
    int64_t timed; /* passes and RECOMPUTE */
};

struct sl_low {
    struct sl_arena *arena; /* of the result */
    struct sl_arena scratch;
    const struct sl_plan *plan;
    struct sl_sched flat;
    struct sl_sched *out;
    struct sl_items *items[SL_SEGMENT_COUNT]; /* [worker] */
    const bool *tight;                        /* [worker] no memory for early receives */
};

static inline bool sl_is_timed(const struct sl_action *a) { return a->kind <= SL_RECOMPUTE; }

/* lower_policy.c: predictions and bellwethers of a seat, by direction of the pass. */
struct sl_foresight {
    struct {
        int32_t version, ahead; /* ahead 0: nothing */
    } made[2];
    struct {
        int32_t iter, version;
    } bell[2];
};
/* The version of the policy's bellwether, or `version` if the policy has none. */
int32_t sl_sched_lower_bell(const struct sl_low *low, struct sl_foresight *seat,
                            const struct sl_action *pass, int32_t newest, int32_t version);
/* Sets pass->ahead; puts the PREDICT that the pass needs before it. */
sl_err sl_sched_lower_foresee(struct sl_low *low, struct sl_foresight *seat, struct sl_items *items,
                              struct sl_action *pass);
/* 2bw predicts right after a step, because the next step overwrites the direction. The reader may be
 * in another repetition of the period. */
sl_err sl_sched_lower_foresee_step(struct sl_low *low, struct sl_items *items, int segment,
                                   int stage, int32_t version);

sl_err sl_sched_lower_check(const struct sl_sched *flat);
sl_err sl_sched_lower_expand(struct sl_low *low);
sl_err sl_sched_lower_time(struct sl_low *low);
sl_err sl_sched_lower_slots(struct sl_low *low);

/* Number of groups of a stage that need REDUCE; the i-th of them. */
int sl_sched_group_of(const struct sl_plan *plan, int stage, int i);

/* Text of an action: "F s1 3". */
enum { SL_ACTION_TEXT = 96 };
const char *sl_sched_action_text(const struct sl_sched *sched, const struct sl_action *action,
                                 char out[SL_ACTION_TEXT]);

/* Report a deadlock. `on[w]` is the worker that w waits for, or -1 (w has finished); `why` is the
 * reason. Returns SL_ERR_REFUSED with the shortest cycle, or the chain to a finished worker. */
struct sl_wait {
    int on;
    struct sl_action at; /* the action it stands at */
    const char *why;     /* "to send", "for data", ... */
};
sl_err sl_sched_wait_report(const struct sl_sched *sched, const struct sl_wait *waits);

#endif
