/* Parts of the launcher: hosts.c starts ranks and probes on other hosts, command.c edits the
 * command. */
#ifndef SL_LAUNCH_PARTS_H
#define SL_LAUNCH_PARTS_H

#include "launch/launch.h"

/* ---- hosts.c ---- */

const char *sl_launch_self(struct sl_launch *l);
/* Chooses host and port of rank 0 for the next attempt. */
SL_MUST_CHECK sl_err sl_launch_choose_meet(struct sl_launch *l);
/* Starts a rank on its host through the agent. */
SL_MUST_CHECK sl_err sl_launch_start_remote(struct sl_launch *l, int rank, pid_t *out);
/* Probes the hosts. Drops those that do not answer, with a note, and adapts ranks and command.
 * SL_ERR_PEER: no host is left. */
SL_MUST_CHECK sl_err sl_launch_probe_hosts(struct sl_launch *l);

/* ---- command.c ---- */

/* Removes an option and its value. */
void sl_launch_drop(struct sl_launch *l, const char *name, bool has_value);
/* Adapts the command from `before` to `now` ranks: a pipeline of --stages or --plan gets fewer
 * stages if its checkpoints can be resharded. */
SL_MUST_CHECK sl_err sl_launch_reshape(struct sl_launch *l, int64_t before, int64_t now);

#endif
