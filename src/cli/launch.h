/* What the launcher knows of a job, and of the hosts that it runs on. */
#ifndef SL_CLI_LAUNCH_H
#define SL_CLI_LAUNCH_H

#include "cli/command.h"

#include <sys/types.h>

enum { SL_LAUNCH_RANKS_MAX = 1024, SL_LAUNCH_HOSTS_MAX = 64, SL_LAUNCH_AGENT_MAX = 16 };

struct sl_launch_host {
    char name[64], address[64]; /* for the agent; for the other ranks */
    int ranks;
    bool gone;
};

struct sl_launch {
    const char *program;
    const char *argv[SL_ARGS_MAX + 4];
    int argc;
    int64_t ranks, restarts;
    int64_t restarted; /* so often */
    /* With --hosts: who starts a command there ("ssh"), and where it listens; else none. */
    struct sl_launch_host hosts[SL_LAUNCH_HOSTS_MAX];
    int host_count;
    char *agent[SL_LAUNCH_AGENT_MAX];
    char meet[96], key[33]; /* of the attempt at hand */
    /* while it runs */
    pid_t pids[SL_LAUNCH_RANKS_MAX]; /* 0: ended */
    int alive;
    int killed_rank, signal; /* the first rank that a signal ended, and which; -1: none */
    int status;              /* first exit status that is not 0 */
};

/* launch_hosts.c */
/* "a,b=10.0.0.2": ranks are dealt over the hosts in blocks. */
SL_MUST_CHECK sl_err sl_cli_launch_read_hosts(struct sl_launch *l, const char *hosts,
                                              const char *agent);
/* Where rank 0 will listen in the next attempt. */
SL_MUST_CHECK sl_err sl_cli_launch_choose_meet(struct sl_launch *l);
/* In a child: becomes `rank`, on its host. */
_Noreturn void sl_cli_launch_become(const struct sl_launch *l, int rank);
/* Which hosts still answer, and reach the first of them. Fewer than before: fewer ranks, and a
 * layout for them, with a note. SL_ERR_PEER: none is left. */
SL_MUST_CHECK sl_err sl_cli_launch_look_again(struct sl_launch *l);
/* Exit status 0 when something answers at HOST:PORT, be it with a refusal. */
SL_MUST_CHECK sl_err sl_cli_launch_probe(const char *place);

/* launch_shape.c: the command for `now` ranks after it ran on `before`: a pipeline of --stages, of
 * a schedule whose checkpoints fit any number of stages, gets fewer of them. */
SL_MUST_CHECK sl_err sl_cli_launch_reshape(struct sl_launch *l, int64_t before, int64_t now);
const char *sl_cli_launch_argument(const struct sl_launch *l,
                                   const char *name); /* NULL: not given */
void sl_cli_launch_drop(struct sl_launch *l, const char *name, bool has_value);

#endif
