/* A training session in a run directory. */
#include "run/session.h"

#include "base/clock.h"
#include "ckpt/ckpt.h"
#include "ckpt/lock.h"
#include "graph/stats.h"
#include "plan/pace.h"
#include "run/best.h"
#include "run/dir.h"
#include "run/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sl_session {
    const struct sl_session_config *config;
    struct sl_session_result *result;
    const struct sl_runner *runner;
    int64_t target;                      /* step after which the current call returns */
    const struct sl_train_config *train; /* configuration of the runner */
    bool is_root;                        /* this is rank 0 */
    struct sl_run_log log;
    struct sl_ckpt_lock *lock;   /* lock of the run directory; NULL: not held */
    struct sl_text skipped;      /* checkpoints that could not be loaded */
    struct sl_ckpt_saver *saver; /* NULL: there is no run directory */
    int64_t saved_step;          /* step of the last save; -1: none yet */
    int64_t first_step, start_ns, steps_ns;
    int64_t every;       /* steps between paced saves; 0: not known yet */
    double sample_flops; /* forward and backward of one sample */
    int64_t reported;    /* the last step that was logged and passed to on_step */
    sl_err early_err;    /* error of a report that was made during run() */
    sl_err data_err;     /* error of reading the samples of the next step */
    struct sl_text data_message;
    struct sl_best best;
    struct sl_step_report *reports; /* [capacity] reports of one run() */
    int64_t capacity;
};

static int64_t step_of(const struct sl_session *s) { return s->runner->row->step(s->runner->ctx); }

/* Shares a value that only rank 0 sets; it must be zero on the other ranks. */
static sl_err share(const struct sl_session *s, void *value, int64_t size_bytes) {
    return s->runner->comm ? sl_comm_merge(s->runner->comm, value, size_bytes) : SL_OK;
}

/* Locks the run directory, on rank 0, before it reads or writes there. */
static sl_err take_run(struct sl_session *s, bool *exists) {
    const struct sl_session_config *c = s->config;
    *exists = false;
    if (!c->run || !s->is_root)
        return SL_OK;
    SL_TRY(sl_ckpt_exists(c->run, exists));
    SL_TRY(sl_run_dir_refuse(c->run, c->resume, c->from_step, *exists));
    SL_TRY(sl_run_dir_make(c->run));
    SL_TRY(sl_ckpt_lock_take(c->run, &s->lock));
    SL_TRY(sl_run_dir_check(c->run, "config.json", c->read_config));
    SL_TRY(sl_ckpt_exists(c->run, exists)); /* under the lock: its last holder may have saved */
    return sl_run_dir_refuse(c->run, c->resume, c->from_step, *exists);
}

/* Starts from initial values, from given weights, or from a checkpoint. */
static sl_err start(struct sl_session *s) {
    const struct sl_session_config *c = s->config;
    bool exists;
    SL_TRY(take_run(s, &exists));
    SL_TRY(share(s, &exists, sizeof exists));
    if (exists) {
        struct sl_ckpt_source source = {
            .run = c->run, .any_data = c->any_data, .step = c->from_step, .skipped = &s->skipped};
        SL_TRY(sl_run_runner_load(s->runner, &source));
        s->result->resumed = true;
        if (s->is_root)
            sl_run_best_read(c->run, step_of(s), &s->best);
        s->saved_step = step_of(s);
        if (s->is_root)
            sl_ckpt_clean(c->run);
    } else if (c->init) {
        struct sl_ckpt_source source = {.run = c->init, .weights_only = true};
        SL_TRY(sl_run_runner_load(s->runner, &source));
    }
    if (!c->run || !s->is_root)
        return SL_OK;
    SL_TRY(sl_run_dir_write(c->run, "config.json", c->config)); /* a resume may change settings */
    if (!exists)
        SL_TRY(sl_run_dir_write(c->run, "model.model", c->model));
    if (c->plan_text) /* again on a resume, because the plan may have changed */
        SL_TRY(sl_run_dir_write(c->run, "plan.plan", c->plan_text));
    SL_TRY(sl_run_dir_put(c->run, "schedule.sched", c->sched_text));
    SL_TRY(
        sl_run_dir_put(c->run, "forecast.json", c->forecast)); /* or remove that of an older plan */
    SL_TRY(sl_run_dir_put(c->run, "categories.json", c->categories));
    return sl_run_log_open(&s->log, c->run, step_of(s));
}

/* Does the measured cost of saves determine their interval? */
static bool is_paced(const struct sl_session *s) {
    const struct sl_session_config *c = s->config;
    return c->run && !c->checkpoint_every && c->pace_ns > 0 && !s->runner->obstacle;
}

static sl_err open_saver(struct sl_session *s) {
    const struct sl_session_config *c = s->config;
    if (!c->run)
        return SL_OK;
    struct sl_ckpt_saver_config saver = {
        .store = s->runner->row->store(s->runner->ctx),
        .target = {.run = c->run,
                   .config = c->ckpt_config ? c->ckpt_config : c->config,
                   .keep = c->keep},
        .stops = c->save_stops || !(c->checkpoint_every > 0 || is_paced(s)),
    };
    return sl_ckpt_saver_open(&saver, &s->saver);
}

/* Reports a save that has ended; its cost sets the interval of paced saves. */
static sl_err poll_save(struct sl_session *s, bool wait) {
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

/* Is it time for the first paced save? */
static bool is_first_due(const struct sl_session *s) {
    return !s->every && s->saved_step <= s->first_step &&
           sl_clock_ns() - s->start_ns >= s->config->pace_ns;
}

static bool is_save_due(const struct sl_session *s) { /* rank 0 decides */
    if (!is_paced(s) || !s->is_root)
        return false;
    return s->every ? step_of(s) - s->saved_step >= s->every : is_first_due(s);
}

static sl_err save(struct sl_session *s, bool wait) {
    int64_t step = step_of(s);
    if (!s->saver)
        return SL_OK;
    if (s->saved_step != step) {
        SL_TRY(poll_save(s, true)); /* wait for the previous save: there is one snapshot */
        struct sl_ckpt_place place = s->runner->row->place(s->runner->ctx);
        SL_TRY(sl_ckpt_saver_save(s->saver, &place, wait));
        s->saved_step = step;
    }
    return poll_save(s, wait);
}

static sl_err evaluate(struct sl_session *s) {
    struct sl_eval_report report;
    SL_TRY(s->runner->row->eval(s->runner->ctx, &report));
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

/* Saves if the evaluation was the best one. Rank 0 knows that; all ranks save. */
static sl_err judge(struct sl_session *s, int64_t step) {
    const struct sl_session_config *c = s->config;
    bool better = false;
    if (!c->keep_best && !c->patience)
        return SL_OK;
    if (s->is_root)
        SL_TRY(sl_run_best_judge(&s->best, c->run, step, s->result->last_eval, &better));
    SL_TRY(share(s, &better, sizeof better));
    int64_t worse = s->is_root ? (step - s->best.step) / s->train->eval_every : 0;
    s->result->best_step = s->best.step;
    s->result->best_eval = s->best.loss;
    s->result->early = c->patience && step < s->train->steps && worse >= c->patience;
    return better ? save(s, false) : SL_OK;
}

static bool due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

/* Logs a step and calls on_step, once per step. Some are reported before run() returns. */
static sl_err report_step(struct sl_session *s, struct sl_step_report *report) {
    const struct sl_session_config *c = s->config;
    double flops = s->sample_flops * (double)report->samples / ((double)report->dur_ns * 1e-9);
    report->peak_share = c->peak_flops > 0 ? flops / c->peak_flops : NAN;
    if (report->step <= s->reported)
        return SL_OK;
    s->reported = report->step;
    if (c->on_step && s->is_root)
        c->on_step(c->ctx, report);
    return s->log.jsonl ? sl_run_log_step(&s->log, report) : SL_OK;
}

static void count_skipped(struct sl_session_result *result, const struct sl_step_report *report) {
    result->skipped += report->skipped;
    if (!report->skipped)
        result->last_skipped = 0;
    else if (report->bad.kind != SL_BAD_SCALE)
        result->last_skipped++;
}

/* Have the last steps all been skipped? One bad batch at the end does not count as divergence. */
static bool has_diverged(const struct sl_session_result *result) {
    enum { TAIL = 3 };
    return result->last_skipped >= TAIL ||
           (result->last_skipped > 0 && result->last_skipped == result->steps_done);
}

/* Called after a step: reports it, evaluates and saves if due. */
static sl_err after_step(struct sl_session *s, struct sl_step_report *report) {
    const struct sl_session_config *c = s->config;
    SL_TRY(report_step(s, report));
    s->result->steps_done++;
    s->steps_ns += report->dur_ns;
    s->result->last_loss = report->loss;
    count_skipped(s->result, report);
    bool last = report->step == s->train->steps;
    if (s->train->eval_every > 0 && (due(s->train->eval_every, report->step) || last)) {
        SL_TRY(evaluate(s));
        SL_TRY(judge(s, report->step));
    }
    return due(c->checkpoint_every, report->step) ? save(s, false) : poll_save(s, false);
}

/* Number of steps after which the ranks of an asynchronous pipeline compare notes about a signal or
 * a save. One process needs no limit: hooks stop it during run(). */
static int64_t look_length(const struct sl_session *s) {
    enum { LEAST = 128 };
    static const int64_t look_ns = 10000000000;
    const struct sl_comm *comm = s->runner->comm;
    int64_t done = s->result->steps_done, per_step = done ? s->steps_ns / done : 0;
    if (s->runner->is_synchronous || !comm || comm->ranks == 1 || s->runner->obstacle)
        return INT64_MAX;
    return per_step && look_ns / per_step > LEAST ? look_ns / per_step : LEAST;
}

/* Number of steps until an evaluation, a save or the end; at most `max`. */
static int64_t run_length(const struct sl_session *s, int64_t max) {
    const struct sl_train_config *c = s->train;
    int64_t step = step_of(s), length = s->target - step, look = look_length(s);
    if (is_paced(s) && s->every && s->saved_step + s->every - step < length)
        length = s->saved_step + s->every > step ? s->saved_step + s->every - step : 1;
    length = look < length ? look : length;
    int64_t every[2] = {c->eval_every, s->config->checkpoint_every};
    for (int i = 0; i < 2; i++)
        if (every[i] > 0 && every[i] - step % every[i] < length)
            length = every[i] - step % every[i];
    return length < max ? length : max;
}

static sl_err log_staleness(struct sl_session *s) {
    struct sl_staleness *at;
    int64_t count;
    sl_err err = s->runner->row->take_staleness(s->runner->ctx, &at, &count);
    for (int64_t i = 0; err == SL_OK && s->log.jsonl && i < count; i++)
        err = sl_run_log_staleness(&s->log, &at[i]);
    free(at);
    return err;
}

/* Number of steps, at most run_length, whose samples can be read: a step that fails in the middle
 * leaves no state to save. Asynchronous pipelines read ahead; their steps are not tried. */
static int64_t readable_steps(struct sl_session *s) {
    const struct sl_train_config *c = s->train;
    int64_t length = run_length(s, s->runner->max_steps), good = 0;
    if (!s->is_root || !s->runner->is_synchronous)
        return s->is_root ? length : 0;
    int64_t sample = s->runner->row->place(s->runner->ctx).sample;
    while (good < length && s->data_err == SL_OK) {
        s->data_err = sl_data_verify(c->data, SL_DATA_TRAIN, sample, c->batch);
        sample += c->batch;
        good += s->data_err == SL_OK;
    }
    if (s->data_err != SL_OK)
        sl_text_put(&s->data_message, sl_err_message());
    return good;
}

/* Calls run() of the runner once and reports its steps. */
static sl_err run_some(struct sl_session *s, int64_t count) {
    const struct sl_runner *r = s->runner;
    if (count > s->capacity) {
        s->reports = sl_realloc(s->reports, (size_t)count * sizeof *s->reports);
        s->capacity = count;
    }
    SL_TRY(r->row->run(r->ctx, count, s->reports, &count));
    SL_TRY(s->early_err);
    const struct sl_timeline *timeline = r->row->timeline(r->ctx);
    if (timeline && s->config->on_trace && s->is_root)
        s->config->on_trace(s->config->ctx, timeline, step_of(s));
    SL_TRY(log_staleness(s));
    for (int64_t i = 0; i < count; i++)
        SL_TRY(after_step(s, &s->reports[i]));
    return SL_OK;
}

/* What to do next; the same on all ranks. A signal to any rank stops all; rank 0 decides when to
 * save. */
struct turn {
    bool stop, save, bad_data;
    int64_t steps; /* steps of the next run(); 0: the samples of the next step cannot be read */
};

static sl_err agree_on_turn(struct sl_session *s, struct turn *turn) {
    *turn = (struct turn){.stop = (s->config->stop && *s->config->stop) || s->result->early,
                          .save = is_save_due(s),
                          .steps = readable_steps(s)};
    turn->bad_data = s->data_err != SL_OK; /* only rank 0 has tried to read */
    return share(s, turn, sizeof *turn);
}

/* Saves the final checkpoint after the last step, a signal or a data error. */
static sl_err conclude(struct sl_session *s) {
    SL_TRY(save(s, true));
    if (s->data_err != SL_OK)
        return sl_fail(s->data_err, "step %lld: %s%s", (long long)step_of(s) + 1,
                       s->data_message.at, s->saver ? " (the steps before it are saved)" : "");
    return SL_OK;
}

static sl_err run_steps(struct sl_session *s, int64_t steps) {
    struct turn turn;
    int64_t left = s->train->steps - step_of(s);
    s->target = step_of(s) + (steps < left ? steps : left);
    SL_TRY(agree_on_turn(s, &turn));
    while (step_of(s) < s->target && !turn.stop && turn.steps) {
        SL_TRY(run_some(s, turn.steps));
        SL_TRY(agree_on_turn(s, &turn));
        if (turn.save && !turn.stop)
            SL_TRY(save(s, false));
    }
    bool goes_on = step_of(s) < s->train->steps && !turn.stop && !turn.bad_data;
    return goes_on ? SL_OK : conclude(s);
}

static void report_early(void *session, const struct sl_step_report *report) {
    struct sl_session *s = session;
    struct sl_step_report copy = *report;
    if (s->runner->comm && s->runner->comm->ranks > 1) { /* report is provisional: sl_run_hooks */
        if (s->config->on_provisional)
            s->config->on_provisional(s->config->ctx, report);
    } else if (s->early_err == SL_OK) {
        s->early_err = report_step(s, &copy);
    }
}

/* Should the pipeline pause for a save? Called during run() of an asynchronous pipeline. */
static bool wants_pause(void *session) {
    const struct sl_session *s = session;
    return is_paced(s) && is_first_due(s);
}

static struct sl_graph_stats stats_of(const struct sl_graph *graph) {
    struct sl_graph_stats stats;
    sl_graph_stats(graph, &stats);
    return stats;
}

/* Flops of one sample, forward and backward, without recomputation. */
static double sample_flops(const struct sl_graph *graph) {
    struct sl_graph_stats stats = stats_of(graph);
    return stats.forward_flops + stats.input_grad_flops + stats.weight_grad_flops;
}

/* Predicts the memory of this process: workers, data set, saving. Rank 0 handles the files. */
static int64_t predict_bytes(const struct sl_session *s) {
    const struct sl_session_config *c = s->config;
    bool any = c->run || c->init;
    return s->runner->row->predicted_bytes(s->runner->ctx, any) + sl_data_bytes(s->train->data) +
           sl_run_ahead_bytes(s->train->ahead) + sl_data_verify_bytes(s->train->data) +
           sl_ckpt_saver_bytes(s->saver) + (any && s->is_root ? SL_CKPT_BUFFER_BYTES : 0);
}

/* Predicts the memory of every rank of a pipeline. The allowance for small objects (lists,
 * programs) was measured; it includes the error of the kernel's page count (e2e.mpi_memory). */
static sl_err predict_ranks(const struct sl_session *s, struct sl_arena *arena, int64_t **out) {
    enum { SMALL_BYTES = 3 << 16 };
    const struct sl_comm *comm = s->runner->comm;
    int ranks = comm ? comm->ranks : 1;
    *out = SL_NEW(arena, int64_t, ranks);
    (*out)[comm ? comm->rank : 0] = predict_bytes(s) + SMALL_BYTES;
    return share(s, *out, ranks * (int64_t)sizeof **out);
}

static sl_err report_start(struct sl_session *s) {
    const struct sl_session_config *c = s->config;
    struct sl_session_start start = {.step = step_of(s),
                                     .params = stats_of(s->train->graph).parameters,
                                     .copy_bytes = sl_ckpt_saver_bytes(s->saver),
                                     .obstacle = s->runner->obstacle,
                                     .skipped = s->skipped.length ? s->skipped.at : ""};
    struct sl_arena arena = {0};
    sl_err err = SL_OK;
    start.worker_bytes = s->runner->row->worker_bytes(s->runner->ctx, &start.worker_count);
    if (start.worker_bytes) {
        int64_t *ranks;
        err = predict_ranks(s, &arena, &ranks);
        start.rank_bytes = ranks;
        for (int w = 0; w < start.worker_count; w++)
            start.bytes += start.worker_bytes[w];
        start.bytes += start.copy_bytes;
    } else {
        start.bytes = predict_bytes(s);
    }
    s->result->bytes = start.bytes;
    if (c->on_start && s->is_root && err == SL_OK)
        c->on_start(c->ctx, &start);
    sl_arena_free(&arena);
    return err;
}

static sl_err open_session(struct sl_session *s) {
    const struct sl_runner *r = s->runner;
    struct sl_run_hooks hooks = {
        .on_step = report_early, .ctx = s, .stop = s->config->stop, .pause = wants_pause};
    r->row->attach(r->ctx, &hooks);
    SL_TRY(sl_run_runner_check(r, s->config->checkpoint_every));
    SL_TRY(open_saver(s));
    SL_TRY(start(s));
    s->first_step = step_of(s);
    s->result->was_finished = s->result->resumed && step_of(s) >= s->train->steps;
    SL_TRY(report_start(s));
    s->start_ns = sl_clock_ns();
    return SL_OK;
}

sl_err sl_run_session_open(const struct sl_session_config *config, const struct sl_runner *runner,
                           struct sl_session_result *result, struct sl_session **out) {
    struct sl_session *s = sl_realloc(NULL, sizeof *s);
    *s = (struct sl_session){.config = config,
                             .result = result,
                             .runner = runner,
                             .train = runner->train,
                             .is_root = !runner->comm || runner->comm->rank == 0,
                             .saved_step = -1,
                             .best = {.loss = NAN},
                             .sample_flops = sample_flops(runner->train->graph)};
    *result = (struct sl_session_result){.last_loss = NAN, .best_eval = NAN, .last_eval = NAN};
    sl_err err = open_session(s);
    if (err != SL_OK)
        sl_run_session_close(s);
    *out = err == SL_OK ? s : NULL;
    return err;
}

sl_err sl_run_session_advance(struct sl_session *s, int64_t steps) {
    struct sl_session_result *result = s->result;
    if (step_of(s) < s->train->steps || !result->resumed)
        SL_TRY(run_steps(s, steps));
    if (s->train->audit)
        result->audit = s->runner->row->audit(s->runner->ctx);
    result->stopped = step_of(s) < s->train->steps;
    result->step = step_of(s);
    result->diverged = !result->stopped && has_diverged(result);
    return SL_OK;
}

sl_err sl_run_session_save(struct sl_session *s) { return save(s, true); }

void sl_run_session_close(struct sl_session *s) {
    if (!s)
        return;
    sl_ckpt_saver_close(s->saver);
    sl_run_log_close(&s->log);
    sl_ckpt_lock_release(s->lock);
    sl_text_free(&s->skipped);
    sl_text_free(&s->data_message);
    s->runner->row->attach(s->runner->ctx, &(struct sl_run_hooks){0});
    free(s->reports);
    free(s);
}

sl_err sl_run_session_run(const struct sl_session_config *config, const struct sl_runner *runner,
                          struct sl_session_result *result) {
    struct sl_session *s;
    SL_TRY(sl_run_session_open(config, runner, result, &s));
    sl_err err = sl_run_session_advance(s, INT64_MAX);
    sl_run_session_close(s);
    return err;
}
