/* A study: many runs, one table. What is trained (tasks), how (modes), with which seeds; the
 * learning rates may be tuned first, for every mode alike, on other seeds.
 *
 *     tasks x modes x rates   tuning seeds, part of the steps -> a rate for each task and mode
 *     tasks x modes x seeds   all steps                       -> rows: losses, differences
 *
 * A *cell* is one of these runs: a line of arguments for 'sluice train'. Differences are from the
 * run of the same task and seed in the mode that is named behind `against`. Text:
 * docs/formats-study.md.
 */
#ifndef SL_REPORT_STUDY_H
#define SL_REPORT_STUDY_H

#include "report/record.h"

enum { SL_STUDY_MAX = 256 /* tasks, modes, seeds, rates */, SL_STUDY_WORDS = 200 };

struct sl_study_let {
    const char *name, *text; /* {name} in options becomes text */
};

struct sl_study_task {
    const char *name, *options; /* MODEL and options */
    int64_t steps, batch, micro, evals;
    int stages;        /* for the simulated time of a step */
    const char *graph; /* edges of the stages; NULL: a chain */
    bool tied;         /* the first and the last stage hold the same weights */
    const double *rates;
    int rate_count;
    const int *modes; /* in the order of the file */
    int mode_count;
};

struct sl_study_mode {
    const char *name, *options;
    const char *against; /* a mode; itself: nothing to compare with */
    int base;            /* its number */
    bool split;          /* a step after every micro-batch: micro times as many, of 1/micro samples,
                            at rate / sqrt(micro) */
    bool more;           /* runs with all seeds, not only with the first `few` */
};

/* "the last loss of `mode` is at most `within` percent above what it is compared with" */
struct sl_study_claim {
    int task, mode;
    double within;
    const char *text; /* who says so */
};

struct sl_study {
    const char *name, *brief;
    const char *options; /* of all cells; "" */
    double target;       /* percent above the last loss of what a mode is compared with */
    double tune_part;    /* of the steps */
    double tune_drop;    /* percent above a mode's best so far: no further seeds; or infinite */
    const int64_t *tune_seeds; /* none: no tuning, the first rate */
    const int64_t *seeds;      /* the first `few` for all modes, the rest for those with `more` */
    const struct sl_study_let *lets;
    const struct sl_study_mode *modes;
    const struct sl_study_task *tasks;
    const struct sl_study_claim *claims;
    const char *const *notes;
    int few, seed_count, tune_seed_count, let_count, mode_count, task_count, claim_count,
        note_count;
};

SL_MUST_CHECK sl_err sl_report_study_read(struct sl_arena *arena, const char *file,
                                          const char *text, size_t length,
                                          const struct sl_study **out);
SL_MUST_CHECK sl_err sl_report_study_check(const struct sl_study *study);
void sl_report_study_write(const struct sl_study *study, struct sl_text *out);

/* ---- cells ---- */

enum sl_study_kind {
    SL_CELL_RUN,
    SL_CELL_TUNE, /* a part of the steps, for the rate */
    SL_CELL_TIME, /* some steps alone on the machine, for the time of one */
};

struct sl_study_cell {
    enum sl_study_kind kind;
    int task, mode;
    int64_t seed;
    double rate; /* of the task; a split mode trains with less */
    /* what came of it; NULL: not run (yet) */
    const struct sl_record *record;
    double cpu_s; /* processor time of the run; 0: not known */
};

/* What a caller may change about a study without editing it. */
struct sl_study_how {
    double part;                    /* factor on all steps */
    int64_t time_steps;             /* of the task, in a cell that is timed */
    const struct sl_study_let *set; /* go before those of the file */
    int set_count;
};

/* Steps of a cell, and the samples of one. */
int64_t sl_report_study_steps(const struct sl_study *study, const struct sl_study_how *how,
                              const struct sl_study_cell *cell);
int64_t sl_report_study_step_samples(const struct sl_study *study,
                                     const struct sl_study_cell *cell);

/* "train", MODEL, options; the words are in the arena. SL_ERR_INPUT where a {name} is unknown. */
SL_MUST_CHECK sl_err sl_report_study_words(struct sl_arena *arena, const struct sl_study *study,
                                           const struct sl_study_how *how,
                                           const struct sl_study_cell *cell,
                                           const char *words[SL_STUDY_WORDS], int *count);
/* A name for its directory that no other cell has: task, mode, seed and a hash of the words. */
const char *sl_report_study_cell_name(struct sl_arena *arena, const struct sl_study *study,
                                      const struct sl_study_cell *cell, const char *const *words,
                                      int count);

/* ---- what came of it ---- */

struct sl_interval {
    double mean, half; /* 95 %: mean +- half; half INFINITY: one value only */
};
struct sl_interval sl_report_interval_of(const double *values, int count);

struct sl_study_row {
    int task, mode, seeds; /* seeds that both this mode and the one it is compared with have */
    double rate;
    double last, best;                       /* mean validation loss */
    struct sl_interval last_diff, best_diff; /* percent, paired by seed */
    double target;                           /* loss */
    double reached;   /* steps (of the task) until then, mean; NAN: not by all seeds */
    double step_time; /* given; 0: not known */
    double sooner;    /* than what it is compared with; NAN: unknown */
    double step_ms;   /* measured, of a step of the task; NAN: was not */
    double sooner_measured;
    const struct sl_study_cell *const *cells; /* [seeds] */
    const struct sl_study_cell *const *bases; /* [seeds] of the mode it is compared with */
};

struct sl_study_table {
    const struct sl_study *study;
    const struct sl_study_row *rows;
    int count;
    bool timed; /* some row has a measured time */
};

/* Rows in the order of tasks and modes; those without a common seed are left out. `step_time` is
 * [task][mode], the time of a step of the task in any unit. */
struct sl_study_table sl_report_study_table_build(struct sl_arena *arena,
                                                  const struct sl_study *study,
                                                  const struct sl_study_cell *cells, int64_t count,
                                                  const double *step_time);

enum sl_study_verdict { SL_CLAIM_UNKNOWN, SL_CLAIM_HOLDS, SL_CLAIM_FAILS, SL_CLAIM_UNDECIDED };
enum sl_study_verdict sl_report_study_judge(const struct sl_study_table *table,
                                            const struct sl_study_claim *claim);
const char *sl_report_study_verdict_text(enum sl_study_verdict verdict);

/* Tuning: seeds one after another. Whether a rate is out of the race: a run of it is missing, or
 * the mean of its last losses is more than `tune_drop` percent above that of the mode's best rate.
 */
bool sl_report_study_dropped(const struct sl_study *study, const struct sl_study_cell *cells,
                             int64_t count, int task, int mode, double rate);
/* The rate with the lowest mean, of those that ran with most seeds (the first where none did), and
 * all of them as a table. */
double sl_report_study_best_rate(const struct sl_study *study, const struct sl_study_cell *cells,
                                 int64_t count, int task, int mode);
void sl_report_study_put_tuning(const struct sl_study *study, const struct sl_study_cell *cells,
                                int64_t count, struct sl_text *out);

/* What the runs took, by task, and on two cores together. */
void sl_report_study_put_cost(const struct sl_study *study, const struct sl_study_cell *cells,
                              int64_t count, struct sl_text *out);

/* The table with notes and claims as Markdown, and as a page with a chart for every task. */
void sl_report_study_put_table(const struct sl_study_table *table, struct sl_text *out);
void sl_report_study_put_page(const struct sl_study_table *table, struct sl_text *out);

#endif
