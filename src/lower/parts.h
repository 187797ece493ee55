/* Lowering: passes become a program. Private to lower/.
 *
 *     passes --expand--> + RECOMPUTE REDUCE STEP, versions      (expand.c)
 *            --time----> a reference simulation, by segment   (time.c)
 *            --message-> + RECV and SEND                        (lower.c)
 *            --slots---> buffer and version slots               (slots.c)
 *
 * All steps work on the flat schedule (one repetition at most), numbered from the start. */
#ifndef SL_LOWER_PARTS_H
#define SL_LOWER_PARTS_H

#include "base/vec.h"
#include "sched/blocked.h"
#include "sched/deps.h"

struct sl_items {
    SL_VEC(struct sl_action) vec;
    int64_t *ends; /* [timed items] when each ends in the reference simulation */
    int64_t timed; /* number of passes and RECOMPUTE */
};

struct sl_low {
    struct sl_arena *arena; /* arena of the result */
    struct sl_arena scratch;
    const struct sl_plan *plan;
    struct sl_sched flat;
    struct sl_sched *out;
    struct sl_items *items[SL_SEGMENT_COUNT]; /* [worker] */
    const bool *tight;                        /* [worker] it lacks the memory for early receives */
    /* stages without backward passes still have B among the passes, which limits their speed
     * (expand.c) */
    bool paced;
};

static inline bool sl_is_timed(const struct sl_action *a) { return a->kind <= SL_RECOMPUTE; }

/* policy.c. The predictions and bellwethers of a seat, per direction of passes. */
struct sl_foresight {
    struct {
        int32_t version, ahead; /* the last prediction; ahead 0: none */
    } made[2];
    struct {
        int32_t iter, version;
    } bell[2];
};
/* Returns the version of the policy's bellwether, or `version` if the policy has none. */
int32_t sl_lower_bell(const struct sl_low *low, struct sl_foresight *seat,
                      const struct sl_action *pass, int32_t newest, int32_t version);
/* Sets pass->ahead, and adds the PREDICT that the pass needs before it. */
sl_err sl_lower_foresee(struct sl_low *low, struct sl_foresight *seat, struct sl_items *items,
                        struct sl_action *pass);
/* Adds the PREDICT of rule 2bw right after a step, because the next step overwrites the direction.
 * The pass that reads it may be in another repetition of the period. */
sl_err sl_lower_foresee_step(struct sl_low *low, struct sl_items *items, int segment, int stage,
                             int32_t version);

/* Are there passes that their stage does not have (see `paced`)? */
bool sl_lower_is_paced(const struct sl_sched *flat);
sl_err sl_lower_check(const struct sl_sched *flat);
sl_err sl_lower_expand(struct sl_low *low);
sl_err sl_lower_time(struct sl_low *low);
sl_err sl_lower_slots(struct sl_low *low);

#endif
