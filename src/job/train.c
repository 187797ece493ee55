/* Training an opened job.
 *
 *   session callback ──> measure into the outcome ──> caller's callback, with the current speed
 */
#include "job/train.h"

#include "base/clock.h"
#include "emulate/emulate.h"
#include "graph/model.h"
#include "job/parts.h"
#include "report/picture.h"
#include "schedules/given.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t pace_ns =
    30000000000; /* ns until the first checkpoint, and least time between two */

struct texts { /* of the run directory */
    struct sl_text config, results, model, plan, sched, forecast, categories;
};

struct sl_job_training {
    struct sl_job_work *work;
    const struct sl_job_watch *watch;
    struct sl_job_outcome *out;
    int64_t first_step; /* steps that were finished before this session */
    struct sl_text trace;
    int64_t *busy_ns;  /* [workers] busy time over all timelines */
    int64_t traced_ns; /* total length of all timelines */
    struct texts *texts;
    struct sl_session_config config;
    struct sl_pipe_run run;
    struct sl_emulate *emulate; /* instead of `run`, or NULL */
    struct sl_runner runner;    /* of one of them */
    struct sl_session *session;
};

/* ---- callbacks ---- */

static void on_start(void *ctx, const struct sl_session_start *start) {
    struct sl_job_training *t = ctx;
    const struct sl_comm *comm = t->work->pipe.comm;
    if (comm && start->rank_bytes) {
        size_t bytes = sizeof *start->rank_bytes * (size_t)comm->ranks;
        t->out->rank_bytes = memcpy(sl_realloc(NULL, bytes), start->rank_bytes, bytes);
    }
    if (t->watch->on_start)
        t->watch->on_start(t->watch->ctx, start);
    t->first_step = start->step;
    t->out->start_ns = sl_clock_ns();
}

static void on_step(void *ctx, const struct sl_step_report *r) {
    struct sl_job_training *t = ctx;
    struct sl_job_stats *stats = &t->out->stats;
    sl_job_stats_step(stats, r);
    struct sl_job_speed speed = {
        .rate = sl_job_stats_rate(stats) * (double)t->out->items.per_sample,
        .left_ns = sl_job_stats_left_ns(stats, t->work->train.steps - r->step),
        .peak = r->peak_share * sl_job_stats_pace(stats, r)};
    if (t->watch->on_step)
        t->watch->on_step(t->watch->ctx, r, &speed);
}

/* Reports of earlier steps are missing, so the speed is the mean since the start. */
static void on_provisional(void *ctx, const struct sl_step_report *r) {
    struct sl_job_training *t = ctx;
    const struct sl_train_config *c = &t->work->train;
    double steps = (double)(r->step - t->first_step),
           ns = (double)(sl_clock_ns() - t->out->start_ns);
    double items = (double)(c->batch * t->out->items.per_sample);
    struct sl_job_speed speed = {.rate = steps * items / ns * 1e9,
                                 .left_ns = (int64_t)(ns / steps * (double)(c->steps - r->step)),
                                 .peak = NAN};
    if (t->watch->on_provisional)
        t->watch->on_provisional(t->watch->ctx, r, &speed);
}

static void on_eval(void *ctx, const struct sl_eval_report *r) {
    struct sl_job_training *t = ctx;
    if (t->watch->on_eval)
        t->watch->on_eval(t->watch->ctx, r);
}

static void on_save(void *ctx, const struct sl_save_report *r, int64_t every) {
    struct sl_job_training *t = ctx;
    struct sl_job_saves *saves = &t->out->saves;
    saves->count++;
    saves->stall_ns += r->stall_ns;
    saves->write_ns += r->write_ns;
    saves->cpu_ns += r->cpu_ns;
    saves->concurrent += r->concurrent;
    saves->concurrent_stall_ns += r->concurrent ? r->stall_ns : 0;
    if (t->watch->on_save)
        t->watch->on_save(t->watch->ctx, r, every);
    if (every)
        saves->every = every;
}

/* Adds a timeline to the idle shares, which cover all timelines. The first timeline is drawn, and
 * the last one replaces it. */
static void on_trace(void *ctx, const struct sl_timeline *timeline, int64_t step) {
    struct sl_job_training *t = ctx;
    struct sl_arena arena = {0};
    struct sl_picture picture;
    if (t->watch->on_trace)
        t->watch->on_trace(t->watch->ctx, timeline);
    if (!t->busy_ns)
        return;
    for (int w = 0; w < timeline->lane_count; w++)
        for (int64_t i = 0; i < timeline->lanes[w].count; i++) {
            const struct sl_span *span = &timeline->lanes[w].at[i];
            if (span->action.kind != SL_SEND && span->action.kind != SL_RECV)
                t->busy_ns[w] += span->end_ns - span->start_ns;
        }
    t->traced_ns += timeline->end_ns;
    if (t->trace.length > 0 && step < t->work->train.steps)
        return;
    t->trace.length = 0;
    sl_report_picture_build(&arena, timeline, timeline->sched->name, t->work->graph->name,
                            &picture);
    sl_report_trace(&picture, &t->trace);
    sl_arena_free(&arena);
}

/* ---- the session ---- */

static void write_texts(const struct sl_job_work *work, struct texts *out) {
    sl_job_write(&work->job, &out->config);
    sl_job_write_results(&work->job, &out->results);
    sl_graph_model_write(work->graph, &out->model);
    if (work->plan)
        sl_plan_write(work->plan, &out->plan);
    if (sl_schedules_given_passes(work->pipe.row)) {
        struct sl_sched sched = sl_schedules_given_on(work->pipe.row, work->plan);
        sl_sched_write(&sched, &out->sched);
    }
    sl_data_categories(work->data, &out->categories);
    if (work->forecast.cost)
        sl_report_forecast_write(&work->forecast, &out->forecast);
}

static void free_texts(struct texts *texts) {
    sl_text_free(&texts->config);
    sl_text_free(&texts->results);
    sl_text_free(&texts->model);
    sl_text_free(&texts->plan);
    sl_text_free(&texts->sched);
    sl_text_free(&texts->forecast);
    sl_text_free(&texts->categories);
}

static struct sl_session_config configure(struct sl_job_training *t, const struct texts *texts) {
    const struct sl_job *job = &t->work->job;
    return (struct sl_session_config){
        .run = *job->out ? job->out : NULL,
        .config = texts->config.at,
        .ckpt_config = texts->results.at,
        .model = texts->model.at,
        .plan_text = texts->plan.at,
        .sched_text = texts->sched.at,
        .forecast = texts->forecast.at,
        .categories = texts->categories.at,
        .init = *job->init && !t->work->own_graph ? job->init : NULL,
        .checkpoint_every = job->checkpoint_every,
        .pace_ns = sl_job_has(job, "checkpoint_every") ? 0 : pace_ns,
        .save_stops = job->save == SL_JOB_SAVE_SYNC,
        .keep = (int)job->keep,
        .keep_best = job->keep_best,
        .patience = job->patience,
        .resume = job->resume,
        .any_data = job->allow_change,
        .from_step = job->from_step,
        .read_config = t->work->stored ? t->work->stored->config : NULL,
        .peak_flops = t->watch->peak_flops,
        .stop = t->watch->stop,
        .ctx = t,
        .on_start = on_start,
        .on_step = on_step,
        .on_provisional = on_provisional,
        .on_eval = on_eval,
        .on_trace = on_trace,
        .on_save = on_save,
    };
}

static sl_err save_trace(struct sl_job_training *t) {
    struct sl_text path = {0};
    int workers = t->work->pipe.plan ? t->work->pipe.plan->worker_count : 0;
    if (t->traced_ns == 0)
        return SL_OK;
    t->out->bubbles = sl_realloc(NULL, sizeof *t->out->bubbles * (size_t)workers);
    for (int w = 0; w < workers; w++)
        t->out->bubbles[w] = 1.0 - (double)t->busy_ns[w] / (double)t->traced_ns;
    sl_text_printf(&path, "%s/timeline.trace.json", t->work->job.out);
    sl_err err = sl_file_write(path.at, t->trace.at, t->trace.length);
    sl_text_free(&path);
    return err;
}

static sl_err open_runner(struct sl_job_training *t) {
    const struct sl_pipe_config *pipe = &t->work->pipe;
    if (t->work->job.emulate) {
        SL_TRY(sl_emulate_open(pipe, &t->emulate));
        t->runner = sl_emulate_runner(t->emulate);
        return SL_OK;
    }
    SL_TRY(sl_pipe_run_open(pipe, &t->run));
    t->runner = t->run.runner;
    return SL_OK;
}

static sl_err open_training(struct sl_job_training *t) {
    struct sl_job_work *work = t->work;
    const struct sl_job_watch *watch = t->watch;
    sl_job_stats_open(&t->out->stats, work->start_bytes);
    if (work->job.trace)
        t->busy_ns = SL_NEW(&work->arena, int64_t, work->pipe.plan->worker_count);
    if (watch->trace_steps && work->pipe.plan && !work->job.emulate) {
        work->pipe.trace_steps = work->job.trace ? 0 : watch->trace_steps;
        work->pipe.trace = true;
    }
    t->texts = SL_NEW(&work->arena, struct texts, 1);
    write_texts(work, t->texts);
    t->config = configure(t, t->texts);
    SL_TRY(open_runner(t));
    return sl_run_session_open(&t->config, &t->runner, &t->out->result, &t->session);
}

sl_err sl_job_training_open(struct sl_job_work *work, const struct sl_job_watch *watch,
                            struct sl_job_outcome *outcome, struct sl_job_training **out) {
    struct sl_job_training *t = *out = SL_NEW(&work->arena, struct sl_job_training, 1);
    *t = (struct sl_job_training){.work = work, .watch = watch, .out = outcome};
    *outcome = (struct sl_job_outcome){.items = sl_job_items(work->graph)};
    return open_training(t);
}

sl_err sl_job_training_advance(struct sl_job_training *t, int64_t steps) {
    sl_err err = sl_run_session_advance(t->session, steps);
    t->out->result.abandoned = sl_pipe_is_abandoned(t->run.pipe);
    return err;
}

sl_err sl_job_training_save(struct sl_job_training *t) { return sl_run_session_save(t->session); }

const struct sl_runner *sl_job_training_runner(const struct sl_job_training *t) {
    return &t->runner;
}

sl_err sl_job_training_end(struct sl_job_training *t) {
    sl_job_stats_hold(&t->out->stats);
    return save_trace(t);
}

void sl_job_training_close(struct sl_job_training *t) {
    if (!t)
        return;
    sl_run_session_close(t->session);
    if (t->out->result.abandoned) /* a worker that hangs may still use everything else */
        return;
    sl_emulate_close(t->emulate);
    sl_pipe_run_close(&t->run);
    sl_text_free(&t->trace);
    if (t->texts)
        free_texts(t->texts);
}

sl_err sl_job_train(struct sl_job_work *work, const struct sl_job_watch *watch,
                    struct sl_job_outcome *out) {
    struct sl_job_training *t;
    sl_err err = sl_job_training_open(work, watch, out, &t);
    if (err == SL_OK)
        err = sl_job_training_advance(t, INT64_MAX);
    if (err == SL_OK)
        err = sl_job_training_end(t);
    sl_job_training_close(t);
    return err;
}

sl_err sl_job_verdict(const struct sl_job_outcome *outcome) {
    const struct sl_session_result *r = &outcome->result;
    if (!r->diverged)
        return SL_OK;
    return sl_fail(SL_ERR_REFUSED,
                   "the run has diverged: its last %lld step%s skipped, because the gradients were "
                   "not finite; try a smaller `lr` or `clip`, and look at `bad` in log.jsonl",
                   (long long)r->last_skipped, r->last_skipped == 1 ? " was" : "s were");
}

void sl_job_outcome_free(struct sl_job_outcome *outcome) {
    free(outcome->rank_bytes);
    free(outcome->bubbles);
}
