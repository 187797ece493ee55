/* sluice train: train a model, with a progress line, a log and checkpoints. */
#include "cli/command.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/par.h"
#include "cli/comm_options.h"
#include "cli/drill.h"
#include "cli/forecast.h"
#include "cli/live.h"
#include "cli/run_stats.h"
#include "cli/run_texts.h"
#include "cli/step_line.h"
#include "profile/peak.h"
#include "report/picture.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop_asked;

static void ask_stop(int signal) {
    (void)signal;
    stop_asked = 1;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = ask_stop, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL); /* a second Ctrl-C ends at once */
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL); /* Slurm's warning */
}

struct progress {
    const struct sl_session_config *session;
    const struct sl_pipe_config *pipe;
    const struct sl_pipe_choice *choice;
    int64_t items_per_sample; /* tokens, or 1 */
    const char *item;
    int64_t start_ns, first_step, glimpsed; /* steps: before this session, seen before their turn */
    struct sl_step_line line;
    struct sl_run_stats stats;
    struct sl_text trace; /* of the last run of a pipeline */
    int64_t *busy_ns;     /* [worker] over all runs, and how long they took */
    int64_t traced_ns;
    int64_t *rank_bytes;  /* [rank] predicted, where this one speaks for several; else NULL */
    int64_t saves, every; /* checkpoints: how many, and the pace that was told */
    int64_t saves_beside, beside_stall_ns; /* those of them that did not stop the run */
    struct sl_save_report saved;           /* all of them added up */
    struct sl_live live;
    struct sl_forecast forecast;
};

/* Tokens where the first loss counts items of an input, else samples. */
static void count_items(struct progress *p, const struct sl_graph *graph) {
    int input = graph->losses.at[0].count_input;
    p->items_per_sample = 1;
    p->item = "samples";
    if (input < 0)
        return;
    const struct sl_shape *shape = &sl_graph_value(graph, graph->inputs.at[input].value)->shape;
    p->items_per_sample = sl_graph_shape_numel(shape, 1);
    p->item = p->items_per_sample > 1 ? "tokens" : "samples";
}

static void say_pipeline(const struct progress *p, const struct sl_session_start *start) {
    const struct sl_plan *plan = p->choice->plan;
    char bytes[SL_HUMAN_BYTES], ranks[32] = "";
    int64_t max = 0;
    for (int w = 0; w < plan->worker_count; w++)
        max = start->worker_bytes[w] > max ? start->worker_bytes[w] : max;
    if (p->pipe->comm)
        snprintf(ranks, sizeof ranks, " of %d ranks", p->pipe->comm->ranks);
    sl_log_note("pipeline: %d stages on %d workers%s, schedule %s, verified; at most %s each",
                plan->stage_count, plan->worker_count, ranks, p->choice->schedule,
                sl_human_bytes(max, bytes));
    sl_cli_forecast_say(&p->forecast);
}

static void on_start(void *ctx, const struct sl_session_start *start) {
    struct progress *p = ctx;
    if (p->pipe->comm && start->rank_bytes) {
        size_t bytes = sizeof *p->rank_bytes * (size_t)p->pipe->comm->ranks;
        p->rank_bytes = memcpy(sl_realloc(p->rank_bytes, bytes), start->rank_bytes, bytes);
    }
    const struct sl_train_config *c = p->pipe->train;
    char bytes[SL_HUMAN_BYTES], params[SL_HUMAN_BYTES];
    struct sl_text data = {0};
    sl_data_describe(c->data, &data);
    sl_log_note("%s: %s parameters, %s of memory, %d thread%s, %lld micro-batch%s of %lld",
                c->graph->name, sl_human_count((double)start->params, params),
                sl_human_bytes(start->bytes, bytes), c->threads, c->threads == 1 ? "" : "s",
                (long long)c->micros, c->micros == 1 ? "" : "es",
                (long long)sl_run_train_full_samples(c->batch, c->micros));
    sl_log_note("data: %s", data.at);
    if (p->choice->plan)
        say_pipeline(p, start);
    sl_text_free(&data);
    if (start->copy_bytes)
        sl_log_debug("checkpoints: written beside the run from a copy of %s",
                     sl_human_bytes(start->copy_bytes, bytes));
    if (start->step)
        sl_log_note("resumed after step %lld", (long long)start->step);
    p->first_step = start->step;
    p->line = (struct sl_step_line){.steps = c->steps, .item = p->item};
    p->start_ns = sl_clock_ns();
}

static void say_skipped(const struct sl_step_report *r) {
    struct sl_text why = {0};
    sl_run_bad_put(&why, &r->bad);
    if (r->loss_scale > 0)
        sl_text_printf(&why, " (loss scale %.0f)", r->loss_scale);
    sl_log_note("step %lld skipped, its gradient is not finite: %s", (long long)r->step, why.at);
    sl_text_free(&why);
}

/* True: the dashboard shows it. */
static bool show_speed(struct progress *p, const struct sl_step_speed *speed) {
    p->live.shown.rate = speed->rate;
    p->live.shown.left_ns = speed->left_ns;
    p->live.shown.item = p->item;
    return p->live.on;
}

static void on_step(void *ctx, const struct sl_step_report *r) {
    struct progress *p = ctx;
    if (r->skipped)
        say_skipped(r);
    sl_cli_run_stats_step(&p->stats, r);
    struct sl_step_speed speed = {
        .rate = sl_cli_run_stats_rate(&p->stats) * (double)p->items_per_sample,
        .left_ns = sl_cli_run_stats_left_ns(&p->stats, p->pipe->train->steps - r->step),
        .peak = r->peak_share * sl_cli_run_stats_pace(&p->stats, r)};
    if (show_speed(p, &speed))
        sl_cli_live_step(&p->live, r);
    else if (r->step > p->glimpsed)
        sl_cli_step_line_put(&p->line, r, &speed);
}

static void on_end(void *ctx) {
    struct progress *p = ctx;
    sl_cli_run_stats_hold(&p->stats);
}

/* The steps before it are not known yet: its speed is that since the beginning. */
static void on_provisional(void *ctx, const struct sl_step_report *r) {
    struct progress *p = ctx;
    double steps = (double)(r->step - p->first_step), ns = (double)(sl_clock_ns() - p->start_ns);
    double items = (double)(p->pipe->train->batch * p->items_per_sample);
    struct sl_step_speed speed = {
        .rate = steps * items / ns * 1e9,
        .left_ns = (int64_t)(ns / steps * (double)(p->pipe->train->steps - r->step)),
        .peak = NAN};
    p->glimpsed = r->step;
    if (show_speed(p, &speed))
        sl_cli_live_provisional(&p->live, r);
    else
        sl_cli_step_line_provisional(&p->line, r, &speed);
}

static void on_eval(void *ctx, const struct sl_eval_report *r) {
    struct progress *p = ctx;
    p->live.shown.eval_loss = r->loss;
    char accuracy[48] = "";
    if (!isnan(r->accuracy))
        snprintf(accuracy, sizeof accuracy, "  accuracy %.2f%%", 100 * r->accuracy);
    sl_log_note("step %lld  validation loss %.4f%s", (long long)r->step, r->loss, accuracy);
}

/* The pace is told when it is known, and again when it has changed a lot. */
static void on_save(void *ctx, const struct sl_save_report *r, int64_t every) {
    struct progress *p = ctx;
    char stall[SL_HUMAN_BYTES], wrote[SL_HUMAN_BYTES];
    p->saves++;
    p->saved.stall_ns += r->stall_ns;
    p->saves_beside += r->beside;
    p->beside_stall_ns += r->beside ? r->stall_ns : 0;
    p->saved.write_ns += r->write_ns;
    p->saved.cpu_ns += r->cpu_ns;
    sl_log_debug("checkpoint of step %lld: the run waited %s, durable after %s", (long long)r->step,
                 sl_human_ns(r->stall_ns, stall), sl_human_ns(r->write_ns, wrote));
    if (!every || (every < 2 * p->every && 2 * every > p->every))
        return;
    p->every = every;
    sl_log_note("checkpoints every %lld steps: the run waits %s for one, which is durable after %s",
                (long long)every, sl_human_ns(r->stall_ns, stall), sl_human_ns(r->write_ns, wrote));
}

/* Bubbles are those of all runs of the pipeline; the first is drawn, and then the last. */
static void on_trace(void *ctx, const struct sl_timeline *timeline, int64_t step) {
    struct progress *p = ctx;
    struct sl_arena arena = {0};
    struct sl_picture picture;
    bool drawn = p->trace.length > 0;
    sl_cli_live_trace(&p->live, timeline);
    if (!p->busy_ns)
        return;
    for (int w = 0; w < timeline->lane_count; w++)
        for (int64_t i = 0; i < timeline->lanes[w].count; i++) {
            const struct sl_span *span = &timeline->lanes[w].at[i];
            if (span->action.kind != SL_SEND && span->action.kind != SL_RECV)
                p->busy_ns[w] += span->end_ns - span->start_ns;
        }
    p->traced_ns += timeline->end_ns;
    if (drawn && step < p->pipe->train->steps)
        return;
    sl_text_free(&p->trace);
    p->trace = (struct sl_text){0};
    sl_report_picture_build(&arena, timeline, timeline->sched->name, p->pipe->train->graph->name,
                            &picture);
    sl_report_trace(&picture, &p->trace);
    sl_arena_free(&arena);
}

static sl_err ask_trace(const struct sl_args *args, struct sl_pipe_config *c, struct progress *p,
                        struct sl_arena *arena) {
    c->trace = sl_args_has(args, "--trace");
    if (!c->trace)
        return SL_OK;
    if (!c->plan || !p->session->run)
        return sl_fail(SL_ERR_USAGE, "--trace needs a pipeline (--stages N or --plan X.plan) and "
                                     "--out DIR");
    p->busy_ns = SL_NEW(arena, int64_t, c->plan->worker_count);
    return SL_OK;
}

/* Lanes need the measured timeline, of few steps at a time. Measuring changes no bits; all ranks
 * measure, whichever of them has the terminal. */
static void ask_dashboard(const struct sl_args *args, struct sl_pipe_config *c,
                          struct progress *p) {
    if (!sl_args_has(args, "--dashboard"))
        return;
    sl_cli_live_open(&p->live, c);
    c->trace_steps = c->trace ? 0 : 2;
    c->trace |= c->plan != NULL;
}

/* Asynchronous schedules: one verdict over all stages, or each stage for itself as published. */
static sl_err ask_verdict(const struct sl_args *args, struct sl_pipe_config *c) {
    const char *who = sl_args_text(args, "--verdict", "all");
    if (strcmp(who, "all") != 0 && strcmp(who, "stage") != 0)
        return sl_fail(SL_ERR_USAGE, "--verdict: expected all or stage, found '%s'", who);
    c->global_step = strcmp(who, "all") == 0;
    return SL_OK;
}

static sl_err ask_staleness(const struct sl_args *args, const struct sl_session_config *session,
                            struct sl_pipe_config *c) {
    c->staleness = sl_args_has(args, "--log-staleness");
    if (c->staleness && (!c->plan || !session->run))
        return sl_fail(SL_ERR_USAGE, "--log-staleness needs a pipeline (--stages N or --plan "
                                     "X.plan) and --out DIR");
    return SL_OK;
}

static sl_err save_trace(const struct sl_session_config *c, struct progress *p) {
    struct sl_text path = {0};
    if (p->traced_ns == 0)
        return SL_OK;
    sl_text_printf(&path, "%s/timeline.trace.json", c->run);
    sl_err err = sl_file_write(path.at, p->trace.at, p->trace.length);
    for (int w = 0; err == SL_OK && w < p->pipe->plan->worker_count; w++)
        sl_log_note("worker %d: bubble %.1f %%", w,
                    100.0 * (1.0 - (double)p->busy_ns[w] / (double)p->traced_ns));
    if (err == SL_OK)
        sl_log_note("timeline: %s (see 'sluice report')", path.at);
    sl_text_free(&path);
    return err;
}

static sl_err parse_training(const struct sl_args *args, struct sl_train_config *c) {
    c->eval_samples = 64;
    SL_TRY(sl_cli_run_optimizer(args, 100, c));
    SL_TRY(sl_optim_policy_parse(sl_args_text(args, "--policy", "none"), &c->policy));
    SL_TRY(sl_args_int(args, "--audit", 1, INT64_MAX, &c->audit));
    SL_TRY(sl_args_int(args, "--eval-every", 0, INT64_MAX, &c->eval_every));
    return sl_args_int(args, "--eval-samples", 1, INT64_MAX, &c->eval_samples);
}

static const int64_t pace_ns = 30000000000; /* first checkpoint, and the least between two */

static sl_err parse_saving(const struct sl_args *args, struct sl_session_config *c) {
    int64_t keep = 2;
    const char *how = sl_args_text(args, "--save", "async");
    if (strcmp(how, "async") != 0 && strcmp(how, "sync") != 0)
        return sl_fail(SL_ERR_USAGE, "--save: expected async or sync, found '%s'", how);
    c->save_stops = strcmp(how, "sync") == 0;
    c->pace_ns = sl_args_has(args, "--checkpoint-every") ? 0 : pace_ns;
    SL_TRY(sl_args_int(args, "--checkpoint-every", 0, INT64_MAX, &c->checkpoint_every));
    SL_TRY(sl_args_int(args, "--keep", 0, 1 << 30, &keep));
    c->keep = (int)keep;
    return SL_OK;
}

/* A drill, and when a worker counts as stalled. */
static sl_err parse_watch(const struct sl_args *args, struct sl_pipe_config *c,
                          struct sl_drill *drill) {
    double seconds = (double)SL_STALL_NS * 1e-9;
    SL_TRY(sl_args_double(args, "--stall-timeout", seconds, 1e9, &seconds));
    c->stall_ns = (int64_t)(seconds * 1e9);
    const char *text = sl_args_text(args, "--drill", NULL);
    if (!text)
        return SL_OK;
    if (!c->plan)
        return sl_fail(SL_ERR_USAGE, "--drill needs a pipeline: --stages N or --plan X.plan");
    SL_TRY(sl_cli_drill_parse(text, c->plan->worker_count, drill));
    c->on_action = sl_cli_drill_on_action;
    c->on_action_ctx = drill;
    return SL_OK;
}

static sl_err put_result(struct sl_text *text, const struct sl_session_config *c,
                         const struct sl_session_result *r, const struct progress *p) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", p->pipe->train->graph->name);
    sl_json_put_int(&json, "step", r->step);
    sl_json_put_int(&json, "steps", p->pipe->train->steps);
    sl_json_put_double(&json, "loss", r->last_loss);
    sl_json_put_double(&json, "eval_loss", r->last_eval);
    sl_json_put_bool(&json, "stopped", r->stopped);
    sl_json_put_bool(&json, "resumed", r->resumed);
    sl_json_put_int(&json, "bytes", r->bytes);
    sl_json_put_int(&json, "step_items", p->pipe->train->batch * p->items_per_sample);
    if (p->forecast.cost)
        sl_json_put_double(&json, "forecast_s", 1e-9 * (double)p->forecast.step_ns);
    sl_cli_run_stats_put(&p->stats, &json);
    sl_json_put_int(&json, "saves", p->saves);
    sl_json_put_int(&json, "save_stall_ns", p->saved.stall_ns);
    sl_json_put_int(&json, "save_write_ns", p->saved.write_ns);
    sl_json_put_int(&json, "save_cpu_ns", p->saved.cpu_ns);
    sl_json_put_int(&json, "saves_beside", p->saves_beside);
    sl_json_put_int(&json, "save_beside_stall_ns", p->beside_stall_ns);
    sl_json_put_int(&json, "save_every", p->every);
    sl_json_put_string(&json, "run", c->run ? c->run : "");
    if (p->pipe->comm)
        SL_TRY(sl_cli_run_stats_put_ranks(&p->stats, p->pipe->comm, p->rank_bytes, &json));
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
    return SL_OK;
}

static void say_result(const struct sl_session_config *c, const struct sl_session_result *r,
                       const struct progress *p) {
    char took[SL_HUMAN_BYTES];
    if (r->was_finished) {
        sl_log_note("the run was finished already, at step %lld", (long long)r->step);
        return;
    }
    sl_log_note("%s at step %lld of %lld after %s, loss %.4f", r->stopped ? "stopped" : "finished",
                (long long)r->step, (long long)p->pipe->train->steps,
                sl_human_ns(sl_clock_ns() - p->start_ns, took), r->last_loss);
    const struct sl_pipe_config *pipe = p->pipe;
    int64_t here = pipe->plan && !pipe->comm ? pipe->plan->worker_count : 1;
    sl_cli_forecast_judge(&p->forecast, sl_cli_run_stats_step_s(&p->stats),
                          here * pipe->train->threads);
    if (pipe->train->audit)
        sl_log_note("audit: %lld of %lld actions were done twice, with the same bits",
                    (long long)r->audit.twice, (long long)r->audit.seen);
    if (p->saves > 1)
        sl_log_note("%lld checkpoints held the run up for %s", (long long)p->saves,
                    sl_human_ns(p->saved.stall_ns, took));
    if (c->run)
        sl_log_note("run directory: %s%s", c->run, r->stopped ? " (continue with --resume)" : "");
}

/* Of devices that say it themselves; false: they do not. */
static bool know_peak(const struct sl_pipe_config *c, double *flops) {
    const struct sl_device_row *row = c->train->device;
    struct sl_device_facts facts;
    int count = row->list ? row->list(&facts, 1) : 0, workers = c->plan ? c->plan->worker_count : 1;
    if (count < 1)
        return false;
    *flops = sl_dtype_is_half(c->train->dtype) ? facts.flops_bf16
             : c->train->tf32                  ? facts.flops_bf16 / 2
                                               : facts.flops_fp32;
    *flops *= workers < count ? workers : count;
    return true;
}

/* What matrix products would reach on all cores that will be busy, for "% of peak". Measured before
 * anything else is in memory, and only where somebody will see it. */
static void measure_peak(const struct sl_args *args, const struct sl_pipe_config *c,
                         struct sl_session_config *session) {
    enum { BUDGET_NS = 30000000 };
    int64_t threads = (int64_t)c->train->threads * (c->plan ? c->plan->worker_count : 1);
    int cores = sl_par_cores();
    bool seen = session->run || !sl_args_has(args, "--quiet");
    if (!seen || !sl_cli_comm_is_root(c->comm) || !c->train->device->has_kernel)
        return;
    if (know_peak(c, &session->peak_flops))
        return;
    if (!c->comm && threads > cores)
        threads = cores;
    if (sl_profile_peak(c->train->device, BUDGET_NS, &session->peak_flops) != SL_OK)
        session->peak_flops = 0;
    session->peak_flops *= (double)threads;
}

static sl_err choose_pipe(const struct sl_args *args, struct sl_train_config *train,
                          struct sl_pipe_config *c, struct sl_arena *arena,
                          struct sl_pipe_choice *choice) {
    SL_TRY(sl_cli_pipe_choose(args, train, arena, choice));
    SL_TRY(sl_cli_comm_compare(c->comm, args, train, choice));
    SL_TRY(sl_cli_comm_bind(args, &c->bind));
    c->lend = sl_args_has(args, "--lend");
    if (choice->plan && choice->plan->batch && !sl_args_has(args, "--batch"))
        train->batch = choice->plan->batch;
    c->plan = choice->plan;
    c->stage_of = choice->stage_of;
    c->schedule = choice->schedule;
    c->slack = choice->slack;
    return SL_OK;
}

/* A worker is stuck, and may use anything when it comes back: nothing is taken down. */
static _Noreturn void leave(struct sl_comm *comm, sl_err err) {
    err = sl_cli_comm_conclude(comm, err);
    fflush(NULL);
    _exit((int)err);
}

static sl_err train_until_end(const struct sl_session_config *session,
                              const struct sl_pipe_config *pipe, struct progress *progress,
                              struct sl_session_result *result) {
    sl_err err = sl_pipe_session_run(session, pipe, result);
    sl_cli_live_close(&progress->live);
    if (result->abandoned)
        leave(pipe->comm, err);
    return err;
}

static sl_err run_on(struct sl_comm *comm, const struct sl_args *args,
                     struct sl_session_result *result) {
    struct sl_run_inputs inputs;
    struct sl_pipe_choice choice;
    struct sl_train_config train = {0};
    struct sl_pipe_config pipe = {.train = &train, .comm = comm};
    struct progress progress = {.choice = &choice, .pipe = &pipe};
    struct sl_drill drill = {0};
    struct sl_text texts[SL_RUN_TEXTS] = {{0}}, text = {0};
    struct sl_session_config session = {
        .run = sl_args_text(args, "--out", NULL),
        .init = sl_args_text(args, "--init", NULL),
        .resume = sl_args_has(args, "--resume"),
        .stop = &stop_asked,
        .ctx = &progress,
        .on_start = on_start,
        .on_end = on_end,
        .on_step = on_step,
        .on_provisional = on_provisional,
        .on_eval = on_eval,
        .on_trace = on_trace,
        .on_save = on_save,
    };
    sl_err err = SL_OK;
    sl_cli_run_stats_open(&progress.stats);
    SL_TRY_OUT(sl_cli_run_open(args, args->positional[0], &inputs));
    SL_TRY_OUT(sl_cli_run_config(args, &inputs, &train));
    SL_TRY_OUT(parse_training(args, &train));
    SL_TRY_OUT(parse_saving(args, &session));
    SL_TRY_OUT(choose_pipe(args, &train, &pipe, &inputs.arena, &choice));
    SL_TRY_OUT(parse_watch(args, &pipe, &drill));
    SL_TRY_OUT(ask_verdict(args, &pipe));
    SL_TRY_OUT(ask_staleness(args, &session, &pipe));
    progress.session = &session;
    SL_TRY_OUT(ask_trace(args, &pipe, &progress, &inputs.arena));
    ask_dashboard(args, &pipe, &progress);
    count_items(&progress, inputs.graph);
    SL_TRY_OUT(sl_cli_forecast_make(args, &pipe, &inputs.arena, &progress.forecast));
    sl_cli_run_texts_put(texts, args, &progress.forecast, &pipe, &session);
    measure_peak(args, &pipe, &session);
    catch_signals();
    SL_TRY_OUT(train_until_end(&session, &pipe, &progress, result));
    say_result(&session, result, &progress);
    SL_TRY_OUT(save_trace(&session, &progress));
    if (sl_args_has(args, "--json")) {
        SL_TRY_OUT(put_result(&text, &session, result, &progress));
        if (sl_cli_comm_is_root(comm))
            SL_TRY_OUT(sl_cli_print(&text));
    }
out:
    for (int i = 0; i < SL_RUN_TEXTS; i++)
        sl_text_free(&texts[i]);
    sl_text_free(&progress.trace);
    free(progress.rank_bytes);
    sl_text_free(&text);
    sl_cli_run_close(&inputs);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_comm *comm;
    struct sl_session_result result = {0};
    int64_t requeue = 0;
    SL_TRY(sl_args_int(args, "--requeue-exit", 0, 125, &requeue));
    SL_TRY(sl_cli_comm_start(args, &comm));
    SL_TRY(sl_cli_comm_finish(comm, run_on(comm, args, &result)));
    return result.stopped ? (sl_err)requeue
                          : SL_OK; /* said already: a scheduler reads the status */
}

static const struct sl_option options[] = {
    SL_RUN_OPTIONS,
    SL_PIPE_OPTIONS,
    SL_COMM_OPTIONS,
    {"--policy", "P", "against staleness; see 'sluice list policies'", false},
    {"--verdict", "all|stage", "who judges a gradient without a flush (default all)", false},
    {"--log-staleness", NULL, "distance of read weights from those they stand for", false},
    {"--trace", NULL, "measure the pipeline: DIR/timeline.trace.json, bubbles", false},
    {"--cost", "X.cost", "tell a step before it runs (sluice profile): DIR/forecast.json", false},
    {"--audit", "N", "do one of N actions twice and compare the bits; 1: all", false},
    {"--dashboard", NULL, "loss curve and workers, live; lines where no terminal is", false},
    {"--steps", "N", "optimizer steps (default 100)", false},
    SL_OPTIMIZER_OPTIONS,
    {"--eval-every", "N", "steps between evaluations, 0 for none", false},
    {"--eval-samples", "N", "samples of an evaluation (default 64)", false},
    {"--out", "DIR", "run directory: log, checkpoints", false},
    {"--checkpoint-every", "N", "steps between checkpoints, 0: at the end (default: by their cost)",
     false},
    {"--save", "async|sync", "write checkpoints beside the run, or stop it (default async)", false},
    {"--keep", "K", "checkpoints to keep, 0 for all (default 2)", false},
    {"--stall-timeout", "S", "seconds in one action before it may count as stalled (5)", false},
    {"--drill", "WHAT:W:N", "practise: worker W does WHAT before its action N; see docs", false},
    {"--requeue-exit", "N", "exit status when a signal stopped the run (default 0)", false},
    {"--resume", NULL, "continue the run in --out, or start it", false},
    {"--init", "CKPT", "start from the weights of a run or checkpoint", false},
    {0},
};

const struct sl_command sl_cli_cmd_train = {
    .name = "train",
    .synopsis = "MODEL [--steps N] [--batch B] [--micro M] [--data F] [--out DIR] [--resume] ...",
    .brief = "train a model",
    .detail = "MODEL is a name ('sluice list models') or the path of a file. With --stages or\n"
              "--plan it is trained as a pipeline; a synchronous schedule gives the bits of one\n"
              "worker. The run directory has a log, checkpoints and what 'sluice report' draws.\n\n"
              "  sluice train gpt-nano --data book.txt --steps 300 --batch 16 --out run\n"
              "  sluice train gpt-nano --stages 3 --schedule zb-h1 --micro 8 --trace --out run\n"
              "  mpirun -n 4 sluice train gpt2 --stages 4 --data book.txt --out run --resume",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
