/* sluice check: a pipeline against one worker, bit for bit. */
#include "cli/command.h"

#include "base/json.h"
#include "cli/comm_options.h"
#include "cli/job_options.h"
#include "pipe/check.h"

#include <stdio.h>

enum { MAX_STEPS = 1000000 }; /* a check keeps the report of every step */

static const char *const kinds[] = {
    [SL_CHECK_SAME] = "",
    [SL_CHECK_WEIGHT] = "weights",
    [SL_CHECK_STATE] = "statistics",
    [SL_CHECK_OPTIM] = "optimizer state",
    [SL_CHECK_LOSS] = "loss",
};

static void put_report(struct sl_text *text, const struct sl_check_config *c,
                       const struct sl_check_report *r) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", c->pipe.train->graph->name);
    sl_json_put_string(&json, "schedule", c->pipe.schedule);
    sl_json_put_int(&json, "stages", c->pipe.plan->stage_count);
    sl_json_put_int(&json, "workers", c->pipe.plan->worker_count);
    sl_json_put_int(&json, "steps", c->pipe.train->steps);
    sl_json_put_int(&json, "tensors", r->tensors);
    sl_json_put_int(&json, "elements", r->elements);
    sl_json_put_bool(&json, "same", r->kind == SL_CHECK_SAME);
    if (r->kind != SL_CHECK_SAME) {
        sl_json_put_string(&json, "what", kinds[r->kind]);
        sl_json_put_string(&json, "tensor", r->tensor);
        sl_json_put_int(&json, "step", r->step);
        sl_json_put_int(&json, "stage", r->stage);
        sl_json_put_int(&json, "element", r->element);
        sl_json_put_double(&json, "pipeline", r->pipe);
        sl_json_put_double(&json, "one_worker", r->one);
    }
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}

static void put_same(struct sl_text *text, const struct sl_check_config *c,
                     const struct sl_check_report *r) {
    sl_text_printf(text,
                   "%s, %d stages on %d workers, schedule %s, %lld steps: %lld tensors "
                   "(%lld values) and all losses are those of one worker, bit for bit\n",
                   c->pipe.train->graph->name, c->pipe.plan->stage_count,
                   c->pipe.plan->worker_count, c->pipe.schedule, (long long)c->pipe.train->steps,
                   (long long)r->tensors, (long long)r->elements);
}

static sl_err fail_if_different(const struct sl_check_config *c, const struct sl_check_report *r) {
    char step[96];
    if (r->kind == SL_CHECK_SAME)
        return SL_OK;
    snprintf(step, sizeof step, "after step %lld", (long long)r->step);
    if (r->step == 0)
        snprintf(step, sizeof step, "after %lld steps in one run (not step by step)",
                 (long long)c->pipe.train->steps);
    if (r->kind == SL_CHECK_LOSS)
        return sl_fail(SL_ERR_REFUSED, "the loss differs %s: %.17g, one worker has %.17g", step,
                       r->pipe, r->one);
    return sl_fail(SL_ERR_REFUSED,
                   "%s of '%s' differ %s, first on stage %d (%s): element %lld is %.9g, one worker "
                   "has %.9g",
                   kinds[r->kind], r->tensor, step, r->stage, c->pipe.plan->stages[r->stage].name,
                   (long long)r->element, r->pipe, r->one);
}

static sl_err run_check(struct sl_comm *comm, const struct sl_args *args, struct sl_job *job) {
    const char **dirs = sl_cli_model_dirs(args, &job->text);
    struct sl_job_host host = {.model_dirs = dirs, .comm = comm};
    struct sl_job_work work = {0};
    struct sl_check_config check = {0};
    struct sl_check_report report;
    struct sl_text text = {0};
    sl_err err = SL_OK;
    job->steps = 20;
    SL_TRY(sl_job_set(job, "model", args->positional[0]));
    SL_TRY(sl_cli_job_fill(args, job));
    if (job->steps < 1 || job->steps > MAX_STEPS)
        return sl_fail(SL_ERR_USAGE, "`steps`: a check takes at least one step, at most %d",
                       MAX_STEPS);
    if (!sl_job_is_pipeline(job))
        return sl_fail(SL_ERR_USAGE, "check needs a pipeline: set `stages` or `plan`");
    SL_TRY_OUT(sl_job_open(job, &host, &work));
    SL_TRY_OUT(sl_job_agree(&work));
    SL_TRY_OUT(sl_cli_comm_agree(comm, args));
    check.pipe = work.pipe;
    SL_TRY_OUT(sl_pipe_check(&check, &report));
    if (sl_args_has(args, "--json"))
        put_report(&text, &check, &report);
    else if (report.kind == SL_CHECK_SAME)
        put_same(&text, &check, &report);
    if (sl_cli_comm_is_root(comm))
        SL_TRY_OUT(sl_cli_print(&text));
    err = fail_if_different(&check, &report);
out:
    sl_text_free(&text);
    sl_job_close(&work);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_comm *comm;
    struct sl_job job;
    SL_TRY(sl_cli_comm_start(args, &comm));
    sl_job_init(&job);
    sl_err err = run_check(comm, args, &job);
    sl_job_free(&job);
    return sl_cli_comm_finish(comm, err);
}

static const struct sl_option options[] = {
    SL_RUN_OPTIONS,       SL_PIPE_OPTIONS,
    SL_COMM_OPTIONS,      {"--steps", "N", "optimizer steps (default 20)", false},
    SL_OPTIMIZER_OPTIONS, {0},
};

const struct sl_command sl_cli_cmd_check = {
    .name = "check",
    .synopsis = "MODEL --stages N [--schedule S] [--steps K] [--batch B] [--micro M] ...",
    .brief = "train on a pipeline and on one worker, compare bit for bit",
    .detail =
        "Weights, statistics, optimizer state and losses must be the same after K steps; else\n"
        "the first step, stage and tensor that differ are named and the exit status is 1.\n"
        "Example: sluice check gpt-nano --stages 4 --schedule 1f1b --batch 8 --micro 4",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
