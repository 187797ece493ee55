/* sluice study: many runs to one table and one page of curves. */
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/par.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/study_run.h"
#include "sched/schedule.h"
#include "sim/sim.h"

#include <string.h>

static sl_err read_study(const char *path, struct sl_arena *arena, const struct sl_study **out) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, 1 << 24, &text, &length));
    sl_err err = sl_report_study_read(arena, path, text, length, out);
    free(text);
    return err;
}

/* ---- time of a step, simulated ---- */

static const char *value_of(const char *const *words, int count, const char *option,
                            const char *fallback) {
    for (int i = 0; i + 1 < count; i++)
        if (strcmp(words[i], option) == 0)
            return words[i + 1];
    return fallback;
}

/* A tie, without which holders of the same weights would not wait for each other. */
static sl_err tie_ends(struct sl_arena *arena, const struct sl_plan **plan) {
    const int last = (*plan)->stage_count - 1;
    const struct sl_tie tie = {"embedding", (const int[]){0, last}, 2, 0};
    struct sl_plan draft = **plan;
    if (last == 0)
        return SL_OK;
    draft.ties = &tie;
    draft.tie_count = 1;
    return sl_plan_build(arena, &draft, plan);
}

/* Equal stages, B = 2F, free messages: 1000 ns for a micro-batch's forward. */
static sl_err simulate(struct sl_arena *arena, const struct sl_study_task *task,
                       const char *const *words, int count, int64_t *step_ns) {
    const char *name = value_of(words, count, "--schedule", "1f1b");
    const struct sl_schedule *row = sl_sched_row_find(name);
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    struct sl_policy_use policy;
    struct sl_sched_opts opts = {.schedule = name, .iters = 40};
    int chunks = row && row->layout_chunks ? 2 : 1;
    SL_TRY(sl_optim_policy_parse(value_of(words, count, "--policy", "none"), &policy));
    opts.policy = policy.row ? &policy : NULL;
    SL_TRY(sl_parse_int(value_of(words, count, "--micro", "1"), "--micro", &opts.micros));
    if (task->graph)
        SL_TRY(sl_plan_dag(arena, task->graph, 0, &plan));
    else
        SL_TRY(sl_plan_chain(arena, task->stages, task->stages / chunks,
                             row ? row->layout : SL_LAYOUT_LOOP, &plan));
    if (task->tied)
        SL_TRY(tie_ends(arena, &plan));
    int64_t(*dur)[SL_KIND_COUNT] = sl_arena_alloc(arena, (int64_t)sizeof *dur * plan->stage_count);
    SL_TRY(sl_sim_costs(plan, "F=1000,B=2000", dur));
    opts.dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    opts.global_step = row && strcmp(value_of(words, count, "--verdict", "all"), "all") == 0 &&
                       row->rule != SL_RULE_SYNC;
    SL_TRY(sl_sched_build(arena, plan, &opts, &sched));
    SL_TRY(sl_sim_run(arena, sched, &(struct sl_sim_opts){0}, &sim));
    *step_ns = sim->step_ns;
    return SL_OK;
}

/* [task][mode]; 0 where the simulator cannot play it. */
static sl_err step_times(struct sl_study_pool *p, double *out) {
    const struct sl_study *s = p->study;
    for (int t = 0; t < s->task_count; t++)
        for (int i = 0; i < s->tasks[t].mode_count; i++) {
            struct sl_study_cell cell = {
                .task = t, .mode = s->tasks[t].modes[i], .rate = s->tasks[t].rates[0]};
            const char *words[SL_STUDY_WORDS];
            struct sl_arena arena = {0};
            int64_t step_ns;
            int count;
            sl_err err = sl_report_study_words(&arena, s, &p->how, &cell, words, &count);
            if (err == SL_OK && simulate(&arena, &s->tasks[t], words, count, &step_ns) == SL_OK)
                out[t * s->mode_count + cell.mode] =
                    (double)step_ns * (s->modes[cell.mode].split ? (double)s->tasks[t].micro : 1);
            sl_arena_free(&arena);
            SL_TRY(err);
        }
    return SL_OK;
}

/* ---- cells ---- */

struct matrix {
    SL_VEC(struct sl_study_cell) tune, cells;
};

static bool chosen(const char *only, const char *name) {
    size_t length = strlen(name);
    for (const char *at = only; at && (at = strstr(at, name)); at += length)
        if ((at == only || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return true;
    return !only;
}

/* Of one seed, and of the rates that what is known of the seeds before has left. */
static void list_tuning(const struct sl_args *args, const struct sl_study *s, int64_t seed,
                        struct matrix *m) {
    const char *only = sl_args_text(args, "--tasks", NULL);
    int64_t known = m->tune.count;
    for (int t = 0; t < s->task_count; t++)
        for (int i = 0; chosen(only, s->tasks[t].name) && i < s->tasks[t].mode_count; i++)
            for (int r = 0; s->tasks[t].rate_count > 1 && r < s->tasks[t].rate_count; r++) {
                struct sl_study_cell cell = {.task = t,
                                             .mode = s->tasks[t].modes[i],
                                             .seed = seed,
                                             .rate = s->tasks[t].rates[r],
                                             .kind = SL_CELL_TUNE};
                if (!sl_report_study_dropped(s, m->tune.at, known, t, cell.mode, cell.rate))
                    SL_PUSH(&m->tune, cell);
            }
}

/* Seeds one after another: a rate that is far behind needs no further ones. */
static sl_err tune(const struct sl_args *args, struct sl_study_pool *p, struct matrix *m) {
    bool dry = sl_args_has(args, "--dry-run");
    for (int k = 0; k < p->study->tune_seed_count && !sl_args_has(args, "--no-tune"); k++) {
        int64_t known = m->tune.count;
        list_tuning(args, p->study, p->study->tune_seeds[k], m);
        if (!dry && m->tune.count > known)
            SL_TRY(sl_cli_study_pool_run(p, m->tune.at + known, m->tune.count - known, "tune"));
    }
    return SL_OK;
}

/* Seeds outermost, so that a limit leaves whole seeds. */
static sl_err list_cells(const struct sl_args *args, const struct sl_study *s, struct matrix *m) {
    const char *only = sl_args_text(args, "--tasks", NULL);
    int64_t seeds = s->seed_count;
    SL_TRY(sl_args_int(args, "--seeds", 1, s->seed_count, &seeds));
    for (int64_t k = 0; k < seeds; k++)
        for (int t = 0; t < s->task_count; t++)
            for (int i = 0; chosen(only, s->tasks[t].name) && i < s->tasks[t].mode_count; i++) {
                int mode = s->tasks[t].modes[i];
                if (k >= s->few && !s->modes[mode].more)
                    continue;
                struct sl_study_cell cell = {
                    .task = t,
                    .mode = mode,
                    .seed = s->seeds[k],
                    .rate = sl_report_study_best_rate(s, m->tune.at, m->tune.count, t, mode)};
                SL_PUSH(&m->cells, cell);
            }
    return m->cells.count ? SL_OK
                          : sl_fail(SL_ERR_USAGE, "--tasks %s: none of them is in the study", only);
}

/* Is it one of the seeds that all modes have? */
static bool is_few(const struct sl_study *s, int64_t seed) {
    for (int i = 0; i < s->few; i++)
        if (s->seeds[i] == seed)
            return true;
    return false;
}

/* Alone on the machine, every worker on a core of its own: the time of a step. Seeds are outermost
 * here, too: modes take turns, so that a machine that becomes slower does not judge them. */
static sl_err run_timed(struct sl_study_pool *p, struct matrix *m) {
    SL_VEC(struct sl_study_cell) timed = {0};
    for (int64_t i = 0; i < m->cells.count && is_few(p->study, m->cells.at[i].seed); i++) {
        struct sl_study_cell cell = m->cells.at[i];
        cell.kind = SL_CELL_TIME;
        cell.rate = p->study->tasks[cell.task].rates[0]; /* no step takes longer for it */
        cell.record = NULL;
        SL_PUSH(&timed, cell);
    }
    int64_t jobs = p->jobs;
    p->jobs = 1;
    sl_err err = sl_cli_study_pool_run(p, timed.at, timed.count, "time");
    p->jobs = jobs;
    for (int64_t i = 0; err == SL_OK && i < timed.count; i++)
        SL_PUSH(&m->cells, timed.at[i]);
    SL_VEC_FREE(&timed);
    return err;
}

static sl_err check_cores(const struct sl_args *args, const struct sl_study *s) {
    const char *only = sl_args_text(args, "--tasks", NULL);
    for (int t = 0; t < s->task_count; t++)
        if (chosen(only, s->tasks[t].name) && s->tasks[t].stages > sl_par_cores())
            return sl_fail(SL_ERR_USAGE,
                           "--time: task '%s' has %d workers, and there are %d cores: no time of a "
                           "step can be measured here",
                           s->tasks[t].name, s->tasks[t].stages, sl_par_cores());
    return SL_OK;
}

/* ---- what is said ---- */

static void put_json(const struct sl_study_table *table, struct sl_text *out) {
    const struct sl_study *s = table->study;
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '[');
    for (int i = 0; i < table->count; i++) {
        const struct sl_study_row *r = &table->rows[i];
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "task", s->tasks[r->task].name);
        sl_json_put_string(&json, "mode", s->modes[r->mode].name);
        sl_json_put_string(&json, "against", s->modes[r->mode].against);
        sl_json_put_double(&json, "rate", r->rate);
        sl_json_put_int(&json, "seeds", r->seeds);
        sl_json_put_double(&json, "last", r->last);
        sl_json_put_double(&json, "last_percent", r->last_diff.mean);
        sl_json_put_double(&json, "last_interval", r->last_diff.half);
        sl_json_put_double(&json, "best", r->best);
        sl_json_put_double(&json, "best_percent", r->best_diff.mean);
        sl_json_put_double(&json, "best_interval", r->best_diff.half);
        sl_json_put_double(&json, "target", r->target);
        sl_json_put_double(&json, "steps_to_target", r->reached);
        sl_json_put_double(&json, "sooner_simulated", r->sooner);
        sl_json_put_double(&json, "step_ms", r->step_ms);
        sl_json_put_double(&json, "sooner_measured", r->sooner_measured);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_text_put(out, "\n");
}

static void put_cost(const struct sl_study *s, const struct matrix *m, struct sl_text *out) {
    SL_VEC(struct sl_study_cell) all = {0};
    for (int64_t i = 0; i < m->tune.count; i++)
        SL_PUSH(&all, m->tune.at[i]);
    for (int64_t i = 0; i < m->cells.count; i++)
        SL_PUSH(&all, m->cells.at[i]);
    sl_report_study_put_cost(s, all.at, all.count, out);
    SL_VEC_FREE(&all);
}

static sl_err put_all(const struct sl_args *args, const struct sl_study_pool *p,
                      const struct matrix *m, const double *times) {
    struct sl_text markdown = {0}, page = {0}, json = {0};
    sl_err err = SL_OK;
    struct sl_study_table table =
        sl_report_study_table_build(p->arena, p->study, m->cells.at, m->cells.count, times);
    sl_report_study_put_table(&table, &markdown);
    sl_report_study_put_tuning(p->study, m->tune.at, m->tune.count, &markdown);
    put_cost(p->study, m, &markdown);
    if (p->left)
        sl_text_printf(&markdown, "\n%lld runs of this study have not been made yet.\n",
                       (long long)p->left);
    sl_report_study_put_page(&table, &page);
    put_json(&table, &json);
    const char *html = sl_arena_printf(p->arena, "%s/study.html", p->out);
    const char *text = sl_arena_printf(p->arena, "%s/study.md", p->out);
    SL_TRY_OUT(sl_file_write(text, markdown.at, markdown.length));
    SL_TRY_OUT(sl_file_write(html, page.at, page.length));
    SL_TRY_OUT(sl_cli_print(sl_args_has(args, "--json") ? &json : &markdown));
    sl_log_note("table: %s, curves: %s", text, html);
    if (p->left)
        sl_log_note("the time limit left %lld runs out: the same command goes on",
                    (long long)p->left);
out:
    sl_text_free(&markdown);
    sl_text_free(&page);
    sl_text_free(&json);
    return err;
}

/* ---- the command ---- */

static sl_err take_sets(const struct sl_args *args, struct sl_arena *arena,
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

/* X.study without its ending, in the working directory. */
static const char *default_out(struct sl_arena *arena, const char *file) {
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    const char *dot = strrchr(name, '.');
    bool plain = !dot || dot == name;
    return plain ? sl_arena_printf(arena, "%s.out", name)
                 : sl_arena_dup(arena, name, (size_t)(dot - name));
}

/* Commands, one a line; as JSON a list of lists of words. */
static sl_err dry_run(struct sl_study_pool *p, const struct matrix *m, bool as_json) {
    struct sl_text text = {0}, listed = {0};
    struct sl_json_out json = {.text = &listed, .indent = 2};
    sl_err err = SL_OK;
    sl_json_open(&json, '[');
    for (int64_t i = 0; err == SL_OK && i < m->tune.count + m->cells.count; i++) {
        const char *words[SL_STUDY_WORDS];
        int count;
        err = sl_report_study_words(
            p->arena, p->study, &p->how,
            i < m->tune.count ? &m->tune.at[i] : &m->cells.at[i - m->tune.count], words, &count);
        sl_text_put(&text, "sluice");
        sl_json_open(&json, '[');
        for (int w = 0; err == SL_OK && w < count; w++) {
            sl_text_printf(&text, " %s", words[w]);
            sl_json_string(&json, words[w]);
        }
        sl_json_close(&json, ']');
        sl_text_put(&text, "\n");
    }
    sl_json_close(&json, ']');
    sl_text_put(&listed, "\n");
    if (err == SL_OK)
        err = sl_cli_print(as_json ? &listed : &text);
    sl_text_free(&text);
    sl_text_free(&listed);
    return err;
}

static sl_err run_in(const struct sl_args *args, struct sl_arena *arena, struct matrix *m) {
    struct sl_study_pool p = {.arena = arena,
                              .how = {.part = 1},
                              .out = sl_args_text(args, "--out", NULL),
                              .jobs = sl_par_cores(),
                              .keep_weights = sl_args_has(args, "--keep-weights"),
                              .start_ns = sl_clock_ns()};
    int64_t limit_s = -1;
    SL_TRY(read_study(args->positional[0], arena, &p.study));
    p.out = p.out ? p.out : default_out(arena, args->positional[0]);
    SL_TRY(sl_args_int(args, "--jobs", 1, 1024, &p.jobs));
    SL_TRY(sl_args_int(args, "--limit", 0, 1 << 30, &limit_s));
    SL_TRY(sl_args_double(args, "--part", 1e-9, 1000, &p.how.part));
    SL_TRY(sl_args_int(args, "--time", 1, 1 << 30, &p.how.time_steps));
    SL_TRY(take_sets(args, arena, &p.how));
    if (p.how.time_steps && limit_s != 0) /* 0: nothing is run */
        SL_TRY(check_cores(args, p.study));
    p.limit_ns = limit_s < 0 ? -1 : limit_s * 1000000000;
    double *times = SL_NEW(arena, double, p.study->task_count *p.study->mode_count);
    SL_TRY(step_times(&p, times)); /* also finds what is wrong with the options of a cell */
    SL_TRY(tune(args, &p, m));
    if (sl_args_has(args, "--dry-run")) {
        SL_TRY(list_cells(args, p.study, m));
        return dry_run(&p, m, sl_args_has(args, "--json"));
    }
    SL_TRY(list_cells(args, p.study, m));
    SL_TRY(sl_cli_study_pool_run(&p, m->cells.at, m->cells.count, "run"));
    if (p.how.time_steps)
        SL_TRY(run_timed(&p, m));
    return put_all(args, &p, m, times);
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct matrix matrix = {0};
    sl_err err = run_in(args, &arena, &matrix);
    SL_VEC_FREE(&matrix.tune);
    SL_VEC_FREE(&matrix.cells);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {
    {"--out", "DIR", "runs, table and page (default: the file's name)", false},
    {"--jobs", "J", "runs at a time (default: one per core)", false},
    {"--seeds", "N", "only the first N seeds", false},
    {"--tasks", "T,U", "only these tasks", false},
    {"--part", "X", "factor on all steps, to try a study out", false},
    {"--no-tune", NULL, "the first rate of a task instead of the best of the tuning seed", false},
    {"--time", "N", "then N steps of each run alone on the machine: measured times", false},
    {"--limit", "S", "start no run after S seconds; 0: a table of what is there", false},
    {"--set", "K=TEXT", "what {K} stands for, before the study's own let", true},
    {"--keep-weights", NULL, "keep the checkpoints of the runs", false},
    {"--dry-run", NULL, "print the runs as commands", false},
    {0},
};

const struct sl_command sl_cli_cmd_study = {
    .name = "study",
    .synopsis = "FILE [--out DIR] [--jobs J] [--seeds N] [--part X] [--dry-run]",
    .brief = "many runs (tasks x modes x seeds) to one table and one page of curves",
    .detail =
        "Runs that are finished are kept: a study that was stopped goes on where it was. With\n"
        "several rates in a task each mode gets its best one, tuned on another seed.\n"
        "Differences are paired by seed, with a 95 % interval. Formats: docs/formats-study.md.\n\n"
        "  sluice study bench/converge.study --set data=../shared/data --dry-run",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
