/* Parts of the launcher. hosts.c: the list of hosts. agent.c: starts ranks and probes on other
 * hosts. command.c: edits the command. launch.c: everything else. */
#ifndef SL_LAUNCH_PARTS_H
#define SL_LAUNCH_PARTS_H

#include "launch/launch.h"

/* ---- launch.c ---- */

/* Has a signal requested the end of the job? */
bool sl_launch_is_stopped(const struct sl_launch *l);

/* ---- hosts.c ---- */

/* Returns the host of a rank. */
const struct sl_launch_host *sl_launch_host_of(const struct sl_launch *l, int rank);
/* Chooses host and port of rank 0 for the next attempt. */
SL_MUST_CHECK sl_err sl_launch_choose_meet(struct sl_launch *l);
/* Probes the hosts. Drops those that do not answer, with a note, and adapts ranks and command.
 * SL_ERR_PEER: no host is left. */
SL_MUST_CHECK sl_err sl_launch_probe_hosts(struct sl_launch *l);

/* ---- agent.c ---- */

/* Starts a rank on its host through the agent. */
SL_MUST_CHECK sl_err sl_launch_start_remote(struct sl_launch *l, int rank);
/* tell: sends a byte to the standard input of an agent, a signal for its rank or 0. hang_up: closes
 * that input. */
void sl_launch_tell(struct sl_launch *l, int rank, int byte);
void sl_launch_hang_up(struct sl_launch *l, int rank);
/* Does the host answer, and does it reach l->meet? */
bool sl_launch_answers(struct sl_launch *l, const struct sl_launch_host *host);

/* ---- command.c ---- */

/* Removes an option and its value. */
void sl_launch_drop(struct sl_launch *l, const char *name, bool has_value);
/* Adapts the command from `before` to `now` ranks: a pipeline with --stages or --plan gets fewer
 * stages if its checkpoints can be resharded. */
SL_MUST_CHECK sl_err sl_launch_reshape(struct sl_launch *l, int64_t before, int64_t now);

#endif
