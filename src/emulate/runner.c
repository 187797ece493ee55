/* The emulation as a runner of the training loop. */
#include "emulate/state.h"

static void attach(void *ctx, const struct sl_run_hooks *hooks) {
    (void)ctx;
    /* every run() is one step, so there is nothing to report early and nothing to stop */
    (void)hooks;
}

static sl_err run(void *ctx, int64_t steps, struct sl_step_report *reports, int64_t *ran) {
    for (*ran = 0; *ran < steps; ++*ran)
        SL_TRY(sl_emulate_step(ctx, &reports[*ran]));
    return SL_OK;
}

static sl_err eval(void *ctx, struct sl_eval_report *report) {
    struct sl_emulate *e = ctx;
    return sl_run_train_eval(&e->train, e->model.eval_samples, report);
}

static struct sl_ckpt_store store(void *ctx) { return sl_emulate_store(ctx); }
static struct sl_ckpt_place place(void *ctx) { return sl_emulate_place(ctx); }

static sl_err restore(void *ctx, const struct sl_ckpt_place *at) {
    return sl_emulate_restore(ctx, at);
}

static int64_t step(const void *ctx) { return ((const struct sl_emulate *)ctx)->train.step; }

/* The bytes of one worker with one weight slab; the views take the place of its other slabs. */
static int64_t predicted_bytes(const void *ctx, bool files) {
    const struct sl_emulate *e = ctx;
    struct sl_stage_bytes bytes = sl_run_train_bytes(&e->train);
    (void)files;
    return sl_plan_stage_bytes_total(&bytes) + e->version_bytes +
           sl_run_audit_bytes(e->train.worker);
}

static struct sl_run_audit_count audit(const void *ctx) {
    return sl_run_audit_count(((const struct sl_emulate *)ctx)->train.worker);
}

static const struct sl_runner_row emulation = {
    .name = "emulation",
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

struct sl_runner sl_emulate_runner(struct sl_emulate *e) {
    return (struct sl_runner){.row = &emulation,
                              .ctx = e,
                              .train = &e->model,
                              .max_steps = 1,
                              .is_synchronous = e->sched->rule == SL_RULE_SYNC};
}
