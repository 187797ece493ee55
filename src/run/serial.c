/* The stages of a plan in one thread: the reference for pipelines. */
#include "run/serial.h"

#include "base/clock.h"
#include "plan/bytes.h"
#include "run/serial_order.h"

#include <stdlib.h>
#include <string.h>

struct part { /* one stage */
    struct sl_train train;
    int64_t size, micros; /* samples of a micro-batch; micro-batches of a batch */
    /* start: running statistics before the batch; sum: their sum over the replicas */
    void *start, *sum;
};

struct sl_serial {
    struct sl_train_config config;
    struct sl_arena arena;
    const struct sl_plan *plan;
    const int *stage_of;
    struct sl_device *device;
    struct part *parts;             /* [stage] */
    struct sl_serial_order *orders; /* [stage] */
    bool stale;                     /* the schedule is asynchronous: passes read older versions */
    bool global_step;               /* all stages clip and skip by one norm */
    double *norms;                  /* [graph params] norms of the gradients */
    double *losses;                 /* [max_micros][losses] loss terms of the batch */
    int64_t max_micros;             /* most micro-batches that any stage has */
    void *tie_sum;
    struct sl_data_cursor cursor;
    int64_t step, first; /* steps done; first sample of the batch */
};

/* ---- opening ---- */

/* Returns the number of weight slabs: one per version that a step reads or makes. */
static int versions_of(const struct sl_serial *s) {
    int32_t lag = 0;
    for (int i = 0; i < s->plan->stage_count; i++)
        lag = s->orders[i].lag > lag ? s->orders[i].lag : lag;
    return s->stale ? lag + 2 : 1;
}

static sl_err open_part(struct sl_serial *s, int stage) {
    const struct sl_train_config *c = &s->config;
    const struct sl_stage *of = &s->plan->stages[stage];
    struct part *part = &s->parts[stage];
    part->size = of->micro_size;
    part->micros = (c->batch + part->size - 1) / part->size;
    s->max_micros = part->micros > s->max_micros ? part->micros : s->max_micros;
    struct sl_worker_config config = {
        .graph = c->graph,
        .stage_of = s->stage_of,
        .stage = stage,
        .samples = part->size,
        .last_samples = c->batch - part->size * (part->micros - 1),
        .has_kernel = c->device->has_kernel,
        .dtype = c->dtype,
        .recompute = of->recompute,
        .slots = (int)part->micros,
        .versions = versions_of(s),
        .grad_slots = of->width,
        .state_count = sl_plan_optim_slabs(&c->optim),
        .seed = c->seed,
    };
    part->train.config = *c;
    part->train.scale = sl_optim_loss_scale_begin(&c->loss_scale);
    part->train.device = s->device;
    part->train.counts = SL_NEW(&part->train.arena, double, c->graph->losses.count);
    SL_TRY(sl_run_worker_open(s->device, &config, &part->train.worker));
    int64_t state = part->train.worker->programs[SL_WORKER_FULL]->state_bytes;
    SL_TRY(s->device->row->alloc(s->device, state ? state : 64, &part->start));
    SL_TRY(s->device->row->alloc(s->device, state ? state : 64, &part->sum));
    return sl_run_train_open_optimizer(&part->train);
}

static sl_err check_stale(const struct sl_serial *s, const struct sl_sched *sched) {
    if (s->config.policy.row)
        return sl_fail(SL_ERR_REFUSED,
                       "the reference of asynchronous schedules predicts no weights, and policy "
                       "'%s' changes them; check the schedule without a policy",
                       s->config.policy.row->name);
    if (s->config.loss_scale.dynamic)
        return sl_fail(SL_ERR_REFUSED,
                       "the reference of asynchronous schedules has no dynamic loss "
                       "scale; set `loss_scale` none");
    for (int i = 0; i < s->plan->stage_count; i++) {
        if (s->plan->stages[i].shards > 1 || s->plan->stages[i].parts > 1)
            return sl_fail(SL_ERR_REFUSED,
                           "the reference of asynchronous schedules has no tensor parallelism");
        if (s->orders[i].crossed && s->config.graph->states.count)
            return sl_fail(SL_ERR_REFUSED,
                           "schedule '%s' runs forwards of stage %s after those of a later step, "
                           "and the model has running statistics",
                           sched->name, s->plan->stages[i].name);
    }
    return SL_OK;
}

sl_err sl_run_serial_open(const struct sl_train_config *config, const struct sl_plan *plan,
                          const int *stage_of, const struct sl_sched *order,
                          struct sl_serial **out) {
    struct sl_serial *s = calloc(1, sizeof *s);
    if (!s)
        sl_out_of_memory(sizeof *s);
    sl_err err = SL_OK;
    int64_t tie_bytes = 64;
    s->config = *config;
    s->plan = plan;
    s->stage_of = stage_of;
    s->parts = SL_NEW(&s->arena, struct part, plan->stage_count);
    s->orders = sl_run_serial_orders(&s->arena, plan, config->batch, order);
    s->stale = order && order->rule != SL_RULE_SYNC;
    s->global_step = !s->stale || order->global_step;
    if (s->stale)
        SL_TRY_OUT(check_stale(s, order));
    s->norms = SL_NEW(&s->arena, double, config->graph->params.count);
    struct sl_device_config device = {.threads = config->threads, .tf32 = config->tf32};
    SL_TRY_OUT(config->device->open(&device, &s->device));
    for (int i = 0; i < plan->stage_count; i++)
        SL_TRY_OUT(open_part(s, i));
    for (int t = 0; t < plan->tie_count; t++)
        tie_bytes = plan->ties[t].bytes > tie_bytes ? plan->ties[t].bytes : tie_bytes;
    SL_TRY_OUT(s->device->row->alloc(s->device, tie_bytes, &s->tie_sum));
    s->losses = SL_NEW(&s->arena, double, s->max_micros * config->graph->losses.count);
    *out = s;
out:
    if (err != SL_OK)
        sl_run_serial_close(s);
    return err;
}

void sl_run_serial_close(struct sl_serial *s) {
    if (!s)
        return;
    for (int i = 0; s->device && i < s->plan->stage_count; i++) {
        struct part *part = &s->parts[i];
        sl_run_worker_close(part->train.worker);
        s->device->row->free(s->device, part->train.opt_scratch);
        s->device->row->free(s->device, part->start);
        s->device->row->free(s->device, part->sum);
        sl_arena_free(&part->train.arena);
    }
    if (s->device) {
        s->device->row->free(s->device, s->tie_sum);
        s->device->row->close(s->device);
    }
    sl_arena_free(&s->arena);
    free(s);
}

int sl_run_serial_newest(const struct sl_serial *s) {
    return (int)(s->step % s->parts[0].train.worker->versions);
}

const struct sl_worker *sl_run_serial_worker(const struct sl_serial *s, int stage) {
    return s->parts[stage].train.worker;
}

/* ---- passes ---- */

static int64_t samples_of(const struct sl_serial *s, int stage, int64_t micro) {
    const struct part *part = &s->parts[stage];
    int64_t left = s->config.batch - micro * part->size;
    return left < part->size ? left : part->size;
}

static enum sl_worker_program which_of(const struct sl_serial *s, int stage, int64_t micro) {
    return sl_run_worker_program_for(s->parts[stage].train.worker, samples_of(s, stage, micro));
}

static const struct sl_program *program_of(const struct sl_serial *s, int stage, int64_t micro) {
    return s->parts[stage].train.worker->programs[which_of(s, stage, micro)];
}

struct end { /* one end of a transfer: a micro-batch of a stage */
    int stage;
    int64_t micro;
};

/* Returns the memory of the i-th port to `peer`; NULL: there is none. */
static char *port_at(const struct sl_serial *s, struct end end, const struct sl_ports *ports,
                     int peer, int i) {
    for (int k = 0; k < ports->count; k++)
        if (ports->at[k].peer == peer && i-- == 0)
            return (char *)s->parts[end.stage].train.worker->slot[end.micro] +
                   ports->at[k].operand.offset;
    return NULL;
}

/* Copies the samples that two micro-batches have in common, port by port. */
static sl_err copy_shared(struct sl_serial *s, struct end from, struct end to, bool grad) {
    const struct sl_program *p = program_of(s, from.stage, from.micro);
    const struct sl_program *q = program_of(s, to.stage, to.micro);
    int64_t a = from.micro * s->parts[from.stage].size, b = to.micro * s->parts[to.stage].size;
    int64_t first = a > b ? a : b;
    int64_t end_a = a + p->samples, end_b = b + q->samples, end = end_a < end_b ? end_a : end_b;
    const struct sl_ports *out = grad ? &p->send_grad : &p->send_act;
    const struct sl_ports *in = grad ? &q->recv_grad : &q->recv_act;
    bool whole = end - first == p->samples && p->samples == q->samples;
    for (int k = 0, i = 0; k < out->count; k++) {
        if (out->at[k].peer != to.stage)
            continue;
        int64_t bytes = sl_pass_operand_bytes(&out->at[k].operand), sample = bytes / p->samples;
        char *x = port_at(s, from, out, to.stage, i), *y = port_at(s, to, in, from.stage, i);
        i++;
        if (!whole) {
            x += (first - a) * sample;
            y += (first - b) * sample;
            bytes = (end - first) * sample;
        }
        SL_TRY(s->device->row->copy(s->device, SL_STREAM_COMPUTE, y, x, bytes));
    }
    return SL_OK;
}

/* Copies all inputs that a micro-batch gets over an edge. */
static sl_err fetch(struct sl_serial *s, struct end to, int from, bool grad) {
    int64_t first = to.micro * s->parts[to.stage].size;
    int64_t last = first + samples_of(s, to.stage, to.micro) - 1;
    for (int64_t x = first / s->parts[from].size; x <= last / s->parts[from].size; x++)
        SL_TRY(copy_shared(s, (struct end){from, x}, to, grad));
    return SL_OK;
}

static int slab_of(const struct sl_serial *s, int64_t version) {
    return (int)(version % s->parts[0].train.worker->versions);
}

/* Returns the weight version that a pass reads; `back` is 1 for a backward pass. */
static int version_of(const struct sl_serial *s, int stage, int64_t micro, int back) {
    if (!s->stale)
        return 0;
    return slab_of(s, s->orders[stage].version[back][s->step * s->parts[stage].micros + micro]);
}

/* Returns the i-th micro-batch to run in this step. A synchronous schedule repeats the order of its
 * first step. */
static int64_t micro_at(const struct sl_serial *s, int stage, int64_t i, int sums) {
    return s->orders[stage].at[sums][(s->stale ? s->step * s->parts[stage].micros : 0) + i];
}

static struct sl_worker_pass pass_of(const struct sl_serial *s, int stage, int64_t micro) {
    return (struct sl_worker_pass){
        .program = which_of(s, stage, micro),
        .slot = (int)micro,
        .seed = sl_run_train_seed(s->config.seed, s->step),
        .first_sample = s->first + micro * s->parts[stage].size,
    };
}

static sl_err forward(struct sl_serial *s, int stage, int64_t micro) {
    struct part *part = &s->parts[stage];
    const struct sl_stage *of = &s->plan->stages[stage];
    struct sl_worker_pass pass = pass_of(s, stage, micro);
    pass.version = version_of(s, stage, micro, 0);
    struct sl_feed feed = {SL_DATA_TRAIN, pass.program, pass.first_sample,
                           samples_of(s, stage, micro), pass.slot};
    SL_TRY(sl_run_train_feed(&part->train, &feed));
    for (int i = 0; i < of->in_count; i++)
        SL_TRY(fetch(s, (struct end){stage, micro}, s->plan->edges[of->in[i]].from, false));
    SL_TRY(sl_run_worker_pass(part->train.worker, &pass));
    return sl_run_train_loss_terms(&part->train, &feed,
                                   s->losses + micro * s->config.graph->losses.count);
}

/* Runs the forwards of a stage. Every replica starts from the statistics before the batch; the
 * result is their mean. */
static sl_err forward_stage(struct sl_serial *s, int stage) {
    struct part *part = &s->parts[stage];
    struct sl_worker *worker = part->train.worker;
    const struct sl_device_row *row = s->device->row;
    int64_t bytes = worker->programs[SL_WORKER_FULL]->state_bytes;
    int width = s->plan->stages[stage].width;
    SL_TRY(row->copy(s->device, SL_STREAM_COMPUTE, part->start, worker->state, bytes));
    for (int r = 0; r < width; r++) {
        SL_TRY(row->copy(s->device, SL_STREAM_COMPUTE, worker->state, part->start, bytes));
        for (int64_t j = 0; j < part->micros; j++)
            if (micro_at(s, stage, j, 0) % width == r)
                SL_TRY(forward(s, stage, micro_at(s, stage, j, 0)));
        if (r == 0)
            SL_TRY(row->copy(s->device, SL_STREAM_COMPUTE, part->sum, worker->state, bytes));
        else
            SL_TRY(row->add(s->device, part->sum, worker->state, bytes / 4));
    }
    if (width == 1)
        return SL_OK;
    SL_TRY(row->copy(s->device, SL_STREAM_COMPUTE, worker->state, part->sum, bytes));
    return sl_run_worker_scale_state(worker, 1.0F / (float)width);
}

static sl_err backward_stage(struct sl_serial *s, int stage) {
    struct part *part = &s->parts[stage];
    const struct sl_stage *of = &s->plan->stages[stage];
    for (int r = 0; r < of->width; r++)
        if (r >= part->micros)
            SL_TRY(sl_run_worker_clear_grads(part->train.worker, r));
    for (int64_t j = 0; j < part->micros; j++) {
        int64_t micro = micro_at(s, stage, j, 1);
        struct sl_worker_pass pass = pass_of(s, stage, micro);
        pass.phase = SL_PHASE_B;
        pass.version = version_of(s, stage, micro, 1);
        pass.grad_slot = (int)(micro % of->width);
        for (int64_t i = 0; i < j; i++)
            pass.accumulate |= micro_at(s, stage, i, 1) % of->width == pass.grad_slot;
        for (int i = 0; i < of->out_count; i++)
            SL_TRY(fetch(s, (struct end){stage, micro}, s->plan->edges[of->out[i]].to, true));
        SL_TRY(sl_run_worker_pass(part->train.worker, &pass));
    }
    return SL_OK;
}

/* ---- the step ---- */

static sl_err add_replicas(struct sl_serial *s, int stage) {
    struct sl_worker *worker = s->parts[stage].train.worker;
    int64_t bytes = worker->programs[SL_WORKER_FULL]->grad_bytes;
    for (int r = 1; r < s->plan->stages[stage].width; r++)
        SL_TRY(s->device->row->add(s->device, worker->grad[0], worker->grad[r], bytes / 4));
    return SL_OK;
}

static sl_err add_tie(struct sl_serial *s, const struct sl_tie *tie) {
    const struct sl_graph *graph = s->config.graph;
    const struct sl_device_row *row = s->device->row;
    bool first = true;
    for (int64_t g = 0; g < graph->grads.count; g++) {
        const struct sl_param_grad *grad = &graph->grads.at[g];
        if (strcmp(graph->params.at[grad->param].name, tie->name) != 0)
            continue;
        const struct sl_worker *worker = s->parts[s->stage_of[grad->node]].train.worker;
        const struct sl_program *p = worker->programs[SL_WORKER_FULL];
        int u = 0;
        while (p->uses[u].grad != g)
            u++;
        const char *use = (const char *)worker->grad[0] + p->uses[u].offset;
        SL_TRY(first ? row->copy(s->device, SL_STREAM_COMPUTE, s->tie_sum, use, tie->bytes)
                     : row->add(s->device, s->tie_sum, use, tie->bytes / 4));
        first = false;
    }
    for (int i = 0; i < tie->count; i++) {
        struct sl_worker *worker = s->parts[tie->stages[i]].train.worker;
        const struct sl_program *p = worker->programs[SL_WORKER_FULL];
        int param = 0;
        while (strcmp(graph->params.at[p->params[param].param].name, tie->name) != 0)
            param++;
        SL_TRY(row->copy(s->device, SL_STREAM_COMPUTE, sl_run_worker_grad(worker, 0, param),
                         s->tie_sum, tie->bytes));
        worker->tied[param] = true;
    }
    return SL_OK;
}

static bool is_tied(const struct sl_serial *s, const char *name) {
    for (int t = 0; t < s->plan->tie_count; t++)
        if (strcmp(s->plan->ties[t].name, name) == 0)
            return true;
    return false;
}

/* Makes the next version of a stage. args NULL: with the same weights. */
static sl_err make_version(struct sl_serial *s, int stage, struct sl_update_args *args) {
    struct sl_train *train = &s->parts[stage].train;
    int to = s->stale ? slab_of(s, s->step + 1) : 0;
    if (s->stale)
        SL_TRY(sl_run_worker_copy_weights(train->worker, to, slab_of(s, s->step)));
    if (!args)
        return SL_OK;
    args->version = to;
    return sl_run_train_update(train, args);
}

/* Steps a stage that clips and skips by its own norm; a tied parameter uses its own. */
static sl_err step_alone(struct sl_serial *s, int stage, struct sl_update_args args) {
    struct sl_train *train = &s->parts[stage].train;
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    float *scales = SL_NEW(&train->arena, float, p->param_count);
    double sum = 0, scale = 1 / train->scale.value, clip = s->config.clip;
    for (int k = 0; k < p->param_count; k++)
        if (!is_tied(s, p->graph->params.at[p->params[k].param].name))
            sum += train->norm_sums[k];
    struct sl_norm_verdict own = sl_optim_norm_judge(sum, scale, clip);
    for (int k = 0; k < p->param_count; k++) {
        bool tied = is_tied(s, p->graph->params.at[p->params[k].param].name);
        struct sl_norm_verdict of =
            tied ? sl_optim_norm_judge(train->norm_sums[k], scale, clip) : own;
        scales[k] = of.finite ? of.scale : -1;
    }
    args.scale_of = scales;
    return make_version(s, stage, &args);
}

static sl_err apply(struct sl_serial *s, struct sl_step_report *report) {
    double sum = 0;
    for (int i = 0; i < s->plan->stage_count; i++)
        SL_TRY(add_replicas(s, i));
    for (int t = 0; t < s->plan->tie_count; t++)
        SL_TRY(add_tie(s, &s->plan->ties[t]));
    for (int i = 0; i < s->plan->stage_count; i++) {
        struct sl_train *train = &s->parts[i].train;
        const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
        SL_TRY(sl_run_worker_sum_uses(train->worker, 0));
        SL_TRY(sl_run_train_norms(train, 0));
        /* copies of a tied parameter have equal gradients */
        for (int k = 0; k < p->param_count; k++)
            s->norms[p->params[k].param] = train->norm_sums[k];
    }
    for (int64_t i = 0; i < s->config.graph->params.count; i++)
        sum += s->norms[i];
    struct sl_scale_state scale = s->parts[0].train.scale; /* all stages have the same scale */
    struct sl_norm_verdict verdict = sl_optim_norm_judge(sum, 1 / scale.value, s->config.clip);
    report->norm = verdict.norm;
    report->lr = sl_optim_lr_at(&s->config.lr, s->config.base_lr, s->step + 1);
    report->loss_scale = sl_run_train_reported_scale(&s->config, scale.value);
    report->skipped = !verdict.finite;
    struct sl_update_args args = {.t = s->step + 1, .lr = report->lr, .scale = verdict.scale};
    for (int i = 0; i < s->plan->stage_count; i++)
        SL_TRY(s->global_step ? make_version(s, i, verdict.finite ? &args : NULL)
                              : step_alone(s, i, args));
    for (int i = 0; i < s->plan->stage_count; i++)
        s->parts[i].train.scale =
            sl_optim_loss_scale_next(&s->config.loss_scale, scale, scale.value, verdict.finite);
    s->step++;
    return SL_OK;
}

sl_err sl_run_serial_step(struct sl_serial *s, struct sl_step_report *report) {
    const struct sl_train_config *c = &s->config;
    int64_t start = sl_clock_ns(), losses = s->max_micros * c->graph->losses.count;
    struct sl_data_range range;
    SL_TRY(sl_data_next(c->data, SL_DATA_TRAIN, SL_DATA_WRAP, c->batch, &s->cursor, &range));
    *report = (struct sl_step_report){.step = s->step + 1, .samples = range.count};
    s->first = range.first;
    memset(s->losses, 0, sizeof *s->losses * (size_t)losses);
    for (int i = 0; i < s->plan->stage_count; i++)
        SL_TRY(sl_run_train_count(&s->parts[i].train, SL_DATA_TRAIN, range.first, range.count,
                                  s->parts[i].train.counts));
    for (int i = 0; i < s->plan->stage_count; i++)
        SL_TRY(forward_stage(s, s->plan->topo[i]));
    for (int i = s->plan->stage_count - 1; i >= 0; i--)
        SL_TRY(backward_stage(s, s->plan->topo[i]));
    for (int64_t i = 0; i < losses; i++)
        report->loss += s->losses[i];
    SL_TRY(apply(s, report));
    report->dur_ns = sl_clock_ns() - start;
    report->data_ns = sl_run_ahead_take_ns(c->ahead);
    return SL_OK;
}
