/* Emulation of a pipeline: opening, steps. */
#include "emulate/state.h"

#include "base/clock.h"
#include "sched/deps.h"
#include "sched/lag.h"
#include "schedules/schedule.h"

#include <stdlib.h>
#include <string.h>

/* ---- checks ---- */

static sl_err check_config(const struct sl_pipe_config *c) {
    const struct {
        bool used;
        const char *what;
    } refused[] = {
        {c->comm != NULL, "uses one process; start it without ranks"},
        {c->train->kind_count > 1, "uses one device; name one in `device`"},
        {c->trace, "has no pipeline to measure; leave out `trace`"},
        {c->staleness, "does not measure staleness; leave out `log_staleness`"},
        {c->lend, "has no idle workers; leave out `lend`"},
        {c->on_action != NULL, "has no actions; leave out the drill"},
    };
    for (int i = 0; i < SL_COUNT(refused); i++)
        if (refused[i].used)
            return sl_fail(SL_ERR_REFUSED, "`emulate` %s", refused[i].what);
    for (int s = 0; s < c->plan->stage_count; s++)
        if (c->plan->stages[s].shards > 1 || c->plan->stages[s].parts > 1)
            return sl_fail(SL_ERR_REFUSED, "`emulate` has no tensor parallelism; leave out `tp`");
    return sl_run_train_check(c->train);
}

static sl_err check_reads(const struct sl_emulate *e) {
    const struct sl_plan *plan = e->config.plan;
    if (e->model.loss_scale.dynamic && e->sched->rule != SL_RULE_SYNC && !e->sched->global_step)
        return sl_fail(SL_ERR_REFUSED,
                       "schedule '%s' lets every stage decide about its own gradient, so a dynamic "
                       "loss scale has no common decision to follow; use `clip_scope` global, or a "
                       "number as `loss_scale`",
                       e->sched->name);
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].recompute && !e->reads.same)
            return sl_fail(
                SL_ERR_REFUSED,
                "`emulate`: stage %s recomputes its forward pass with the weights of its "
                "backward pass, and with schedule '%s' these are others; leave out "
                "`recompute`",
                plan->stages[s].name, e->sched->name);
    return sl_optim_policy_serves(&e->model.policy, sl_sched_rule_name(e->sched->rule),
                                  &e->model.optim);
}

/* ---- the schedule ---- */

/* Builds the schedule of the steps from `origin` on. With 2bw, iteration t reads version t - 1
 * wherever the run ends, so a finished run can go on: its table has one iteration more than the
 * run. */
sl_err sl_emulate_begin(struct sl_emulate *e, int64_t origin) {
    int64_t left = e->model.steps - origin;
    const struct sl_schedule_opts opts = {
        .schedule = e->config.schedule,
        .row = e->config.row,
        .batch = e->model.batch,
        .iters = (left > 1 ? left : 1) + (e->portable ? 2 : 0),
        .slack = e->config.slack,
        .policy = &e->model.policy,
        .global_step = e->config.global_step,
    };
    e->sched = NULL;
    sl_arena_free(&e->sched_arena);
    SL_TRY(sl_schedules_build(&e->sched_arena, e->config.plan, &opts, &e->sched));
    SL_TRY(sl_sched_reads_open(&e->sched_arena, e->sched, e->model.graph->states.count > 0,
                               &e->reads));
    SL_TRY(check_reads(e));
    e->origin = origin;
    e->done = 0;
    e->begun = true;
    return SL_OK;
}

/* ---- rows and groups ---- */

/* Returns the stage that uses a parameter of the worker's graph; if several do, the last one. */
static int stage_of_param(const struct sl_emulate *e, int param) {
    const struct sl_graph *graph = e->train.config.graph;
    int stage = 0;
    for (int64_t g = 0; g < graph->grads.count; g++) {
        int of = e->config.stage_of[graph->grads.at[g].node];
        if (graph->grads.at[g].param == param && of > stage)
            stage = of;
    }
    return stage;
}

static const struct sl_tie *tie_of(const struct sl_emulate *e, const char *name, int *number) {
    const struct sl_plan *plan = e->config.plan;
    for (*number = 0; *number < plan->tie_count; ++*number)
        if (strcmp(plan->ties[*number].name, name) == 0)
            return &plan->ties[*number];
    return NULL;
}

/* Opens the optimizer's row for one parameter. A tied parameter is stepped as in the highest of its
 * stages. */
static sl_err open_row(struct sl_emulate *e, int i, const struct sl_emulate_copies *copies) {
    const struct sl_plan *plan = e->config.plan;
    const struct sl_policy_use *use = &e->model.policy;
    struct sl_emulate_row *row = &e->rows[i];
    int param = e->train.worker->programs[SL_WORKER_FULL]->params[i].param, tie;
    int64_t params = e->model.graph->params.count;
    row->copy = param >= params;
    row->of = row->copy ? copies->at[param - params].param : param;
    row->stage = stage_of_param(e, param);
    row->tied = tie_of(e, e->model.graph->params.at[row->of].name, &tie) != NULL;
    struct sl_policy_at own = sl_sched_policy_at_of(e->sched, row->stage), at = own;
    struct sl_optim optim = e->model.optim;
    if (row->tied)
        at = sl_sched_policy_at_of(e->sched, sl_sched_group_root(plan, plan->stage_count + tie));
    for (int k = 0; row->tied && k < plan->ties[tie].count; k++)
        if (use->row && use->row->momentum && sl_optim_policy_value(use, "graded") != 0 &&
            sl_sched_policy_at_of(e->sched, plan->ties[tie].stages[k]).height != at.height)
            return sl_fail(SL_ERR_REFUSED,
                           "policy '%s' gives the copies of tied parameter '%s' different "
                           "momentum, so they would diverge; use graded=0",
                           use->row->name, plan->ties[tie].name);
    if (use->row && use->row->momentum)
        use->row->momentum(use, &own, &optim);
    struct sl_optim_shape shape = sl_plan_optim_shape(e->model.graph, row->of);
    e->train.params[i] = sl_optim_for(&optim, &shape);
    e->policy.ats[i] = at;
    e->follows[i] = e->sched->pools[plan->stages[row->stage].seat][SL_POOL_PREDICT].count > 0;
    return SL_OK;
}

static void open_group(struct sl_emulate *e, struct sl_emulate_group *group, int stage, bool all) {
    const struct sl_program *p = e->train.worker->programs[SL_WORKER_FULL];
    group->stage = stage;
    group->params = SL_NEW(&e->arena, int, p->param_count);
    group->ranges = SL_NEW(&e->arena, struct sl_part, p->param_count);
    for (int i = 0; i < p->param_count; i++) {
        int64_t from = p->params[i].offset;
        int64_t to = i + 1 < p->param_count ? p->params[i + 1].offset : p->param_bytes;
        if (!all && e->rows[i].stage != stage)
            continue;
        struct sl_part *last = &group->ranges[group->range_count - !!group->range_count];
        if (group->range_count && last->first + last->count == from)
            last->count += to - from;
        else
            group->ranges[group->range_count++] = (struct sl_part){from, to - from};
        e->row_at[i] = group->bytes;
        group->bytes += to - from;
        group->params[group->count++] = i;
    }
}

static void open_groups(struct sl_emulate *e) {
    e->group_count = e->reads.uniform ? 1 : e->config.plan->stage_count;
    e->groups = SL_NEW(&e->arena, struct sl_emulate_group, e->group_count);
    for (int g = 0; g < e->group_count; g++)
        open_group(e, &e->groups[g], g, e->reads.uniform);
}

/* ---- the worker ---- */

static void plan_views(struct sl_emulate *e) {
    for (int b = 0; b < 2; b++) {
        bool shares = b && e->reads.same;
        e->slab_of[b] = shares ? e->slab_of[0] : 0;
        if (shares || e->reads.newest[b])
            continue;
        e->slab_of[b] = 1 + e->view_count;
        e->views[e->view_count++] =
            (struct sl_emulate_view){.slab = e->slab_of[b], .backward = b == 1};
    }
    bool velocity = e->model.policy.row && e->model.policy.row->kept == SL_KEPT_VELOCITY;
    e->scratch = velocity ? 1 + e->view_count : -1;
}

static sl_err open_worker(struct sl_emulate *e) {
    struct sl_train_config *c = &e->train.config;
    int64_t full = sl_run_train_full_samples(c->batch, c->micros);
    struct sl_worker_config worker = {
        .graph = c->graph,
        .samples = full,
        .last_samples = c->batch - full * (c->micros - 1),
        .eval_graph = c->eval_graph,
        .eval_samples = full,
        .has_kernel = c->device->has_kernel,
        .dtype = c->dtype,
        .recompute = c->recompute,
        .slots = 1,
        .versions = 1 + e->view_count + (e->scratch >= 0),
        .grad_slots = 1,
        .state_count = sl_plan_slabs(&c->optim, &c->policy),
        .seed = c->seed,
        .audit = c->audit,
    };
    struct sl_device_config device = {.threads = c->threads, .tf32 = c->tf32};
    SL_TRY(c->device->open(&device, &e->train.device));
    SL_TRY(sl_run_worker_open(e->train.device, &worker, &e->train.worker));
    e->train.counts = SL_NEW(&e->train.arena, double, c->graph->losses.count);
    return sl_run_train_open_optimizer(&e->train);
}

/* Opens the worker. Tied parameters get copies if their stages read different versions. */
static sl_err open_train(struct sl_emulate *e, struct sl_emulate_copies *copies) {
    const struct sl_graph *graph = e->model.graph;
    int64_t largest = 64;
    e->train.config = e->model;
    if (!e->reads.uniform)
        *copies = sl_emulate_copies_of(&e->arena, graph, e->config.plan);
    e->train.config.graph = sl_emulate_untie(&e->arena, graph, e->config.stage_of, copies);
    e->train.config.eval_graph =
        sl_emulate_untie(&e->arena, e->model.eval_graph, e->config.stage_of, copies);
    SL_TRY(open_worker(e));
    for (int t = 0; t < e->config.plan->tie_count; t++)
        largest = e->config.plan->ties[t].bytes > largest ? e->config.plan->ties[t].bytes : largest;
    return e->train.device->row->alloc(e->train.device, largest, &e->tie_sum);
}

static sl_err open_rows(struct sl_emulate *e, const struct sl_emulate_copies *copies) {
    int params = e->train.worker->programs[SL_WORKER_FULL]->param_count;
    e->rows = SL_NEW(&e->arena, struct sl_emulate_row, params);
    e->row_at = SL_NEW(&e->arena, int64_t, params);
    e->scales_of = SL_NEW(&e->arena, float, params);
    e->follows = SL_NEW(&e->arena, bool, params);
    sl_run_policy_open(&e->policy, &e->train);
    for (int i = 0; i < params; i++)
        SL_TRY(open_row(e, i, copies));
    open_groups(e);
    return SL_OK;
}

static bool is_portable(const struct sl_emulate *e) {
    const struct sl_policy *row = e->model.policy.row;
    return e->sched->rule == SL_RULE_2BW && !(row && row->ahead);
}

sl_err sl_emulate_open(const struct sl_pipe_config *config, struct sl_emulate **out) {
    SL_TRY(check_config(config));
    struct sl_emulate *e = calloc(1, sizeof *e);
    if (!e)
        sl_out_of_memory(sizeof *e);
    struct sl_emulate_copies copies = {0};
    sl_err err = SL_OK;
    e->config = *config;
    e->model = *config->train;
    SL_TRY_OUT(sl_emulate_begin(e, 0));
    e->portable = is_portable(e);
    SL_TRY_OUT(sl_emulate_begin(e, 0));
    e->begun = false;
    plan_views(e);
    SL_TRY_OUT(open_train(e, &copies));
    SL_TRY_OUT(open_rows(e, &copies));
    SL_TRY_OUT(sl_emulate_open_views(e));
    e->lag = e->model.loss_scale.dynamic ? sl_sched_decision_lag(e->sched) : 0;
    e->scales = SL_NEW(&e->arena, struct sl_scale_state, e->lag + 2);
    for (int i = 0; i < e->lag + 2; i++)
        e->scales[i] = sl_optim_loss_scale_begin(&e->model.loss_scale);
    *out = e;
out:
    if (err != SL_OK)
        sl_emulate_close(e);
    return err;
}

void sl_emulate_close(struct sl_emulate *e) {
    if (!e)
        return;
    sl_emulate_close_views(e);
    sl_run_worker_close(e->train.worker);
    if (e->train.device) {
        e->train.device->row->free(e->train.device, e->train.opt_scratch);
        e->train.device->row->free(e->train.device, e->tie_sum);
        e->train.device->row->close(e->train.device);
    }
    sl_arena_free(&e->train.arena);
    sl_arena_free(&e->sched_arena);
    sl_arena_free(&e->arena);
    free(e);
}

const struct sl_worker *sl_emulate_worker(const struct sl_emulate *e) { return e->train.worker; }

int64_t sl_emulate_version_bytes(const struct sl_emulate *e) { return e->version_bytes; }

/* ---- steps ---- */

static sl_err run_micro(struct sl_emulate *e, const struct sl_feed *feed, bool first,
                        double *loss) {
    struct sl_train *train = &e->train;
    struct sl_worker_pass pass = {
        .program = feed->program,
        .version = e->slab_of[0],
        .accumulate = !first,
        .seed = sl_run_train_seed(e->model.seed, train->step),
        .first_sample = feed->first,
    };
    SL_TRY(sl_run_train_feed(train, feed));
    SL_TRY(sl_run_worker_pass(train->worker, &pass));
    SL_TRY(sl_run_train_add_losses(train, feed, loss));
    pass.phase = SL_PHASE_B;
    pass.version = e->slab_of[1];
    return sl_run_worker_pass(train->worker, &pass);
}

static sl_err start_schedule(struct sl_emulate *e) {
    if (e->begun)
        return SL_OK;
    struct sl_scale_state scale = *sl_emulate_scale_after(e, e->done);
    SL_TRY(sl_emulate_begin(e, e->train.step));
    SL_TRY(sl_emulate_check_depth(e));
    *sl_emulate_scale_after(e, 0) = scale;
    sl_emulate_forget_views(e);
    return sl_emulate_advance(e, 0);
}

static sl_err end_step(struct sl_emulate *e, struct sl_step_report *report) {
    int64_t next = (e->done + 1) * e->reads.micros;
    SL_TRY(sl_emulate_advance(e, next));
    SL_TRY(sl_emulate_save(e));
    SL_TRY(sl_emulate_apply(e, report));
    e->done++;
    e->train.step++;
    e->begun = e->done < e->sched->iters;
    return sl_emulate_advance(e, next);
}

sl_err sl_emulate_step(struct sl_emulate *e, struct sl_step_report *report) {
    const struct sl_train_config *c = &e->model;
    struct sl_train *train = &e->train;
    int64_t start = sl_clock_ns(), cpu = sl_clock_process_ns();
    struct sl_data_range range;
    SL_TRY(start_schedule(e));
    SL_TRY(sl_data_next(c->data, SL_DATA_TRAIN, SL_DATA_WRAP, c->batch, &train->cursor, &range));
    SL_TRY(sl_run_train_count(train, SL_DATA_TRAIN, range.first, range.count, train->counts));
    *report = (struct sl_step_report){.step = train->step + 1, .samples = range.count};
    train->scale.value = sl_emulate_scale_of(e, e->done);
    for (int64_t j = 0; j < c->micros; j++) {
        struct sl_feed feed = sl_run_train_micro(train, &range, j);
        if (j)
            SL_TRY(sl_emulate_advance(e, e->done * c->micros + j));
        SL_TRY(run_micro(e, &feed, j == 0, &report->loss));
    }
    SL_TRY(end_step(e, report));
    report->dur_ns = sl_clock_ns() - start;
    report->cpu_ns = sl_clock_process_ns() - cpu;
    sl_run_train_blame_scale(c, report);
    return SL_OK;
}
