/* The runs of a study as processes: some at a time, what is finished is not run again. */
#ifndef SL_CLI_STUDY_RUN_H
#define SL_CLI_STUDY_RUN_H

#include "report/study.h"

struct sl_study_pool {
    struct sl_arena *arena;
    const struct sl_study *study;
    struct sl_study_how how;
    const char *out;  /* OUT/cells/NAME is a run directory, NAME.err what the run said */
    int64_t jobs;     /* at a time */
    int64_t limit_ns; /* no run is started later than this after start_ns; -1: no limit */
    int64_t start_ns;
    bool keep_weights; /* else checkpoints of finished runs are removed */
    bool locked;       /* private */
    int64_t left;      /* runs that the limit left out, over all calls */
};

/* Fills `record` of every cell that is or becomes finished. A run that fails ends all: its status,
 * and the last line that it said. */
SL_MUST_CHECK sl_err sl_cli_study_pool_run(struct sl_study_pool *pool, struct sl_study_cell *cells,
                                           int64_t count, const char *what);

#endif
