/* global_step in the proof: every part is contributed once, the decision comes after its inputs,
 * and a step waits for all parts. */
#include "sched/verify.h"

void sl_sched_verify_global_step_open(struct sl_ver *v) {
    int groups = sl_sched_group_count(v->plan) + 1;
    v->given = SL_NEW(&v->arena, int32_t *, groups);
    for (int g = 0; g < groups; g++)
        v->given[g] = SL_NEW(&v->arena, int32_t, v->view.iters + 2);
}

static int group_size(const struct sl_ver *v, int group) {
    return group == sl_sched_decision_group(v->plan) ? v->plan->seat_count
                                                     : sl_sched_group_size(v->plan, group);
}

/* Index of a group among the groups of a stage; the decision is the last one. */
static int place_of(const struct sl_ver *v, int stage, int group) {
    int last = 0;
    if (group != sl_sched_decision_group(v->plan))
        return group < 0 || group > sl_sched_decision_group(v->plan)
                   ? -1
                   : sl_sched_verify_group_index(v->plan, stage, group);
    while (sl_sched_group_of(v->plan, stage, last) >= 0)
        last++;
    return last;
}

/* Returns a worker that has not contributed its part for this version. */
static int who_misses(const struct sl_ver *v, int group, int32_t version) {
    for (int i = 0; i < v->plan->seat_count; i++) {
        int place = place_of(v, v->plan->seats[i].stage, group);
        if (place >= 0 && v->joined[i][place] < version)
            return v->plan->seats[i].worker;
    }
    return 0;
}

static bool is_complete(const struct sl_ver *v, int group, int32_t version) {
    if (sl_sched_deps_meets(&v->view, group))
        return v->meetings[group].version >= version;
    return v->given[group][version] == group_size(v, group);
}

/* Checks that a stage contributes to the decision only after the sums of the groups whose root it
 * is. */
static sl_err check_verdict(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    for (int i = 0, g; (g = sl_sched_group_of(v->plan, a->stage, i)) >= 0; i++) {
        if (v->joined[t->seat][i] < a->version)
            return sl_sched_verify_fail(v, t, "the part for group %d has not been given before", g);
        if (sl_sched_group_root(v->plan, g) == a->stage && !is_complete(v, g, a->version)) {
            sl_sched_verify_wait(v, t, who_misses(v, g, a->version), "for the sum with");
            return SL_OK;
        }
    }
    return SL_OK;
}

sl_err sl_sched_verify_global_step_reduce(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    struct sl_gradient *grad;
    int place = place_of(v, a->stage, a->slot);
    if (place < 0)
        return sl_sched_verify_fail(v, t, "stage %s is not in group %d",
                                    v->plan->stages[a->stage].name, a->slot);
    SL_TRY(sl_sched_verify_gradient(v, t, &grad));
    SL_TRY(sl_sched_verify_replicas_first(v, t));
    if (v->joined[t->seat][place] + 1 != a->version)
        return sl_sched_verify_fail(v, t, "group %d has its part up to version %d", a->slot,
                                    v->joined[t->seat][place]);
    if (a->slot == sl_sched_decision_group(v->plan)) {
        SL_TRY(check_verdict(v, t));
        if (!t->go)
            return SL_OK;
    }
    v->joined[t->seat][place] = a->version;
    v->given[a->slot][a->version]++;
    grad->reduced++;
    for (int i = 0; i < v->plan->worker_count; i++)
        if (i != t->worker)
            sl_sched_verify_wake(v, i);
    return SL_OK;
}

sl_err sl_sched_verify_global_step_ready(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    int verdict = sl_sched_decision_group(v->plan), last = place_of(v, a->stage, verdict);
    for (int i = 0; i <= last; i++) {
        int g = i == last ? verdict : sl_sched_group_of(v->plan, a->stage, i);
        if (v->joined[t->seat][i] < a->version)
            return sl_sched_verify_fail(v, t, "%s has not been given",
                                        i == last ? "its part of the decision" : "a tied gradient");
        if (!is_complete(v, g, a->version)) {
            sl_sched_verify_wait(v, t, who_misses(v, g, a->version), "for the decision with");
            return SL_OK;
        }
    }
    return SL_OK;
}
