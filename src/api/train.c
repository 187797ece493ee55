/* The public interface to training with a request, which becomes a job as the command line's
 * options do. */
#include "sluice/train.h"

#include "api/handles.h"
#include "api/request.h"
#include "job/train.h"

#include <math.h>
#include <stdio.h>

struct watch {
    sl_train_on_step on_step;
    void *ctx;
    atomic_int stop;
};

static void on_step(void *ctx, const struct sl_step_report *r, const struct sl_job_speed *speed) {
    struct watch *w = ctx;
    struct sl_train_step step = {.size = sizeof step,
                                 .step = r->step,
                                 .samples = r->samples,
                                 .dur_ns = r->dur_ns,
                                 .loss = r->loss,
                                 .norm = r->norm,
                                 .lr = r->lr,
                                 .skipped = r->skipped};
    (void)speed;
    if (w->on_step && w->on_step(w->ctx, &step) != 0)
        w->stop = 1;
}

/* Sets a field; zero and NULL leave it at its default. */
static sl_err set_text(struct sl_job *job, const char *key, const char *value) {
    return value ? sl_job_set(job, key, value) : SL_OK;
}

static sl_err set_int(struct sl_job *job, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return value ? sl_job_set(job, key, text) : SL_OK;
}

static sl_err set_number(struct sl_job *job, const char *key, double value) {
    char text[64];
    snprintf(text, sizeof text, "%.17g", value);
    return value != 0 ? sl_job_set(job, key, text) : SL_OK;
}

static sl_err fill(const struct sl_train_request *r, struct sl_job *job) {
    SL_TRY(set_text(job, "schedule", r->schedule));
    SL_TRY(set_text(job, "data", r->data));
    SL_TRY(set_text(job, "optimizer", r->optimizer));
    SL_TRY(set_text(job, "lr_schedule", r->lr_schedule));
    SL_TRY(set_text(job, "out", r->run));
    SL_TRY(set_number(job, "lr", r->lr));
    SL_TRY(r->clip < 0 ? sl_job_set(job, "clip", "0") : set_number(job, "clip", r->clip));
    SL_TRY(set_int(job, "batch", r->batch));
    SL_TRY(set_int(job, "micro", r->micros));
    SL_TRY(set_int(job, "steps", r->steps));
    SL_TRY(set_int(job, "threads", r->threads));
    SL_TRY(set_text(job, "resume", r->resume ? "true" : NULL));
    SL_TRY(set_text(job, "allow_change", r->allow_change ? "true" : NULL));
    if (r->seed > INT64_MAX)
        return sl_fail(SL_ERR_USAGE, "`seed`: expected at most %lld", (long long)INT64_MAX);
    return set_int(job, "seed", (int64_t)r->seed);
}

static sl_err train(const struct sl_job *job, const struct sl_job_host *host, struct watch *watch,
                    double *loss) {
    struct sl_job_work work;
    struct sl_job_outcome outcome = {0};
    struct sl_job_watch callbacks = {.ctx = watch, .stop = &watch->stop, .on_step = on_step};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_job_open(job, host, &work));
    SL_TRY_OUT(sl_job_train(&work, &callbacks, &outcome));
    *loss = outcome.result.last_loss;
    err = sl_job_verdict(&outcome);
out:
    if (outcome.result.abandoned) /* a worker that hangs may still use it */
        return err;
    sl_job_outcome_free(&outcome);
    sl_job_close(&work);
    return err;
}

sl_err sl_train_net(const struct sl_net *net, const struct sl_train_request *request,
                    sl_train_on_step callback, void *ctx, double *loss) {
    struct watch watch = {.on_step = callback, .ctx = ctx};
    struct sl_train_request known;
    struct sl_job job;
    SL_API_GIVEN(loss);
    *loss = NAN;
    SL_API_OPEN(net, SL_API_IS_NET);
    SL_TRY(sl_api_request_copy("sl_train_request", request, &known, SL_TRAIN_REQUEST_FIRST,
                               sizeof known));
    if (known.pipeline)
        SL_API_OPEN(known.pipeline, SL_API_IS_PIPELINE);
    if (!net->graph->differentiated)
        return sl_fail(SL_ERR_USAGE, "the net has no backward pass yet: sl_net_autodiff comes "
                                     "first");
    struct sl_job_host host = {.graph = net->graph,
                               .plan = known.pipeline ? known.pipeline->plan : NULL};
    sl_job_init(&job);
    sl_err err = fill(&known, &job);
    if (err == SL_OK)
        err = train(&job, &host, &watch, loss);
    sl_job_free(&job);
    return err;
}
