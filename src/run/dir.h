/* Files of a run directory. */
#ifndef SL_RUN_DIR_H
#define SL_RUN_DIR_H

#include "base/err.h"

/* Makes the directory and those above it; it may exist. */
SL_MUST_CHECK sl_err sl_run_dir_make(const char *path);
SL_MUST_CHECK sl_err sl_run_dir_write(const char *run, const char *name, const char *text);
/* It may be absent. */
void sl_run_dir_remove(const char *run, const char *name);

#endif
