/* Ranks of a command: which transport, who speaks, and whether all run the same thing. */
#ifndef SL_CLI_COMM_OPTIONS_H
#define SL_CLI_COMM_OPTIONS_H

#include "cli/pipe_options.h"
#include "comm/comm.h"

#define SL_COMM_OPTIONS                                                                            \
    {"--transport", "T", "threads, mpi or tcp (default: by the way it was started)", false},       \
        {"--bind", "B", "workers to cores: cores, none (default: cores if half are needed)",       \
         false},                                                                                   \
    {                                                                                              \
        "--lend", NULL, "workers of a process that wait do pieces of others' work (same bits)",    \
            false                                                                                  \
    }

/* Open what --transport or the way the program was started asks for; NULL: threads of this process.
 * Ranks other than 0 fall silent. */
SL_MUST_CHECK sl_err sl_cli_comm_start(const struct sl_args *args, struct sl_comm **out);

/* Program, options, model and data are the same on all ranks, and there is a worker for each. */
SL_MUST_CHECK sl_err sl_cli_comm_compare(struct sl_comm *comm, const struct sl_args *args,
                                         const struct sl_train_config *train,
                                         const struct sl_pipe_choice *choice);

/* --bind */
SL_MUST_CHECK sl_err sl_cli_comm_bind(const struct sl_args *args, enum sl_bind_mode *out);

/* The end of a command: `err` is how it went here; returns how it went for all, and says it. NULL:
 * nobody else. */
SL_MUST_CHECK sl_err sl_cli_comm_conclude(struct sl_comm *comm, sl_err err);
/* The same, and closes. */
SL_MUST_CHECK sl_err sl_cli_comm_finish(struct sl_comm *comm, sl_err err);

/* Is this the rank that prints and writes files? */
bool sl_cli_comm_is_root(const struct sl_comm *comm);

#endif
