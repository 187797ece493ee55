/* A training session in a run directory. */
#include "run/session.h"

#include "base/clock.h"
#include "run/ckpt.h"
#include "run/log.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct session {
    const struct sl_session_config *config;
    struct sl_session_result *result;
    struct sl_train *train;
    struct sl_pipe *pipe; /* NULL: one worker */
    struct sl_run_log log;
    int64_t saved_step; /* -1: none yet */
};

static sl_err make_directory(const char *path) {
    struct sl_text part = {0};
    sl_err err = SL_OK;
    for (const char *at = path; err == SL_OK; at++) {
        if ((*at == '/' || !*at) && part.length && mkdir(part.at, 0777) != 0 && errno != EEXIST)
            err = sl_fail(SL_ERR_SYSTEM, "%s: cannot create the directory: %s", part.at,
                          strerror(errno));
        if (!*at)
            break;
        sl_text_put_bytes(&part, at, 1);
    }
    sl_text_free(&part);
    return err;
}

static sl_err write_beside(const char *run, const char *name, const char *text) {
    struct sl_text path = {0};
    sl_text_printf(&path, "%s/%s", run, name);
    sl_err err = sl_file_write(path.at, text, strlen(text));
    sl_text_free(&path);
    return err;
}

/* Where to begin: at nothing, at somebody's weights, or where the run stood. */
static sl_err start(struct session *s) {
    const struct sl_session_config *c = s->config;
    bool exists = c->run && sl_ckpt_exists(c->run);
    if (exists && !c->resume)
        return sl_fail(SL_ERR_NO,
                       "%s holds a run already; continue it with --resume, or choose another --out",
                       c->run);
    if (exists) {
        SL_TRY(sl_train_load(s->train, c->run, false));
        s->result->resumed = true;
        s->saved_step = s->train->step;
    } else if (c->init) {
        SL_TRY(sl_train_load(s->train, c->init, true));
    }
    if (!c->run)
        return SL_OK;
    SL_TRY(make_directory(c->run));
    if (!exists) {
        SL_TRY(write_beside(c->run, "config.json", c->config));
        SL_TRY(write_beside(c->run, "model.model", c->model));
    }
    return sl_run_log_open(&s->log, c->run, s->train->step);
}

static sl_err save(struct session *s) {
    if (!s->config->run || s->saved_step == s->train->step)
        return SL_OK;
    int64_t begin = sl_clock_ns();
    SL_TRY(sl_train_save(s->train, s->config->run, s->config->keep, s->config->config));
    s->saved_step = s->train->step;
    if (s->config->on_save)
        s->config->on_save(s->config->ctx, s->train, sl_clock_ns() - begin);
    return SL_OK;
}

static sl_err evaluate(struct session *s) {
    struct sl_eval_report report;
    SL_TRY(sl_train_eval(s->train, s->config->train.eval_samples, &report));
    s->result->last_eval = report.loss;
    if (isnan(s->result->best_eval) || report.loss < s->result->best_eval)
        s->result->best_eval = report.loss;
    if (s->log.jsonl)
        SL_TRY(sl_run_log_eval(&s->log, &report));
    if (s->config->on_eval)
        s->config->on_eval(s->config->ctx, s->train, &report);
    return SL_OK;
}

static bool due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

/* What follows a step: log, evaluation, checkpoint. */
static sl_err after_step(struct session *s, const struct sl_step_report *report) {
    const struct sl_session_config *c = s->config;
    s->result->steps_done++;
    s->result->last_loss = report->loss;
    if (s->log.jsonl)
        SL_TRY(sl_run_log_step(&s->log, report));
    if (c->on_step)
        c->on_step(c->ctx, s->train, report);
    bool last = report->step == c->train.steps;
    if (c->train.eval_every > 0 && (due(c->train.eval_every, report->step) || last))
        SL_TRY(evaluate(s));
    return due(c->checkpoint_every, report->step) ? save(s) : SL_OK;
}

/* Steps until something other than a step happens, at most `most`. */
static int64_t run_length(const struct session *s, int64_t most) {
    const struct sl_train_config *c = &s->config->train;
    int64_t length = c->steps - s->train->step;
    int64_t every[2] = {c->eval_every, s->config->checkpoint_every};
    for (int i = 0; i < 2; i++)
        if (every[i] > 0 && every[i] - s->train->step % every[i] < length)
            length = every[i] - s->train->step % every[i];
    return length < most ? length : most;
}

static sl_err log_staleness(struct session *s) {
    struct sl_staleness *at;
    int64_t count = sl_pipe_take_staleness(s->pipe, &at);
    sl_err err = SL_OK;
    for (int64_t i = 0; err == SL_OK && s->log.jsonl && i < count; i++)
        err = sl_run_log_staleness(&s->log, &at[i]);
    free(at);
    return err;
}

/* A pipeline runs several steps at a time and is empty in between. Asynchronous schedules drain as
 * seldom as possible, because a drain is a step with fresh weights that they would not have had. */
static sl_err run_pipe(struct session *s) {
    enum { STEPS_MOST = 16 };
    int64_t most = sl_pipe_is_synchronous(s->pipe) ? STEPS_MOST : INT64_MAX;
    int64_t count = run_length(s, most);
    struct sl_step_report *reports = calloc((size_t)count, sizeof *reports);
    if (!reports)
        sl_out_of_memory((size_t)count * sizeof *reports);
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_pipe_run(s->pipe, count, reports));
    if (s->config->trace && s->config->on_trace)
        s->config->on_trace(s->config->ctx, sl_pipe_timeline(s->pipe), s->train->step + count);
    SL_TRY_OUT(sl_pipe_gather(s->pipe, s->train));
    SL_TRY_OUT(log_staleness(s));
    for (int64_t i = 0; i < count; i++)
        SL_TRY_OUT(after_step(s, &reports[i]));
out:
    free(reports);
    return err;
}

static sl_err run_steps(struct session *s) {
    const struct sl_session_config *c = s->config;
    struct sl_step_report report;
    while (s->train->step < c->train.steps && !(c->stop && *c->stop)) {
        if (s->pipe) {
            SL_TRY(run_pipe(s));
            continue;
        }
        SL_TRY(sl_train_step(s->train, &report));
        SL_TRY(after_step(s, &report));
    }
    return save(s);
}

static sl_err open_pipe(struct session *s) {
    const struct sl_session_config *c = s->config;
    struct sl_pipe_config pipe = {.train = &c->train,
                                  .plan = c->plan,
                                  .stage_of = c->stage_of,
                                  .schedule = c->schedule,
                                  .together = c->together,
                                  .staleness = c->staleness,
                                  .trace = c->trace};
    SL_TRY(sl_pipe_open(&pipe, &s->pipe));
    return sl_pipe_scatter(s->pipe, s->train);
}

int64_t sl_session_bytes(const struct sl_session_config *config, const struct sl_train *train) {
    struct sl_stage_bytes worker = sl_train_bytes(train);
    return sl_stage_bytes_total(&worker) + sl_data_bytes(config->train.data) +
           (config->run ? SL_CKPT_BUFFER_BYTES : 0);
}

sl_err sl_session_run(const struct sl_session_config *config, struct sl_session_result *result) {
    struct session s = {.config = config, .result = result, .saved_step = -1};
    *result = (struct sl_session_result){.last_loss = NAN, .best_eval = NAN, .last_eval = NAN};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_train_open(&config->train, &s.train));
    SL_TRY_OUT(start(&s));
    if (config->plan)
        SL_TRY_OUT(open_pipe(&s));
    result->was_finished = s.train->step >= config->train.steps;
    if (config->on_start)
        config->on_start(config->ctx, s.train);
    if (!result->was_finished)
        SL_TRY_OUT(run_steps(&s));
    result->stopped = s.train->step < config->train.steps;
    result->step = s.train->step;
    result->bytes = s.pipe ? sl_pipe_bytes(s.pipe) : sl_session_bytes(config, s.train);
out:
    sl_pipe_close(s.pipe);
    sl_run_log_close(&s.log);
    sl_train_close(s.train);
    return err;
}
