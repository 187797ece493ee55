/* A launch runs the ranks of one command as processes, on this host or on several.
 *
 *     fill program, argv, ranks, restarts (read_hosts) -> sl_launch_run
 *
 *     run: start ranks -> watch --all ended with 0--> SL_OK
 *            ^              |
 *            |              a rank was lost, restarts left
 *            |              v
 *            +-- probe hosts, adapt the command (--resume, fewer stages)
 *
 * Ranks detect a lost peer themselves, print an error and end. The launcher waits a grace
 * period, then kills the others: a stopped process cannot end itself. A job that received a
 * signal is not restarted; the second signal of a kind kills its ranks. All ranks end with the
 * launcher, on other hosts too. */
#ifndef SL_LAUNCH_LAUNCH_H
#define SL_LAUNCH_LAUNCH_H

#include "base/opt.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum { SL_LAUNCH_RANKS_MAX = 1024, SL_LAUNCH_HOSTS_MAX = 64, SL_LAUNCH_AGENT_MAX = 16 };

/* Counts of signals, incremented by a handler. */
struct sl_launch_signals {
    volatile sig_atomic_t count[NSIG];
};

struct sl_launch_host {
    char name[64];    /* name that the agent gets */
    char address[64]; /* address to which other ranks connect */
    int ranks;
    bool lost;
};

struct sl_launch {
    const char *program;               /* file to execute; NULL: this program */
    const char *argv[SL_ARGS_MAX + 4]; /* the command; ends with NULL */
    int argc;
    int64_t ranks, restarts;                 /* restarts: most restarts */
    int64_t restarted;                       /* number of restarts so far */
    const struct sl_launch_signals *signals; /* signals to pass to the ranks; NULL: none */
    int passed[NSIG];                        /* signals that the ranks have received */
    bool stopping;                           /* a signal has come, so the job is not restarted */

    /* set by sl_launch_read_hosts; host_count 0: only this host */
    struct sl_launch_host hosts[SL_LAUNCH_HOSTS_MAX];
    int host_count;
    char agent_text[512];
    char *agent[SL_LAUNCH_AGENT_MAX]; /* words of the command that runs a command on a host */

    /* fields of the current attempt: */
    char meet[96];                   /* address of rank 0 */
    char key[33];                    /* secret by which ranks recognize each other */
    pid_t pids[SL_LAUNCH_RANKS_MAX]; /* 0: the rank has ended */
    int lines[SL_LAUNCH_RANKS_MAX];  /* standard input of each agent */
    int alive;
    int killed_rank, signal; /* first rank that a signal ended, and the signal; -1: none */
    int status;              /* first exit status that is not 0 */
    char self[4096];         /* path of this program */
    char stages[24];         /* value of --stages in the adapted command */
};

/* Reads "a,b=10.0.0.2" and assigns ranks to hosts in blocks. `agent` is a command such as "ssh". */
SL_MUST_CHECK sl_err sl_launch_read_hosts(struct sl_launch *l, const char *hosts,
                                          const char *agent);

/* Runs the command until its ranks end, with restarts. Returns the status of the first rank that
 * failed, with an empty message if the rank has printed one; SL_ERR_PEER: a rank was lost. */
SL_MUST_CHECK sl_err sl_launch_run(struct sl_launch *l);

/* Runs one rank according to an order on standard input, and ends it with the launcher
 * (serve.c). */
SL_MUST_CHECK sl_err sl_launch_serve(int *exit_status);

/* Connects to HOST:PORT. SL_OK if the host answers, even if it refuses; else SL_ERR_PEER. */
SL_MUST_CHECK sl_err sl_launch_probe(const char *place);

/* Returns the value of an option in the command ("--out DIR", "--out=DIR"); "": it has no value;
 * NULL: the option is absent. */
const char *sl_launch_argument(const struct sl_launch *l, const char *name);

#endif
