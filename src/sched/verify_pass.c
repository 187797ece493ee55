/* Passes and weights in the proof: versions by rule, slots never overwritten while live, every
 * gradient is added exactly once, to exactly one step. order.c checks the order of gradients. */
#include "sched/verify.h"

/* --- inputs and outputs over edges --- */

/* Have all pieces for this pass arrived over this edge? Pieces from the same worker must have
 * arrived; for others the worker waits. Frees the buffer if `take`. */
static sl_err read_edge(struct sl_ver *v, struct sl_turn *t, int edge_number, bool grad) {
    const struct sl_edge *edge = &v->plan->edges[edge_number];
    int other = grad ? edge->to : edge->from;
    int pool = sl_sched_pool_of_edge(v->plan, edge, grad, false);
    struct sl_micro_range range = sl_sched_deps_overlap(&v->view, t->a.stage, t->a.micro, other);
    const struct sl_buffer *buffer = sl_sched_verify_input(v, t->seat, pool, t->a.micro);
    if (buffer && buffer->got == range.high - range.low)
        return SL_OK;
    const char *what = grad ? "gradient" : "activation";
    int remote = -1;
    for (int32_t x = range.low; x < range.high; x++) {
        int worker = v->plan->seats[sl_sched_deps_seat(&v->view, other, x)].worker;
        bool made = v->done[other][x] & (grad ? SL_DONE_I : SL_DONE_F);
        if (worker == t->worker && !made)
            return sl_sched_verify_fail(
                v, t,
                "needs the %s of stage %s, micro-batch %d, which this worker "
                "makes later",
                what, v->plan->stages[other].name, x);
        if (worker != t->worker && (remote < 0 || !made))
            remote = worker;
    }
    if (!buffer || buffer->posted < range.high - range.low)
        return sl_sched_verify_fail(
            v, t, "needs the %s of stage %s (edge %d), and no RECV for it is posted", what,
            v->plan->stages[other].name, edge_number);
    sl_sched_verify_wait(v, t, remote, grad ? "for a gradient from" : "for an activation from");
    return SL_OK;
}

static sl_err read_inputs(struct sl_ver *v, struct sl_turn *t, bool take) {
    const struct sl_stage *stage = &v->plan->stages[t->a.stage];
    struct sl_need need = sl_sched_deps_need(stage, t->a.kind);
    if (!need.in_acts && !need.out_grads)
        return SL_OK;
    bool grad = need.out_grads;
    for (int i = 0; i < (grad ? stage->out_count : stage->in_count); i++) {
        int edge = grad ? stage->out[i] : stage->in[i];
        if (grad && !v->plan->edges[edge].grads)
            continue;
        if (!take) {
            SL_TRY(read_edge(v, t, edge, grad));
            if (!t->go)
                return SL_OK;
            continue;
        }
        int pool = sl_sched_pool_of_edge(v->plan, &v->plan->edges[edge], grad, false);
        *sl_sched_verify_input(v, t->seat, pool, t->a.micro) = (struct sl_buffer){.micro = -1};
    }
    return SL_OK;
}

/* Fills the output buffer for readers on other workers, and the reader's buffer for readers on this
 * one. */
static sl_err write_edge(struct sl_ver *v, struct sl_turn *t, const struct sl_edge *edge,
                         bool grad) {
    int other = grad ? edge->from : edge->to,
        in_pool = sl_sched_pool_of_edge(v->plan, edge, grad, false);
    int out_pool = sl_sched_pool_of_edge(v->plan, edge, grad, true);
    struct sl_micro_range range = sl_sched_deps_overlap(&v->view, t->a.stage, t->a.micro, other);
    int32_t remote = 0;
    for (int32_t x = range.low; x < range.high; x++) {
        int seat = sl_sched_deps_seat(&v->view, other, x);
        if (v->plan->seats[seat].worker != t->worker) {
            remote++;
            continue;
        }
        int32_t count = v->view.pools[seat][in_pool].count;
        int32_t slot = count ? sl_sched_deps_ordinal(&v->view, other, x) % count : 0;
        SL_TRY(sl_sched_verify_fill(v, t, seat, in_pool, slot, x));
        v->seats[seat].buffers[in_pool - SL_POOL_EDGES][slot].got++;
    }
    if (!remote)
        return SL_OK;
    int32_t count = v->view.pools[t->seat][out_pool].count;
    if (!count)
        return sl_sched_verify_fail(v, t, "has no buffer to send from");
    int32_t slot = sl_sched_deps_ordinal(&v->view, t->a.stage, t->a.micro) % count;
    struct sl_buffer *buffer = &v->seats[t->seat].buffers[out_pool - SL_POOL_EDGES][slot];
    if (buffer->micro >= 0)
        return sl_sched_verify_fail(
            v, t,
            "output slot %d is overwritten while live: micro-batch %d is in "
            "it and has not been sent",
            slot, buffer->micro);
    *buffer = (struct sl_buffer){.micro = t->a.micro, .got = remote};
    return SL_OK;
}

static sl_err write_outputs(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_stage *stage = &v->plan->stages[t->a.stage];
    bool grad = t->a.kind == SL_BACKWARD || t->a.kind == SL_BACKWARD_INPUT;
    if (!grad && t->a.kind != SL_FORWARD)
        return SL_OK;
    for (int i = 0; i < (grad ? stage->in_count : stage->out_count); i++) {
        const struct sl_edge *edge = &v->plan->edges[grad ? stage->in[i] : stage->out[i]];
        if (!grad || edge->grads)
            SL_TRY(write_edge(v, t, edge, grad));
    }
    return SL_OK;
}

/* --- versions --- */

/* Returns the bellwether's version: the one that was newest at the first pass of the iteration in
 * this direction. */
static int32_t bell_version(struct sl_ver *v, const struct sl_turn *t) {
    struct sl_ver_seat *s = &v->seats[t->seat];
    int32_t iter = t->a.micro / v->view.micros[t->a.stage];
    int d = t->a.kind != SL_FORWARD;
    if (s->bell[d].iter != iter) {
        s->bell[d].iter = iter;
        s->bell[d].version = s->newest;
    }
    return s->bell[d].version;
}

static sl_err check_ahead(struct sl_ver *v, struct sl_turn *t) {
    struct sl_policy_pass pass = sl_sched_policy_pass_of(&v->view, &t->a);
    int64_t ahead = sl_optim_policy_ahead(&v->view.policy, &pass);
    if (t->a.ahead != ahead)
        return sl_sched_verify_fail(
            v, t, "reads weights %d ahead, policy '%s' says %lld", t->a.ahead,
            v->view.policy.row ? v->view.policy.row->name : "none", (long long)ahead);
    return SL_OK;
}

static sl_err check_version(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    const struct sl_slot_pool *pools = v->view.pools[t->seat];
    int32_t iter = a->micro / v->view.micros[a->stage], newest = v->seats[t->seat].newest;
    int32_t expected = newest, *fixed = NULL;
    switch (v->view.rule) {
    case SL_RULE_SYNC: expected = iter; break;
    case SL_RULE_2BW: expected = iter > 0 ? iter - 1 : 0; break;
    case SL_RULE_STASH: fixed = &v->versions[a->stage][a->micro]; break;
    case SL_RULE_VSYNC: fixed = &v->versions[v->entry][a->micro]; break;
    default: break;
    }
    if (v->view.policy.row && v->view.policy.row->bellwether)
        expected = bell_version(v, t);
    if (fixed && (a->kind != SL_FORWARD || (v->view.rule == SL_RULE_VSYNC && *fixed)))
        expected = *fixed - 1;
    else if (v->view.rule == SL_RULE_VSYNC && a->stage != v->entry)
        expected = a->version; /* the entry must read the same version; checked when the entry
                                * runs */
    if (v->view.rule == SL_RULE_VSYNC && a->stage == v->entry && a->kind == SL_FORWARD &&
        a->version != newest)
        expected = newest;
    if (a->version != expected)
        return sl_sched_verify_fail(v, t, "reads version %d, rule %s says %d", a->version,
                                    sl_sched_rule_name(v->view.rule), expected);
    if (fixed)
        *fixed = a->version + 1;
    SL_TRY(check_ahead(v, t));
    int32_t slots = pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count;
    if (a->weight_slot >= slots)
        return sl_sched_verify_fail(v, t, "weight slot %d of %d", a->weight_slot, slots);
    const struct sl_ver_weights *weights = &v->seats[t->seat].weights[a->weight_slot];
    if (weights->version != a->version || weights->ahead != a->ahead)
        return sl_sched_verify_fail(
            v, t,
            "weight slot %d: version %d (%d ahead) expected, version %d (%d "
            "ahead) found",
            a->weight_slot, a->version, a->ahead, weights->version, weights->ahead);
    return SL_OK;
}

/* --- stash, kept, gradients --- */

static sl_err take_slot(struct sl_ver *v, struct sl_turn *t, int32_t *slots, int pool,
                        int32_t slot) {
    if (slot < 0 || slot >= v->view.pools[t->seat][pool].count)
        return sl_sched_verify_fail(v, t, "slot %d of %d", slot,
                                    v->view.pools[t->seat][pool].count);
    if (slots[slot] >= 0)
        return sl_sched_verify_fail(v, t,
                                    "%s slot %d is overwritten while live: micro-batch %d is in it",
                                    pool == SL_POOL_STASH ? "stash" : "kept", slot, slots[slot]);
    slots[slot] = t->a.micro;
    return SL_OK;
}

static sl_err has_slot(struct sl_ver *v, struct sl_turn *t, const int32_t *slots, int pool,
                       int32_t slot) {
    if (slot < 0 || slot >= v->view.pools[t->seat][pool].count)
        return sl_sched_verify_fail(v, t, "slot %d of %d", slot,
                                    v->view.pools[t->seat][pool].count);
    if (slots[slot] != t->a.micro)
        return sl_sched_verify_fail(v, t, "%s slot %d holds micro-batch %d, not %d",
                                    pool == SL_POOL_STASH ? "stash" : "kept", slot, slots[slot],
                                    t->a.micro);
    return SL_OK;
}

static sl_err add_gradient(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    int32_t iter = a->micro / v->view.micros[a->stage];
    if (a->grad_slot >= v->view.pools[t->seat][SL_POOL_GRAD].count)
        return sl_sched_verify_fail(v, t, "gradient slot %d of %d", a->grad_slot,
                                    v->view.pools[t->seat][SL_POOL_GRAD].count);
    struct sl_gradient *grad = &v->seats[t->seat].grads[a->grad_slot];
    if (grad->iter < 0)
        *grad = (struct sl_gradient){.iter = iter};
    if (grad->iter != iter)
        return sl_sched_verify_fail(
            v, t,
            "gradient of iteration %d, but the buffer still holds iteration "
            "%d: no STEP in between",
            iter, grad->iter);
    if (grad->reduced)
        return sl_sched_verify_fail(v, t, "gradient added after its REDUCE");
    grad->count++;
    return SL_OK;
}

static sl_err check_once(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    uint8_t done = v->done[a->stage][a->micro];
    bool recompute = v->plan->stages[a->stage].recompute;
    static const uint8_t makes[] = {[SL_FORWARD] = SL_DONE_F,
                                    [SL_BACKWARD] = SL_DONE_I | SL_DONE_W,
                                    [SL_BACKWARD_INPUT] = SL_DONE_I,
                                    [SL_BACKWARD_WEIGHT] = SL_DONE_W,
                                    [SL_RECOMPUTE] = SL_DONE_RECOMPUTE};
    uint8_t needs = a->kind == SL_FORWARD           ? 0
                    : a->kind == SL_BACKWARD_WEIGHT ? SL_DONE_I
                    : a->kind == SL_RECOMPUTE       ? SL_DONE_F
                    : recompute                     ? SL_DONE_F | SL_DONE_RECOMPUTE
                                                    : SL_DONE_F;
    if (done & makes[a->kind])
        return sl_sched_verify_fail(v, t, "runs twice");
    if ((done & needs) != needs)
        return sl_sched_verify_fail(v, t, "runs before its %s",
                                    a->kind == SL_BACKWARD_WEIGHT ? "I"
                                    : !(done & SL_DONE_F)         ? "F"
                                                                  : "RECOMPUTE");
    if (a->kind == SL_RECOMPUTE && (!recompute || (done & SL_DONE_I)))
        return sl_sched_verify_fail(v, t, "nothing reads it");
    return SL_OK;
}

static sl_err use_slots(struct sl_ver *v, struct sl_turn *t) {
    struct sl_ver_seat *s = &v->seats[t->seat];
    const struct sl_action *a = &t->a;
    bool recompute = v->plan->stages[a->stage].recompute;
    switch ((enum sl_kind)a->kind) {
    case SL_FORWARD:
        SL_TRY(take_slot(v, t, s->stash, SL_POOL_STASH, a->slot));
        if (sl_sched_verify_all(v, a->stage) == SL_DONE_F)
            s->stash[a->slot] = -1; /* there is no backward pass to read it */
        return SL_OK;
    case SL_BACKWARD_WEIGHT:
        SL_TRY(has_slot(v, t, s->kept, SL_POOL_KEPT, a->slot2));
        s->kept[a->slot2] = -1;
        return add_gradient(v, t);
    case SL_RECOMPUTE:
        SL_TRY(has_slot(v, t, s->stash, SL_POOL_STASH, a->slot));
        if (s->full >= 0)
            return sl_sched_verify_fail(
                v, t,
                "the slot for recomputed activations still holds micro-batch "
                "%d",
                s->full);
        s->full = a->micro;
        return SL_OK;
    default: break;
    }
    SL_TRY(has_slot(v, t, s->stash, SL_POOL_STASH, a->slot));
    if (recompute && s->full != a->micro)
        return sl_sched_verify_fail(
            v, t, "the slot for recomputed activations holds micro-batch %d", s->full);
    s->stash[a->slot] = s->full = -1;
    if (a->kind == SL_BACKWARD)
        return v->plan->stages[a->stage].passes == SL_STAGE_TRAINS ? add_gradient(v, t) : SL_OK;
    return take_slot(v, t, s->kept, SL_POOL_KEPT, a->slot2);
}

sl_err sl_sched_verify_pass(struct sl_ver *v, struct sl_turn *t) {
    static const uint8_t makes[] = {[SL_FORWARD] = SL_DONE_F,
                                    [SL_BACKWARD] = SL_DONE_I | SL_DONE_W,
                                    [SL_BACKWARD_INPUT] = SL_DONE_I,
                                    [SL_BACKWARD_WEIGHT] = SL_DONE_W,
                                    [SL_RECOMPUTE] = SL_DONE_RECOMPUTE};
    if (v->view.rule == SL_RULE_FORWARD && t->a.kind != SL_FORWARD)
        return sl_sched_verify_fail(v, t, "rule forward has no backward");
    if (!sl_sched_deps_has(&v->plan->stages[t->a.stage], (enum sl_kind)t->a.kind))
        return sl_sched_verify_fail(
            v, t, "stage %s trains nothing%s: it has no such pass",
            v->plan->stages[t->a.stage].name,
            v->plan->stages[t->a.stage].passes == SL_STAGE_FORWARD ? ", and nothing below it" : "");
    SL_TRY(check_once(v, t));
    SL_TRY(read_inputs(v, t, false));
    if (!t->go)
        return SL_OK;
    SL_TRY(check_version(v, t));
    SL_TRY(use_slots(v, t));
    /* outputs first, because a pass writes them while its inputs are still live */
    SL_TRY(write_outputs(v, t));
    SL_TRY(read_inputs(v, t, true));
    v->done[t->a.stage][t->a.micro] |= makes[t->a.kind];
    return SL_OK;
}

/* --- REDUCE, STEP, PREDICT --- */

sl_err sl_sched_verify_gradient(struct sl_ver *v, struct sl_turn *t, struct sl_gradient **out) {
    const struct sl_action *a = &t->a;
    const struct sl_seat *seat = &v->plan->seats[t->seat];
    int32_t least = v->seats[t->seat].newest + 1;
    bool later = v->view.global_step && a->kind == SL_REDUCE && a->version > least;
    if (a->version != least && !later)
        return sl_sched_verify_fail(v, t, "version expected %d, found %d", least, a->version);
    if (a->version > v->view.iters)
        return sl_sched_verify_fail(v, t, "there are only %d iterations", v->view.iters);
    if (a->grad_slot >= v->view.pools[t->seat][SL_POOL_GRAD].count)
        return sl_sched_verify_fail(v, t, "gradient slot %d of %d", a->grad_slot,
                                    v->view.pools[t->seat][SL_POOL_GRAD].count);
    struct sl_gradient *grad = &v->seats[t->seat].grads[a->grad_slot];
    int32_t share = sl_sched_deps_share(sl_sched_micros(&v->view, seat->stage, a->version - 1),
                                        v->plan->stages[seat->stage].width, seat->replica);
    if (v->plan->stages[seat->stage].passes != SL_STAGE_TRAINS)
        share = 0;
    if (grad->count != share || (share && grad->iter != a->version - 1))
        return sl_sched_verify_fail(v, t, "%d of %d gradients of iteration %d are in the buffer",
                                    grad->iter == a->version - 1 ? grad->count : 0, share,
                                    a->version - 1);
    *out = grad;
    return SL_OK;
}

int sl_sched_verify_group_index(const struct sl_plan *plan, int stage, int group) {
    int i = 0;
    for (int g; (g = sl_sched_group_of(plan, stage, i)) >= 0; i++)
        if (g == group)
            return i;
    return -1;
}

/* Does another seat of this worker still have to contribute to the group? */
static bool more_to_come(const struct sl_ver *v, const struct sl_turn *t) {
    const struct sl_plan *plan = v->plan;
    for (int i = 0; i < plan->worker_seat_count[t->worker]; i++) {
        int seat = plan->worker_seats[t->worker][i];
        int index = sl_sched_verify_group_index(plan, plan->seats[seat].stage, t->a.slot);
        if (index >= 0 && v->joined[seat][index] < t->a.version)
            return true;
    }
    return false;
}

static int somebody_missing(const struct sl_ver *v, const struct sl_turn *t) {
    for (int i = 0; i < v->plan->seat_count; i++) {
        const struct sl_seat *seat = &v->plan->seats[i];
        int index = sl_sched_verify_group_index(v->plan, seat->stage, t->a.slot);
        if (index >= 0 && v->joined[i][index] < t->a.version && seat->worker != t->worker)
            return seat->worker;
    }
    return t->worker;
}

/* A tied gradient is summed over stages: each term must be the sum over the replicas of its stage. */
sl_err sl_sched_verify_replicas_first(const struct sl_ver *v, const struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    bool tie = a->slot >= v->plan->stage_count && a->slot < sl_sched_group_count(v->plan);
    for (int i = 0, g; tie && (g = sl_sched_group_of(v->plan, a->stage, i)) >= 0; i++)
        if (g < v->plan->stage_count &&
            (v->joined[t->seat][i] < a->version || v->meetings[g].version < a->version))
            return sl_sched_verify_fail(
                v, t, "the tied gradient is summed before REDUCE of group %d, its replicas", g);
    return SL_OK;
}

static sl_err reduce(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    struct sl_gradient *grad;
    int index = a->slot < 0 || a->slot >= sl_sched_group_count(v->plan)
                    ? -1
                    : sl_sched_verify_group_index(v->plan, a->stage, a->slot);
    if (index < 0)
        return sl_sched_verify_fail(v, t, "stage %s is not in group %d",
                                    v->plan->stages[a->stage].name, a->slot);
    struct sl_meeting *meeting = &v->meetings[a->slot];
    if (!v->entered[t->worker]) {
        SL_TRY(sl_sched_verify_gradient(v, t, &grad));
        SL_TRY(sl_sched_verify_replicas_first(v, t));
        if (v->joined[t->seat][index] >= a->version)
            return sl_sched_verify_fail(v, t, "the gradient goes twice into group %d", a->slot);
        if (v->joined[t->seat][index] + 1 != a->version)
            return sl_sched_verify_fail(v, t, "group %d has its gradient up to version %d", a->slot,
                                        v->joined[t->seat][index]);
        v->joined[t->seat][index] = a->version;
        grad->reduced++;
        v->entered[t->worker] = true;
        if (++meeting->arrived == sl_sched_group_size(v->plan, a->slot)) {
            meeting->arrived = 0;
            meeting->version = a->version;
        }
        /* wakes the other workers that wait in this group */
        for (int i = 0; i < v->plan->worker_count; i++)
            if (v->entered[i] && i != t->worker)
                sl_sched_verify_wake(v, i);
    }
    if (meeting->version < a->version && !more_to_come(v, t)) {
        sl_sched_verify_wait(v, t, somebody_missing(v, t), "for the reduction with");
        return SL_OK;
    }
    v->entered[t->worker] = false;
    return SL_OK;
}

static sl_err step(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    struct sl_ver_seat *s = &v->seats[t->seat];
    struct sl_gradient *grad;
    int32_t slots = v->view.pools[t->seat][SL_POOL_WEIGHT].count;
    SL_TRY(sl_sched_verify_gradient(v, t, &grad));
    if (v->view.global_step) {
        SL_TRY(sl_sched_verify_global_step_ready(v, t));
        if (!t->go)
            return SL_OK;
    }
    for (int i = 0, g; !v->view.global_step && (g = sl_sched_group_of(v->plan, a->stage, i)) >= 0;
         i++) {
        if (v->joined[t->seat][i] < a->version)
            return sl_sched_verify_fail(v, t, "%s of group %d is missing: %s would not agree",
                                        "REDUCE", g,
                                        g < v->plan->stage_count ? "replicas" : "tied weights");
        if (v->meetings[g].version < a->version)
            return sl_sched_verify_fail(
                v, t,
                "group %d has not met: another stage of this worker reduces "
                "later",
                g);
    }
    if (a->weight_slot >= slots || a->slot < 0 || a->slot >= slots)
        return sl_sched_verify_fail(v, t, "weight slots %d and %d of %d", a->slot, a->weight_slot,
                                    slots);
    if (s->weights[a->slot].version != s->newest)
        return sl_sched_verify_fail(v, t, "weight slot %d: version %d expected, version %d found",
                                    a->slot, s->newest, s->weights[a->slot].version);
    sl_sched_verify_own(v, t);
    if (!t->go)
        return SL_OK;
    s->weights[a->weight_slot] = (struct sl_ver_weights){.version = a->version};
    s->newest = a->version;
    *grad = (struct sl_gradient){.iter = -1};
    return SL_OK;
}

static sl_err predict(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    struct sl_ver_seat *s = &v->seats[t->seat];
    int32_t slots = v->view.pools[t->seat][SL_POOL_WEIGHT].count;
    int32_t all = slots + v->view.pools[t->seat][SL_POOL_PREDICT].count;
    if (a->slot < 0 || a->slot >= slots || a->weight_slot < slots || a->weight_slot >= all)
        return sl_sched_verify_fail(v, t, "predicts from weight slot %d of %d into %d of %d..%d",
                                    a->slot, slots, a->weight_slot, slots, all - 1);
    if (s->weights[a->slot].version != a->version || !a->ahead)
        return sl_sched_verify_fail(v, t, "weight slot %d: version %d expected, version %d found",
                                    a->slot, a->version, s->weights[a->slot].version);
    if (a->version != s->newest)
        return sl_sched_verify_fail(
            v, t,
            "predicts from version %d, but the direction that the optimizer knows is "
            "that of version %d",
            a->version, s->newest);
    s->weights[a->weight_slot] = (struct sl_ver_weights){a->version, a->ahead};
    return SL_OK;
}

sl_err sl_sched_verify_weights(struct sl_ver *v, struct sl_turn *t) {
    if (v->view.rule == SL_RULE_FORWARD)
        return sl_sched_verify_fail(v, t, "rule forward leaves the weights alone");
    switch ((enum sl_kind)t->a.kind) {
    case SL_REDUCE:
        return sl_sched_deps_meets(&v->view, t->a.slot) ? reduce(v, t)
                                                        : sl_sched_verify_global_step_reduce(v, t);
    case SL_STEP: return step(v, t);
    default: return predict(v, t);
    }
}
