/* sluice study: many runs to one table and one page of curves. */
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/par.h"
#include "cli/command.h"
#include "study/run.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stop;

static void on_stop(int signal) { stop = signal; }

/* Returns the command sluice train WORDS --out DIR ... */
static const char *const *command_of(struct sl_arena *arena, const char *const *words, int count,
                                     const char *dir) {
    const char *more[] = {"--out", dir, "--keep", "1", "--resume", "--quiet"};
    const char **argv = SL_NEW(arena, const char *, count + SL_COUNT(more) + 2);
    argv[0] = "sluice";
    memcpy(argv + 1, words, sizeof *words * (size_t)count);
    memcpy(argv + 1 + count, more, sizeof more);
    return argv;
}

static sl_err parse_sets(const struct sl_args *args, struct sl_arena *arena,
                         struct sl_study_how *how) {
    struct sl_study_let *lets = SL_NEW(arena, struct sl_study_let, SL_ARGS_MAX);
    const char *text;
    for (int i = 0; (text = sl_args_nth(args, "--set", i)); i++) {
        const char *equals = strchr(text, '=');
        if (!equals)
            return sl_fail(SL_ERR_USAGE, "--set: '%s' is not NAME=TEXT", text);
        lets[how->set_count].name = sl_arena_dup(arena, text, (size_t)(equals - text));
        lets[how->set_count++].text = equals + 1;
    }
    how->set = lets;
    return SL_OK;
}

static sl_err parse(const struct sl_args *args, struct sl_arena *arena, struct sl_study_run *out) {
    struct sl_study_pool *p = &out->pool;
    int64_t limit_s = -1;
    *out = (struct sl_study_run){.tasks = sl_args_text(args, "--tasks", NULL),
                                 .tune = !sl_args_has(args, "--no-tune")};
    *p = (struct sl_study_pool){.arena = arena,
                                .how = {.part = 1},
                                .out = sl_args_text(args, "--out", NULL),
                                .jobs = sl_par_cores(),
                                .keep_weights = sl_args_has(args, "--keep-weights"),
                                .program = "/proc/self/exe",
                                .command = command_of,
                                .stop = &stop,
                                .start_ns = sl_clock_ns()};
    SL_TRY(sl_study_read_file(arena, args->positional[0], &p->study));
    p->out = p->out ? p->out : sl_study_default_out(arena, args->positional[0]);
    SL_TRY(sl_args_int(args, "--seeds", 1, p->study->seed_count, &out->seeds));
    SL_TRY(sl_args_int(args, "--jobs", 1, 1024, &p->jobs));
    SL_TRY(sl_args_int(args, "--limit", 0, 1 << 30, &limit_s));
    p->limit_ns = limit_s < 0 ? -1 : limit_s * 1000000000;
    SL_TRY(sl_args_double(args, "--part", 1e-9, 1000, &p->how.part));
    SL_TRY(sl_args_int(args, "--time", 1, 1 << 30, &p->how.time_steps));
    return parse_sets(args, arena, &p->how);
}

static sl_err put_command(const struct sl_study_run *run, const struct sl_study_cell *cell,
                          struct sl_text *text, struct sl_json_out *json) {
    const struct sl_study_pool *p = &run->pool;
    const char *words[SL_STUDY_WORDS];
    int count;
    SL_TRY(sl_study_words(p->arena, p->study, &p->how, cell, words, &count));
    sl_text_put(text, "sluice");
    sl_json_open(json, '[');
    for (int w = 0; w < count; w++) {
        sl_text_printf(text, " %s", words[w]);
        sl_json_string(json, words[w]);
    }
    sl_json_close(json, ']');
    sl_text_put(text, "\n");
    return SL_OK;
}

/* Prints the commands, one per line; or as JSON, a list of lists of words. */
static sl_err dry_run(struct sl_study_run *run, bool as_json) {
    struct sl_text text = {0}, listed = {0};
    struct sl_json_out json = {.text = &listed, .indent = 2};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_study_list(run));
    sl_json_open(&json, '[');
    for (int64_t i = 0; i < run->tuning.count; i++)
        SL_TRY_OUT(put_command(run, &run->tuning.at[i], &text, &json));
    for (int64_t i = 0; i < run->cells.count; i++)
        SL_TRY_OUT(put_command(run, &run->cells.at[i], &text, &json));
    sl_json_close(&json, ']');
    sl_text_put(&listed, "\n");
    SL_TRY_OUT(sl_cli_print(as_json ? &listed : &text));
out:
    sl_text_free(&text);
    sl_text_free(&listed);
    return err;
}

/* Prints the table, after writing it with the page of curves. */
static sl_err put_results(const struct sl_study_run *run, bool as_json) {
    const struct sl_study_pool *p = &run->pool;
    struct sl_text markdown = {0}, json = {0};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_study_write_results(run, &markdown));
    sl_study_put_json(&run->table, &json);
    SL_TRY_OUT(sl_cli_print(as_json ? &json : &markdown));
    sl_log_note("table: %s/study.md, curves: %s/study.html", p->out, p->out);
    if (p->left)
        sl_log_note("the time limit left %lld runs out: the same command continues",
                    (long long)p->left);
out:
    sl_text_free(&markdown);
    sl_text_free(&json);
    return err;
}

static sl_err execute(struct sl_study_run *run, bool as_json) {
    struct sigaction action = {.sa_handler = on_stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    SL_TRY(sl_study_execute(run));
    return put_results(run, as_json);
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_study_run study;
    bool as_json = sl_args_has(args, "--json");
    sl_err err = parse(args, &arena, &study);
    if (err == SL_OK)
        err = sl_args_has(args, "--dry-run") ? dry_run(&study, as_json) : execute(&study, as_json);
    sl_study_run_free(&study);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {
    {"--out", "DIR", "directory of runs, table and page (default: the file's name)", false},
    {"--jobs", "J", "runs at a time (default: one per core)", false},
    {"--seeds", "N", "only the first N seeds", false},
    {"--tasks", "T,U", "only these tasks", false},
    {"--part", "X", "factor on all steps, to try a study", false},
    {"--no-tune", NULL, "use the first rate of a task instead of the tuned one", false},
    {"--time", "N", "also measure step times: N steps of each run, one run at a time", false},
    {"--limit", "S", "start no run after S seconds; 0: only print the table", false},
    {"--set", "K=TEXT", "text for {K}; overrides the study's let", true},
    {"--keep-weights", NULL, "keep the checkpoints of the runs", false},
    {"--dry-run", NULL, "print the runs as commands", false},
    {0},
};

const struct sl_command sl_cli_cmd_study = {
    .name = "study",
    .synopsis = "FILE [--out DIR] [--jobs J] [--seeds N] [--part X] [--dry-run]",
    .brief = "train tasks x modes x seeds; write one table and one page of curves",
    .detail = "Runs tasks x modes x seeds and writes one table. The same command continues a "
              "stopped study;\n"
              "finished runs are reused. If a task has several learning rates, each mode is tuned "
              "on other\n"
              "seeds first. Differences between modes are paired by seed and have 95 % intervals. "
              "Format:\n"
              "docs/formats-study.md.\n"
              "\n"
              "  sluice study bench/converge.study --set data=../shared/data --dry-run",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
