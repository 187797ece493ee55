/* sluice launch: start the ranks of a command on this host, look after them, start them again.
 *
 * Ranks diagnose themselves: when one dies, the others learn of it from their connections, say so
 * and end. The launcher gives them time for that, then kills what is left (a stopped process does
 * not end by itself). Ranks die with the launcher (PR_SET_PDEATHSIG), so that none is left over.
 */
#include "cli/launch.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { AGENT_FAILED = 255 };                /* ssh could not, or can no longer, reach its host */
static const int64_t grace_ns = 4000000000; /* from the first end that is not good */

static volatile sig_atomic_t forward;

static void on_signal(int signal) { forward = signal; }

/* The meeting place: a port that the kernel chose, and rank 0 inherits. */
static sl_err listen_here(int *fd, int *port) {
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

static sl_err make_key(char key[33]) {
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return sl_fail(SL_ERR_SYSTEM, "cannot draw a key for the job: %s", strerror(errno));
    for (int i = 0; i < 16; i++)
        snprintf(key + 2 * i, 3, "%02x", bytes[i]);
    return SL_OK;
}

/* In the child: becomes the rank. Only what is safe after a fork of one thread. */
static _Noreturn void become(const struct sl_launch *l, int rank, int fd, pid_t parent) {
    char text[32];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(SL_ERR_PEER); /* it died before we asked */
    setpgid(0, 0);          /* Ctrl-C comes through the launcher, once */
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    if (l->host_count)
        sl_cli_launch_become(l, rank);
    snprintf(text, sizeof text, "%d", rank);
    setenv("SLUICE_RANK", text, 1);
    if (rank == 0) {
        fcntl(fd, F_SETFD, 0);
        snprintf(text, sizeof text, "%d", fd);
        setenv("SLUICE_MEET_FD", text, 1);
    }
    execv(l->program, (char *const *)(uintptr_t)l->argv);
    fprintf(stderr, "sluice: %s: cannot start: %s\n", l->program, strerror(errno));
    _exit(SL_ERR_SYSTEM);
}

static void signal_all(struct sl_launch *l, int signal) {
    for (int r = 0; r < l->ranks; r++)
        if (l->pids[r])
            kill(l->pids[r], signal);
}

/* Where the ranks meet: on this host a port that is held already. */
static sl_err choose_meet(struct sl_launch *l, int *fd) {
    char ranks[32];
    int port;
    *fd = -1;
    SL_TRY(make_key(l->key));
    if (l->host_count)
        return sl_cli_launch_choose_meet(l);
    SL_TRY(listen_here(fd, &port));
    snprintf(l->meet, sizeof l->meet, "127.0.0.1:%d", port);
    snprintf(ranks, sizeof ranks, "%d", (int)l->ranks);
    setenv("SLUICE_RANKS", ranks, 1);
    setenv("SLUICE_MEET", l->meet, 1);
    setenv("SLUICE_KEY", l->key, 1);
    unsetenv("SLUICE_MEET_FD");
    return SL_OK;
}

static sl_err start(struct sl_launch *l) {
    int fd;
    SL_TRY(choose_meet(l, &fd));
    l->alive = 0;
    l->killed_rank = -1;
    l->signal = l->status = 0;
    pid_t parent = getpid();
    sl_err err = SL_OK;
    for (int r = 0; r < l->ranks; r++) {
        pid_t pid = fork();
        if (pid == 0)
            become(l, r, fd, parent);
        if (pid < 0) {
            err = sl_fail(SL_ERR_SYSTEM, "cannot start rank %d: %s", r, strerror(errno));
            signal_all(l, SIGKILL);
            break;
        }
        l->pids[r] = pid;
        l->alive++;
    }
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
        if (WIFSIGNALED(status) && l->killed_rank < 0) {
            l->killed_rank = r;
            l->signal = WTERMSIG(status);
        } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && l->status == 0) {
            l->status = WEXITSTATUS(status);
        }
    }
}

/* Until all have ended. */
static void look_after(struct sl_launch *l) {
    int64_t first_ns = 0;
    while (l->alive > 0) {
        const struct timespec nap = {.tv_nsec = 20000000};
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) {
            ended(l, pid, status);
            continue;
        }
        if (forward) {
            int signal = forward;
            forward = 0;
            signal_all(l, signal);
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
        nanosleep(&nap, NULL);
    }
}

/* The same command, to go on with; a drill is for the first time only. */
static sl_err prepare_again(struct sl_launch *l) {
    sl_cli_launch_drop(l, "--drill", true);
    if (!sl_cli_launch_argument(l, "--resume"))
        l->argv[l->argc++] = "--resume";
    l->argv[l->argc] = NULL;
    return l->host_count ? sl_cli_launch_look_again(l) : SL_OK;
}

/* The first time with what was asked for; then again, from the last good checkpoint. */
static sl_err run_job(struct sl_launch *l) {
    for (int64_t again = 0;; again++) {
        l->restarted = again;
        SL_TRY(start(l));
        look_after(l);
        bool lost = l->killed_rank >= 0 || l->status == SL_ERR_PEER ||
                    (l->host_count && l->status == AGENT_FAILED);
        if (!lost && l->status == 0)
            return SL_OK;
        if (l->killed_rank >= 0)
            sl_log_note("rank %d was ended by signal %d (%s)", l->killed_rank, l->signal,
                        strsignal(l->signal));
        if (!lost || again == l->restarts) {
            sl_err_set_message(""); /* the ranks have said it */
            return lost ? SL_ERR_PEER : (sl_err)l->status;
        }
        sl_log_note("restart %lld of %lld, from the last good checkpoint", (long long)again + 1,
                    (long long)l->restarts);
        SL_TRY(prepare_again(l));
    }
}

/* Behind what the command itself has printed. */
static sl_err print_json(const struct sl_launch *l, sl_err status) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_int(&json, "ranks", l->ranks);
    sl_json_put_int(&json, "restarts", l->restarted);
    sl_json_put_int(&json, "status", (int64_t)status);
    sl_json_close(&json, '}');
    sl_text_put(&text, "\n");
    sl_err err = sl_cli_print(&text);
    sl_text_free(&text);
    return status != SL_OK ? status : err;
}

static sl_err run(const struct sl_args *args) {
    static struct sl_launch l;
    struct sigaction pass = {.sa_handler = on_signal};
    int passed[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
    if (sl_args_has(args, "--probe"))
        return sl_cli_launch_probe(sl_args_text(args, "--probe", ""));
    l.ranks = 0;
    SL_TRY(sl_args_int(args, "-n", 1, SL_LAUNCH_RANKS_MAX, &l.ranks));
    SL_TRY(sl_args_int(args, "--restarts", 0, INT64_MAX / 2, &l.restarts));
    if (l.ranks == 0)
        return sl_fail(SL_ERR_USAGE,
                       "launch: how many ranks? e.g. sluice launch -n 4 -- train ...");
    if (args->positional_count == 0)
        return sl_fail(SL_ERR_USAGE, "launch: which command? e.g. sluice launch -n 4 -- train ...");
    l.program = sl_args_text(args, "--program", "/proc/self/exe");
    l.argv[l.argc++] = sl_args_has(args, "--program") ? l.program : "sluice";
    for (int i = 0; i < args->positional_count; i++)
        l.argv[l.argc++] = args->positional[i];
    if (sl_args_has(args, "--hosts"))
        SL_TRY(sl_cli_launch_read_hosts(&l, sl_args_text(args, "--hosts", ""),
                                        sl_args_text(args, "--agent", "ssh")));
    if (l.restarts && !sl_cli_launch_argument(&l, "--out"))
        return sl_fail(SL_ERR_USAGE,
                       "launch: --restarts needs a run with --out DIR to continue, and "
                       "--checkpoint-every N to have something to continue from");
    for (int i = 0; i < SL_COUNT(passed); i++)
        sigaction(passed[i], &pass, NULL);
    sl_err err = run_job(&l);
    return sl_args_has(args, "--json") ? print_json(&l, err) : err;
}

static const struct sl_option options[] = {
    {"-n", "N", "ranks: processes to start", false},
    {"--restarts", "R", "start again so often when a rank is lost (default 0)", false},
    {"--hosts", "A,B=ADDR", "deal the ranks over these hosts (default: this one)", false},
    {"--agent", "COMMAND", "what starts a command on a host (default ssh)", false},
    {"--probe", "HOST:PORT", "only say by the exit status whether that is reached", false},
    {"--program", "PATH", "start this instead of sluice", false},
    {0},
};

const struct sl_command sl_cli_cmd_launch = {
    .name = "launch",
    .synopsis = "-n N [--restarts R] -- COMMAND ...",
    .brief = "start a command as several processes, on one host or several",
    .detail =
        "Example: sluice launch -n 4 --restarts 3 -- train gpt-nano --stages 4 --out run\n"
        "--checkpoint-every 50. No MPI is needed, and on one host no SSH. When a rank dies, stops\n"
        "or is cut off, the others say which and end; the job exits with 5, or starts again, with\n"
        "fewer ranks where a host is gone.",
    .options = options,
    .min_args = 0,
    .max_args = -1,
    .run = run,
};
