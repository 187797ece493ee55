/* sluice sched: build, verify and write a schedule; print the needs of each stage. */
#include "cli/command.h"
#include "cli/sched_args.h"
#include "cli/terminal.h"
#include "interop/torch_csv.h"

#include <string.h>

static sl_err write_sched(const struct sl_args *args, struct sl_arena *arena,
                          const struct sl_plan *plan, const struct sl_schedule_opts *opts,
                          const struct sl_sched *sched) {
    const char *path = sl_args_text(args, "-o", NULL);
    struct sl_text text = {0};
    if (!path)
        return SL_OK;
    if (sl_args_has(args, "--passes")) {
        struct sl_sched *passes;
        SL_TRY(sl_schedules_generate(arena, plan, opts, &passes));
        sched = passes;
    }
    sl_err err = SL_OK;
    if (sl_cli_ends(path, ".csv")) {
        err = sl_interop_torch_csv_write(sched, sl_args_has(args, "--comms"), &text);
        if (err == SL_OK)
            sl_interop_torch_csv_warn(sched);
    } else {
        sl_sched_write(sched, &text);
    }
    if (err == SL_OK)
        err = sl_file_write(path, text.at, text.length);
    sl_text_free(&text);
    return err;
}

static sl_err run_in(const struct sl_args *args, struct sl_arena *arena, struct sl_text *text) {
    const char *input = args->positional_count ? args->positional[0] : NULL;
    const char *output = sl_args_text(args, "-o", NULL);
    struct sl_job_sched_request request;
    struct sl_schedule_opts opts;
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    SL_TRY(sl_cli_sched_request(args, input, &request));
    SL_TRY(sl_job_sched_open(arena, &request));
    SL_TRY(sl_job_sched_plan(arena, &request, &plan));
    SL_TRY(sl_job_sched_opts(arena, &request, plan, &opts));
    SL_TRY(sl_schedules_build(arena, plan, &opts, &sched));
    SL_TRY(write_sched(args, arena, plan, &opts, sched));
    if (output && strcmp(output, "-") == 0) /* standard output contains the schedule itself */
        return SL_OK;
    if (!sl_args_has(args, "--json")) {
        sl_report_sched(sched, text);
        return SL_OK;
    }
    /* in this simulation messages take no time */
    SL_TRY(sl_sim_run(arena, sched, &(struct sl_sim_opts){0}, &sim));
    sl_report_sched_json(sched, sim, text);
    return SL_OK;
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    sl_err err = run_in(args, &arena, &text);
    if (err == SL_OK)
        err = sl_cli_print(&text);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

const struct sl_command sl_cli_cmd_sched = {
    .name = "sched",
    .synopsis = "(X.plan | --chain N | --dag EDGES) --schedule S --micro M [-o FILE]",
    .brief = "build and verify a schedule",
    .detail =
        "Generates the passes of a schedule, adds messages, buffer slots and optimizer steps\n"
        "(lowering), verifies the result and prints the needs of each stage.\n"
        "\n"
        "  sluice sched --chain 4 --schedule 1f1b --micro 8\n"
        "  sluice sched --dag 'a>b,a>c,b>d,c>d' --schedule 2bw --micro 4 --iters 100 -o x.sched",
    .options =
        (const struct sl_option[]){
            SL_SCHED_OPTIONS,
            {"-o", "FILE", "write X.sched, or X.csv for PyTorch; '-': standard output", false},
            {"--comms", NULL, "X.csv: include sends and receives", false},
            {"--passes", NULL, "write only the passes, not lowered", false},
            {0}},
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
