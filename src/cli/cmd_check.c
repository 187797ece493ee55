/* sluice check: a pipeline against one worker, bit for bit. */
#include "cli/command.h"

#include "base/json.h"
#include "cli/comm_options.h"
#include "pipe/check.h"

#include <stdio.h>

enum { MAX_STEPS = 1000000 }; /* it keeps what each of them reports */

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

static sl_err verdict(const struct sl_check_config *c, const struct sl_check_report *r) {
    char step[96];
    if (r->kind == SL_CHECK_SAME)
        return SL_OK;
    snprintf(step, sizeof step, "after step %lld", (long long)r->step);
    if (r->step == 0)
        snprintf(step, sizeof step, "after %lld steps run together (not step by step)",
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

static sl_err run(const struct sl_args *args) {
    struct sl_run_inputs inputs = {0};
    struct sl_train_config train;
    struct sl_pipe_choice choice;
    struct sl_check_report report;
    struct sl_text text = {0};
    struct sl_comm *comm;
    sl_err err = SL_OK;
    SL_TRY(sl_cli_comm_start(args, &comm));
    SL_TRY_OUT(sl_cli_run_open(args, args->positional[0], &inputs));
    SL_TRY_OUT(sl_cli_run_config(args, &inputs, &train));
    train.eval_graph = NULL;
    SL_TRY_OUT(sl_cli_run_optimizer(args, 20, &train));
    if (train.steps < 1 || train.steps > MAX_STEPS) {
        err = sl_fail(SL_ERR_USAGE, "--steps: a check takes at least one step, at most %d",
                      MAX_STEPS);
        goto out;
    }
    SL_TRY_OUT(sl_cli_pipe_choose(args, &train, &inputs.arena, &choice));
    if (!choice.plan) {
        err = sl_fail(SL_ERR_USAGE, "check needs a pipeline: --stages N or --plan X.plan");
        goto out;
    }
    SL_TRY_OUT(sl_cli_comm_compare(comm, args, &train, &choice));
    struct sl_check_config check = {
        .pipe = {.train = &train,
                 .plan = choice.plan,
                 .stage_of = choice.stage_of,
                 .schedule = choice.schedule,
                 .slack = choice.slack,
                 .comm = comm,
                 .lend = sl_args_has(args, "--lend")},
    };
    SL_TRY_OUT(sl_cli_comm_bind(args, &check.pipe.bind));
    SL_TRY_OUT(sl_pipe_check(&check, &report));
    if (sl_args_has(args, "--json"))
        put_report(&text, &check, &report);
    else if (report.kind == SL_CHECK_SAME)
        put_same(&text, &check, &report);
    if (sl_cli_comm_is_root(comm))
        SL_TRY_OUT(sl_cli_print(&text));
    err = verdict(&check, &report);
out:
    sl_text_free(&text);
    sl_cli_run_close(&inputs);
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
