/* Opening a run directory again: its model, its data and its weights, to evaluate or sample. */
#ifndef SL_CLI_RUN_DIR_H
#define SL_CLI_RUN_DIR_H

#include "cli/run_options.h"

struct sl_run_dir {
    struct sl_run_inputs inputs;
    struct sl_train *train; /* evaluation only, with the newest weights */
};

/* `samples`: micro-batch of the program; 0: what the run used. Options of `args` that the run's
 * configuration also has (--data, --threads, ...) win over it. */
SL_MUST_CHECK sl_err sl_cli_run_dir_open(const struct sl_args *args, const char *run,
                                         int64_t samples, struct sl_run_dir *out);
void sl_cli_run_dir_close(struct sl_run_dir *dir);

#endif
