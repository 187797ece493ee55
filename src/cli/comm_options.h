/* The ranks of a command: its transport, the rank that prints, and a check that all ranks got the
 * same options. */
#ifndef SL_CLI_COMM_OPTIONS_H
#define SL_CLI_COMM_OPTIONS_H

#include "base/opt.h"
#include "comm/comm.h"

#define SL_COMM_OPTIONS                                                                            \
    {"--transport", "T", "threads, mpi or tcp (default: set by the launcher)", false},             \
        {"--encrypt", NULL, "tcp: encrypt the messages between ranks (all ranks or none)", false}, \
        {"--insecure", NULL, "tcp: connect without a secret, to anybody", false},                  \
        {"--bind", "B", "workers to cores: cores, none (default: cores if half are needed)",       \
         false},                                                                                   \
    {                                                                                              \
        "--lend", NULL, "idle workers of a process do pieces of others' work (same bits)", false   \
    }

/* Opens the transport that --transport or the launcher names; NULL: workers are threads of this
 * process. Ranks other than 0 stop logging. */
SL_MUST_CHECK sl_err sl_cli_comm_start(const struct sl_args *args, struct sl_comm **out);

/* Do all ranks have the same arguments and options? Every rank calls. One process: SL_OK. */
SL_MUST_CHECK sl_err sl_cli_comm_agree(struct sl_comm *comm, const struct sl_args *args);

/* Returns the common result of all ranks and prints the error. Every rank calls, with its own
 * result. comm NULL: one process. */
SL_MUST_CHECK sl_err sl_cli_comm_conclude(struct sl_comm *comm, sl_err err);
/* The same, and closes the transport. One process: returns `err` and prints nothing. */
SL_MUST_CHECK sl_err sl_cli_comm_finish(struct sl_comm *comm, sl_err err);

/* Is this the rank that prints and writes files? */
bool sl_cli_comm_is_root(const struct sl_comm *comm);

#endif
