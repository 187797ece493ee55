/* A study from its file to its results.
 *
 *     sl_study_read -> fill struct sl_study_run -> sl_study_list (cells only) or
 *     sl_study_execute: tune seed by seed -> all cells -> timed cells -> table
 */
#ifndef SL_STUDY_RUN_H
#define SL_STUDY_RUN_H

#include "base/vec.h"
#include "study/pool.h"

struct sl_study_run {
    struct sl_study_pool pool;
    const char *tasks; /* "a,b": run only these; NULL: all */
    int64_t seeds;     /* run only this many seeds; 0: all */
    bool tune;         /* first find the best rate of each mode; false: use the task's first rate */
    /* results: */
    SL_VEC(struct sl_study_cell) tuning, cells;
    struct sl_study_table table;
};

/* Fills `tuning` and `cells` with the cells that would run if no rate were dropped. */
SL_MUST_CHECK sl_err sl_study_list(struct sl_study_run *run);
/* Runs the study and builds its table. Finished cells are reused. */
SL_MUST_CHECK sl_err sl_study_execute(struct sl_study_run *run);
void sl_study_run_free(struct sl_study_run *run);

/* Appends table, tuning, CPU times and missing runs as Markdown; or the rows as JSON. For the page
 * call sl_study_put_page. */
void sl_study_put_markdown(const struct sl_study_run *run, struct sl_text *out);
void sl_study_put_json(const struct sl_study_table *table, struct sl_text *out);

/* Writes OUT/study.md and OUT/study.html; appends the table to `markdown`. */
SL_MUST_CHECK sl_err sl_study_write_results(const struct sl_study_run *run,
                                            struct sl_text *markdown);
/* Returns the directory of a study: the name of its file without directory and ending. */
const char *sl_study_default_out(struct sl_arena *arena, const char *file);

/* Simulates the time of a step of each task in each mode, [task][mode], with equal stages, B = 2F
 * and free messages; 0 if it cannot be simulated. SL_ERR_USAGE or SL_ERR_INPUT if the options of a
 * mode or task are wrong. */
SL_MUST_CHECK sl_err sl_study_step_times(const struct sl_study *study,
                                         const struct sl_study_how *how, double *out);

#endif
