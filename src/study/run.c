/* Runs a study: decides which cells run, in which order. */
#include "study/run.h"

#include "base/par.h"

#include <string.h>

static bool chosen(const char *only, const char *name) {
    size_t length = strlen(name);
    for (const char *at = only; at && (at = strstr(at, name)); at += length)
        if ((at == only || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return true;
    return !only;
}

/* ---- tuning ---- */

/* Lists the cells of one tuning seed, for the rates that earlier seeds have not ruled out. */
static void list_tuning(struct sl_study_run *run, int64_t seed) {
    const struct sl_study *s = run->pool.study;
    int64_t known = run->tuning.count;
    for (int t = 0; t < s->task_count; t++)
        for (int i = 0; chosen(run->tasks, s->tasks[t].name) && i < s->tasks[t].mode_count; i++)
            for (int r = 0; s->tasks[t].rate_count > 1 && r < s->tasks[t].rate_count; r++) {
                struct sl_study_cell cell = {.task = t,
                                             .mode = s->tasks[t].modes[i],
                                             .seed = seed,
                                             .rate = s->tasks[t].rates[r],
                                             .kind = SL_CELL_TUNE};
                if (!sl_study_dropped(s, run->tuning.at, known, t, cell.mode, cell.rate))
                    SL_PUSH(&run->tuning, cell);
            }
}

/* Tunes one seed after another: rates far behind the best get no further seeds. */
static sl_err tune(struct sl_study_run *run, bool execute) {
    const struct sl_study *s = run->pool.study;
    for (int k = 0; k < s->tune_seed_count && run->tune; k++) {
        int64_t known = run->tuning.count;
        list_tuning(run, s->tune_seeds[k]);
        if (execute && run->tuning.count > known)
            SL_TRY(sl_study_pool_run(&run->pool, run->tuning.at + known, run->tuning.count - known,
                                     "tune"));
    }
    return SL_OK;
}

/* ---- cells ---- */

/* Lists all cells. Seeds are the outermost loop, so that a time limit leaves whole seeds. */
static sl_err list_cells(struct sl_study_run *run) {
    const struct sl_study *s = run->pool.study;
    int64_t seeds = run->seeds ? run->seeds : s->seed_count;
    for (int64_t k = 0; k < seeds; k++)
        for (int t = 0; t < s->task_count; t++)
            for (int i = 0; chosen(run->tasks, s->tasks[t].name) && i < s->tasks[t].mode_count;
                 i++) {
                int mode = s->tasks[t].modes[i];
                if (k >= s->few && !s->modes[mode].more)
                    continue;
                struct sl_study_cell cell = {
                    .task = t,
                    .mode = mode,
                    .seed = s->seeds[k],
                    .rate = sl_study_best_rate(s, run->tuning.at, run->tuning.count, t, mode)};
                SL_PUSH(&run->cells, cell);
            }
    return run->cells.count
               ? SL_OK
               : sl_fail(SL_ERR_USAGE, "`tasks`: the study has none of '%s'", run->tasks);
}

/* Is it one of the seeds that all modes run? */
static bool is_few(const struct sl_study *s, int64_t seed) {
    for (int i = 0; i < s->few; i++)
        if (s->seeds[i] == seed)
            return true;
    return false;
}

/* Runs timed cells one at a time, every worker on its own core. Seeds are the outermost loop, so
 * modes take turns and a drift of the machine's speed affects all of them. */
static sl_err run_timed(struct sl_study_run *run) {
    struct sl_study_pool *p = &run->pool;
    SL_VEC(struct sl_study_cell) timed = {0};
    for (int64_t i = 0; i < run->cells.count && is_few(p->study, run->cells.at[i].seed); i++) {
        struct sl_study_cell cell = run->cells.at[i];
        cell.kind = SL_CELL_TIME;
        /* any rate will do, because it does not change the time */
        cell.rate = p->study->tasks[cell.task].rates[0];
        cell.record = NULL;
        SL_PUSH(&timed, cell);
    }
    int64_t jobs = p->jobs;
    p->jobs = 1;
    sl_err err = sl_study_pool_run(p, timed.at, timed.count, "time");
    p->jobs = jobs;
    for (int64_t i = 0; err == SL_OK && i < timed.count; i++)
        SL_PUSH(&run->cells, timed.at[i]);
    SL_VEC_FREE(&timed);
    return err;
}

static sl_err check_cores(const struct sl_study_run *run) {
    const struct sl_study *s = run->pool.study;
    for (int t = 0; t < s->task_count; t++)
        if (chosen(run->tasks, s->tasks[t].name) && s->tasks[t].stages > sl_par_cores())
            return sl_fail(SL_ERR_USAGE,
                           "`time`: task '%s' has %d workers, and there are %d cores: step times "
                           "cannot be measured on this host",
                           s->tasks[t].name, s->tasks[t].stages, sl_par_cores());
    return SL_OK;
}

/* ---- the whole study ---- */

sl_err sl_study_list(struct sl_study_run *run) {
    SL_TRY(tune(run, false));
    return list_cells(run);
}

sl_err sl_study_execute(struct sl_study_run *run) {
    struct sl_study_pool *p = &run->pool;
    double *times = SL_NEW(p->arena, double, p->study->task_count * p->study->mode_count);
    if (p->how.time_steps && p->limit_ns != 0) /* with a limit of 0 no run starts */
        SL_TRY(check_cores(run));
    SL_TRY(sl_study_step_times(p->study, &p->how, times));
    SL_TRY(tune(run, true));
    SL_TRY(list_cells(run));
    SL_TRY(sl_study_pool_run(p, run->cells.at, run->cells.count, "run"));
    if (p->how.time_steps)
        SL_TRY(run_timed(run));
    run->table = sl_study_table_build(p->arena, p->study, run->cells.at, run->cells.count, times);
    return SL_OK;
}

void sl_study_run_free(struct sl_study_run *run) {
    SL_VEC_FREE(&run->tuning);
    SL_VEC_FREE(&run->cells);
}

sl_err sl_study_write_results(const struct sl_study_run *run, struct sl_text *markdown) {
    const struct sl_study_pool *p = &run->pool;
    struct sl_text page = {0};
    sl_study_put_markdown(run, markdown);
    sl_study_put_page(&run->table, &page);
    sl_err err = sl_file_write(sl_arena_printf(p->arena, "%s/study.md", p->out), markdown->at,
                               markdown->length);
    if (err == SL_OK)
        err =
            sl_file_write(sl_arena_printf(p->arena, "%s/study.html", p->out), page.at, page.length);
    sl_text_free(&page);
    return err;
}

const char *sl_study_default_out(struct sl_arena *arena, const char *file) {
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    const char *dot = strrchr(name, '.');
    return !dot || dot == name ? sl_arena_printf(arena, "%s.out", name)
                               : sl_arena_dup(arena, name, (size_t)(dot - name));
}
