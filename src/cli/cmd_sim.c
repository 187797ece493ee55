/* sluice sim: play a schedule on costs; times, bubbles, memory, critical path. */
#include "cli/command.h"
#include "cli/sched_args.h"
#include "cli/terminal.h"

enum { GRID_LANES = 64, GRID_ACTIONS = 100000 };

static void put_text(const struct sl_report_sim *s, struct sl_text *out) {
    const struct sl_grid_opts grid = {.columns = sl_cli_columns(),
                                      .max_lanes = GRID_LANES,
                                      .colour = sl_cli_colour(),
                                      .critical = true};
    bool drawn = s->has_picture && s->sim->actions <= GRID_ACTIONS;
    sl_report_sim(s, drawn ? &grid : NULL, out);
}

static sl_err run_in(const struct sl_args *args, struct sl_arena *arena, struct sl_text *text) {
    const char *input = args->positional_count ? args->positional[0] : NULL, *output;
    struct sl_job_sim_request request;
    struct sl_report_sim s;
    SL_TRY(sl_cli_sim_request(args, input, &request));
    request.picture = !sl_args_has(args, "--totals");
    if (!request.picture && sl_args_has(args, "-o"))
        return sl_fail(SL_ERR_USAGE, "sim: --totals makes no picture, so -o has nothing to write");
    SL_TRY(sl_job_sim(arena, &request, &s));
    for (int i = 0; (output = sl_args_nth(args, "-o", i)); i++)
        SL_TRY(sl_report_draw(output, &s.picture, 1));
    if (sl_args_has(args, "--json"))
        sl_report_sim_json(&s, text);
    else
        put_text(&s, text);
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

const struct sl_command sl_cli_cmd_sim = {
    .name = "sim",
    .synopsis = "(X.plan | X.sched | X.csv | --chain N | --dag EDGES) [--costs C] [-o FILE]...",
    .brief = "predict times, bubbles and memory of a schedule",
    .detail =
        "Verifies the schedule, simulates it with the given costs and prints the timeline, times,\n"
        "bubbles and memory of every stage, and the critical path. Times are exact nanoseconds.\n"
        "\n"
        "  sluice sim --chain 4 --schedule 1f1b --micro 8 --costs 'F=3,I=2,W=2'\n"
        "  sluice sim x.csv --links 'latency=5us,bandwidth=10Gb/s' -o x.html -o x.trace.json",
    .options =
        (const struct sl_option[]){
            SL_SCHED_OPTIONS,
            SL_SIM_OPTIONS,
            {"--totals", NULL,
             "numbers only, in memory that does not grow with "
             "--iters",
             false},
            {"-o", "FILE", "write X.html, X.svg, X.trace.json (Perfetto) or X.txt", true},
            {0}},
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
