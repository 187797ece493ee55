/* The optimizer step of one worker: sum the uses, judge the norm, step every parameter. */
#include "run/train.h"

#include <math.h>

static double norm_sq(const struct sl_train *train) {
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    double sum = 0;
    for (int i = 0; i < p->param_count; i++)
        sum += sl_norm_sq(sl_worker_grad(train->worker, 0, i), p->params[i].numel);
    return sum;
}

static void step_param(struct sl_train *train, int i, double lr, float scale) {
    const struct sl_optim_param *param = &train->params[i];
    const struct sl_optimizer *row = param->optim.row;
    struct sl_step_coef coef = sl_optim_coef(param, train->step + 1, lr, scale);
    struct sl_step_io io = {
        .count = param->count,
        .rows = param->shape.rank > 0 ? param->shape.dim[0] : 1,
        .w = sl_worker_weight(train->worker, 0, i),
        .g = sl_worker_grad(train->worker, 0, i),
        .scratch = train->opt_scratch,
    };
    io.cols = io.count / io.rows;
    for (int s = 0; s < row->state_count; s++)
        io.state[s] = sl_worker_opt(train->worker, s, i);
    row->step(&coef, &io);
}

sl_err sl_train_apply(struct sl_train *train, struct sl_step_report *report) {
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    SL_TRY(sl_worker_sum_uses(train->worker, 0));
    struct sl_norm_verdict verdict = sl_norm_judge(norm_sq(train), 1, train->config.clip);
    report->norm = verdict.norm;
    report->lr = sl_lr_at(&train->config.lr, train->config.base_lr, train->step + 1);
    report->skipped = !verdict.finite;
    for (int i = 0; verdict.finite && i < p->param_count; i++)
        step_param(train, i, report->lr, verdict.scale);
    train->step++;
    return SL_OK;
}
