/* Turns the gradients of an iteration into the next version of all stages. The sums, norms and
 * decisions are those of a pipeline (pipe/step.c, pipe/global_step.c), in the same order. */
#include "emulate/state.h"

#include <math.h>
#include <string.h>

/* ---- the loss scale ---- */

struct sl_scale_state *sl_emulate_scale_after(const struct sl_emulate *e, int64_t version) {
    return &e->scales[version % (e->lag + 2)];
}

double sl_emulate_scale_of(const struct sl_emulate *e, int64_t iteration) {
    int64_t version = iteration - e->lag;
    return sl_emulate_scale_after(e, version > 0 ? version : 0)->value;
}

static void decide_scale(struct sl_emulate *e, bool finite) {
    *sl_emulate_scale_after(e, e->done + 1) =
        sl_optim_loss_scale_next(&e->model.loss_scale, *sl_emulate_scale_after(e, e->done),
                                 sl_emulate_scale_of(e, e->done), finite);
}

/* ---- sums ---- */

static const struct sl_program *program_of(const struct sl_emulate *e) {
    return e->train.worker->programs[SL_WORKER_FULL];
}

/* Returns the memory for the gradient of one use of a parameter of the model by a node. */
static void *use_of(const struct sl_emulate *e, const struct sl_param_grad *grad) {
    const struct sl_program *p = program_of(e);
    for (int u = 0;; u++) {
        SL_ASSERT(u < p->use_count); /* the program has every use */
        const struct sl_param_grad *own = &p->graph->grads.at[p->uses[u].grad];
        if (own->node == grad->node && own->input == grad->input)
            return (char *)e->train.worker->grad[0] + p->uses[u].offset;
    }
}

/* Adds all uses of a parameter with copies, in graph order. Every copy gets the sum. */
static sl_err sum_copies(struct sl_emulate *e, int param) {
    const struct sl_graph *graph = e->model.graph;
    struct sl_device *device = e->train.device;
    const struct sl_program *p = program_of(e);
    int64_t bytes =
        sl_graph_shape_numel(&sl_graph_value(graph, graph->params.at[param].value)->shape, 1) * 4;
    bool first = true;
    for (int64_t g = 0; g < graph->grads.count; g++) {
        if (graph->grads.at[g].param != param)
            continue;
        const void *use = use_of(e, &graph->grads.at[g]);
        SL_TRY(first ? device->row->copy(device, SL_STREAM_COMPUTE, e->tie_sum, use, bytes)
                     : device->row->add(device, e->tie_sum, use, bytes / 4));
        first = false;
    }
    for (int i = 0; i < p->param_count; i++)
        if (e->rows[i].of == param) {
            e->train.worker->tied[i] = true;
            SL_TRY(device->row->copy(device, SL_STREAM_COMPUTE,
                                     sl_run_worker_grad(e->train.worker, 0, i), e->tie_sum, bytes));
        }
    return SL_OK;
}

static sl_err sum_gradients(struct sl_emulate *e) {
    const struct sl_program *p = program_of(e);
    for (int i = 0; i < p->param_count; i++) {
        bool seen = !e->rows[i].copy;
        for (int k = 0; k < i; k++) /* only the first of several copies sums */
            seen |= e->rows[k].copy && e->rows[k].of == e->rows[i].of;
        if (!seen)
            SL_TRY(sum_copies(e, e->rows[i].of));
    }
    SL_TRY(sl_run_worker_sum_uses(e->train.worker, 0));
    return sl_run_train_norms(&e->train, 0);
}

/* ---- decisions ---- */

static sl_err step_global(struct sl_emulate *e, struct sl_step_report *report,
                          struct sl_update_args *args) {
    const struct sl_program *p = program_of(e);
    double sum = 0; /* over parameters in graph order */
    for (int i = 0; i < p->param_count; i++)
        if (!e->rows[i].copy)
            sum += e->train.norm_sums[i];
    struct sl_norm_verdict verdict =
        sl_optim_norm_judge(sum, 1 / e->train.scale.value, e->model.clip);
    report->norm = verdict.norm;
    report->skipped = !verdict.finite;
    args->scale = verdict.scale;
    return verdict.finite ? sl_run_policy_update(&e->policy, args, e->scratch, e->follows) : SL_OK;
}

/* Every stage decides for itself; for a tied parameter its own norm decides. The report is that of
 * the first stage of worker 0. */
static sl_err step_alone(struct sl_emulate *e, struct sl_step_report *report,
                         struct sl_update_args *args) {
    const struct sl_program *p = program_of(e);
    const struct sl_plan *plan = e->config.plan;
    int reported = plan->seats[plan->worker_seats[0][0]].stage;
    double scale = 1 / e->train.scale.value, clip = e->model.clip;
    for (int s = 0; s < plan->stage_count; s++) {
        double sum = 0;
        for (int i = 0; i < p->param_count; i++)
            if (e->rows[i].stage == s && !e->rows[i].tied)
                sum += e->train.norm_sums[i];
        struct sl_norm_verdict own = sl_optim_norm_judge(sum, scale, clip);
        for (int i = 0; i < p->param_count; i++) {
            if (e->rows[i].stage != s)
                continue;
            struct sl_norm_verdict of =
                e->rows[i].tied ? sl_optim_norm_judge(e->train.norm_sums[i], scale, clip) : own;
            e->scales_of[i] = of.finite ? of.scale : -1;
        }
        if (s == reported)
            report->skipped = !own.finite;
    }
    report->norm = NAN;
    args->scale_of = e->scales_of;
    return sl_run_policy_update(&e->policy, args, e->scratch, e->follows);
}

sl_err sl_emulate_apply(struct sl_emulate *e, struct sl_step_report *report) {
    const struct sl_train_config *c = &e->model;
    struct sl_update_args args = {.t = e->train.step + 1};
    bool global = e->sched->rule == SL_RULE_SYNC || e->sched->global_step;
    report->lr = sl_optim_lr_at(&c->lr, c->base_lr, args.t);
    report->loss_scale = sl_run_train_reported_scale(c, e->train.scale.value);
    SL_TRY(sum_gradients(e));
    SL_TRY(global ? step_global(e, report, &args) : step_alone(e, report, &args));
    decide_scale(e, !report->skipped);
    return SL_OK;
}
