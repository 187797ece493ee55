/* sluice check: a pipeline against its reference, bit for bit. */
#include "cli/command.h"

#include "cli/comm_options.h"
#include "cli/job_options.h"
#include "pipe/check.h"

enum { MAX_STEPS = 1000000 }; /* a check keeps the report of every step */

static sl_err run_check(struct sl_comm *comm, const struct sl_args *args, struct sl_job *job) {
    const char **dirs = sl_cli_model_dirs(args, &job->text);
    struct sl_job_host host = {.model_dirs = dirs, .comm = comm};
    struct sl_job_work work = {0};
    struct sl_check_config check = {0};
    struct sl_check_report report;
    struct sl_graph *together = NULL;
    struct sl_text text = {0};
    sl_err err = SL_OK;
    job->steps = 20;
    if (args->positional_count)
        SL_TRY(sl_job_set(job, "model", args->positional[0]));
    SL_TRY(sl_cli_job_fill(args, job));
    if (job->steps < 1 || job->steps > MAX_STEPS)
        return sl_fail(SL_ERR_USAGE, "`steps`: a check takes at least one step, at most %d",
                       MAX_STEPS);
    if (!args->positional_count && !*job->plan)
        return sl_fail(SL_ERR_USAGE, "check: MODEL is missing; only --plan names one");
    if (!sl_job_is_pipeline(job))
        return sl_fail(SL_ERR_USAGE, "check needs a pipeline: set `stages` or `plan`");
    SL_TRY_OUT(sl_job_open(job, &host, &work));
    SL_TRY_OUT(sl_job_agree(&work));
    SL_TRY_OUT(sl_cli_comm_agree(comm, args));
    check.pipe = work.pipe;
    if (work.job.tp > 1)
        SL_TRY_OUT(sl_job_shard_together(&work, &together));
    check.together = together;
    SL_TRY_OUT(sl_pipe_check(&check, &report));
    if (sl_args_has(args, "--json"))
        sl_pipe_check_json(&check, &report, &text);
    else
        sl_pipe_check_put(&check, &report, &text);
    if (sl_cli_comm_is_root(comm))
        SL_TRY_OUT(sl_cli_print(&text));
    err = sl_pipe_check_verdict(&check, &report);
out:
    sl_text_free(&text);
    sl_graph_close(together);
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
    SL_RUN_OPTIONS,
    SL_PIPE_OPTIONS,
    SL_COMM_OPTIONS,
    {"--steps", "N", "optimizer steps (default 20)", false},
    SL_OPTIMIZER_OPTIONS,
    SL_CLIP_SCOPE_OPTION,
    {0},
};

const struct sl_command sl_cli_cmd_check = {
    .name = "check",
    .synopsis = "MODEL --stages N [--schedule S] [--steps K] [--batch B] [--micro M] ...\n"
                "   or: sluice check --plan X.plan [--steps K] ...",
    .brief = "train on a pipeline and on one worker, compare bit for bit",
    .detail =
        "Trains K steps on a pipeline and on one worker. Weights, statistics, optimizer state and\n"
        "losses must be equal. If they differ, prints the first step, stage and tensor that "
        "differ;\n"
        "the exit status is 1. An asynchronous schedule is compared with one process that keeps\n"
        "the weight versions and runs one micro-batch after the other.\n"
        "\n"
        "  sluice check gpt-nano --stages 4 --schedule 1f1b --batch 8 --micro 4",
    .options = options,
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
