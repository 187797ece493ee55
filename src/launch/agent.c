/* Runs programs on other hosts. An agent starts them ("ssh", or "ip netns exec" if hosts are
 * namespaces):
 *
 *     AGENT HOST PROGRAM launch --serve <- an order on standard input (order.h)
 *
 * The connection stays open while the launcher lives; when it closes, the rank ends. */
#include "base/clock.h"
#include "base/spawn.h"
#include "launch/order.h"
#include "launch/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { AGENT_MS = 8000, SILENCE_S = 30, WORDS_MAX = SL_LAUNCH_AGENT_MAX + 8 };

struct words {
    const char *at[WORDS_MAX];
    int count;
    struct sl_arena arena;
};

static void add(struct words *w, const char *word) {
    if (w->count + 1 < WORDS_MAX)
        w->at[w->count++] = word;
    w->at[w->count] = NULL;
}

/* Adds a word, quoted for ssh, which joins its arguments for a shell on the host to split. Other
 * agents pass their arguments on unchanged; a word without special characters is the same for
 * both. */
static void add_quoted(const struct sl_launch *l, struct words *w, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:@%+,";
    const char *slash = strrchr(l->agent[0], '/');
    struct sl_text text = {0};
    if (strcmp(slash ? slash + 1 : l->agent[0], "ssh") != 0 ||
        strspn(word, plain) == strlen(word)) {
        add(w, word);
        return;
    }
    sl_text_put(&text, "'");
    for (; *word; word++)
        if (*word == '\'')
            sl_text_put(&text, "'\\''");
        else
            sl_text_put_bytes(&text, word, 1);
    sl_text_put(&text, "'");
    add(w, sl_arena_dup(&w->arena, text.at, text.length));
    sl_text_free(&text);
}

static const char *self(struct sl_launch *l) {
    ssize_t length = readlink("/proc/self/exe", l->self, sizeof l->self - 1);
    l->self[length > 0 ? length : 0] = 0;
    return length > 0 ? l->self : "sluice";
}

/* Adds AGENT HOST sluice launch. */
static void add_agent(struct sl_launch *l, const struct sl_launch_host *host, struct words *w) {
    for (int i = 0; l->agent[i]; i++)
        add(w, l->agent[i]);
    add(w, host->name);
    add_quoted(l, w, self(l));
    add(w, "launch");
}

/* ---- a rank ---- */

static sl_err write_order(struct sl_launch *l, int rank, struct sl_text *out) {
    struct sl_launch_order order = {.program = l->program ? l->program : l->self,
                                    .silence_s = SILENCE_S,
                                    .env_count = 4,
                                    .argc = l->argc};
    char number[48], ranks[48], meet[128], key[64], directory[4096];
    if (!getcwd(directory, sizeof directory))
        return sl_fail(SL_ERR_SYSTEM, "cannot find the working directory: %s", strerror(errno));
    snprintf(number, sizeof number, "SLUICE_RANK=%d", rank);
    snprintf(ranks, sizeof ranks, "SLUICE_RANKS=%lld", (long long)l->ranks);
    snprintf(meet, sizeof meet, "SLUICE_MEET=%s", l->meet);
    snprintf(key, sizeof key, "SLUICE_KEY=%s", l->key);
    order.directory = directory;
    order.env[0] = number;
    order.env[1] = ranks;
    order.env[2] = meet;
    order.env[3] = key;
    memcpy(order.argv, l->argv, sizeof *l->argv * (size_t)l->argc);
    sl_launch_order_write(&order, out);
    return SL_OK;
}

static sl_err send_all(int fd, const struct sl_text *text) {
    int64_t until_ns = sl_clock_ns() + AGENT_MS * 1000000LL;
    for (size_t at = 0; at < text->length;) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        if (poll(&ready, 1, 100) <= 0 && sl_clock_ns() < until_ns)
            continue;
        ssize_t put = send(fd, text->at + at, text->length - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno != EINTR)
            return SL_OK; /* the agent has ended, and its exit status says more */
        at += put > 0 ? (size_t)put : 0;
    }
    return SL_OK;
}

sl_err sl_launch_start_remote(struct sl_launch *l, int rank) {
    struct words w = {0};
    struct sl_text order = {0};
    int ends[2] = {-1, -1};
    sl_err err = SL_OK;
    add_agent(l, sl_launch_host_of(l, rank), &w);
    add(&w, "--serve");
    SL_TRY_OUT(write_order(l, rank, &order));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        err = sl_fail(SL_ERR_SYSTEM, "cannot connect to the agent: %s", strerror(errno));
        goto out;
    }
    SL_TRY_OUT(
        sl_spawn(&(struct sl_spawn){.argv = w.at, .in_fd = ends[1], .dies_with_parent = true},
                 &l->pids[rank]));
    l->lines[rank] = ends[0];
    ends[0] = -1;
    SL_TRY_OUT(send_all(l->lines[rank], &order));
out:
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    sl_text_free(&order);
    sl_arena_free(&w.arena);
    return err;
}

void sl_launch_tell(struct sl_launch *l, int rank, int byte) {
    char one = (char)byte;
    if (l->lines[rank] > 0 && send(l->lines[rank], &one, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* full: the agent does not read and will be found missing; closed: it has ended */
}

void sl_launch_hang_up(struct sl_launch *l, int rank) {
    if (l->lines[rank] > 0)
        close(l->lines[rank]);
    l->lines[rank] = 0;
}

/* ---- probes ---- */

/* Starts a program on a host that tries to connect to l->meet. */
static sl_err start_probe(struct sl_launch *l, const struct sl_launch_host *host, pid_t *out) {
    struct words w = {0};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    add_agent(l, host, &w);
    add(&w, "--probe");
    add_quoted(l, &w, l->meet);
    sl_err err = sl_spawn(
        &(struct sl_spawn){.argv = w.at, .err_fd = null < 0 ? 0 : null, .dies_with_parent = true},
        out);
    if (null >= 0)
        close(null);
    sl_arena_free(&w.arena);
    return err;
}

/* Waits for a child and returns its exit status; -1: killed at the deadline or by a signal to the
 * launcher. */
static int await(const struct sl_launch *l, pid_t pid, int64_t until_ns) {
    const struct timespec nap = {.tv_nsec = 10000000};
    int status;
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (ended < 0 || sl_launch_is_stopped(l) || sl_clock_ns() > until_ns)
            break;
        nanosleep(&nap, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

bool sl_launch_answers(struct sl_launch *l, const struct sl_launch_host *host) {
    pid_t pid;
    return start_probe(l, host, &pid) == SL_OK &&
           await(l, pid, sl_clock_ns() + AGENT_MS * 1000000LL) == 0;
}
