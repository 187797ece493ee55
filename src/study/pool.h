/* The runs of a study as processes, several at a time.
 *
 * OUT/cells/NAME is the run directory of a cell, NAME.err its messages. NAME contains a hash of the
 * cell's arguments, so that a changed study reuses the cells that stayed the same. A cell whose log
 * has its last evaluation is finished. All others start anew.
 */
#ifndef SL_STUDY_POOL_H
#define SL_STUDY_POOL_H

#include "study/study.h"

#include <signal.h>

struct sl_study_pool {
    struct sl_arena *arena;
    const struct sl_study *study;
    struct sl_study_how how;
    const char *out;                   /* directory */
    int64_t jobs;                      /* runs at a time */
    int64_t limit_ns;                  /* start no run later than this after start_ns; -1: none */
    int64_t start_ns;                  /* by sl_clock_ns */
    bool keep_weights;                 /* else the checkpoints of finished runs are removed */
    const volatile sig_atomic_t *stop; /* not 0: kill the runs and return */
    const char *program;               /* file that runs a cell, with the arguments: */
    /* argv for a cell with run directory `dir`, in the arena; ends with NULL. */
    const char *const *(*command)(struct sl_arena *arena, const char *const *words, int count,
                                  const char *dir);
    int64_t left; /* runs not started because of the limit, over all calls */
    bool locked;  /* private */
};

/* Runs the cells that are not finished and fills `record` of every finished one. `what` begins the
 * progress line. A run that fails ends all: its status, and the last line of its messages. */
SL_MUST_CHECK sl_err sl_study_pool_run(struct sl_study_pool *pool, struct sl_study_cell *cells,
                                       int64_t count, const char *what);

#endif
