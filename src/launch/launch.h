/* A launch: the ranks of one command as processes, on this host or on several.
 *
 *     fill program, argv, ranks, restarts (read_hosts) -> sl_launch_run
 *
 *     run: start ranks -> watch --all ended with 0--> SL_OK
 *            ^              |
 *            |              a rank was lost, restarts left
 *            |              v
 *            +-- probe hosts, adapt the command (--resume, fewer stages)
 *
 * Ranks diagnose a lost peer themselves, print it and end. The launcher waits a grace period, then
 * kills the rest: a stopped process does not end itself. A job that got a signal is not restarted;
 * the second signal of a kind kills its ranks. All ranks die with the launcher, on other hosts too.
 */
#ifndef SL_LAUNCH_LAUNCH_H
#define SL_LAUNCH_LAUNCH_H

#include "base/opt.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum { SL_LAUNCH_RANKS_MAX = 1024, SL_LAUNCH_HOSTS_MAX = 64, SL_LAUNCH_AGENT_MAX = 16 };

/* Signals that a handler has counted. */
struct sl_launch_signals {
    volatile sig_atomic_t count[NSIG];
};

struct sl_launch_host {
    char name[64];    /* argument of the agent */
    char address[64]; /* for connections of other ranks */
    int ranks;
    bool lost;
};

struct sl_launch {
    const char *program;               /* file to execute; NULL: this program */
    const char *argv[SL_ARGS_MAX + 4]; /* ends with NULL */
    int argc;
    int64_t ranks, restarts;                 /* restarts: max */
    int64_t restarted;                       /* restarts so far */
    const struct sl_launch_signals *signals; /* for the ranks; NULL: none */
    int passed[NSIG];                        /* signals that the ranks have got */
    bool stopping;                           /* a signal came: the job is not restarted */

    /* sl_launch_read_hosts; host_count 0: this host */
    struct sl_launch_host hosts[SL_LAUNCH_HOSTS_MAX];
    int host_count;
    char agent_text[512];
    char *agent[SL_LAUNCH_AGENT_MAX]; /* words of the command that starts a command on a host */

    /* of the current attempt */
    char meet[96];                   /* address of rank 0 */
    char key[33];                    /* secret that ranks show each other */
    pid_t pids[SL_LAUNCH_RANKS_MAX]; /* 0: ended */
    int lines[SL_LAUNCH_RANKS_MAX];  /* standard input of each agent */
    int alive;
    int killed_rank, signal; /* the first rank ended by a signal, and the signal; -1: none */
    int status;              /* first exit status other than 0 */
    char self[4096];         /* path of this program */
    char stages[24];         /* value of --stages in an adapted command */
};

/* Reads "a,b=10.0.0.2" and assigns ranks to hosts in blocks. `agent` is a command: "ssh". */
SL_MUST_CHECK sl_err sl_launch_read_hosts(struct sl_launch *l, const char *hosts,
                                          const char *agent);

/* Runs the command until its ranks end, with restarts. Returns the status of the first rank that
 * failed, with an empty message if the rank has printed one; SL_ERR_PEER: a rank was lost. */
SL_MUST_CHECK sl_err sl_launch_run(struct sl_launch *l);

/* Runs one rank as an order on standard input says, and ends it with the launcher (serve.c). */
SL_MUST_CHECK sl_err sl_launch_serve(int *exit_status);

/* Connects to HOST:PORT. SL_OK if the host answers, also if it refuses; else SL_ERR_PEER. */
SL_MUST_CHECK sl_err sl_launch_probe(const char *place);

/* Value of an option in the command ("--out DIR", "--out=DIR"); "" if it has none; NULL: absent. */
const char *sl_launch_argument(const struct sl_launch *l, const char *name);

#endif
