/* A training session in a run directory. */
#include "run/session.h"

#include "base/clock.h"
#include "ckpt/ckpt.h"
#include "graph/stats.h"
#include "plan/pace.h"
#include "run/log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct session {
    const struct sl_session_config *config;
    struct sl_session_result *result;
    struct sl_pipe *pipe;   /* NULL: one worker */
    struct sl_train *train; /* one worker; NULL: a pipeline */
    bool is_root;           /* rank 0 */
    struct sl_run_log log;
    struct sl_saver *saver; /* NULL: no directory */
    int64_t copy_bytes;
    int64_t saved_step; /* -1: none yet */
    int64_t first_step, start_ns, steps_ns;
    int64_t every;       /* paced saves: steps between them, 0: not known yet */
    double sample_flops; /* forward and backward of one sample */
    int64_t told;        /* the last step that is logged and that on_step has heard of */
    sl_err told_err;     /* of doing so while a pipeline was full */
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

static void remove_beside(const char *run, const char *name) {
    struct sl_text path = {0};
    sl_text_printf(&path, "%s/%s", run, name);
    remove(path.at);
    sl_text_free(&path);
}

static int64_t step_of(const struct session *s) {
    return s->pipe ? sl_pipe_step_count(s->pipe) : s->train->step;
}

static sl_err load(struct session *s, const char *from, bool weights_only) {
    return s->pipe ? sl_pipe_load(s->pipe, from, weights_only)
                   : sl_ckpt_train_load(s->train, from, weights_only);
}

/* What rank 0 has seen counts for all. */
static sl_err share_flag(const struct session *s, bool *flag) {
    *flag = *flag && s->is_root;
    return s->config->comm ? sl_comm_merge(s->config->comm, flag, sizeof *flag) : SL_OK;
}

/* Where to begin: at nothing, at somebody's weights, or where the run stood. */
static sl_err start(struct session *s) {
    const struct sl_session_config *c = s->config;
    bool exists = s->is_root && c->run && sl_ckpt_exists(c->run);
    if (exists && !c->resume)
        return sl_fail(SL_ERR_REFUSED,
                       "%s holds a run already; continue it with --resume, or choose another --out",
                       c->run);
    SL_TRY(share_flag(s, &exists));
    if (exists) {
        SL_TRY(load(s, c->run, false));
        s->result->resumed = true;
        s->saved_step = step_of(s);
        if (s->is_root)
            sl_ckpt_clean(c->run);
    } else if (c->init) {
        SL_TRY(load(s, c->init, true));
    }
    if (!c->run || !s->is_root)
        return SL_OK;
    SL_TRY(make_directory(c->run));
    if (!exists) {
        SL_TRY(write_beside(c->run, "config.json", c->config));
        SL_TRY(write_beside(c->run, "model.model", c->model));
    }
    if (c->plan_text) /* a resumed run may be cut anew */
        SL_TRY(write_beside(c->run, "plan.plan", c->plan_text));
    if (c->forecast) /* an old one is not of this plan */
        SL_TRY(write_beside(c->run, "forecast.json", c->forecast));
    else
        remove_beside(c->run, "forecast.json");
    return sl_run_log_open(&s->log, c->run, step_of(s));
}

/* ---- saving ---- */

/* Saves as often as its cost allows? */
static bool is_paced(const struct session *s) {
    const struct sl_session_config *c = s->config;
    return c->run && !c->checkpoint_every && c->pace_ns > 0 &&
           (!s->pipe || sl_pipe_is_synchronous(s->pipe));
}

static sl_err open_saver(struct session *s) {
    const struct sl_session_config *c = s->config;
    struct sl_saver_config saver = {.ctx = s->pipe ? (void *)s->pipe : s->train,
                                    .write = s->pipe ? sl_pipe_write : sl_ckpt_train_write,
                                    .run = c->run,
                                    .config = c->config,
                                    .keep = c->keep};
    if (!c->run)
        return SL_OK;
    if ((c->checkpoint_every > 0 || is_paced(s)) && !c->save_stops) {
        SL_TRY(s->pipe ? sl_pipe_open_copy(s->pipe, &saver.copy)
                       : sl_ckpt_train_open_copy(s->train, &saver.copy));
        s->copy_bytes = sl_ckpt_copy_bytes(saver.copy);
    }
    s->saver = sl_ckpt_saver_open(&saver);
    return SL_OK;
}

/* What has become of the last save; its cost sets the pace. */
static sl_err look_after_save(struct session *s, bool wait) {
    enum { SHARE_PERCENT = 3 };
    const struct sl_session_config *c = s->config;
    struct sl_save_report report;
    if (!s->saver)
        return SL_OK;
    SL_TRY(sl_ckpt_saver_poll(s->saver, wait, &report));
    if (report.step < 0 || !s->is_root)
        return SL_OK;
    if (is_paced(s) && s->result->steps_done)
        s->every =
            sl_plan_pace_steps(&(struct sl_pace){.share = SHARE_PERCENT / 100.0,
                                                 .least_ns = c->pace_ns,
                                                 .step_ns = s->steps_ns / s->result->steps_done,
                                                 .stall_ns = report.stall_ns,
                                                 .cpu_ns = report.cpu_ns,
                                                 .write_ns = report.write_ns});
    if (c->on_save)
        c->on_save(c->ctx, &report, s->every);
    return SL_OK;
}

/* Rank 0 says when; the others follow. */
static bool is_save_due(const struct session *s) {
    if (!is_paced(s) || !s->is_root)
        return false;
    if (!s->every)
        return s->saved_step <= s->first_step && sl_clock_ns() - s->start_ns >= s->config->pace_ns;
    return step_of(s) - s->saved_step >= s->every;
}

static sl_err save(struct session *s, bool wait) {
    int64_t step = step_of(s);
    if (!s->saver)
        return SL_OK;
    if (s->saved_step != step) {
        SL_TRY(look_after_save(s, true)); /* there is one copy */
        SL_TRY(sl_ckpt_saver_save(
            s->saver, s->pipe ? sl_pipe_place(s->pipe) : sl_ckpt_train_place(s->train), wait));
        s->saved_step = step;
    }
    return look_after_save(s, wait);
}

static sl_err evaluate(struct session *s) {
    struct sl_eval_report report;
    SL_TRY(s->pipe ? sl_pipe_eval(s->pipe, &report)
                   : sl_run_train_eval(s->train, s->config->train.eval_samples, &report));
    if (!s->is_root)
        return SL_OK;
    s->result->last_eval = report.loss;
    if (isnan(s->result->best_eval) || report.loss < s->result->best_eval)
        s->result->best_eval = report.loss;
    if (s->log.jsonl)
        SL_TRY(sl_run_log_eval(&s->log, &report));
    if (s->config->on_eval)
        s->config->on_eval(s->config->ctx, &report);
    return SL_OK;
}

static bool due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

/* Some steps of a pipeline are told before the run that they belong to has ended. */
static sl_err tell_step(struct session *s, struct sl_step_report *report) {
    const struct sl_session_config *c = s->config;
    double flops = s->sample_flops * (double)report->samples / ((double)report->dur_ns * 1e-9);
    report->peak_share = c->peak_flops > 0 ? flops / c->peak_flops : NAN;
    if (report->step <= s->told)
        return SL_OK;
    s->told = report->step;
    if (c->on_step && s->is_root)
        c->on_step(c->ctx, report);
    return s->log.jsonl ? sl_run_log_step(&s->log, report) : SL_OK;
}

/* What follows a step: word of it, evaluation, checkpoint. */
static sl_err after_step(struct session *s, struct sl_step_report *report) {
    const struct sl_session_config *c = s->config;
    SL_TRY(tell_step(s, report));
    s->result->steps_done++;
    s->steps_ns += report->dur_ns;
    s->result->last_loss = report->loss;
    bool last = report->step == c->train.steps;
    if (c->train.eval_every > 0 && (due(c->train.eval_every, report->step) || last))
        SL_TRY(evaluate(s));
    return due(c->checkpoint_every, report->step) ? save(s, false) : look_after_save(s, false);
}

/* Steps until something other than a step happens, at most `most`. */
static int64_t run_length(const struct session *s, int64_t max) {
    const struct sl_train_config *c = &s->config->train;
    int64_t step = step_of(s), length = c->steps - step;
    int64_t every[2] = {c->eval_every, s->config->checkpoint_every};
    for (int i = 0; i < 2; i++)
        if (every[i] > 0 && every[i] - step % every[i] < length)
            length = every[i] - step % every[i];
    return length < max ? length : max;
}

/* One worker in the pipeline's place before its last step, which was skipped: its weights are those
 * of then. Then it looks. */
static sl_err look_again(struct session *s, struct sl_step_report *report) {
    const struct sl_train_config *c = &s->config->train;
    struct sl_train_config config = *c;
    struct sl_step_report again;
    struct sl_train *one = NULL;
    sl_err err = SL_OK;
    int64_t epoch = sl_data_count(c->data, SL_DATA_TRAIN);
    int *stage = sl_realloc(NULL, sizeof *stage * (size_t)c->graph->nodes.count);
    config.eval_graph = NULL;
    SL_TRY_OUT(sl_run_train_open(&config, &one));
    SL_TRY_OUT(sl_pipe_gather(s->pipe, one));
    int64_t sample = one->cursor.epoch * epoch + one->cursor.position - c->batch;
    one->step--;
    one->scale.value = report->loss_scale > 0 ? report->loss_scale : 1;
    one->cursor.epoch = sample / epoch;
    one->cursor.position = sample % epoch;
    SL_TRY_OUT(sl_run_train_step(one, &again));
    sl_pass_place(c->graph, s->config->stage_of, stage);
    report->bad = again.bad;
    report->bad.stage = again.bad.kind == SL_BAD_OP ? stage[again.bad.node] : 0;
out:
    sl_run_train_close(one);
    free(stage);
    return err;
}

/* Why a step of a pipeline was skipped. Asynchronous schedules cannot be asked so, nor ranks, nor
 * steps with others behind them in the same run. */
static sl_err explain_skip(struct session *s, struct sl_step_report *report) {
    if (!report->skipped || report->bad.kind || !sl_pipe_is_synchronous(s->pipe) || s->config->comm)
        return SL_OK;
    return look_again(s, report);
}

static sl_err log_staleness(struct session *s) {
    struct sl_staleness *at;
    int64_t count;
    sl_err err = sl_pipe_take_staleness(s->pipe, &at, &count);
    for (int64_t i = 0; err == SL_OK && s->log.jsonl && i < count; i++)
        err = sl_run_log_staleness(&s->log, &at[i]);
    free(at);
    return err;
}

/* A pipeline is empty between runs. Synchronous schedules are so after every step; several of them
 * make a better picture. Asynchronous ones drain as seldom as possible, because a drain is a step
 * with fresh weights that they would not have had. */
static sl_err run_pipe(struct session *s) {
    enum { STEPS_DRAWN = 16 };
    int64_t drawn = s->config->trace_steps ? s->config->trace_steps : STEPS_DRAWN;
    int64_t max = !sl_pipe_is_synchronous(s->pipe) ? INT64_MAX : s->config->trace ? drawn : 1;
    int64_t count = run_length(s, max);
    struct sl_step_report *reports = calloc((size_t)count, sizeof *reports);
    if (!reports)
        sl_out_of_memory((size_t)count * sizeof *reports);
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_pipe_run(s->pipe, count, reports));
    SL_TRY_OUT(s->told_err);
    count = sl_pipe_ran(s->pipe);
    if (s->config->trace && s->config->on_trace && s->is_root)
        s->config->on_trace(s->config->ctx, sl_pipe_timeline(s->pipe), step_of(s));
    SL_TRY_OUT(explain_skip(s, &reports[count - 1]));
    SL_TRY_OUT(log_staleness(s));
    for (int64_t i = 0; i < count; i++)
        SL_TRY_OUT(after_step(s, &reports[i]));
out:
    free(reports);
    return err;
}

/* What comes now, the same on all ranks: a signal to any of them stops all; rank 0 knows when to
 * save. */
struct turn {
    bool stop, save;
};

static sl_err ask_turn(const struct session *s, struct turn *turn) {
    *turn = (struct turn){.stop = s->config->stop && *s->config->stop, .save = is_save_due(s)};
    return s->config->comm ? sl_comm_merge(s->config->comm, turn, sizeof *turn) : SL_OK;
}

static sl_err run_steps(struct session *s) {
    const struct sl_session_config *c = s->config;
    struct sl_step_report report;
    struct turn turn;
    s->first_step = step_of(s);
    s->start_ns = sl_clock_ns();
    SL_TRY(ask_turn(s, &turn));
    while (step_of(s) < c->train.steps && !turn.stop) {
        if (s->pipe) {
            SL_TRY(run_pipe(s));
        } else {
            SL_TRY(sl_run_train_step(s->train, &report));
            SL_TRY(after_step(s, &report));
        }
        SL_TRY(ask_turn(s, &turn));
        if (turn.save && !turn.stop)
            SL_TRY(save(s, false));
    }
    return save(s, true);
}

static void tell_early(void *session, const struct sl_step_report *report) {
    struct session *s = session;
    struct sl_step_report copy = *report;
    if (s->config->comm && s->config->comm->ranks > 1) { /* not to be logged: see pipe_tell.c */
        if (s->config->on_provisional)
            s->config->on_provisional(s->config->ctx, report);
    } else if (s->told_err == SL_OK) {
        s->told_err = tell_step(s, &copy);
    }
}

static sl_err open_pipe(struct session *s) {
    const struct sl_session_config *c = s->config;
    struct sl_pipe_config pipe = {.train = &c->train,
                                  .plan = c->plan,
                                  .stage_of = c->stage_of,
                                  .schedule = c->schedule,
                                  .global_step = c->global_step,
                                  .slack = c->slack,
                                  .comm = c->comm,
                                  .bind = c->bind,
                                  .lend = c->lend,
                                  .staleness = c->staleness,
                                  .stall_ns = c->stall_ns,
                                  .on_action = c->on_action,
                                  .on_action_ctx = c->on_action_ctx,
                                  .on_step = tell_early,
                                  .on_step_ctx = s,
                                  .stop = c->stop,
                                  .trace = c->trace};
    return sl_pipe_open(&pipe, &s->pipe);
}

int64_t sl_run_session_bytes(const struct sl_session_config *config, const struct sl_train *train) {
    struct sl_stage_bytes worker = sl_run_train_bytes(train);
    return sl_plan_stage_bytes_total(&worker) + sl_data_bytes(config->train.data) +
           sl_run_audit_bytes(train->worker) +
           (config->run || config->init ? SL_CKPT_BUFFER_BYTES : 0);
}

/* What is computed again (recomputation) does not count as work done. */
static double sample_flops(const struct sl_graph *graph) {
    struct sl_graph_stats stats;
    sl_graph_stats(graph, &stats);
    return stats.forward_flops + stats.input_grad_flops + stats.weight_grad_flops;
}

static int64_t count_params(const struct sl_graph *graph) {
    int64_t count = 0;
    for (int64_t i = 0; i < graph->params.count; i++)
        count += sl_graph_shape_numel(&sl_graph_value(graph, graph->params.at[i].value)->shape, 1);
    return count;
}

/* What every rank needs for its workers, its data set, saving: files are the first one's. What it
 * keeps in small pieces (lists, notes, programs) was measured, with how far the kernel's count of
 * a process's pages may be off (e2e.mpi_memory holds it). */
static sl_err predict_ranks(const struct session *s, struct sl_arena *arena, int64_t **out) {
    enum { SMALL_BYTES = 3 << 16 };
    const struct sl_session_config *c = s->config;
    int ranks = c->comm ? c->comm->ranks : 1;
    bool any = c->run || c->init, files = any && (!c->comm || c->comm->rank == 0);
    *out = SL_NEW(arena, int64_t, ranks);
    (*out)[c->comm ? c->comm->rank : 0] = sl_pipe_rank_bytes(s->pipe, any) + s->copy_bytes +
                                          sl_data_bytes(c->train.data) +
                                          (files ? SL_CKPT_BUFFER_BYTES : 0) + SMALL_BYTES;
    return c->comm ? sl_comm_merge(c->comm, *out, ranks * (int64_t)sizeof **out) : SL_OK;
}

static sl_err tell_start(struct session *s) {
    const struct sl_session_config *c = s->config;
    struct sl_session_start start = {.step = step_of(s), .params = count_params(c->train.graph)};
    struct sl_arena arena = {0};
    sl_err err = SL_OK;
    if (s->pipe) {
        int64_t *ranks;
        err = predict_ranks(s, &arena, &ranks);
        start.rank_bytes = ranks;
        start.worker_bytes = sl_pipe_bytes(s->pipe);
        for (int w = 0; w < c->plan->worker_count; w++)
            start.bytes += start.worker_bytes[w];
    } else {
        start.bytes = sl_run_session_bytes(c, s->train);
    }
    start.copy_bytes = s->copy_bytes;
    start.bytes += s->copy_bytes;
    s->result->bytes = start.bytes;
    if (c->on_start && s->is_root && err == SL_OK)
        c->on_start(c->ctx, &start);
    sl_arena_free(&arena);
    return err;
}

static sl_err run_session(struct session *s) {
    const struct sl_session_config *c = s->config;
    if (c->plan)
        SL_TRY(open_pipe(s));
    else
        SL_TRY(sl_run_train_open(&c->train, &s->train));
    SL_TRY(open_saver(s));
    SL_TRY(start(s));
    s->result->was_finished = step_of(s) >= c->train.steps;
    SL_TRY(tell_start(s));
    if (!s->result->was_finished)
        SL_TRY(run_steps(s));
    if (c->train.audit)
        s->result->audit =
            s->pipe ? sl_pipe_audit_count(s->pipe) : sl_run_audit_count(s->train->worker);
    s->result->stopped = step_of(s) < c->train.steps;
    s->result->step = step_of(s);
    if (c->on_end)
        c->on_end(c->ctx);
    return SL_OK;
}

sl_err sl_run_session_run(const struct sl_session_config *config,
                          struct sl_session_result *result) {
    struct session s = {.config = config, .result = result, .saved_step = -1};
    s.is_root = !config->comm || config->comm->rank == 0;
    *result = (struct sl_session_result){.last_loss = NAN, .best_eval = NAN, .last_eval = NAN};
    s.sample_flops = sample_flops(config->train.graph);
    sl_err err = run_session(&s);
    result->abandoned = sl_pipe_is_abandoned(s.pipe);
    sl_ckpt_saver_close(s.saver);
    sl_pipe_close(s.pipe);
    sl_run_log_close(&s.log);
    sl_run_train_close(s.train);
    return err;
}
