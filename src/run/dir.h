/* Files of a run directory. */
#ifndef SL_RUN_DIR_H
#define SL_RUN_DIR_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Makes the directory and its parents; it may already exist. */
SL_MUST_CHECK sl_err sl_run_dir_make(const char *path);
SL_MUST_CHECK sl_err sl_run_dir_write(const char *run, const char *name, const char *text);
/* Writes a file of the run, or removes it if text is NULL. */
SL_MUST_CHECK sl_err sl_run_dir_put(const char *run, const char *name, const char *text);
/* Removes a file; it may be absent. */
void sl_run_dir_remove(const char *run, const char *name);
/* Refuses to start. SL_ERR_REFUSED: the directory holds a run (`exists`) and this is no resume.
 * SL_ERR_INPUT: it holds no run, but a step to resume from is named. */
SL_MUST_CHECK sl_err sl_run_dir_refuse(const char *run, bool resume, int64_t from_step,
                                       bool exists);
/* SL_ERR_REFUSED if a file of the run no longer has the text that the caller read: then another run
 * wrote to the directory. text NULL: the caller has not read it. */
SL_MUST_CHECK sl_err sl_run_dir_check(const char *run, const char *name, const char *text);

#endif
