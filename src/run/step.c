/* The optimizer step of one worker: sum the uses, judge the norm, step every parameter. */
#include "run/train.h"

#include <math.h>

/* Over parameters in graph order; each tensor's own sum has a canonical order (optim/norm.h). */
static sl_err norm_sq(struct sl_train *train, double *out) {
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    struct sl_norm_item *items = train->norm_items;
    for (int i = 0; i < p->param_count; i++)
        items[i] = (struct sl_norm_item){sl_worker_grad(train->worker, 0, i), p->params[i].numel,
                                         &train->norm_sums[i]};
    SL_TRY(train->device->row->norm_sq(train->device, items, p->param_count));
    *out = 0;
    for (int i = 0; i < p->param_count; i++)
        *out += train->norm_sums[i];
    return SL_OK;
}

static struct sl_step_item step_item(struct sl_train *train, int i, double lr, float scale) {
    const struct sl_optim_param *param = &train->params[i];
    struct sl_step_item item = {
        .param = param,
        .coef = sl_optim_coef(param, train->step + 1, lr, scale),
        .io =
            {
                .count = param->count,
                .rows = param->shape.rank > 0 ? param->shape.dim[0] : 1,
                .w = sl_worker_weight(train->worker, 0, i),
                .g = sl_worker_grad(train->worker, 0, i),
                .scratch = train->opt_scratch,
            },
        .lr = lr,
    };
    item.io.cols = item.io.count / item.io.rows;
    for (int s = 0; s < param->optim.row->state_count; s++)
        item.io.state[s] = sl_worker_opt(train->worker, s, i);
    return item;
}

sl_err sl_train_apply(struct sl_train *train, struct sl_step_report *report) {
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    double sum;
    SL_TRY(sl_worker_sum_uses(train->worker, 0));
    SL_TRY(norm_sq(train, &sum));
    struct sl_norm_verdict verdict = sl_norm_judge(sum, 1, train->config.clip);
    report->norm = verdict.norm;
    report->lr = sl_lr_at(&train->config.lr, train->config.base_lr, train->step + 1);
    report->skipped = !verdict.finite;
    if (verdict.finite) {
        for (int i = 0; i < p->param_count; i++)
            train->step_items[i] = step_item(train, i, report->lr, verdict.scale);
        SL_TRY(train->device->row->step(train->device, train->step_items, p->param_count));
    }
    train->step++;
    return SL_OK;
}
