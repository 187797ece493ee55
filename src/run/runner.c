/* The runner of one worker. */
#include "run/runner.h"

static void attach(void *ctx, const struct sl_run_hooks *hooks) {
    (void)ctx;
    /* every run() is one step, so there is nothing to report early and nothing to stop */
    (void)hooks;
}

static sl_err run(void *ctx, int64_t steps, struct sl_step_report *reports, int64_t *ran) {
    for (*ran = 0; *ran < steps; ++*ran)
        SL_TRY(sl_run_train_step(ctx, &reports[*ran]));
    return SL_OK;
}

static sl_err eval(void *ctx, struct sl_eval_report *report) {
    struct sl_train *train = ctx;
    return sl_run_train_eval(train, train->config.eval_samples, report);
}

static struct sl_ckpt_store store(void *ctx) { return sl_run_train_store(ctx); }
static struct sl_ckpt_place place(void *ctx) { return sl_run_train_place(ctx); }

static sl_err restore(void *ctx, const struct sl_ckpt_place *at) {
    return sl_run_train_restore(ctx, at);
}

static int64_t step(const void *ctx) { return ((const struct sl_train *)ctx)->step; }

static int64_t predicted_bytes(const void *ctx, bool files) {
    const struct sl_train *train = ctx;
    struct sl_stage_bytes bytes = sl_run_train_bytes(train);
    (void)files;
    return sl_plan_stage_bytes_total(&bytes) + sl_run_audit_bytes(train->worker);
}

const int64_t *sl_run_no_worker_bytes(const void *ctx, int *count) {
    (void)ctx;
    *count = 0;
    return NULL;
}

static struct sl_run_audit_count audit(const void *ctx) {
    return sl_run_audit_count(((const struct sl_train *)ctx)->worker);
}

const struct sl_timeline *sl_run_no_timeline(const void *ctx) {
    (void)ctx;
    return NULL;
}

sl_err sl_run_no_staleness(void *ctx, struct sl_staleness **out, int64_t *count) {
    (void)ctx;
    *out = NULL;
    *count = 0;
    return SL_OK;
}

static const struct sl_runner_row one_worker = {
    .name = "one worker",
    .attach = attach,
    .run = run,
    .eval = eval,
    .store = store,
    .place = place,
    .restore = restore,
    .step = step,
    .predicted_bytes = predicted_bytes,
    .worker_bytes = sl_run_no_worker_bytes,
    .audit = audit,
    .timeline = sl_run_no_timeline,
    .take_staleness = sl_run_no_staleness,
};

struct sl_runner sl_run_train_runner(struct sl_train *train) {
    return (struct sl_runner){.row = &one_worker,
                              .ctx = train,
                              .train = &train->config,
                              .max_steps = 1,
                              .is_synchronous = true};
}

sl_err sl_run_runner_load(const struct sl_runner *r, const struct sl_ckpt_source *source) {
    struct sl_ckpt_store tensors = r->row->store(r->ctx);
    struct sl_ckpt_place at = {0};
    if (tensors.is_root)
        at = r->row->place(r->ctx);
    SL_TRY(sl_ckpt_store_load(&tensors, source, &at));
    return source->weights_only ? SL_OK : r->row->restore(r->ctx, &at);
}

sl_err sl_run_runner_check(const struct sl_runner *runner, int64_t checkpoint_every) {
    const struct sl_train_config *c = runner->train;
    bool evaluates = c->eval_every > 0 && c->eval_every<c->steps, saves = checkpoint_every> 0 &&
                     checkpoint_every < c->steps;
    if (!runner->obstacle || !(evaluates || saves))
        return SL_OK;
    return sl_fail(SL_ERR_REFUSED, "`%s`: %s", evaluates ? "eval_every" : "checkpoint_every",
                   runner->obstacle);
}
