/* sluice train: train a model, with a progress line, a log and checkpoints. */
#include "cli/command.h"

#include "base/clock.h"
#include "base/log.h"
#include "cli/comm_options.h"
#include "cli/job_options.h"
#include "cli/live.h"
#include "cli/step_line.h"
#include "pipe/drill.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int stop_requested; /* lock-free: a handler may set it */

static void request_stop(int signal) {
    (void)signal;
    stop_requested = 1;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = request_stop, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL); /* a second Ctrl-C ends at once */
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);  /* the terminal has been closed */
    signal(SIGPIPE, SIG_IGN);          /* if nobody reads the output any more, training continues */
    sigaction(SIGUSR1, &action, NULL); /* Slurm's warning before its time limit */
    sl_cli_unblock_signals();
}

struct progress {
    const struct sl_job_work *work;
    struct sl_step_line line;
    struct sl_live live;
    int64_t provisional; /* last step that was shown before its final report */
    int64_t every;       /* interval of checkpoints that was shown last */
};

/* ---- while it runs ---- */

static void show_forecast(const struct sl_forecast *f) {
    char step[SL_HUMAN_BYTES], low[SL_HUMAN_BYTES], high[SL_HUMAN_BYTES];
    if (f->cost)
        sl_log_note("forecast from %s: %s a step (90 %%: %s to %s), workers wait %.1f %%", f->cost,
                    sl_human_ns(f->step_ns, step), sl_human_ns(f->low_ns, low),
                    sl_human_ns(f->high_ns, high), 100 * f->bubble);
}

static void show_pipeline(const struct sl_pipe_config *pipe, const struct sl_session_start *start) {
    const struct sl_plan *plan = pipe->plan;
    char bytes[SL_HUMAN_BYTES], ranks[32] = "";
    int64_t max = 0;
    for (int w = 0; w < plan->worker_count; w++)
        max = start->worker_bytes[w] > max ? start->worker_bytes[w] : max;
    if (pipe->comm)
        snprintf(ranks, sizeof ranks, " of %d ranks", pipe->comm->ranks);
    sl_log_note("pipeline: %d stages on %d workers%s, schedule %s, verified; at most %s each",
                plan->stage_count, plan->worker_count, ranks, pipe->schedule,
                sl_human_bytes(max, bytes));
}

static void put_delays(struct sl_text *out, const double *delays, int count) {
    for (int i = 0; i < count; i++)
        sl_text_printf(out, "%s%.3g", i ? " " : "", delays[i]);
}

/* Shows which norm clips and skips, and the delay that this adds. */
static void show_clipping(const struct sl_job_work *work) {
    bool stage = work->job.clip_scope == SL_JOB_SCOPE_STAGE;
    int stages = work->pipe.plan->stage_count;
    struct sl_text text = {0};
    sl_text_printf(&text, "clip scope %s: ", stage ? "stage" : "global");
    if (work->train.clip > 0)
        sl_text_printf(&text, "%s norm at most %g", stage ? "each stage's" : "the global",
                       work->train.clip);
    else
        sl_text_put(&text, "no clipping");
    sl_text_put(&text,
                stage ? ", each stage skips its own steps" : ", all stages skip a step together");
    if (work->delays) {
        sl_text_put(&text, "; delay in steps, by stage: ");
        put_delays(&text, work->delays, stages);
        sl_text_put(&text, ", published: ");
        put_delays(&text, work->published, stages);
    }
    sl_log_note("%s", text.at);
    sl_text_free(&text);
}

static void show_differences(const struct sl_job_work *work) {
    for (int i = 0; i < work->difference_count; i++) {
        const struct sl_job_difference *d = &work->differences[i];
        sl_log_note("changed: %s is %s, the run had %s%s", d->field->key, d->now, d->was,
                    d->breaks ? " (other results than without the change)" : "");
    }
}

static void show_obstacle(const char *obstacle) {
    struct sl_text text = {0};
    sl_cli_name_options(obstacle, "train", &text);
    sl_log_warn("no checkpoint before the last step, and a signal ends the run without one: %s",
                text.at);
    sl_text_free(&text);
}

static void on_start(void *ctx, const struct sl_session_start *start) {
    struct progress *p = ctx;
    const struct sl_train_config *c = &p->work->train;
    char bytes[SL_HUMAN_BYTES], params[SL_HUMAN_BYTES];
    struct sl_text data = {0};
    sl_data_describe(c->data, &data);
    sl_log_note("%s: %s parameters, %s of memory, %d thread%s, %lld micro-batch%s of %lld",
                c->graph->name, sl_human_count((double)start->params, params),
                sl_human_bytes(start->bytes, bytes), c->threads, c->threads == 1 ? "" : "s",
                (long long)c->micros, c->micros == 1 ? "" : "es",
                (long long)sl_run_train_full_samples(c->batch, c->micros));
    sl_log_note("data: %s", data.at);
    if (p->work->job.emulate)
        sl_log_note("emulation: %d stages, schedule %s, verified; one worker reads their versions",
                    p->work->pipe.plan->stage_count, p->work->pipe.schedule);
    else if (p->work->pipe.plan)
        show_pipeline(&p->work->pipe, start);
    if (p->work->pipe.plan)
        show_clipping(p->work);
    if (start->obstacle)
        show_obstacle(start->obstacle);
    show_forecast(&p->work->forecast);
    sl_text_free(&data);
    if (start->copy_bytes)
        sl_log_debug("checkpoints: written while training, from a copy of %s",
                     sl_human_bytes(start->copy_bytes, bytes));
    show_differences(p->work);
    if (*start->skipped)
        sl_log_warn("checkpoints were skipped:\n%s\nnewer ones are now ckpt/left-step-*",
                    start->skipped);
    if (!*p->work->job.out)
        sl_log_note("nothing is saved: name a run directory with --out");
    if (start->step)
        sl_log_note("resumed after step %lld", (long long)start->step);
    p->line.steps = c->steps;
}

static void show_skipped(const struct sl_step_report *r) {
    struct sl_text why = {0};
    sl_run_bad_put(&why, &r->bad);
    if (r->loss_scale > 0)
        sl_text_printf(&why, " (loss scale %.0f)", r->loss_scale);
    sl_log_note("step %lld skipped, its gradient is not finite: %s", (long long)r->step, why.at);
    sl_text_free(&why);
}

static void set_speed(struct progress *p, const struct sl_job_speed *speed) {
    p->live.shown.rate = speed->rate;
    p->live.shown.left_ns = speed->left_ns;
    p->live.shown.item = p->line.item;
}

static void on_step(void *ctx, const struct sl_step_report *r, const struct sl_job_speed *speed) {
    struct progress *p = ctx;
    if (r->skipped)
        show_skipped(r);
    set_speed(p, speed);
    if (p->live.on)
        sl_cli_live_step(&p->live, r);
    else if (r->step > p->provisional)
        sl_cli_step_line_put(&p->line, r, speed);
}

static void on_provisional(void *ctx, const struct sl_step_report *r,
                           const struct sl_job_speed *speed) {
    struct progress *p = ctx;
    p->provisional = r->step;
    set_speed(p, speed);
    if (p->live.on)
        sl_cli_live_provisional(&p->live, r);
    else
        sl_cli_step_line_provisional(&p->line, r, speed);
}

static void on_eval(void *ctx, const struct sl_eval_report *r) {
    struct progress *p = ctx;
    p->live.shown.eval_loss = r->loss;
    char accuracy[48] = "";
    if (!isnan(r->accuracy))
        snprintf(accuracy, sizeof accuracy, "  accuracy %.2f%%", 100 * r->accuracy);
    sl_log_note("step %lld  validation loss %.4f%s", (long long)r->step, r->loss, accuracy);
}

static void on_trace(void *ctx, const struct sl_timeline *timeline) {
    struct progress *p = ctx;
    sl_cli_live_trace(&p->live, timeline);
}

/* Shows the interval of checkpoints when it is known, and when it has doubled or halved. */
static void on_save(void *ctx, const struct sl_save_report *r, int64_t every) {
    struct progress *p = ctx;
    char stall[SL_HUMAN_BYTES], wrote[SL_HUMAN_BYTES];
    sl_log_debug("checkpoint of step %lld: the run waited %s, durable after %s", (long long)r->step,
                 sl_human_ns(r->stall_ns, stall), sl_human_ns(r->write_ns, wrote));
    if (!every || (every < 2 * p->every && 2 * every > p->every))
        return;
    p->every = every;
    sl_log_note("checkpoints every %lld steps: the run waits %s for one, which is durable after %s",
                (long long)every, sl_human_ns(r->stall_ns, stall), sl_human_ns(r->write_ns, wrote));
}

/* ---- results ---- */

static void show_forecast_error(const struct sl_job_work *work, const struct sl_job_outcome *o) {
    char predicted[SL_HUMAN_BYTES], measured[SL_HUMAN_BYTES], shared[64] = "";
    char low[SL_HUMAN_BYTES], high[SL_HUMAN_BYTES];
    int threads, cores;
    double error = sl_job_forecast_error(work, o, &threads, &cores);
    if (isnan(error))
        return;
    if (threads > cores)
        snprintf(shared, sizeof shared, "; %d threads shared %d core%s", threads, cores,
                 cores == 1 ? "" : "s");
    sl_log_note("a step took %s, %+.1f %% against the forecast of %s (90 %%: %s to %s)%s",
                sl_human_ns((int64_t)(1e9 * sl_job_stats_summary(&o->stats).step_s), measured),
                100 * error, sl_human_ns(work->forecast.step_ns, predicted),
                sl_human_ns(work->forecast.low_ns, low), sl_human_ns(work->forecast.high_ns, high),
                shared);
}

static sl_err print_json(struct sl_job_work *work, const struct sl_job_outcome *o) {
    struct sl_text text = {0};
    sl_err err = sl_job_outcome_json(work, o, &text);
    if (err == SL_OK && sl_cli_comm_is_root(work->pipe.comm))
        err = sl_cli_print(&text);
    sl_text_free(&text);
    return err;
}

static void show_result(const struct sl_job_work *work, const struct sl_job_outcome *o) {
    const struct sl_session_result *r = &o->result;
    const char *run = work->job.out;
    char took[SL_HUMAN_BYTES];
    if (r->was_finished) {
        sl_log_note("the run was finished already, at step %lld", (long long)r->step);
        return;
    }
    if (work->train.steps == 0) {
        sl_log_note("no step was made; the weights are %s%s", *run ? "saved in " : "not saved",
                    run);
        return;
    }
    if (r->early)
        sl_log_note("stopped early: no lower validation loss than %.4f of step %lld in %lld "
                    "evaluations",
                    r->best_eval, (long long)r->best_step, (long long)work->job.patience);
    sl_log_note("%s at step %lld of %lld after %s, loss %.4f", r->stopped ? "stopped" : "finished",
                (long long)r->step, (long long)work->train.steps,
                sl_human_ns(sl_clock_ns() - o->start_ns, took), r->last_loss);
    show_forecast_error(work, o);
    if (work->train.audit)
        sl_log_note("audit: %lld of %lld actions were done twice, with the same bits",
                    (long long)r->audit.twice, (long long)r->audit.seen);
    if (o->saves.count > 1)
        sl_log_note("%lld checkpoints held the run up for %s", (long long)o->saves.count,
                    sl_human_ns(o->saves.stall_ns, took));
    if (*run)
        sl_log_note("run directory: %s%s", run, r->stopped ? " (continue with --resume)" : "");
    for (int w = 0; o->bubbles && w < work->pipe.plan->worker_count; w++)
        sl_log_note("worker %d: bubble %.1f %%", w, 100.0 * o->bubbles[w]);
    if (o->bubbles)
        sl_log_note("timeline: %s/timeline.trace.json (see 'sluice report')", run);
}

/* ---- the command ---- */

/* Ends the process without freeing anything, because a worker hangs and may still use any
 * memory. */
static _Noreturn void leave(struct sl_comm *comm, sl_err err) {
    err = sl_cli_comm_conclude(comm, err);
    fflush(NULL);
    _exit((int)err);
}

static sl_err train(struct sl_job_work *work, const struct sl_args *args,
                    struct sl_job_outcome *out) {
    struct sl_comm *comm = work->pipe.comm;
    struct progress progress = {.work = work, .line.item = sl_job_items(work->graph).name};
    struct sl_job_watch watch = {
        .ctx = &progress,
        .stop = &stop_requested,
        .trace_steps = sl_args_has(args, "--dashboard") ? 2 : 0,
        .on_start = on_start,
        .on_step = on_step,
        .on_provisional = on_provisional,
        .on_eval = on_eval,
        .on_trace = on_trace,
        .on_save = on_save,
    };
    if (watch.trace_steps)
        sl_cli_live_open(&progress.live, &work->pipe);
    if (sl_cli_comm_is_root(comm) && (*work->job.out || !sl_args_has(args, "--quiet")))
        watch.peak_flops = sl_job_peak_flops(work);
    catch_signals();
    sl_err err = sl_job_train(work, &watch, out);
    sl_cli_live_close(&progress.live);
    if (out->result.abandoned)
        leave(comm, err);
    SL_TRY(err);
    show_result(work, out);
    if (sl_args_has(args, "--json"))
        SL_TRY(print_json(work, out));
    return sl_job_verdict(out);
}

static sl_err set_drill(const struct sl_args *args, struct sl_pipe_drill *drill,
                        struct sl_pipe_config *pipe) {
    const char *text = sl_args_text(args, "--drill", NULL);
    if (!text)
        return SL_OK;
    if (!pipe->plan)
        return sl_fail(SL_ERR_USAGE, "--drill needs a pipeline: set --stages or --plan");
    pipe->on_action = sl_pipe_drill_on_action;
    pipe->on_action_ctx = drill;
    return sl_pipe_drill_parse(text, pipe->plan->worker_count, drill);
}

/* Fills the job: reads a file first; options replace its fields. */
static sl_err fill(const struct sl_args *args, struct sl_job *job) {
    const char *file = sl_args_text(args, "--config", NULL);
    if (file)
        SL_TRY(sl_job_read_file(job, file));
    if (args->positional_count)
        SL_TRY(sl_job_set(job, "model", args->positional[0]));
    return sl_cli_job_fill(args, job);
}

static sl_err print_config(const struct sl_job *given, struct sl_job_work *work,
                           const struct sl_args *args) {
    struct sl_text text = {0};
    sl_job_take(&work->job, given, "plan"); /* the option's plan, not that of the run directory */
    if (sl_args_has(args, "--json"))
        sl_job_write(&work->job, &text);
    else
        sl_job_write_toml(&work->job, &text);
    sl_err err = sl_cli_print(&text);
    sl_text_free(&text);
    return err;
}

static sl_err run_on(struct sl_comm *comm, const struct sl_args *args,
                     struct sl_job_outcome *outcome) {
    struct sl_pipe_drill drill;
    struct sl_job job;
    struct sl_job_work work = {0};
    sl_err err = SL_OK;
    sl_job_init(&job);
    const char **dirs = sl_cli_model_dirs(args, &job.text);
    SL_TRY_OUT(fill(args, &job));
    SL_TRY_OUT(sl_job_open(&job, &(struct sl_job_host){.model_dirs = dirs, .comm = comm}, &work));
    SL_TRY_OUT(sl_job_agree(&work));
    SL_TRY_OUT(sl_cli_comm_agree(comm, args));
    if (sl_args_has(args, "--print-config")) {
        SL_TRY_OUT(sl_cli_comm_is_root(comm) ? print_config(&job, &work, args) : SL_OK);
        goto out;
    }
    SL_TRY_OUT(set_drill(args, &drill, &work.pipe));
    SL_TRY_OUT(train(&work, args, outcome));
out:
    sl_job_outcome_free(outcome);
    sl_job_close(&work);
    sl_job_free(&job);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_comm *comm;
    struct sl_job_outcome outcome = {0};
    int64_t requeue = 0;
    SL_TRY(sl_args_int(args, "--requeue-exit", 0, 125, &requeue));
    SL_TRY(sl_cli_comm_start(args, &comm));
    SL_TRY(sl_cli_comm_finish(comm, run_on(comm, args, &outcome)));
    return outcome.result.stopped && !outcome.result.early ? (sl_err)requeue
                                                           : SL_OK; /* no message, because it is no
                                                                     * error */
}

static const struct sl_option options[] = {
    SL_RUN_OPTIONS,
    SL_PIPE_OPTIONS,
    {"--tp", "T", "tensor-parallel shards of every stage, a worker each (default 1)", false},
    SL_COMM_OPTIONS,
    {"--emulate", NULL, "compute what the pipeline would, bit for bit, on one worker", false},
    {"--policy", "P", "staleness policy; see 'sluice list policies' (default none)", false},
    SL_CLIP_SCOPE_OPTION,
    {"--verdict", "all|stage", "old name of --clip-scope global|stage", false},
    {"--log-staleness", NULL, "log how stale the weights of each pass are", false},
    {"--trace", NULL, "measure the pipeline: DIR/timeline.trace.json, bubbles", false},
    {"--cost", "X.cost", "predict the step time from a profile: DIR/forecast.json", false},
    {"--audit", "N", "repeat one of N actions and compare the bits; 1: all", false},
    {"--dashboard", NULL, "live loss curve and workers; plain lines without a terminal", false},
    {"--steps", "N", "optimizer steps (default 100)", false},
    SL_OPTIMIZER_OPTIONS,
    {"--eval-every", "N", "steps between evaluations, 0 for none (default 0)", false},
    {"--eval-samples", "N", "samples of an evaluation (default 64)", false},
    {"--out", "DIR", "run directory: log, checkpoints", false},
    {"--checkpoint-every", "N", "steps between checkpoints, 0: at the end (default: by their cost)",
     false},
    {"--keep-best", NULL, "keep the checkpoint with the lowest validation loss, too", false},
    {"--patience", "N", "stop after N evaluations without a lower validation loss", false},
    {"--save", "async|sync", "write checkpoints while training, or stop for them (default async)",
     false},
    {"--keep", "K", "checkpoints to keep, 0 for all (default 2)", false},
    {"--stall-timeout", "S", "seconds before an action may count as stalled (default 5)", false},
    {"--drill", "WHAT:W:N", "inject a fault: worker W does WHAT before its action N; see docs",
     false},
    {"--requeue-exit", "N", "exit status when a signal stopped the run (default 0)", false},
    {"--resume", NULL, "continue the run in --out with its options, or start it", false},
    {"--from-step", "N", "--resume: continue from the checkpoint of step N", false},
    {"--allow-change", NULL, "--resume: other options may change the results", false},
    {"--config", "FILE", "take options from X.toml or X.json; others here replace them", false},
    {"--print-config", NULL, "print all options as TOML (--json: JSON) and stop", false},
    {"--init", "WEIGHTS", "start from the weights of a run, a .safetensors file or a folder",
     false},
    {"--init-partial", NULL, "start from those tensors of --init that fit", false},
    {0},
};

const struct sl_command sl_cli_cmd_train = {
    .name = "train",
    .synopsis = "[MODEL] [--steps N] [--batch B] [--data F] [--out DIR] [--resume] ...",
    .brief = "train a model",
    .detail = "MODEL is a name ('sluice list models') or the path of a file. --stages or --plan "
              "train it as a\n"
              "pipeline; synchronous schedules give the same bits as one worker. The run directory "
              "holds the\n"
              "log, checkpoints and data for 'sluice report'. --resume takes MODEL and all options "
              "from it.\n"
              "\n"
              "  sluice train gpt-nano --data book.txt --steps 300 --batch 16 --out run\n"
              "  sluice train gpt-nano --stages 3 --schedule zb-h1 --micro 8 --trace --out run\n"
              "  mpirun -n 4 sluice train gpt2 --stages 4 --data book.txt --out run\n"
              "  sluice train --resume --out run",
    .options = options,
    .min_args = 0,
    .max_args = 1,
    .run = run,
    .catches_signals = true,
};
