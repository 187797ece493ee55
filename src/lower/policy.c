/* Lowering of policies: chooses the weights that a pass reads, and adds PREDICT where they must
 * be made.
 *
 *     newest    PREDICT v s0  F  B  STEP  PREDICT v+1 s0  F  B ...     when (v, s) is new
 *     twobw     STEP v  PREDICT v                                      once per version
 *
 * A prediction needs the direction of the version it starts from; the optimizer has only that of
 * the newest. Rule `newest` has one prediction slot for forwards and one for backwards. Rule
 * `twobw` has two, for the two versions that are read in turn, so it needs only one slot for
 * unpredicted weights. */
#include "lower/parts.h"

enum { AHEAD_MAX = 255 };

static int direction(const struct sl_action *pass) { return pass->kind != SL_FORWARD; }

int32_t sl_lower_bell(const struct sl_low *low, struct sl_foresight *seat,
                      const struct sl_action *pass, int32_t newest, int32_t version) {
    const struct sl_sched *flat = &low->flat;
    int32_t iter = pass->micro / flat->micros[pass->stage];
    int d = direction(pass);
    if (!flat->policy.row || !flat->policy.row->bellwether)
        return version;
    if (seat->bell[d].iter != iter + 1) { /* 0: no iteration yet */
        seat->bell[d].iter = iter + 1;
        seat->bell[d].version = newest;
    }
    return seat->bell[d].version;
}

static sl_err ahead_of(const struct sl_low *low, const struct sl_action *pass, int32_t *out) {
    const struct sl_stage *stage = &low->plan->stages[pass->stage];
    struct sl_policy_pass p = sl_sched_policy_pass_of(&low->flat, pass);
    int64_t ahead = sl_optim_policy_ahead(&low->flat.policy, &p);
    if (ahead > AHEAD_MAX)
        return sl_fail(SL_ERR_REFUSED,
                       "policy '%s' predicts stage %s %lld micro-batches ahead; the maximum is %d",
                       low->flat.policy.row->name, stage->name, (long long)ahead, AHEAD_MAX);
    *out = (int32_t)ahead;
    return SL_OK;
}

static void put_predict(struct sl_items *items, int stage, int32_t version, int32_t ahead, int d) {
    struct sl_action a = {.kind = SL_PREDICT,
                          .stage = (uint16_t)stage,
                          .version = version,
                          .ahead = (uint8_t)ahead,
                          .slot2 = d}; /* replaced when slots are numbered */
    SL_PUSH(&items->vec, a);
}

sl_err sl_lower_foresee(struct sl_low *low, struct sl_foresight *seat, struct sl_items *items,
                        struct sl_action *pass) {
    int32_t ahead = 0;
    int d = direction(pass);
    if (!low->flat.policy.row)
        return SL_OK;
    SL_TRY(ahead_of(low, pass, &ahead));
    pass->ahead = (uint8_t)ahead;
    bool made = seat->made[d].ahead == ahead && seat->made[d].version == pass->version;
    if (!ahead || made || low->flat.rule == SL_RULE_2BW)
        return SL_OK;
    put_predict(items, pass->stage, pass->version, ahead, d);
    seat->made[d].ahead = ahead;
    seat->made[d].version = pass->version;
    return SL_OK;
}

sl_err sl_lower_foresee_step(struct sl_low *low, struct sl_items *items, int segment, int stage,
                             int32_t version) {
    struct sl_action reader = {.kind = SL_FORWARD,
                               .stage = (uint16_t)stage,
                               .micro = (version + 1) * low->flat.micros[stage],
                               .version = version};
    int32_t ahead = 0;
    bool is_read = segment == SL_PERIOD || version + 1 < low->flat.iters;
    if (!low->flat.policy.row || low->flat.rule != SL_RULE_2BW || !is_read)
        return SL_OK;
    SL_TRY(ahead_of(low, &reader, &ahead));
    if (ahead)
        put_predict(items, stage, version, ahead, 0);
    return SL_OK;
}
