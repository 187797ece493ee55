/* Staleness policies on a worker. */
#include "run/policy.h"

#include "ckpt/store.h"

static const struct sl_program *program_of(const struct sl_run_policy *policy) {
    return policy->train->worker->programs[SL_WORKER_FULL];
}

void sl_run_policy_open(struct sl_run_policy *policy, struct sl_train *train) {
    const struct sl_train_config *c = &train->config;
    int params = train->worker->programs[SL_WORKER_FULL]->param_count;
    *policy = (struct sl_run_policy){
        .train = train,
        .ats = SL_NEW(&train->arena, struct sl_policy_at, params),
        .rates = SL_NEW(&train->arena, double, params),
        .stored = SL_NEW(&train->arena, struct sl_optim_param, params),
        .kept = train->worker->state_count > sl_plan_optim_slabs(&c->optim)
                    ? train->worker->state_count - 1
                    : -1,
    };
}

/* The learning rate of a parameter in step t. */
static double rate_of(const struct sl_run_policy *policy, int i, int64_t t) {
    const struct sl_train_config *c = &policy->train->config;
    double lr = sl_optim_lr_at(&c->lr, c->base_lr, t);
    return lr * sl_optim_policy_rate(&c->policy, &policy->ats[i], t);
}

/* ---- w - lr*s*direction ---- */

struct move {
    int64_t t;      /* step of the direction; 0: a stored tensor */
    int64_t rate_t; /* step of the learning rate; 0: 1, or policy->rates */
    bool own_rates;
    double factor;                      /* out = w - lr*factor*direction */
    int w, out;                         /* weight slabs of w and out */
    int w_opt, out_opt, dir_opt, dir_w; /* slabs that are used instead; -1: not used */
    const float *scale_of;              /* scales of the step; a parameter below 0 is skipped */
    const bool *only;                   /* [params] which to move; NULL: all */
    const struct sl_run_predict *of;    /* NULL, or where a prediction goes */
};

static const struct move nowhere = {.w_opt = -1, .out_opt = -1, .dir_opt = -1, .dir_w = -1};

static struct sl_optim_param stored_direction(const struct sl_optim_param *param) {
    struct sl_optim_param out = *param;
    out.optim = (struct sl_optim){.row = sl_optim_row_find(sl_str("sgd"))};
    return out;
}

static float *out_of(const struct sl_worker *worker, const struct move *m, int i) {
    if (m->of && m->of->out)
        return (float *)(void *)(m->of->out + m->of->out_at[i]);
    return m->out_opt >= 0 ? sl_run_worker_opt(worker, m->out_opt, i)
                           : sl_run_worker_weight(worker, m->out, i);
}

static void fill_item(const struct sl_run_policy *policy, const struct move *m, int i,
                      struct sl_step_item *item) {
    const struct sl_worker *worker = policy->train->worker;
    const struct sl_optim_param *param = &policy->train->params[i];
    bool stored = m->dir_opt >= 0 || m->dir_w >= 0;
    double lr = m->own_rates ? policy->rates[i] : m->rate_t ? rate_of(policy, i, m->rate_t) : 1;
    policy->stored[i] = stored_direction(param);
    *item = (struct sl_step_item){
        .param = stored ? &policy->stored[i] : param, .lr = lr, .io.count = param->count};
    if (!stored)
        item->coef = sl_optim_coef(param, m->t, lr, 1);
    item->io.w = m->w_opt >= 0 ? sl_run_worker_opt(worker, m->w_opt, i)
                               : sl_run_worker_weight(worker, m->w, i);
    item->out = out_of(worker, m, i);
    for (int s = 0; s < param->optim.row->state_count; s++)
        item->io.state[s] = sl_run_worker_opt(worker, s, i);
    item->io.delta = m->dir_w >= 0       ? sl_run_worker_weight(worker, m->dir_w, i)
                     : m->dir_opt >= 0   ? sl_run_worker_opt(worker, m->dir_opt, i)
                     : policy->kept >= 0 ? sl_run_worker_opt(worker, policy->kept, i)
                                         : NULL;
}

static sl_err move_weights(const struct sl_run_policy *policy, const struct move *m) {
    struct sl_train *train = policy->train;
    bool some = m->of && m->of->params;
    int params = some ? m->of->param_count : program_of(policy)->param_count, count = 0;
    for (int k = 0; k < params; k++) {
        int i = some ? m->of->params[k] : k;
        if ((!m->scale_of || m->scale_of[i] >= 0) && (!m->only || m->only[i]))
            fill_item(policy, m, i, &train->step_items[count++]);
    }
    return train->device->row->predict(train->device, train->step_items, count, m->factor);
}

/* ---- predictions ---- */

static sl_err copy_weights(const struct sl_run_policy *policy, const struct sl_run_predict *p) {
    struct sl_worker *worker = policy->train->worker;
    struct move m = nowhere;
    if (!p->params && !p->out)
        return sl_run_worker_copy_weights(worker, p->to, p->from);
    m.out = p->to;
    m.of = p;
    for (int k = 0; k < (p->params ? p->param_count : program_of(policy)->param_count); k++) {
        int i = p->params ? p->params[k] : k;
        SL_TRY(worker->device->row->copy(worker->device, SL_STREAM_COMPUTE, out_of(worker, &m, i),
                                         sl_run_worker_weight(worker, p->from, i),
                                         program_of(policy)->params[i].numel * 4));
    }
    return SL_OK;
}

sl_err sl_run_policy_predict(struct sl_run_policy *policy, const struct sl_run_predict *p) {
    const struct sl_policy_use *use = &policy->train->config.policy;
    struct move m = nowhere;
    m.w = p->from;
    m.out = p->to;
    m.of = p;
    if (use->row->kept == SL_KEPT_VELOCITY) { /* backward by tau = ahead/m steps */
        m.factor = (double)p->ahead / (double)p->micros;
        m.dir_opt = policy->kept;
        return move_weights(policy, &m);
    }
    m.factor = (double)p->ahead * sl_optim_policy_value(use, "reach");
    m.t = m.rate_t = p->step;
    return p->step ? move_weights(policy, &m) : copy_weights(policy, p); /* no direction yet */
}

/* ---- steps ---- */

/* velocity <- velocity - (1-gamma)*velocity - (1-gamma)*(w_old - w_new); w_old is in slab `old`,
 * which is free for it. Holders of a tied parameter have the same gamma, and so one velocity. */
static sl_err follow(struct sl_run_policy *policy, const struct sl_update_args *args, int old,
                     const bool *only) {
    const struct sl_policy_use *use = &policy->train->config.policy;
    struct move m = nowhere;
    int w_new = args->version;
    m.scale_of = args->scale_of;
    m.only = only;
    m.w = m.out = old;
    m.dir_w = w_new;
    m.factor = 1;
    SL_TRY(move_weights(policy, &m));
    for (int i = 0; i < program_of(policy)->param_count; i++)
        policy->rates[i] = 1 - use->row->decay(use, &policy->ats[i]);
    m = nowhere;
    m.scale_of = args->scale_of;
    m.only = only;
    m.own_rates = true;
    m.w_opt = m.out_opt = m.dir_opt = policy->kept;
    m.factor = 1;
    SL_TRY(move_weights(policy, &m));
    m.dir_opt = -1;
    m.dir_w = old;
    return move_weights(policy, &m);
}

/* Removes the direction of step t-1 (factor -1), or adds that of step t instead (factor 1), both at
 * the rate of step t-1. */
static sl_err feed_back(struct sl_run_policy *policy, const struct sl_update_args *args,
                        double factor) {
    struct move m = nowhere;
    if (args->t < 2)
        return SL_OK;
    m.scale_of = args->scale_of;
    m.w = m.out = args->version;
    m.dir_opt = policy->kept;
    m.rate_t = args->t - 1;
    m.factor = factor;
    return move_weights(policy, &m);
}

sl_err sl_run_policy_update(struct sl_run_policy *policy, struct sl_update_args *args, int scratch,
                            const bool *follows) {
    struct sl_train *train = policy->train;
    const struct sl_policy *row = train->config.policy.row;
    bool feedback = row && row->feedback, velocity = row && row->kept == SL_KEPT_VELOCITY;
    for (int i = 0; i < program_of(policy)->param_count; i++)
        policy->rates[i] = rate_of(policy, i, args->t);
    args->lr_of = policy->rates;
    args->delta = policy->kept >= 0 && !velocity;
    sl_ckpt_copy_await(train->copy);
    if (feedback)
        SL_TRY(feed_back(policy, args, -1));
    if (velocity && scratch >= 0)
        SL_TRY(sl_run_worker_copy_weights(train->worker, scratch, args->version));
    SL_TRY(sl_run_train_update(train, args));
    if (velocity && scratch >= 0)
        SL_TRY(follow(policy, args, scratch, follows));
    return feedback ? feed_back(policy, args, 1) : SL_OK;
}
