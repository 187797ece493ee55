/* The public interface to trainers: settings become a job; its training is opened, run in parts and
 * observed. */
#include "api/trainer.h"

#include "api/request.h"
#include "job/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

sl_err sl_api_trainer_check(const struct sl_trainer *trainer, enum sl_trainer_state state,
                            const char *function) {
    SL_TRY(sl_api_check(trainer, SL_API_IS_TRAINER, function));
    if (trainer->state == state)
        return SL_OK;
    if (trainer->state == SL_TRAINER_FAILED)
        return sl_fail(SL_ERR_USAGE, "%s: the trainer has failed before; close it", function);
    return sl_fail(SL_ERR_USAGE, "%s: the trainer is %s", function,
                   state == SL_TRAINER_NEW ? "open already" : "not open yet");
}

/* ---- before open ---- */

sl_err sl_trainer_new(struct sl_trainer **out) {
    SL_API_GIVEN(out);
    struct sl_trainer *t = *out = sl_api_handle_new(SL_API_IS_TRAINER, sizeof *t);
    sl_job_init(&t->job);
    pthread_mutex_init(&t->mutex, NULL);
    return SL_OK;
}

sl_err sl_trainer_set(struct sl_trainer *trainer, const char *key, const char *value) {
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    SL_API_GIVEN(key);
    SL_API_GIVEN(value);
    return sl_job_set(&trainer->job, key, value);
}

sl_err sl_trainer_read(struct sl_trainer *trainer, const char *file) {
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    SL_API_GIVEN(file);
    return sl_job_read_file(&trainer->job, file);
}

sl_err sl_trainer_models(struct sl_trainer *trainer, const char *directory) {
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    SL_API_GIVEN(directory);
    trainer->model_dirs[0] = sl_arena_dup(&trainer->arena, directory, strlen(directory));
    return SL_OK;
}

sl_err sl_trainer_use_net(struct sl_trainer *trainer, const struct sl_net *net) {
    struct sl_text text = {0};
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    SL_API_OPEN(net, SL_API_IS_NET);
    if (!net->graph->checked)
        return sl_fail(SL_ERR_USAGE, "the net is not checked yet: call sl_net_check first");
    sl_graph_model_write(net->graph, &text);
    trainer->model_text = sl_arena_dup(&trainer->arena, text.at, text.length);
    sl_text_free(&text);
    return SL_OK;
}

sl_err sl_trainer_use_pipeline(struct sl_trainer *trainer, const struct sl_pipeline *pipeline) {
    struct sl_text text = {0};
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    SL_API_OPEN(pipeline, SL_API_IS_PIPELINE);
    sl_plan_write(pipeline->plan, &text);
    sl_err err = sl_plan_read(&trainer->arena, "pipeline", text.at, text.length, &trainer->plan);
    sl_text_free(&text);
    return err;
}

sl_err sl_trainer_use_samples(struct sl_trainer *trainer, const struct sl_samples *samples) {
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    if (trainer->has_samples)
        return sl_fail(SL_ERR_USAGE, "the trainer has samples already");
    SL_TRY(sl_api_samples_open(samples, &trainer->samples));
    trainer->has_samples = true;
    return SL_OK;
}

sl_err sl_trainer_use_mpi(struct sl_trainer *trainer, const void *communicator) {
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    trainer->uses_mpi = true;
    trainer->communicator = communicator;
    return SL_OK;
}

sl_err sl_trainer_keep_gradients(struct sl_trainer *trainer) {
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    trainer->keeps_gradients = true;
    return SL_OK;
}

sl_err sl_trainer_on_event(struct sl_trainer *trainer, sl_on_event callback, void *ctx) {
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    trainer->on_event = callback;
    trainer->event_ctx = ctx;
    return SL_OK;
}

sl_err sl_trainer_on_gradient(struct sl_trainer *trainer, sl_on_gradient callback, void *ctx) {
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    trainer->on_gradient = callback;
    trainer->gradient_ctx = ctx;
    return SL_OK;
}

/* ---- events ---- */

static void tell(struct sl_trainer *t, const struct sl_trainer_event *event) {
    if (t->on_event && t->on_event(t->event_ctx, event) != 0)
        atomic_store(&t->stop, 1);
}

static struct sl_trainer_event event_of(enum sl_event_kind kind, int64_t step) {
    return (struct sl_trainer_event){.size = sizeof(struct sl_trainer_event),
                                     .kind = kind,
                                     .step = step,
                                     .loss = NAN,
                                     .accuracy = NAN,
                                     .norm = NAN,
                                     .lr = NAN,
                                     .text = ""};
}

static void on_start(void *ctx, const struct sl_session_start *start) {
    struct sl_trainer_event event = event_of(SL_EVENT_START, start->step);
    event.text = start->skipped;
    tell(ctx, &event);
}

static void on_step(void *ctx, const struct sl_step_report *r, const struct sl_job_speed *speed) {
    struct sl_trainer_event event = event_of(SL_EVENT_STEP, r->step);
    (void)speed;
    event.samples = r->samples;
    event.dur_ns = r->dur_ns;
    event.loss = r->loss;
    event.norm = r->norm;
    event.lr = r->lr;
    event.skipped = r->skipped;
    tell(ctx, &event);
}

static void on_eval(void *ctx, const struct sl_eval_report *r) {
    struct sl_trainer_event event = event_of(SL_EVENT_EVALUATION, r->step);
    event.samples = r->samples;
    event.dur_ns = r->dur_ns;
    event.loss = r->loss;
    event.accuracy = r->accuracy;
    tell(ctx, &event);
}

static void on_save(void *ctx, const struct sl_save_report *r, int64_t every) {
    struct sl_trainer_event event = event_of(SL_EVENT_CHECKPOINT, r->step);
    (void)every;
    event.dur_ns = r->write_ns;
    tell(ctx, &event);
}

/* ---- open ---- */

static sl_err open_all(struct sl_trainer *t) {
    SL_TRY(sl_api_ranks_open(t));
    t->grads = (struct sl_grad_watch){.ctx = t, .see = sl_api_gradient_see};
    struct sl_job_host host = {.model_dirs = t->model_dirs,
                               .model_text = t->model_text,
                               .plan = t->plan,
                               .comm = t->comm,
                               .data = t->has_samples ? &t->samples.provider : NULL,
                               .grads = t->on_gradient || t->keeps_gradients ? &t->grads : NULL,
                               .evaluates = true};
    t->watch = (struct sl_job_watch){.ctx = t,
                                     .stop = &t->stop,
                                     .on_start = on_start,
                                     .on_step = on_step,
                                     .on_eval = on_eval,
                                     .on_save = on_save};
    SL_TRY(sl_job_open(&t->job, &host, &t->work));
    SL_TRY(sl_job_agree(&t->work));
    SL_TRY(sl_api_gradients_open(t));
    return sl_job_training_open(&t->work, &t->watch, &t->outcome, &t->training);
}

sl_err sl_trainer_open(struct sl_trainer *trainer) {
    SL_API_TRAINER(trainer, SL_TRAINER_NEW);
    sl_err err = open_all(trainer);
    trainer->state = err == SL_OK ? SL_TRAINER_OPEN : SL_TRAINER_FAILED;
    return err;
}

void sl_trainer_close(struct sl_trainer *t) {
    if (!sl_api_handle_end(t, SL_API_IS_TRAINER, __func__))
        return;
    if (t->outcome.result.abandoned) /* a worker that hangs may still use everything */
        return;
    sl_job_training_close(t->training);
    sl_job_outcome_free(&t->outcome);
    sl_job_close(&t->work);
    (void)!sl_api_ranks_close(t); /* errors of other ranks have been reported by their calls */
    sl_api_gradients_close(t);
    sl_api_samples_close(&t->samples);
    sl_job_free(&t->job);
    sl_text_free(&t->text);
    sl_arena_free(&t->arena);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

/* ---- after open ---- */

const char *sl_trainer_get(struct sl_trainer *trainer, const char *key) {
    if (sl_api_check(trainer, SL_API_IS_TRAINER, __func__) != SL_OK ||
        sl_api_given(key, "key", __func__) != SL_OK)
        return NULL;
    const struct sl_job_field *field = sl_job_field_find(key);
    const struct sl_job *job =
        trainer->state == SL_TRAINER_NEW ? &trainer->job : &trainer->work.job;
    if (!field)
        return sl_fail(SL_ERR_USAGE, "unknown field '%.64s'", key) == SL_OK ? "" : NULL;
    trainer->text.length = 0;
    sl_job_write_value(job, field, &trainer->text);
    return trainer->text.at;
}

sl_err sl_trainer_run(struct sl_trainer *trainer, int64_t steps) {
    SL_API_TRAINER(trainer, SL_TRAINER_OPEN);
    if (steps < 0)
        return sl_fail(SL_ERR_USAGE, "sl_trainer_run: %lld steps", (long long)steps);
    sl_err err = sl_job_training_advance(trainer->training, steps ? steps : INT64_MAX);
    atomic_store(&trainer->stop, 0);
    if (err != SL_OK)
        trainer->state = SL_TRAINER_FAILED;
    return err == SL_OK ? sl_job_verdict(&trainer->outcome) : err;
}

void sl_trainer_cancel(struct sl_trainer *trainer) {
    if (trainer)
        atomic_store(&trainer->stop, 1);
}

int64_t sl_trainer_step(const struct sl_trainer *trainer) {
    if (sl_api_trainer_check(trainer, SL_TRAINER_OPEN, __func__) != SL_OK)
        return -1;
    const struct sl_runner *runner = sl_job_training_runner(trainer->training);
    return runner->row->step(runner->ctx);
}

sl_err sl_trainer_save(struct sl_trainer *trainer) {
    SL_API_TRAINER(trainer, SL_TRAINER_OPEN);
    if (!*trainer->work.job.out)
        return sl_fail(SL_ERR_USAGE, "the run has no directory: set `out`");
    return sl_job_training_save(trainer->training);
}

const char *sl_trainer_report(struct sl_trainer *trainer) {
    if (sl_api_trainer_check(trainer, SL_TRAINER_OPEN, __func__) != SL_OK)
        return NULL;
    trainer->text.length = 0;
    if (sl_job_outcome_json(&trainer->work, &trainer->outcome, &trainer->text) != SL_OK)
        return NULL;
    return trainer->text.at;
}

sl_err sl_trainer_evaluate(struct sl_trainer *trainer, struct sl_evaluation *out) {
    struct sl_eval_report report = {0};
    SL_API_TRAINER(trainer, SL_TRAINER_OPEN);
    const struct sl_runner *runner = sl_job_training_runner(trainer->training);
    SL_TRY(runner->row->eval(runner->ctx, &report));
    struct sl_evaluation result = {.step = report.step,
                                   .samples = report.samples,
                                   .dur_ns = report.dur_ns,
                                   .loss = report.loss,
                                   .accuracy = report.accuracy};
    return sl_api_result_put("sl_evaluation", out, &result, SL_EVALUATION_FIRST, sizeof result);
}
