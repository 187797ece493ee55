/* sluice sim: simulate a schedule with costs; print times, bubbles, memory, critical path. */
#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/plan_args.h"
#include "cli/sched_args.h"
#include "cli/terminal.h"
#include "sizing/sim.h"

enum { GRID_LANES = 64, GRID_ACTIONS = 100000 };

/* Returns the options of the grid; NULL: the timeline is too large to draw here. */
static const struct sl_grid_opts *grid_of(const struct sl_report_sim *s,
                                          struct sl_grid_opts *grid) {
    *grid = (struct sl_grid_opts){.columns = sl_cli_columns(),
                                  .max_lanes = GRID_LANES,
                                  .colour = sl_cli_colour(),
                                  .critical = true};
    return s->has_picture && s->sim->actions <= GRID_ACTIONS ? grid : NULL;
}

static bool draws(const struct sl_args *args) {
    bool json = sl_args_has(args, "--json") && !sl_args_has(args, "-o");
    return !sl_args_has(args, "--totals") && !(json && sl_args_has(args, "--machine"));
}

static sl_err draw(const struct sl_args *args, const struct sl_report_sim *s) {
    const char *output;
    for (int i = 0; (output = sl_args_nth(args, "-o", i)); i++)
        SL_TRY(sl_report_draw(output, &s->picture, 1));
    return SL_OK;
}

/* ---- a schedule ---- */

static sl_err run_schedule(const struct sl_args *args, const char *input, struct sl_arena *arena,
                           struct sl_text *text) {
    struct sl_job_sim_request request;
    struct sl_report_sim s;
    struct sl_grid_opts grid;
    SL_TRY(sl_cli_sim_request(args, input, &request));
    request.picture = draws(args);
    SL_TRY(sl_job_sim(arena, &request, &s));
    SL_TRY(draw(args, &s));
    if (sl_args_has(args, "--json"))
        sl_report_sim_json(&s, text);
    else
        sl_report_sim(&s, grid_of(&s, &grid), text);
    return SL_OK;
}

/* ---- a model on a machine ---- */

static bool is_model(const struct sl_args *args, const char *input) {
    return input && (sl_args_has(args, "--machine") ||
                     !(sl_cli_ends(input, ".plan") || sl_cli_ends(input, ".sched") ||
                       sl_cli_ends(input, ".csv")));
}

/* Options of schedules that say nothing about a model on a machine. */
static sl_err check_model_options(const struct sl_args *args) {
    static const char *const others[] = {"--chain", "--dag",    "--schedule-module", "--last-batch",
                                         "--ranks", "--policy", "--global-step",     "--together",
                                         "--iters", "--slack",  "--costs",           "--links",
                                         "--cold",  "--send"};
    for (int i = 0; i < SL_COUNT(others); i++)
        if (sl_args_has(args, others[i]))
            return sl_fail(SL_ERR_USAGE,
                           "sim: %s is for X.plan, X.sched, X.csv, --chain and --dag, not for a "
                           "MODEL on a machine",
                           others[i]);
    return SL_OK;
}

static sl_err simulate_model(const struct sl_args *args, const struct sl_graph *graph,
                             struct sl_arena *arena, struct sl_text *text) {
    struct sl_sizing_request request = {.picture = draws(args)};
    struct sl_report_model_sim s;
    struct sl_grid_opts grid;
    SL_TRY(check_model_options(args));
    SL_TRY(sl_cli_plan_request(args, &request.plan));
    SL_TRY(sl_args_int(args, "--group", 1, 1 << 20, &request.group));
    SL_TRY(sl_cli_degrees(args, &request.plan.dp, &request.plan.pp));
    SL_TRY(sl_args_int(args, "--chunks", 1, SL_STAGE_MAX, &request.chunks));
    if (request.plan.tp == SL_JOB_TP_SEARCH)
        return sl_fail(SL_ERR_USAGE, "sim: --tp: give a number; 'sluice plan' finds the best one");
    request.plan.graph = graph;
    SL_TRY(sl_sizing_sim(arena, &request, &s));
    SL_TRY(draw(args, &s.sim));
    if (sl_args_has(args, "--json"))
        sl_report_model_sim_json(&s, text);
    else
        sl_report_model_sim(&s, grid_of(&s.sim, &grid), text);
    return SL_OK;
}

static sl_err run_model(const struct sl_args *args, const char *name, struct sl_arena *arena,
                        struct sl_text *text) {
    struct sl_graph *graph = NULL;
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_cli_model_open(args, name, false, &graph));
    SL_TRY_OUT(sl_graph_autodiff(graph));
    SL_TRY_OUT(simulate_model(args, graph, arena, text));
out:
    sl_graph_close(graph);
    return err;
}

static sl_err run_in(const struct sl_args *args, struct sl_arena *arena, struct sl_text *text) {
    const char *input = args->positional_count ? args->positional[0] : NULL;
    if (!draws(args) && sl_args_has(args, "-o"))
        return sl_fail(SL_ERR_USAGE, "sim: --totals makes no picture, so -o has nothing to write");
    return is_model(args, input) ? run_model(args, input, arena, text)
                                 : run_schedule(args, input, arena, text);
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

const struct sl_command sl_cli_cmd_sim = {
    .name = "sim",
    .synopsis = "(X.plan | X.sched | X.csv | --chain N | --dag EDGES) [--costs C] [-o FILE]...\n"
                "   or: sluice sim MODEL --machine M [--tp T] [--dp D] [--pp P] [--schedule S]",
    .brief = "predict times, bubbles and memory of a schedule",
    .detail =
        "Verifies the schedule, simulates it with the given costs and prints the timeline, times,\n"
        "bubbles and memory of every stage, and the critical path. Times are exact nanoseconds.\n"
        "\n"
        "A MODEL is cut into stages with equal numbers of layers and simulated on a machine, with "
        "the\n"
        "collectives between shards and replicas. Shards are neighbours, then replicas, then "
        "stages.\n"
        "\n"
        "  sluice sim --chain 4 --schedule 1f1b --micro 8 --costs 'F=3,I=2,W=2'\n"
        "  sluice sim x.csv --links 'latency=5us,bandwidth=10Gb/s' -o x.html -o x.trace.json\n"
        "  sluice sim gpt2 --set V=50304 --machine dgx-a100 --dtype bf16 --tp 4 --pp 2 --batch 16",
    .options =
        (const struct sl_option[]){
            SL_SCHED_OPTIONS,
            SL_SIM_OPTIONS,
            {"--totals", NULL,
             "numbers only, in memory that does not grow with "
             "--iters",
             false},
            SL_MODEL_OPTIONS,
            {"--machine", "X", "MODEL: name, file, 'here' or 2x4:mem=16G,... (default here)",
             false},
            SL_DEGREE_OPTIONS,
            {"--cost", "X.cost", "MODEL: measured times of 'sluice profile' (default: roofline)",
             false},
            {"--dtype", "D", "MODEL: type of products: fp32, fp16 or bf16 (default fp32)", false},
            {"--optimizer", "O", "MODEL: optimizer (default adamw)", false},
            {"--recompute", "R", "MODEL: stages that recompute: auto, none or all (default auto)",
             false},
            {"--memory", "M", "MODEL: memory per device, e.g. 8GiB (default: the machine's)",
             false},
            {"-o", "FILE", "write X.html, X.svg, X.trace.json (Perfetto) or X.txt", true},
            {0}},
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
