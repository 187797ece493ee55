/* A training session in a run directory. */
#include "run/session.h"

#include "base/clock.h"
#include "run/ckpt.h"
#include "run/log.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

struct session {
    const struct sl_session_config *config;
    struct sl_session_result *result;
    struct sl_train *train;
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

static sl_err run_steps(struct session *s) {
    const struct sl_session_config *c = s->config;
    struct sl_step_report report;
    while (s->train->step < c->train.steps && !(c->stop && *c->stop)) {
        SL_TRY(sl_train_step(s->train, &report));
        s->result->steps_done++;
        s->result->last_loss = report.loss;
        if (s->log.jsonl)
            SL_TRY(sl_run_log_step(&s->log, &report));
        if (c->on_step)
            c->on_step(c->ctx, s->train, &report);
        bool last = s->train->step == c->train.steps;
        if (c->train.eval_every > 0 && (due(c->train.eval_every, s->train->step) || last))
            SL_TRY(evaluate(s));
        if (due(c->checkpoint_every, s->train->step))
            SL_TRY(save(s));
    }
    return save(s);
}

sl_err sl_session_run(const struct sl_session_config *config, struct sl_session_result *result) {
    struct session s = {.config = config, .result = result, .saved_step = -1};
    *result = (struct sl_session_result){.last_loss = NAN, .best_eval = NAN, .last_eval = NAN};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_train_open(&config->train, &s.train));
    SL_TRY_OUT(start(&s));
    result->was_finished = s.train->step >= config->train.steps;
    if (config->on_start)
        config->on_start(config->ctx, s.train);
    if (!result->was_finished)
        SL_TRY_OUT(run_steps(&s));
    result->stopped = s.train->step < config->train.steps;
    result->step = s.train->step;
    result->bytes = s.train->worker->bytes;
out:
    sl_run_log_close(&s.log);
    sl_train_close(s.train);
    return err;
}
