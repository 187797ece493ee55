/* Training on one worker. */
#include "run/train.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

int64_t sl_run_train_full_samples(int64_t batch, int64_t micros) {
    return (batch + micros - 1) / micros;
}

sl_err sl_run_train_check(const struct sl_train_config *c) {
    int64_t full = sl_run_train_full_samples(c->batch, c->micros);
    if (c->micros > c->batch)
        return sl_fail(SL_ERR_REFUSED,
                       "a batch of %lld samples cannot be cut into %lld micro-batches",
                       (long long)c->batch, (long long)c->micros);
    if (full * (c->micros - 1) >= c->batch)
        return sl_fail(SL_ERR_REFUSED,
                       "%lld samples do not make %lld micro-batches of equal size with a shorter "
                       "last one; try `micro` %lld",
                       (long long)c->batch, (long long)c->micros,
                       (long long)((c->batch + full - 1) / full));
    return SL_OK;
}

sl_err sl_run_train_open_optimizer(struct sl_train *train) {
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    size_t count = (size_t)p->param_count;
    train->params = SL_NEW(&train->arena, struct sl_optim_param, count);
    train->step_items = SL_NEW(&train->arena, struct sl_step_item, count);
    train->norm_items = SL_NEW(&train->arena, struct sl_norm_item, count);
    train->norm_sums = SL_NEW(&train->arena, double, 2 * count);
    for (int i = 0; i < p->param_count; i++) {
        struct sl_optim_shape shape = sl_plan_optim_shape(train->config.graph, p->params[i].param);
        train->params[i] = sl_optim_for(&train->config.optim, &shape);
        train->params[i].count = sl_run_worker_own(train->worker, i).count;
    }
    if (train->opt_scratch) /* the caller provides a scratch area that it shares */
        return SL_OK;
    return train->device->row->alloc(train->device, sl_plan_optim_scratch(p, &train->config.optim),
                                     &train->opt_scratch);
}

struct sl_stage_bytes sl_run_train_bytes(const struct sl_train *train) {
    struct sl_stage_bytes bytes;
    sl_plan_bytes(&(struct sl_bytes_spec){.full = train->worker->programs[SL_WORKER_FULL],
                                          .last = train->worker->programs[SL_WORKER_LAST],
                                          .eval = train->worker->programs[SL_WORKER_EVAL],
                                          .optim = &train->config.optim,
                                          .policy = &train->config.policy,
                                          .threads = train->device->threads,
                                          .extra_bytes = train->device->row->extra_bytes},
                  &bytes);
    return bytes;
}

sl_err sl_run_train_open(const struct sl_train_config *config, struct sl_train **out) {
    SL_TRY(sl_run_train_check(config));
    struct sl_train *train = calloc(1, sizeof *train);
    if (!train)
        sl_out_of_memory(sizeof *train);
    sl_err err = SL_OK;
    int64_t full = sl_run_train_full_samples(config->batch, config->micros);
    struct sl_worker_config worker = {
        .graph = config->graph,
        .samples = full,
        .last_samples = config->batch - full * (config->micros - 1),
        .eval_graph = config->eval_graph,
        .eval_samples = full,
        .has_kernel = config->device->has_kernel,
        .dtype = config->dtype,
        .recompute = config->recompute,
        .slots = 1,
        .versions = 1,
        .grad_slots = 1,
        .state_count = sl_plan_slabs(&config->optim, &config->policy),
        .seed = config->seed,
        .audit = config->audit,
    };
    train->config = *config;
    train->scale = sl_optim_loss_scale_begin(&config->loss_scale);
    train->counts = SL_NEW(&train->arena, double, config->graph->losses.count);
    struct sl_device_config device = {.threads = config->threads, .tf32 = config->tf32};
    SL_TRY_OUT(config->device->open(&device, &train->device));
    SL_TRY_OUT(sl_run_worker_open(train->device, &worker, &train->worker));
    if (config->optim.row)
        SL_TRY_OUT(sl_run_train_open_optimizer(train));
    *out = train;
out:
    if (err != SL_OK)
        sl_run_train_close(train);
    return err;
}

void sl_run_train_close(struct sl_train *train) {
    if (!train)
        return;
    sl_run_worker_close(train->worker);
    if (train->device) {
        train->device->row->free(train->device, train->opt_scratch);
        train->device->row->close(train->device);
    }
    sl_arena_free(&train->arena);
    free(train);
}

sl_err sl_run_train_loss_terms(struct sl_train *train, const struct sl_feed *feed, double *terms) {
    const struct sl_program *p = train->worker->programs[feed->program];
    double share[SL_LOSS_MAX];
    float value;
    SL_TRY(sl_run_train_count(train, feed->split, feed->first, feed->count, share));
    for (int i = 0; i < p->losses.count; i++) {
        int index = p->losses.at[i].index;
        SL_TRY(sl_run_worker_get(train->worker, feed->slot, &p->losses.at[i], &value));
        if (train->counts[index] > 0 && !train->config.graph->losses.at[index].echo)
            terms[index] = train->config.graph->losses.at[index].weight * (double)value *
                           share[index] / train->counts[index];
    }
    return SL_OK;
}

sl_err sl_run_train_add_losses(struct sl_train *train, const struct sl_feed *feed, double *loss) {
    double terms[SL_LOSS_MAX] = {0};
    SL_TRY(sl_run_train_loss_terms(train, feed, terms));
    for (int64_t i = 0; i < train->config.graph->losses.count; i++)
        *loss += terms[i];
    return SL_OK;
}

uint64_t sl_run_train_seed(uint64_t seed, int64_t step) {
    return seed * 0x9E3779B97F4A7C15u + (uint64_t)step;
}

static sl_err run_micro(struct sl_train *train, const struct sl_feed *feed, bool first,
                        double *loss) {
    struct sl_worker_pass pass = {
        .program = feed->program,
        .accumulate = !first,
        .seed = sl_run_train_seed(train->config.seed, train->step),
        .first_sample = feed->first,
    };
    SL_TRY(sl_run_train_feed(train, feed));
    SL_TRY(sl_run_worker_pass(train->worker, &pass));
    SL_TRY(sl_run_train_add_losses(train, feed, loss));
    pass.phase = SL_PHASE_B;
    return sl_run_worker_pass(train->worker, &pass);
}

sl_err sl_run_train_step(struct sl_train *train, struct sl_step_report *report) {
    const struct sl_train_config *c = &train->config;
    int64_t start = sl_clock_ns(), cpu = sl_clock_process_ns();
    struct sl_data_range range;
    SL_TRY(sl_data_next(c->data, SL_DATA_TRAIN, SL_DATA_WRAP, c->batch, &train->cursor, &range));
    SL_TRY(sl_run_train_count(train, SL_DATA_TRAIN, range.first, range.count, train->counts));
    *report = (struct sl_step_report){.step = train->step + 1, .samples = range.count};
    struct sl_scale_state used = train->scale;
    for (int64_t j = 0; j < c->micros; j++) {
        struct sl_feed feed = sl_run_train_micro(train, &range, j);
        SL_TRY(run_micro(train, &feed, j == 0, &report->loss));
    }
    SL_TRY(sl_run_train_apply(train, report));
    report->dur_ns = sl_clock_ns() - start;
    report->cpu_ns = sl_clock_process_ns() - cpu;
    report->data_ns = sl_run_ahead_take_ns(c->ahead);
    sl_run_train_blame_scale(c, report);
    if (!report->skipped || report->bad.kind)
        return SL_OK;
    struct sl_scale_state next = train->scale;
    train->scale = used;
    sl_err err = sl_run_train_find_bad(train, train->step - 1, &range, &report->bad);
    train->scale = next;
    return err;
}
