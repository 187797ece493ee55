/* The optimizer step of one worker: add the uses, compute the norm, clip or skip, update. */
#include "ckpt/store.h"
#include "run/audit.h"
#include "run/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct norms {
    struct sl_train *train;
    int grad_slot;
};

/* A repetition for the audit writes its sums behind the first ones, so that they can be
 * compared. */
static sl_err act_norms(void *ctx, bool repeated) {
    struct norms *norms = ctx;
    struct sl_train *train = norms->train;
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    struct sl_norm_item *items = train->norm_items;
    double *sums = train->norm_sums + (repeated ? p->param_count : 0);
    for (int i = 0; i < p->param_count; i++)
        items[i] = (struct sl_norm_item){sl_run_worker_grad(train->worker, norms->grad_slot, i),
                                         p->params[i].numel, &sums[i]};
    SL_TRY(train->device->row->norm_sq(train->device, items, p->param_count));
    if (repeated && memcmp(train->norm_sums, sums, sizeof *sums * (size_t)p->param_count) != 0)
        return sl_fail(SL_ERR_SYSTEM,
                       "audit: stage %d computed the norms of its gradients twice "
                       "and got different bits; a processor or memory of this host "
                       "is not to be trusted",
                       train->worker->stage);
    return SL_OK;
}

static sl_err show_grad(struct sl_train *train, const struct sl_program_param *param, void *grad) {
    const struct sl_device_row *row = train->device->row;
    const struct sl_grad_watch *watch = train->config.grads;
    const struct sl_param *of = &train->config.graph->params.at[param->param];
    int64_t size_bytes = param->numel * 4;
    if (!row->apart)
        return watch->see(watch->ctx, of, grad, param->numel);
    float *copy = sl_realloc(NULL, (size_t)size_bytes);
    sl_err err = SL_OK;
    SL_TRY_OUT(row->download(train->device, SL_STREAM_COMPUTE, copy, grad, size_bytes));
    SL_TRY_OUT(row->sync(train->device, SL_STREAM_COMPUTE));
    SL_TRY_OUT(watch->see(watch->ctx, of, copy, param->numel));
    SL_TRY_OUT(row->upload(train->device, SL_STREAM_COMPUTE, grad, copy, size_bytes));
    SL_TRY_OUT(row->sync(train->device, SL_STREAM_COMPUTE));
out:
    free(copy);
    return err;
}

static sl_err show_grads(struct sl_train *train, int grad_slot) {
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    for (int i = 0; i < p->param_count; i++)
        SL_TRY(show_grad(train, &p->params[i], sl_run_worker_grad(train->worker, grad_slot, i)));
    return SL_OK;
}

sl_err sl_run_train_norms(struct sl_train *train, int grad_slot) {
    if (train->config.grads)
        SL_TRY(show_grads(train, grad_slot));
    struct norms norms = {train, grad_slot};
    struct sl_audited audited = {.what = "norms", .act = act_norms, .ctx = &norms};
    return sl_run_audit_act(train->worker, &audited);
}

static struct sl_step_item step_item(struct sl_train *train, const struct sl_update_args *args,
                                     int i) {
    const struct sl_optim_param *param = &train->params[i];
    int64_t own = sl_run_worker_own(train->worker, i).first;
    double lr = args->lr_of ? args->lr_of[i] : args->lr;
    struct sl_step_item item = {
        .param = param,
        .coef = sl_optim_coef(param, args->t, lr, args->scale_of ? args->scale_of[i] : args->scale),
        .io =
            {
                .count = param->count,
                .rows = param->shape.rank > 0 ? param->shape.dim[0] : 1,
                .w = (float *)sl_run_worker_weight(train->worker, args->version, i) + own,
                .g = (float *)sl_run_worker_grad(train->worker, args->grad_slot, i) + own,
                .scratch = train->opt_scratch,
            },
        .lr = lr,
    };
    item.io.cols = item.io.count / item.io.rows;
    if (args->delta)
        item.io.delta = sl_run_worker_opt(train->worker, train->worker->state_count - 1, i);
    for (int s = 0; s < param->optim.row->state_count; s++)
        item.io.state[s] = sl_run_worker_opt(train->worker, s, i);
    return item;
}

struct update {
    struct sl_train *train;
    const struct sl_update_args *args;
};

static sl_err act_update(void *ctx, bool repeated) {
    struct sl_train *train = ((struct update *)ctx)->train;
    const struct sl_update_args *args = ((struct update *)ctx)->args;
    int params = train->worker->programs[SL_WORKER_FULL]->param_count, count = 0;
    (void)repeated;
    for (int i = 0; i < params; i++)
        if (train->params[i].count && (!args->scale_of || args->scale_of[i] >= 0))
            train->step_items[count++] = step_item(train, args, i);
    return train->device->row->step(train->device, train->step_items, count);
}

sl_err sl_run_train_update(struct sl_train *train, const struct sl_update_args *args) {
    const struct sl_worker *w = train->worker;
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    struct update update = {train, args};
    sl_ckpt_copy_await(train->copy);
    struct sl_audited audited = {
        .what = "an optimizer step",
        .regions = {{w->param[args->version], p->param_bytes, "weights"},
                    {w->grad[args->grad_slot], p->grad_bytes, "gradients"}},
        .region_count = 2,
        .act = act_update,
        .ctx = &update,
    };
    SL_ASSERT(2 + w->state_count <= SL_AUDIT_REGIONS);
    for (int s = 0; s < w->state_count; s++)
        audited.regions[audited.region_count++] =
            (struct sl_audit_region){w->opt[s], w->own.count * 4, "optimizer state"};
    return sl_run_audit_act(train->worker, &audited);
}

void sl_run_train_blame_scale(const struct sl_train_config *config, struct sl_step_report *report) {
    if (report->skipped &&
        sl_optim_loss_scale_blames(&config->loss_scale, report->loss_scale, report->loss))
        report->bad.kind = SL_BAD_SCALE;
}

double sl_run_train_reported_scale(const struct sl_train_config *config, double value) {
    return sl_optim_loss_scale_is_none(&config->loss_scale) ? 0 : value;
}

sl_err sl_run_train_apply(struct sl_train *train, struct sl_step_report *report) {
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    double sum = 0; /* over all parameters, in graph order */
    SL_TRY(sl_run_worker_sum_uses(train->worker, 0));
    SL_TRY(sl_run_train_norms(train, 0));
    for (int i = 0; i < p->param_count; i++)
        sum += train->norm_sums[i];
    struct sl_norm_verdict verdict =
        sl_optim_norm_judge(sum, 1 / train->scale.value, train->config.clip);
    report->norm = verdict.norm;
    report->lr = sl_optim_lr_at(&train->config.lr, train->config.base_lr, train->step + 1);
    report->loss_scale = sl_run_train_reported_scale(&train->config, train->scale.value);
    report->skipped = !verdict.finite;
    struct sl_update_args args = {.t = train->step + 1, .lr = report->lr, .scale = verdict.scale};
    if (verdict.finite)
        SL_TRY(sl_run_train_update(train, &args));
    train->scale = sl_optim_loss_scale_next(&train->config.loss_scale, train->scale,
                                            train->scale.value, verdict.finite);
    train->step++;
    return SL_OK;
}
