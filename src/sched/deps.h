/* The dependency rule: which actions an action needs. Generators, lowering, verifier, simulator and
 * runtime call it; it is stated nowhere else.
 *
 *     F(i,a)          F(h,x) for every edge h->i and every x that shares samples with a
 *     RECOMPUTE(i,a)  F(i,a)
 *     B(i,a) I(i,a)   F(i,a), or RECOMPUTE(i,a) where stage i recomputes; and
 *                     B or I(j,x) for every edge i->j and every x that shares samples with a
 *     W(i,a)          I(i,a)
 *     (stage i: F only, and no gradient over its edges, if it is SL_STAGE_FORWARD; no I and W if it is
 *     SL_STAGE_FROZEN)
 *     REDUCE(i,v)     B or W of every micro-batch of iteration v-1 that this seat has
 *     STEP(i,v)       the same, and REDUCE(i,v) of every group of stage i with two seats or more
 *     a pass that reads version v: STEP(i,v), unless v is 0
 */
#ifndef SL_SCHED_DEPS_H
#define SL_SCHED_DEPS_H

#include "sched/sched.h"

struct sl_need {
    bool in_acts;   /* activations over every in-edge */
    bool out_grads; /* gradients over every out-edge that has them */
    uint16_t own;   /* bit set of kinds: one of them, same seat, same micro-batch */
};
struct sl_need sl_sched_deps_need(const struct sl_stage *stage, enum sl_kind kind);

/* Has the stage this pass? Generators list all passes of all stages; lowering drops those that a stage
 * does not have. */
bool sl_sched_deps_has(const struct sl_stage *stage, enum sl_kind kind);
/* Do its replicas add anything up: gradients, or running statistics? */
bool sl_sched_deps_reduces(const struct sl_stage *stage);

/* Micro-batches [low, high) of `other` that share samples with `micro` of `stage`. */
struct sl_micro_range {
    int32_t low, high;
};
struct sl_micro_range sl_sched_deps_overlap(const struct sl_sched *sched, int stage, int32_t micro,
                                            int other);

/* The seat that runs a micro-batch of a stage: replica j mod width for micro-batch j of an iteration.
 * And its index among the micro-batches of that seat over the whole run. */
int sl_sched_deps_seat(const struct sl_sched *sched, int stage, int32_t micro);
int32_t sl_sched_deps_ordinal(const struct sl_sched *sched, int stage, int32_t micro);
/* Micro-batches of an iteration (of `micros` of the stage) that fall on a replica. */
int32_t sl_sched_deps_share(int32_t micros, int width, int replica);
/* Is this the seat's last micro-batch of its iteration? Gradients are added in ascending order: its
 * B or W completes what REDUCE then adds up. */
bool sl_sched_deps_completes(const struct sl_sched *sched, int stage, int32_t micro);

/* policy.c: a pass as policies see it (RECOMPUTE is a part of the backward), and a stage. */
struct sl_policy_pass sl_sched_policy_pass_of(const struct sl_sched *sched,
                                              const struct sl_action *pass);
struct sl_policy_at sl_sched_policy_at_of(const struct sl_sched *sched, int stage);
/* Half times (passes of a replica) from a backward of this stage to the end of its round trip. */
int64_t sl_sched_half_times_below(const struct sl_sched *sched, int stage);
/* VSYNC: the first stage of full height; it fixes the version of a micro-batch. */
int sl_sched_entry(const struct sl_plan *plan);
/* REDUCE waits for the group: always without global_step, else only for replicas. */
bool sl_sched_deps_meets(const struct sl_sched *sched, int group);

/* Does this edge need message buffers on the stage's worker? Pools by edge end. */
int sl_sched_pool_of_edge(const struct sl_plan *plan, const struct sl_edge *edge, bool grad,
                          bool send);
int sl_sched_pool_count(const struct sl_stage *stage);

/* The same schedule with at most one repetition, for proofs. Lists are shared; the epilogue's actions
 * are at repetition flat.reps. */
struct sl_sched sl_sched_flat(const struct sl_sched *sched);

/* The same with fewer repetitions, at least as many as the verifier plays. Verified with it, because
 * the state recurs at their borders. */
enum { SL_PLAYED_REPS = 2 };
struct sl_sched sl_sched_shorten(const struct sl_sched *sched, int32_t reps);

#endif
