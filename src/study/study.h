/* A study makes one table from many runs: tasks (what to train) x modes (how) x seeds. Learning
 * rates may first be tuned on other seeds, for every mode in the same way.
 *
 *     tasks x modes x rates   tuning seeds, part of the steps -> a rate for each task and mode
 *     tasks x modes x seeds   all steps                       -> rows: losses, differences
 *
 * A cell is one of these runs: a job, written as options of 'sluice train'. Differences are relative
 * to the run of the same task and seed in the mode named by `against`. Format:
 * docs/formats-study.md. */
#ifndef SL_STUDY_STUDY_H
#define SL_STUDY_STUDY_H

#include "job/job.h"
#include "report/record.h"

enum { SL_STUDY_MAX = 256 /* tasks, modes, seeds, rates */, SL_STUDY_WORDS = 200 };

struct sl_study_let {
    const char *name, *text; /* {name} in options is replaced by text */
};

struct sl_study_task {
    const char *name, *options; /* options: MODEL and options of 'sluice train' */
    int64_t steps, batch, micro, evals;
    int stages;        /* number of stages, for the simulated time of a step */
    const char *graph; /* edges of the stages; NULL: a chain */
    bool tied;         /* the first and the last stage hold the same weights */
    const double *rates;
    int rate_count;
    const int *modes; /* in the order of the file */
    int mode_count;
};

struct sl_study_mode {
    const char *name, *options;
    const char *against; /* name of the mode to compare with; its own name: no comparison */
    int base;            /* index of `against` */
    /* makes an optimizer step after every micro-batch: `micro` times as many steps, of 1/micro
     * samples, at rate / sqrt(micro) */
    bool split;
    bool more; /* runs with all seeds; other modes run with the first `few` */
};

/* Claim: the last loss of `mode` is at most `within` percent above that of its `against`. */
struct sl_study_claim {
    int task, mode;
    double within;
    const char *text; /* source of the claim */
};

struct sl_study {
    const char *name, *brief;
    const char *options; /* options of all cells; "": none */
    double target;       /* target loss, in percent above the last loss of `against` */
    double tune_part;    /* fraction of the steps that tuning runs make */
    double tune_drop;    /* a rate that is this many percent above the mode's best gets no further
                    * seeds; INFINITY: all rates do */
    const int64_t *tune_seeds; /* empty: no tuning; use the first rate */
    const int64_t *seeds;      /* all modes run the first `few`; those with `more` run all */
    const struct sl_study_let *lets;
    const struct sl_study_mode *modes;
    const struct sl_study_task *tasks;
    const struct sl_study_claim *claims;
    const char *const *notes;
    int few, seed_count, tune_seed_count, let_count, mode_count, task_count, claim_count,
        note_count;
};

SL_MUST_CHECK sl_err sl_study_read(struct sl_arena *arena, const char *file, const char *text,
                                   size_t length, const struct sl_study **out);
/* text.c. Reads a study from a file. */
SL_MUST_CHECK sl_err sl_study_read_file(struct sl_arena *arena, const char *path,
                                        const struct sl_study **out);
SL_MUST_CHECK sl_err sl_study_check(const struct sl_study *study);
void sl_study_write(const struct sl_study *study, struct sl_text *out);

/* ---- cells ---- */

enum sl_study_kind {
    SL_CELL_RUN,
    SL_CELL_TUNE, /* makes a part of the steps, to choose the rate */
    SL_CELL_TIME, /* makes some steps, alone on the machine, to time a step */
};

struct sl_study_cell {
    enum sl_study_kind kind;
    int task, mode;
    int64_t seed;
    double rate; /* rate of the task; a split mode trains with rate / sqrt(micro) */
    /* log of the run; NULL: the run is not finished */
    const struct sl_record *record;
    double cpu_s; /* CPU time of the run; 0: unknown */
};

/* Changes to a study without editing its file. */
struct sl_study_how {
    double part;                    /* factor on the number of all steps */
    int64_t time_steps;             /* number of steps of a timed cell */
    const struct sl_study_let *set; /* these override the `let` lines of the file */
    int set_count;
};

/* steps: number of steps of a cell. step_samples: samples per step. */
int64_t sl_study_steps(const struct sl_study *study, const struct sl_study_how *how,
                       const struct sl_study_cell *cell);
int64_t sl_study_step_samples(const struct sl_study *study, const struct sl_study_cell *cell);

/* Returns the command of a cell: "train", MODEL, options; in the arena. SL_ERR_INPUT: unknown
 * {name}. */
SL_MUST_CHECK sl_err sl_study_words(struct sl_arena *arena, const struct sl_study *study,
                                    const struct sl_study_how *how,
                                    const struct sl_study_cell *cell,
                                    const char *words[SL_STUDY_WORDS], int *count);
/* Sets the fields of the job that a cell's words name. Initialises `out`; free it even after an
 * error. */
SL_MUST_CHECK sl_err sl_study_job(const struct sl_study *study, const struct sl_study_how *how,
                                  const struct sl_study_cell *cell, struct sl_job *out);
/* Returns the unique name of the cell's directory: task, mode, seed and a hash of the words. */
const char *sl_study_cell_name(struct sl_arena *arena, const struct sl_study *study,
                               const struct sl_study_cell *cell, const char *const *words,
                               int count);

/* ---- results ---- */

struct sl_interval {
    /* a 95 % interval is mean +- half; half is INFINITY if there is only one value */
    double mean, half;
};
struct sl_interval sl_study_interval_of(const double *values, int count);

struct sl_study_row {
    int task, mode, seeds; /* seeds: number of seeds that both this mode and its `against` have */
    double rate;
    double last, best;                       /* mean validation losses */
    struct sl_interval last_diff, best_diff; /* in percent, paired by seed */
    double target;                           /* loss */
    /* mean number of steps of the task to the target; NAN: some seeds did not reach it */
    double reached;
    double step_time; /* simulated; 0: unknown */
    /* speed-up of the time to the target compared with `against`, simulated; NAN: unknown */
    double sooner;
    double step_ms; /* measured time of a step of the task; NAN: not measured */
    double sooner_measured;
    const struct sl_study_cell *const *cells; /* [seeds] cells of this mode */
    const struct sl_study_cell *const *bases; /* [seeds] cells of `against` */
};

struct sl_study_table {
    const struct sl_study *study;
    const struct sl_study_row *rows;
    int count;
    bool timed; /* a row has a measured time */
};

/* Builds the rows in the order of tasks and modes, without modes that share no seed with their
 * `against`. `step_time` is [task][mode], the time of a step of the task in any unit. */
struct sl_study_table sl_study_table_build(struct sl_arena *arena, const struct sl_study *study,
                                           const struct sl_study_cell *cells, int64_t count,
                                           const double *step_time);

enum sl_study_verdict { SL_CLAIM_UNKNOWN, SL_CLAIM_HOLDS, SL_CLAIM_FAILS, SL_CLAIM_UNDECIDED };
enum sl_study_verdict sl_study_judge(const struct sl_study_table *table,
                                     const struct sl_study_claim *claim);
const char *sl_study_verdict_text(enum sl_study_verdict verdict);

/* Tuning runs seed by seed. Is this rate dropped? It is if a run of it is missing, or if the mean
 * of its last losses is more than `tune_drop` percent above that of the mode's best rate. */
bool sl_study_dropped(const struct sl_study *study, const struct sl_study_cell *cells,
                      int64_t count, int task, int mode, double rate);
/* best_rate: the rate with the lowest mean among those with the most seeds; the first rate if none
 * ran. put_tuning: appends all rates as a table. */
double sl_study_best_rate(const struct sl_study *study, const struct sl_study_cell *cells,
                          int64_t count, int task, int mode);
void sl_study_put_tuning(const struct sl_study *study, const struct sl_study_cell *cells,
                         int64_t count, struct sl_text *out);

/* Appends the CPU time of the runs per task. */
void sl_study_put_cost(const struct sl_study *study, const struct sl_study_cell *cells,
                       int64_t count, struct sl_text *out);

/* Append the table with notes and claims as Markdown, or as a page with a chart per task. */
void sl_study_put_table(const struct sl_study_table *table, struct sl_text *out);
void sl_study_put_page(const struct sl_study_table *table, struct sl_text *out);

#endif
