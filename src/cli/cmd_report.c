/* sluice report: draw timelines, or the page of a run directory. */
#include "cli/command.h"
#include "cli/sched_args.h"
#include "cli/terminal.h"
#include "job/run_page.h"
#include "report/compare.h"

#include <sys/stat.h>

static bool is_run(struct sl_arena *arena, const char *path) {
    return sl_file_exists(sl_arena_printf(arena, "%s/log.jsonl", path));
}

static sl_err check_directory(const char *path) {
    struct stat facts;
    if (stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode))
        return SL_OK;
    return sl_fail(SL_ERR_INPUT,
                   "%s is not a run directory: it has no log.jsonl; expected the --out of a "
                   "training run, or a plan, schedule or trace file",
                   path);
}

/* A run or a trace has its schedule; of the other options, only those of the page apply. */
static sl_err refuse_options(const struct sl_args *args, const char *path) {
    static const struct sl_option built[] = {SL_SCHED_OPTIONS, SL_SIM_OPTIONS, {0}};
    for (int i = 0; built[i].name; i++)
        if (sl_args_has(args, built[i].name))
            return sl_fail(SL_ERR_USAGE, "report: %s was measured; leave out %s", path,
                           built[i].name);
    return SL_OK;
}

/* The measured timeline of a run, to compare it. */
static sl_err add_run(const struct sl_args *args, const char *run, struct sl_arena *arena,
                      struct sl_picture *out) {
    const char *path = sl_arena_printf(arena, "%s/timeline.trace.json", run);
    SL_TRY(refuse_options(args, run));
    if (!sl_file_exists(path))
        return sl_fail(SL_ERR_INPUT,
                       "%s has no timeline to compare: train it with --trace; 'sluice compare' "
                       "compares the numbers of two runs",
                       run);
    return sl_report_trace_file(arena, path, out);
}

static sl_err add(const struct sl_args *args, const char *path, const char *schedule,
                  struct sl_arena *arena, struct sl_picture *out) {
    struct sl_job_sim_request request;
    struct sl_report_sim s;
    bool run = path && is_run(arena, path), trace = path && sl_cli_ends(path, ".json");
    if (schedule && (run || trace))
        return sl_fail(SL_ERR_USAGE,
                       "report: %s was measured, and --against %s needs a plan or a schedule; give "
                       "a second run or trace",
                       path, schedule);
    if (run)
        return add_run(args, path, arena, out);
    if (path)
        SL_TRY(check_directory(path));
    if (trace) {
        SL_TRY(refuse_options(args, path));
        return sl_report_trace_file(arena, path, out);
    }
    SL_TRY(sl_cli_sim_request(args, path, &request));
    request.picture = true;
    if (schedule) {
        request.sched.schedule = schedule;
        request.sched.module = NULL;
    }
    SL_TRY(sl_job_sim(arena, &request, &s));
    *out = s.picture;
    return SL_OK;
}

static sl_err draw_run(const struct sl_args *args, const char *path) {
    struct sl_text text = {0};
    const char *to;
    sl_err err = SL_OK;
    SL_TRY(refuse_options(args, path));
    for (int i = 0; (to = sl_args_nth(args, "-o", i)); i++)
        if (!sl_cli_ends(to, ".html"))
            return sl_fail(SL_ERR_USAGE, "%s: the report of a run is a page, X.html", to);
    SL_TRY_OUT(sl_job_run_page(path, sl_args_has(args, "--ops"), &text));
    for (int i = 0; (to = sl_args_nth(args, "-o", i)); i++)
        SL_TRY_OUT(sl_file_write(to, text.at, text.length));
out:
    sl_text_free(&text);
    return err;
}

static sl_err run_in(const struct sl_args *args, struct sl_arena *arena) {
    struct sl_picture pictures[SL_REPORT_MAX];
    const char *against = sl_args_text(args, "--against", NULL), *to;
    int count = 0, files = args->positional_count;
    if (!sl_args_has(args, "-o"))
        return sl_fail(SL_ERR_USAGE,
                       "report: -o is missing; give -o X.html (or .svg, .trace.json, .txt)");
    if (against && files > 1)
        return sl_fail(SL_ERR_USAGE, "report: --against or a second file, not both");
    if (files == 1 && !against && is_run(arena, args->positional[0]))
        return draw_run(args, args->positional[0]);
    for (int i = 0; i < (files ? files : 1); i++)
        SL_TRY(add(args, files ? args->positional[i] : NULL, NULL, arena, &pictures[count++]));
    if (against)
        SL_TRY(add(args, files ? args->positional[0] : NULL, against, arena, &pictures[count++]));
    const char *names[] = {files ? args->positional[0] : NULL, against};
    if (files > 1)
        sl_report_name_files(arena, pictures, (const char *const *)args->positional, count);
    else if (files && against)
        sl_report_name_files(arena, pictures, names, count);
    if (count > 1)
        sl_report_align_steps(arena, pictures);
    for (int i = 0; (to = sl_args_nth(args, "-o", i)); i++)
        SL_TRY(sl_report_draw(to, pictures, count));
    return SL_OK;
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    sl_err err = run_in(args, &arena);
    if (err == SL_OK && sl_args_has(args, "--json"))
        err = sl_cli_print_written(args, "-o");
    sl_arena_free(&arena);
    return err;
}

const struct sl_command sl_cli_cmd_report = {
    .name = "report",
    .synopsis = "(RUN | X.plan | X.sched | X.csv | X.trace.json | --chain N) [Y] -o X.html",
    .brief = "draw the curves of a run, or timelines: HTML page, SVG, Perfetto",
    .detail =
        "X.plan, X.sched, X.csv: verifies and simulates the schedule, draws its timeline.\n"
        "X.trace.json: draws the timeline. Two of them: compares them on one page, with one time\n"
        "scale and as many steps of each. So are two runs with --trace.\n"
        "RUN: draws losses, staleness (after --log-staleness), stages, memory; after --trace also\n"
        "the measured and the predicted timeline, and where the time of a step goes.\n"
        "Pages are self-contained.\n"
        "\n"
        "  sluice report --chain 4 --schedule 1f1b --micro 8 --against zb-h1 -o x.html\n"
        "  sluice report predicted.trace.json measured.trace.json -o x.html\n"
        "  sluice report run --ops -o run.html",
    .options =
        (const struct sl_option[]){
            SL_SCHED_OPTIONS,
            SL_SIM_OPTIONS,
            {"--against", "S", "second schedule of the same plan, to compare", false},
            {"--ops", NULL, "of a run: also measure its kernels on this host", false},
            {"-o", "FILE", "X.html, X.svg, X.trace.json or X.txt", true},
            {0}},
    .min_args = 0,
    .max_args = SL_REPORT_MAX,
    .run = run,
};
