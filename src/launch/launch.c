/* Starts, watches and restarts the ranks of a launch. */
#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "launch/parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { AGENT_FAILED = 255 }; /* exit status of ssh after it lost its host */
/* Time after the first failure in which the other ranks may end. */
static const int64_t grace_ns = 4000000000;
static const int64_t life_ns = 1000000000; /* interval of heartbeats to ranks on other hosts */

/* Listens on a port chosen by the kernel. */
static sl_err listen_locally(int *fd, int *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (struct sockaddr *)&at, length) != 0 ||
        listen(*fd, SL_LAUNCH_RANKS_MAX) != 0 ||
        getsockname(*fd, (struct sockaddr *)&at, &length) != 0)
        return sl_fail(SL_ERR_SYSTEM, "cannot listen on this host: %s", strerror(errno));
    *port = ntohs(at.sin_port);
    return SL_OK;
}

static sl_err draw_key(char key[33]) {
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return sl_fail(SL_ERR_SYSTEM, "cannot draw a key for the job: %s", strerror(errno));
    for (int i = 0; i < 16; i++)
        snprintf(key + 2 * i, 3, "%02x", bytes[i]);
    return SL_OK;
}

/* Sends a signal to all ranks. Ranks on other hosts get it through their agents, except SIGKILL:
 * it kills the agent, and the rank ends when the connection closes. */
static void signal_all(struct sl_launch *l, int signal) {
    for (int r = 0; r < l->ranks; r++) {
        if (!l->pids[r])
            continue;
        if (l->host_count && signal != SIGKILL)
            sl_launch_tell(l, r, signal);
        else
            kill(l->pids[r], signal);
    }
}

bool sl_launch_is_stopped(const struct sl_launch *l) {
    bool stopped = l->stopping;
    for (int s = 1; l->signals && s < NSIG; s++)
        stopped |= l->signals->count[s] > 0;
    return stopped;
}

/* Passes signals on. The first signal of a kind goes to the ranks, which save and end; the second
 * kills them. */
static void pass_signals(struct sl_launch *l) {
    for (int s = 1; l->signals && s < NSIG; s++) {
        int count = l->signals->count[s];
        if (count == l->passed[s])
            continue;
        if (count > 1)
            sl_log_note("signal %d (%s) again: the ranks are killed", s, strsignal(s));
        signal_all(l, count > 1 ? SIGKILL : s);
        l->passed[s] = count;
        l->stopping = true;
    }
}

/* Chooses the address of rank 0. On this host the launcher reserves the port; for other hosts *fd
 * stays -1. */
static sl_err choose_meet(struct sl_launch *l, int *fd) {
    int port;
    *fd = -1;
    SL_TRY(draw_key(l->key));
    if (l->host_count)
        return sl_launch_choose_meet(l);
    SL_TRY(listen_locally(fd, &port));
    snprintf(l->meet, sizeof l->meet, "127.0.0.1:%d", port);
    return SL_OK;
}

/* Starts a rank on this host. Rank 0 inherits the listening socket. */
static sl_err start_local(struct sl_launch *l, int rank, int fd, pid_t *out) {
    /* this program unblocks them when it can handle them; others could not know */
    static const int passed[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP, 0};
    char number[48], ranks[48], meet[128], key[64], meet_fd[48];
    const char *env[] = {number, ranks, meet, key, meet_fd, NULL};
    snprintf(number, sizeof number, "SLUICE_RANK=%d", rank);
    snprintf(ranks, sizeof ranks, "SLUICE_RANKS=%lld", (long long)l->ranks);
    snprintf(meet, sizeof meet, "SLUICE_MEET=%s", l->meet);
    snprintf(key, sizeof key, "SLUICE_KEY=%s", l->key);
    snprintf(meet_fd, sizeof meet_fd, rank == 0 ? "SLUICE_MEET_FD=%d" : "SLUICE_MEET_FD", fd);
    return sl_spawn(&(struct sl_spawn){.program = l->program ? l->program : "/proc/self/exe",
                                       .argv = l->argv,
                                       .env = env,
                                       .keep_fd = rank == 0 ? fd : 0,
                                       .dies_with_parent = true,
                                       .blocked = l->program ? NULL : passed},
                    out);
}

static sl_err start(struct sl_launch *l) {
    sl_err err = SL_OK;
    int fd;
    SL_TRY(choose_meet(l, &fd));
    l->alive = 0;
    l->killed_rank = -1;
    l->signal = l->status = 0;
    for (int r = 0; r < l->ranks && err == SL_OK; r++) {
        err = l->host_count ? sl_launch_start_remote(l, r) : start_local(l, r, fd, &l->pids[r]);
        l->alive += err == SL_OK;
        if (err != SL_OK)
            l->pids[r] = 0;
    }
    if (err != SL_OK)
        signal_all(l, SIGKILL);
    if (fd >= 0)
        close(fd);
    return err;
}

static void ended(struct sl_launch *l, pid_t pid, int status) {
    for (int r = 0; r < l->ranks; r++) {
        if (l->pids[r] != pid)
            continue;
        l->pids[r] = 0;
        l->alive--;
        sl_launch_hang_up(l, r);
        if (WIFSIGNALED(status) && l->killed_rank < 0) {
            l->killed_rank = r;
            l->signal = WTERMSIG(status);
        } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && l->status == 0) {
            l->status = WEXITSTATUS(status);
        }
    }
}

/* Waits until all ranks have ended. */
static void watch(struct sl_launch *l) {
    int64_t first_ns = 0, beat_ns = 0;
    while (l->alive > 0) {
        const struct timespec pause = {.tv_nsec = 20000000};
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) {
            ended(l, pid, status);
            continue;
        }
        pass_signals(l);
        if (sl_clock_ns() - beat_ns > life_ns) {
            beat_ns = sl_clock_ns();
            for (int r = 0; r < l->ranks; r++)
                sl_launch_tell(l, r, 0);
        }
        bool bad = l->killed_rank >= 0 || l->status != 0;
        if (bad && first_ns == 0)
            first_ns = sl_clock_ns();
        if (bad && sl_clock_ns() - first_ns > grace_ns) {
            for (int r = 0; r < l->ranks; r++)
                if (l->pids[r])
                    sl_log_note("rank %d does not end: killed", r);
            signal_all(l, SIGKILL);
        }
        nanosleep(&pause, NULL);
    }
}

/* Makes the command resume. A drill runs only in the first attempt, so its option is dropped. */
static sl_err prepare_restart(struct sl_launch *l) {
    sl_launch_drop(l, "--drill", true);
    if (!sl_launch_argument(l, "--resume"))
        l->argv[l->argc++] = "--resume";
    l->argv[l->argc] = NULL;
    return l->host_count ? sl_launch_probe_hosts(l) : SL_OK;
}

sl_err sl_launch_run(struct sl_launch *l) {
    for (int64_t attempt = 0;; attempt++) {
        l->restarted = attempt;
        SL_TRY(start(l));
        watch(l);
        bool lost = l->killed_rank >= 0 || l->status == SL_ERR_PEER ||
                    (l->host_count && l->status == AGENT_FAILED);
        if (!lost && l->status == 0)
            return SL_OK;
        if (l->killed_rank >= 0)
            sl_log_note("rank %d was ended by signal %d (%s)", l->killed_rank, l->signal,
                        strsignal(l->signal));
        if (lost && l->stopping && l->restarts)
            sl_log_note("not restarted: a signal has ended the job");
        if (!lost || attempt == l->restarts || l->stopping) {
            sl_err_set_message(""); /* the ranks have printed the message */
            return lost ? SL_ERR_PEER : (sl_err)l->status;
        }
        sl_log_note("restart %lld of %lld, from the last good checkpoint", (long long)attempt + 1,
                    (long long)l->restarts);
        SL_TRY(prepare_restart(l));
        if (sl_launch_is_stopped(l))
            return sl_fail(SL_ERR_PEER, "not restarted: a signal has ended the job");
    }
}
