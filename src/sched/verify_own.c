/* Divided optimizer state (zero1) in the proof. */
#include "sched/verify.h"

/* zero1: a STEP ends when all replicas have stepped their ranges of the weights. */
void sl_sched_verify_own(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_stage *stage = &v->plan->stages[t->a.stage];
    if (!stage->zero1 || stage->width == 1)
        return;
    if (!v->entered[t->worker]) {
        v->stepped[t->seat] = t->a.version;
        for (int r = 0; r < stage->width; r++)
            if (stage->workers[r] != t->worker)
                sl_sched_verify_wake(v, stage->workers[r]);
    }
    for (int r = 0; r < stage->width; r++)
        if (v->stepped[stage->seat + r] < t->a.version)
            sl_sched_verify_wait(v, t, stage->workers[r], "for the weights of");
    v->entered[t->worker] = !t->go;
}

/* By the global norm, replicas may step after different passes, and zero1 lets them step together. With
 * 2bw they do so if they have equal numbers of micro-batches (lower/expand.c). */
sl_err sl_sched_verify_owners(const struct sl_sched *sched) {
    for (int s = 0; s < sched->plan->stage_count && sched->global_step; s++) {
        const struct sl_stage *stage = &sched->plan->stages[s];
        int32_t micros = sched->micros[s];
        if (!stage->zero1 || stage->width == 1)
            continue;
        if (sched->rule != SL_RULE_2BW)
            return sl_fail(SL_ERR_REFUSED,
                           "stage %s: rule %s with steps by the global norm lets replicas step at "
                           "different times, and replicas that divide the optimizer state (zero1) "
                           "step together; use `clip_scope` stage, or leave out `zero1`",
                           stage->name, sl_sched_rule_name(sched->rule));
        if (micros > stage->width && micros % stage->width)
            return sl_fail(SL_ERR_REFUSED,
                           "stage %s: replicas that divide the optimizer state (zero1) and step by "
                           "the global norm need equal numbers of micro-batches: %d is no multiple "
                           "of %d; change `micro`, use `clip_scope` stage, or leave out `zero1`",
                           stage->name, micros, stage->width);
    }
    return SL_OK;
}
