/* The pipeline as a runner of the training loop. */
#include "pipe/resume.h"

#include "pass/program.h"
#include "run/session.h"

#include <stdlib.h>

/* ---- why a step was skipped ---- */

/* Repeats the pipeline's last step, which was skipped, on one worker: the step did not change the
 * weights. */
static sl_err repeat_step(struct sl_pipe *pipe, struct sl_step_report *report) {
    const struct sl_train_config *c = &pipe->train;
    struct sl_train_config config = *c;
    struct sl_step_report repeated;
    struct sl_train *one = NULL;
    sl_err err = SL_OK;
    int64_t epoch = sl_data_count(c->data, SL_DATA_TRAIN);
    int *stage = sl_realloc(NULL, sizeof *stage * (size_t)c->graph->nodes.count);
    config.eval_graph = NULL;
    SL_TRY_OUT(sl_run_train_open(&config, &one));
    SL_TRY_OUT(sl_pipe_gather(pipe, one));
    int64_t sample = one->cursor.epoch * epoch + one->cursor.position - c->batch;
    one->step--;
    one->scale.value = report->loss_scale > 0 ? report->loss_scale : 1;
    one->cursor.epoch = sample / epoch;
    one->cursor.position = sample % epoch;
    SL_TRY_OUT(sl_run_train_step(one, &repeated));
    sl_pass_place(c->graph, pipe->config.stage_of, stage);
    report->bad = repeated.bad;
    report->bad.stage = repeated.bad.kind == SL_BAD_OP ? stage[repeated.bad.node] : 0;
out:
    sl_run_train_close(one);
    free(stage);
    return err;
}

/* Finds out why a step was skipped by repeating it. Only the last step of a synchronous schedule in
 * one process can be repeated: otherwise the weights that it read are gone. */
static sl_err explain_skip(struct sl_pipe *pipe, struct sl_step_report *report) {
    if (!report->skipped || report->bad.kind || !sl_pipe_is_synchronous(pipe) ||
        pipe->config.comm || pipe->teams) /* one worker cannot repeat the exchange between shards */
        return SL_OK;
    return repeat_step(pipe, report);
}

/* ---- the runner ---- */

static void attach(void *ctx, const struct sl_run_hooks *hooks) {
    ((struct sl_pipe *)ctx)->config.hooks = *hooks;
}

static sl_err run(void *ctx, int64_t steps, struct sl_step_report *reports, int64_t *ran) {
    struct sl_pipe *pipe = ctx;
    SL_TRY(sl_pipe_run(pipe, steps, reports));
    *ran = sl_pipe_ran(pipe);
    return explain_skip(pipe, &reports[*ran - 1]);
}

static sl_err eval(void *ctx, struct sl_eval_report *report) { return sl_pipe_eval(ctx, report); }

static struct sl_ckpt_store store(void *ctx) { return sl_pipe_store(ctx); }

static struct sl_ckpt_place place(void *ctx) { return sl_pipe_place(ctx); }

static sl_err restore(void *ctx, const struct sl_ckpt_place *root) {
    return sl_pipe_restore(ctx, root);
}

static int64_t step(const void *ctx) { return sl_pipe_step_count(ctx); }

static int64_t predicted_bytes(const void *ctx, bool files) {
    return sl_pipe_rank_bytes(ctx, files);
}

static const int64_t *worker_bytes(const void *ctx, int *count) {
    const struct sl_pipe *pipe = ctx;
    *count = pipe->config.plan->worker_count;
    return sl_pipe_bytes(pipe);
}

static struct sl_run_audit_count audit(const void *ctx) { return sl_pipe_audit_count(ctx); }
static const struct sl_timeline *timeline(const void *ctx) { return sl_pipe_timeline(ctx); }

static sl_err take_staleness(void *ctx, struct sl_staleness **out, int64_t *count) {
    return sl_pipe_take_staleness(ctx, out, count);
}

static const struct sl_runner_row pipeline = {
    .name = "pipeline",
    .attach = attach,
    .run = run,
    .eval = eval,
    .store = store,
    .place = place,
    .restore = restore,
    .step = step,
    .predicted_bytes = predicted_bytes,
    .worker_bytes = worker_bytes,
    .audit = audit,
    .timeline = timeline,
    .take_staleness = take_staleness,
};

/* How many steps a run takes. A synchronous pipeline is empty after every step, but a timeline
 * shows several. An asynchronous one runs long, because a pause costs a copy of its state, but not
 * without an end, because reports are kept until it pauses. */
struct sl_runner sl_pipe_runner(struct sl_pipe *pipe) {
    enum { TRACE_STEPS = 16, LONG = 4096 };
    const struct sl_pipe_config *c = &pipe->config;
    bool synchronous = sl_pipe_is_synchronous(pipe);
    int64_t traced = c->trace_steps ? c->trace_steps : TRACE_STEPS;
    return (struct sl_runner){.row = &pipeline,
                              .ctx = pipe,
                              .train = c->train,
                              .comm = c->comm,
                              .max_steps = !synchronous ? (pipe->obstacle ? INT64_MAX : LONG)
                                           : c->trace   ? traced
                                                        : 1,
                              .is_synchronous = synchronous,
                              .obstacle = pipe->obstacle};
}

sl_err sl_pipe_run_open(const struct sl_pipe_config *config, struct sl_pipe_run *out) {
    *out = (struct sl_pipe_run){0};
    if (config->plan)
        SL_TRY(sl_pipe_open(config, &out->pipe));
    else
        SL_TRY(sl_run_train_open(config->train, &out->one));
    out->runner = out->pipe ? sl_pipe_runner(out->pipe) : sl_run_train_runner(out->one);
    return SL_OK;
}

void sl_pipe_run_close(struct sl_pipe_run *run) {
    sl_pipe_close(run->pipe);
    sl_run_train_close(run->one);
}

sl_err sl_pipe_session_run(const struct sl_session_config *session,
                           const struct sl_pipe_config *config, struct sl_session_result *result) {
    struct sl_pipe_run run;
    result->abandoned = false;
    SL_TRY(sl_pipe_run_open(config, &run));
    sl_err err = sl_run_session_run(session, &run.runner, result);
    result->abandoned = sl_pipe_is_abandoned(run.pipe);
    sl_pipe_run_close(&run);
    return err;
}
