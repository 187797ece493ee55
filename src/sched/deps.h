/* The dependency rule: which actions an action needs. Generators, lowering, verifier, simulator and
 * runtime call it; it is stated nowhere else.
 *
 *     F(i,a)          F(h,x) for every edge h->i and every x that shares samples with a
 *     RECOMPUTE(i,a)  F(i,a)
 *     B(i,a) I(i,a)   F(i,a), or RECOMPUTE(i,a) where stage i recomputes; and
 *                     B or I(j,x) for every edge i->j and every x that shares samples with a
 *     W(i,a)          I(i,a)
 *     (an SL_STAGE_FORWARD stage has only F, and its edges carry no gradients; an
 *       SL_STAGE_FROZEN stage has no I and W)
 *     REDUCE(i,v)     B or W of every micro-batch of iteration v-1 that this seat has
 *     STEP(i,v)       the same, and REDUCE(i,v) of every group of stage i with two seats or more;
 *                     with zero1 it ends when all replicas have begun theirs
 *     a pass that reads version v: STEP(i,v), unless v is 0 */
#ifndef SL_SCHED_DEPS_H
#define SL_SCHED_DEPS_H

#include "sched/sched.h"

struct sl_need {
    bool in_acts;   /* needs activations over every in-edge */
    bool out_grads; /* needs gradients over every out-edge that has them */
    uint16_t own;   /* bit set of kinds: needs one of these on the same seat and micro-batch */
};
static inline struct sl_need sl_sched_deps_need(const struct sl_stage *stage, enum sl_kind kind) {
    uint16_t stashed = (uint16_t)(1u << (stage->recompute ? SL_RECOMPUTE : SL_FORWARD));
    switch (kind) {
    case SL_FORWARD: return (struct sl_need){.in_acts = true};
    case SL_RECOMPUTE: return (struct sl_need){.own = 1u << SL_FORWARD};
    case SL_BACKWARD:
    case SL_BACKWARD_INPUT: return (struct sl_need){.out_grads = true, .own = stashed};
    case SL_BACKWARD_WEIGHT: return (struct sl_need){.own = 1u << SL_BACKWARD_INPUT};
    default: return (struct sl_need){0};
    }
}

/* Does the stage have this pass? Generators list all passes of all stages; lowering drops those
 * that a stage does not have. */
static inline bool sl_sched_deps_has(const struct sl_stage *stage, enum sl_kind kind) {
    switch (stage->passes) {
    case SL_STAGE_FORWARD: return kind == SL_FORWARD || kind > SL_RECOMPUTE;
    case SL_STAGE_FROZEN: return kind != SL_BACKWARD_INPUT && kind != SL_BACKWARD_WEIGHT;
    default: return true;
    }
}
/* Do the replicas of the stage sum anything: gradients, or running statistics? */
bool sl_sched_deps_reduces(const struct sl_stage *stage);

/* The range [low, high) of micro-batches of `other` that share samples with `micro` of `stage`. */
struct sl_micro_range {
    int32_t low, high;
};
struct sl_micro_range sl_sched_deps_overlap_sizes(const struct sl_sched *sched, int stage,
                                                  int32_t micro, int other);
static inline struct sl_micro_range sl_sched_deps_overlap(const struct sl_sched *sched, int stage,
                                                          int32_t micro, int other) {
    const struct sl_stage *stages = sched->plan->stages;
    if (stages[stage].micro_size == stages[other].micro_size)
        return (struct sl_micro_range){micro, micro + 1};
    return sl_sched_deps_overlap_sizes(sched, stage, micro, other);
}

/* seat: the seat that runs a micro-batch of a stage, replica (j mod width) for micro-batch j of an
 * iteration. ordinal: index of the micro-batch among those of its seat, over the whole run. */
static inline int sl_sched_deps_seat(const struct sl_sched *sched, int stage, int32_t micro) {
    const struct sl_stage *s = &sched->plan->stages[stage];
    return s->width == 1 ? s->seat : s->seat + (micro % sched->micros[stage]) % s->width;
}
int32_t sl_sched_deps_ordinal_replica(const struct sl_sched *sched, int stage, int32_t micro);
static inline int32_t sl_sched_deps_ordinal(const struct sl_sched *sched, int stage,
                                            int32_t micro) {
    return sched->plan->stages[stage].width == 1
               ? micro
               : sl_sched_deps_ordinal_replica(sched, stage, micro);
}
/* Number of micro-batches of an iteration that a replica runs, if the stage has `micros`. */
int32_t sl_sched_deps_share(int32_t micros, int width, int replica);
/* Is this the seat's last micro-batch of its iteration? If so, its B or W completes the gradient
 * that REDUCE sums, because gradients are added in ascending order. */
bool sl_sched_deps_completes(const struct sl_sched *sched, int stage, int32_t micro);

/* policy.c. Describe a pass (a RECOMPUTE counts as backward) and a stage as policies see them. */
struct sl_policy_pass sl_sched_policy_pass_of(const struct sl_sched *sched,
                                              const struct sl_action *pass);
struct sl_policy_at sl_sched_policy_at_of(const struct sl_sched *sched, int stage);
/* Number of pass times from a backward of this stage to the end of its round trip through the
 * stages below. */
int64_t sl_sched_half_times_below(const struct sl_sched *sched, int stage);
/* The first stage of full height. Under rule vsync it fixes the version of a micro-batch. */
int sl_sched_entry(const struct sl_plan *plan);
/* Does REDUCE wait for the whole group? Always without global_step, else only if the group is
 * replicas. */
bool sl_sched_deps_meets(const struct sl_sched *sched, int group);

/* pool_of_edge: the slot pool of one end of an edge, or -1 if the edge needs no buffers there.
 * pool_count: number of pools of a stage. */
static inline int sl_sched_pool_of_edge(const struct sl_plan *plan, const struct sl_edge *edge,
                                        bool grad, bool send) {
    if (grad == send) /* the `to` end: receives activations, sends gradients */
        return SL_POOL_EDGES + 2 * edge->to_place + grad;
    return SL_POOL_EDGES + 2 * (plan->stages[edge->from].in_count + edge->from_place) + grad;
}
int sl_sched_pool_count(const struct sl_stage *stage);

/* Returns the same schedule with at most one repetition, for proofs. It shares the lists; its
 * epilogue is at repetition flat.reps. */
struct sl_sched sl_sched_flat(const struct sl_sched *sched);

/* Returns the same schedule with fewer repetitions, at least as many as the verifier plays. It is
 * verified if `sched` is, because the state recurs at the borders of repetitions. */
enum { SL_PLAYED_REPS = 2 };
struct sl_sched sl_sched_shorten(const struct sl_sched *sched, int32_t reps);

#endif
