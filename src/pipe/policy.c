/* Staleness policies in a pipeline: predicted weights, and extended optimizer steps.
 *
 * Both call the step and predict functions of the device (out = w - lr*s*direction). To
 * extrapolate along a kept tensor instead of an optimizer's direction, predict uses the row of
 * plain gradient descent, whose direction is the stored tensor. */
#include "pipe/state.h"

#include "sched/deps.h"

#include <string.h>

/* ---- opening ---- */

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
    seat->stored = SL_NEW(&seat->train.arena, struct sl_optim_param, p->param_count);
    seat->ats = SL_NEW(&seat->train.arena, struct sl_policy_at, p->param_count);
    seat->rates = SL_NEW(&seat->train.arena, double, p->param_count);
    seat->scales = SL_NEW(&seat->train.arena, float, p->param_count);
    for (int i = 0; i < p->param_count; i++) {
        seat->ats[i] = seat->at;
        for (int t = 0; t < plan->tie_count; t++)
            if (strcmp(plan->ties[t].name, p->graph->params.at[p->params[i].param].name) == 0)
                seat->ats[i] = sl_sched_policy_at_of(
                    pipe->sched, sl_sched_group_root(plan, plan->stage_count + t));
        if (seat->ats[i].height != seat->at.height && policy->row && policy->row->momentum &&
            sl_optim_policy_value(policy, "graded") != 0)
            return sl_fail(SL_ERR_REFUSED,
                           "policy '%s' gives the copies of tied parameter '%s' different "
                           "momentum, so they would diverge; use graded=0",
                           policy->row->name, p->graph->params.at[p->params[i].param].name);
    }
    return SL_OK;
}

/* The learning rate of a parameter in step t. */
static double rate_of(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat, int i,
                      int64_t t) {
    double lr = sl_optim_lr_at(&pipe->train.lr, pipe->train.base_lr, t);
    return lr * sl_optim_policy_rate(&pipe->train.policy, &seat->ats[i], t);
}

/* ---- w - lr*s*direction ---- */

struct move {
    int64_t t;      /* step of the optimizer's direction; 0: the direction is a stored tensor */
    int64_t rate_t; /* step whose learning rate is used; 0: 1, or seat->rates */
    bool own_rates;
    double factor; /* out = w - lr*factor*direction */
    int w, out;    /* slabs of the weights that are read and written */
    /* if not -1, slabs of the optimizer: read, written, direction; dir_w: weight slab that is the
     * direction */
    int w_opt, out_opt, dir_opt, dir_w;
    /* scales of the step that this is a part of; a parameter with a scale below 0 stays */
    const float *scale_of;
};

static const struct move nowhere = {.w_opt = -1, .out_opt = -1, .dir_opt = -1, .dir_w = -1};

static struct sl_optim_param stored_direction(const struct sl_optim_param *param) {
    struct sl_optim_param out = *param;
    out.optim = (struct sl_optim){.row = sl_optim_row_find(sl_str("sgd"))};
    return out;
}

static sl_err move_weights(const struct sl_pipe *pipe, struct sl_pipe_seat *seat,
                           const struct move *m) {
    struct sl_train *train = &seat->train;
    struct sl_worker *worker = train->worker;
    int params = worker->programs[SL_WORKER_FULL]->param_count, count = 0;
    for (int i = 0; i < params; i++) {
        if (m->scale_of && m->scale_of[i] < 0)
            continue;
        const struct sl_optim_param *param = &train->params[i];
        struct sl_step_item *item = &train->step_items[count++];
        double lr = m->own_rates ? seat->rates[i]
                    : m->rate_t  ? rate_of(pipe, seat, i, m->rate_t)
                                 : 1;
        bool stored = m->dir_opt >= 0 || m->dir_w >= 0;
        seat->stored[i] = stored_direction(param);
        *item = (struct sl_step_item){
            .param = stored ? &seat->stored[i] : param, .lr = lr, .io.count = param->count};
        if (!stored)
            item->coef = sl_optim_coef(param, m->t, lr, 1);
        item->io.w = m->w_opt >= 0 ? sl_run_worker_opt(worker, m->w_opt, i)
                                   : sl_run_worker_weight(worker, m->w, i);
        item->out = m->out_opt >= 0 ? sl_run_worker_opt(worker, m->out_opt, i)
                                    : sl_run_worker_weight(worker, m->out, i);
        for (int s = 0; s < param->optim.row->state_count; s++)
            item->io.state[s] = sl_run_worker_opt(worker, s, i);
        item->io.delta = m->dir_w >= 0     ? sl_run_worker_weight(worker, m->dir_w, i)
                         : m->dir_opt >= 0 ? sl_run_worker_opt(worker, m->dir_opt, i)
                         : seat->kept >= 0 ? sl_run_worker_opt(worker, seat->kept, i)
                                           : NULL;
    }
    return train->device->row->predict(train->device, train->step_items, count, m->factor);
}

/* ---- PREDICT ---- */

static sl_err predict(struct sl_pipe_worker *w, struct sl_pipe_seat *seat,
                      const struct sl_action *action) {
    const struct sl_policy_use *policy = &w->pipe->train.policy;
    struct move m = nowhere;
    m.w = action->slot;
    m.out = action->weight_slot;
    /* predicts for a backward pass, tau = ahead/m steps ahead */
    if (policy->row->kept == SL_KEPT_VELOCITY) {
        m.factor = (double)action->ahead / (double)seat->at.micros;
        m.dir_opt = seat->kept;
        return move_weights(w->pipe, seat, &m);
    }
    m.factor = action->ahead * sl_optim_policy_value(policy, "reach");
    m.t = m.rate_t = w->pipe->start_step + action->version;
    if (m.t == 0) /* no step has been made, so there is no direction yet */
        return sl_run_worker_copy_weights(seat->train.worker, m.out, m.w);
    return move_weights(w->pipe, seat, &m);
}

sl_err sl_pipe_predict(struct sl_pipe_worker *w, const struct sl_action *action) {
    int number = sl_sched_seat(w->pipe->config.plan, action->stage, w->index);
    struct sl_pipe_seat *seat = w->pipe->seat_at[number];
    SL_TRY(predict(w, seat, action));
    return sl_pipe_staleness_predict(w->pipe, seat, action);
}

/* ---- steps ---- */

/* velocity <- velocity - (1-gamma)*velocity - (1-gamma)*(w_old - w_new); w_old is in slab `old`,
 * which is free for this use. Holders of a tied parameter have the same gamma, and so one
 * velocity. */
static sl_err follow(struct sl_pipe *pipe, struct sl_pipe_seat *seat,
                     const struct sl_update_args *args, int old) {
    const struct sl_policy_use *policy = &pipe->train.policy;
    struct move m = nowhere;
    int w_new = args->version;
    m.scale_of = args->scale_of;
    m.w = m.out = old;
    m.dir_w = w_new;
    m.factor = 1;
    SL_TRY(move_weights(pipe, seat, &m));
    for (int i = 0; i < seat->train.worker->programs[SL_WORKER_FULL]->param_count; i++)
        seat->rates[i] = 1 - policy->row->decay(policy, &seat->ats[i]);
    m = nowhere;
    m.scale_of = args->scale_of;
    m.own_rates = true;
    m.w_opt = m.out_opt = m.dir_opt = seat->kept;
    m.factor = 1;
    SL_TRY(move_weights(pipe, seat, &m));
    m.dir_opt = -1;
    m.dir_w = old;
    return move_weights(pipe, seat, &m);
}

/* Removes the direction of step t-1 (factor -1), or adds that of step t instead (factor 1), both at
 * the rate of step t-1. */
static sl_err feed_back(struct sl_pipe *pipe, struct sl_pipe_seat *seat,
                        const struct sl_update_args *args, double factor) {
    struct move m = nowhere;
    if (args->t < 2)
        return SL_OK;
    m.scale_of = args->scale_of;
    m.w = m.out = args->version;
    m.dir_opt = seat->kept;
    m.rate_t = args->t - 1;
    m.factor = factor;
    return move_weights(pipe, seat, &m);
}

sl_err sl_pipe_update(struct sl_pipe *pipe, struct sl_pipe_seat *seat,
                      struct sl_update_args *args) {
    const struct sl_policy *row = pipe->train.policy.row;
    bool feedback = row && row->feedback;
    bool follows = row && row->kept == SL_KEPT_VELOCITY && seat->foresight_slot >= 0;
    for (int i = 0; i < seat->train.worker->programs[SL_WORKER_FULL]->param_count; i++)
        seat->rates[i] = rate_of(pipe, seat, i, args->t);
    args->lr_of = seat->rates;
    args->delta = seat->kept >= 0 && !(row && row->kept == SL_KEPT_VELOCITY);
    sl_ckpt_copy_await(seat->train.copy);
    if (feedback)
        SL_TRY(feed_back(pipe, seat, args, -1));
    if (follows)
        SL_TRY(sl_run_worker_copy_weights(seat->train.worker, seat->foresight_slot, args->version));
    SL_TRY(sl_run_train_update(&seat->train, args));
    if (follows)
        SL_TRY(follow(pipe, seat, args, seat->foresight_slot));
    return feedback ? feed_back(pipe, seat, args, 1) : SL_OK;
}
