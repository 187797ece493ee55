/* Staleness policies in a pipeline (run/policy.h): positions of seats, and PREDICT. */
#include "pipe/state.h"

#include "sched/deps.h"

#include <string.h>

sl_err sl_pipe_policy_check(const struct sl_train_config *c, const struct sl_sched *sched) {
    return sl_optim_policy_serves(&c->policy, sl_sched_rule_name(sched->rule), &c->optim);
}

/* Sets the seat's position and momentum before its optimizer is opened. */
void sl_pipe_policy_open(const struct sl_pipe *pipe, struct sl_pipe_seat *seat) {
    const struct sl_policy_use *policy = &seat->train.config.policy;
    seat->at = sl_sched_policy_at_of(pipe->sched, seat->stage);
    if (policy->row && policy->row->momentum)
        policy->row->momentum(policy, &seat->at, &seat->train.config.optim);
}

/* Finds for each parameter the position that its step uses. All holders of a tied parameter use the
 * position of the highest stage, so that they stay equal. */
sl_err sl_pipe_policy_params(const struct sl_pipe *pipe, struct sl_pipe_seat *seat) {
    const struct sl_plan *plan = pipe->config.plan;
    const struct sl_policy_use *policy = &seat->train.config.policy;
    const struct sl_program *p = seat->train.worker->programs[SL_WORKER_FULL];
    sl_run_policy_open(&seat->policy, &seat->train);
    seat->scales = SL_NEW(&seat->train.arena, float, p->param_count);
    for (int i = 0; i < p->param_count; i++) {
        seat->policy.ats[i] = seat->at;
        for (int t = 0; t < plan->tie_count; t++)
            if (strcmp(plan->ties[t].name, p->graph->params.at[p->params[i].param].name) == 0)
                seat->policy.ats[i] = sl_sched_policy_at_of(
                    pipe->sched, sl_sched_group_root(plan, plan->stage_count + t));
        if (seat->policy.ats[i].height != seat->at.height && policy->row && policy->row->momentum &&
            sl_optim_policy_value(policy, "graded") != 0)
            return sl_fail(SL_ERR_REFUSED,
                           "policy '%s' gives the copies of tied parameter '%s' different "
                           "momentum, so they would diverge; use graded=0",
                           policy->row->name, p->graph->params.at[p->params[i].param].name);
    }
    return SL_OK;
}

sl_err sl_pipe_predict(struct sl_pipe_worker *w, const struct sl_action *action) {
    int number = sl_sched_seat(w->pipe->config.plan, action->stage, w->index);
    struct sl_pipe_seat *seat = w->pipe->seat_at[number];
    struct sl_run_predict predict = {
        .from = action->slot,
        .to = action->weight_slot,
        .ahead = action->ahead,
        .micros = seat->at.micros,
        .step = w->pipe->start_step + action->version,
    };
    SL_TRY(sl_run_policy_predict(&seat->policy, &predict));
    return sl_pipe_staleness_predict(w->pipe, seat, action);
}
