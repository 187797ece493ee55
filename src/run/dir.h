/* Files of a run directory. */
#ifndef SL_RUN_DIR_H
#define SL_RUN_DIR_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Makes the directory and those above it; it may exist. */
SL_MUST_CHECK sl_err sl_run_dir_make(const char *path);
SL_MUST_CHECK sl_err sl_run_dir_write(const char *run, const char *name, const char *text);
/* It may be absent. */
void sl_run_dir_remove(const char *run, const char *name);
/* SL_ERR_REFUSED: the directory holds a run (`exists`) and this is no resume. SL_ERR_INPUT: it holds
 * none, and a step to resume from is named. */
SL_MUST_CHECK sl_err sl_run_dir_refuse(const char *run, bool resume, int64_t from_step,
                                       bool exists);
/* SL_ERR_REFUSED: a file of the run has another text than when the caller read it, because another
 * run wrote to the directory. text NULL: not read. */
SL_MUST_CHECK sl_err sl_run_dir_check(const char *run, const char *name, const char *text);

#endif
