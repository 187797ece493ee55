/* Ranks of a command: which transport, which rank prints, and whether all got the same options. */
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

/* Opens the transport that --transport or the launcher names; NULL: threads of this process. Ranks
 * other than 0 stop logging. */
SL_MUST_CHECK sl_err sl_cli_comm_start(const struct sl_args *args, struct sl_comm **out);

/* Every rank calls: do all have the same arguments and options? One process: SL_OK. */
SL_MUST_CHECK sl_err sl_cli_comm_agree(struct sl_comm *comm, const struct sl_args *args);

/* Every rank calls, with its own result: returns the common result and prints the error. NULL: one
 * process. */
SL_MUST_CHECK sl_err sl_cli_comm_conclude(struct sl_comm *comm, sl_err err);
/* The same, and closes. One process: returns `err` and prints nothing. */
SL_MUST_CHECK sl_err sl_cli_comm_finish(struct sl_comm *comm, sl_err err);

/* Is this the rank that prints and writes files? */
bool sl_cli_comm_is_root(const struct sl_comm *comm);

#endif
