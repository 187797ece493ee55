/* Runs the cells of a study as processes, several at a time.
 *
 * OUT/cells/NAME is the run directory of a cell, NAME.err its messages. NAME contains a hash of the
 * cell's arguments, so that a changed study reuses the cells that stayed the same. A cell is
 * finished if its log has the last evaluation. All other cells start from the beginning. */
#ifndef SL_STUDY_POOL_H
#define SL_STUDY_POOL_H

#include "study/study.h"

#include <signal.h>

struct sl_study_pool {
    struct sl_arena *arena;
    const struct sl_study *study;
    struct sl_study_how how;
    const char *out;   /* directory of the results */
    int64_t jobs;      /* number of runs at a time */
    int64_t limit_ns;  /* start no run later than this after start_ns; -1: no limit */
    int64_t start_ns;  /* start of the study by sl_clock_ns */
    bool keep_weights; /* false: remove the checkpoints of finished runs */
    const volatile sig_atomic_t *stop; /* not 0: kill the runs and return */
    const char *program;               /* program that runs a cell */
    /* Returns argv for a cell with run directory `dir`, in the arena; ends with NULL. */
    const char *const *(*command)(struct sl_arena *arena, const char *const *words, int count,
                                  const char *dir);
    int64_t left; /* number of runs that the limit kept from starting, over all calls */
    bool locked;  /* private to pool.c */
};

/* Runs the cells that are not finished and fills `record` of every finished one. `what` begins the
 * progress line. If a run fails, all end; the error has its status and the last line of its
 * messages. */
SL_MUST_CHECK sl_err sl_study_pool_run(struct sl_study_pool *pool, struct sl_study_cell *cells,
                                       int64_t count, const char *what);

#endif
