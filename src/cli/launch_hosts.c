/* Ranks on several hosts: an agent starts them ("ssh", or "ip netns exec" where hosts are
 * namespaces), and after a loss the hosts that do not answer any more are left out.
 *
 *     AGENT HOST env SLUICE_RANK=1 ... sluice train ...
 */
#include "cli/launch.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
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

enum { PROBE_MS = 3000, AGENT_MS = 8000, WORDS_MAX = SL_ARGS_MAX + 32 };

/* ---- the list of hosts ---- */

static sl_err add_host(struct sl_launch *l, const char *text, size_t length) {
    const char *equals = memchr(text, '=', length);
    size_t name = equals ? (size_t)(equals - text) : length;
    const char *address = equals ? equals + 1 : text;
    size_t rest = equals ? length - name - 1 : length;
    struct sl_launch_host *host = &l->hosts[l->host_count];
    if (name == 0 || rest == 0 || name >= sizeof host->name || rest >= sizeof host->address ||
        text[0] == '-')
        return sl_fail(SL_ERR_USAGE, "launch: --hosts: '%.*s' is not NAME or NAME=ADDRESS",
                       (int)length, text);
    l->host_count++;
    *host = (struct sl_launch_host){0};
    memcpy(host->name, text, name);
    memcpy(host->address, address, rest);
    return SL_OK;
}

sl_err sl_cli_launch_read_hosts(struct sl_launch *l, const char *hosts, const char *agent) {
    static char words[512];
    int count = 0;
    for (const char *at = hosts; at;) {
        const char *comma = strchr(at, ',');
        if (l->host_count == SL_LAUNCH_HOSTS_MAX)
            return sl_fail(SL_ERR_USAGE, "launch: --hosts: more than %d", SL_LAUNCH_HOSTS_MAX);
        SL_TRY(add_host(l, at, comma ? (size_t)(comma - at) : strlen(at)));
        at = comma ? comma + 1 : NULL;
    }
    if (l->ranks < l->host_count)
        return sl_fail(SL_ERR_USAGE, "launch: %lld ranks for %d hosts", (long long)l->ranks,
                       l->host_count);
    for (int64_t r = 0; r < l->ranks; r++)
        l->hosts[r * l->host_count / l->ranks].ranks++;
    if (strlen(agent) >= sizeof words)
        return sl_fail(SL_ERR_USAGE, "launch: --agent is too long");
    snprintf(words, sizeof words, "%s", agent);
    for (char *word = strtok(words, " "); word && count + 1 < SL_LAUNCH_AGENT_MAX;
         word = strtok(NULL, " "))
        l->agent[count++] = word;
    if (count == 0)
        return sl_fail(SL_ERR_USAGE, "launch: --agent needs a command");
    return SL_OK;
}

static const struct sl_launch_host *first_host(const struct sl_launch *l) {
    int h = 0;
    while (h + 1 < l->host_count && l->hosts[h].gone)
        h++;
    return &l->hosts[h];
}

static const struct sl_launch_host *host_of(const struct sl_launch *l, int rank) {
    for (int h = 0; h < l->host_count; h++) {
        if (l->hosts[h].gone)
            continue;
        if (rank < l->hosts[h].ranks)
            return &l->hosts[h];
        rank -= l->hosts[h].ranks;
    }
    return first_host(l);
}

/* Nobody can hold a port of another host for us: a random one, another one at each attempt. */
sl_err sl_cli_launch_choose_meet(struct sl_launch *l) {
    uint16_t dice;
    if (getrandom(&dice, sizeof dice, 0) != (ssize_t)sizeof dice)
        return sl_fail(SL_ERR_SYSTEM, "cannot draw a port for the job: %s", strerror(errno));
    snprintf(l->meet, sizeof l->meet, "%s:%d", first_host(l)->address, 20000 + dice % 10000);
    return SL_OK;
}

/* ---- a command on a host ---- */

struct words {
    const char *at[WORDS_MAX];
    int count;
    char text[8][192]; /* of the environment */
    int texts;
};

static void add(struct words *w, const char *word) {
    if (w->count + 1 < WORDS_MAX)
        w->at[w->count++] = word;
    w->at[w->count] = NULL;
}

static void add_env(struct words *w, const char *name, const char *value) {
    char *text = w->text[w->texts++];
    snprintf(text, sizeof w->text[0], "%s=%s", name, value);
    add(w, text);
}

/* ssh joins its arguments and a shell takes them apart again; other agents pass them on. */
static void add_quoted(struct words *w, const char *word, bool quote) {
    if (!quote) {
        add(w, word);
        return;
    }
    struct sl_text text = {0}; /* lives until the process becomes another */
    sl_text_put(&text, "'");
    for (; *word; word++)
        if (*word == '\'')
            sl_text_put(&text, "'\\''");
        else
            sl_text_put_bytes(&text, word, 1);
    sl_text_put(&text, "'");
    add(w, text.at);
}

static bool is_ssh(const struct sl_launch *l) {
    const char *slash = strrchr(l->agent[0], '/');
    return strcmp(slash ? slash + 1 : l->agent[0], "ssh") == 0;
}

static void add_agent(const struct sl_launch *l, const struct sl_launch_host *host,
                      struct words *w) {
    for (int i = 0; l->agent[i]; i++)
        add(w, l->agent[i]);
    add(w, host->name);
    add(w, "env");
}

static const char *own_path(void) {
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    return length > 0 ? path : "sluice";
}

static _Noreturn void become(const struct words *w) {
    execvp(w->at[0], (char *const *)(uintptr_t)w->at);
    fprintf(stderr, "sluice: %s: cannot start: %s\n", w->at[0], strerror(errno));
    _exit(SL_ERR_SYSTEM);
}

_Noreturn void sl_cli_launch_become(const struct sl_launch *l, int rank) {
    static struct words w;
    char number[24], ranks[24], directory[160];
    snprintf(number, sizeof number, "%d", rank);
    snprintf(ranks, sizeof ranks, "%lld", (long long)l->ranks);
    add_agent(l, host_of(l, rank), &w);
    if (is_ssh(l) && getcwd(directory, sizeof directory)) {
        add(&w, "-C");
        add_quoted(&w, directory, true);
    }
    add_env(&w, "SLUICE_RANK", number);
    add_env(&w, "SLUICE_RANKS", ranks);
    add_env(&w, "SLUICE_MEET", l->meet);
    add_env(&w, "SLUICE_KEY", l->key);
    add_quoted(&w, strcmp(l->program, "/proc/self/exe") == 0 ? own_path() : l->program, is_ssh(l));
    for (int i = 1; i < l->argc; i++)
        add_quoted(&w, l->argv[i], is_ssh(l));
    become(&w);
}

/* ---- who is still there ---- */

sl_err sl_cli_launch_probe(const char *place) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    const char *colon = strrchr(place, ':');
    char host[256];
    if (!colon || (size_t)(colon - place) >= sizeof host)
        return sl_fail(SL_ERR_USAGE, "launch: --probe: '%s' is not HOST:PORT", place);
    snprintf(host, sizeof host, "%.*s", (int)(colon - place), place);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return sl_fail(SL_ERR_PEER, "%s: cannot find the host", host);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t length = sizeof error;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int code = connect(fd, found->ai_addr, found->ai_addrlen);
    error = code == 0 ? 0 : errno;
    freeaddrinfo(found);
    if (error == EINPROGRESS && (poll(&ready, 1, PROBE_MS) != 1 ||
                                 getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0))
        error = ETIMEDOUT;
    if (fd >= 0)
        close(fd);
    if (error != 0 && error != ECONNREFUSED) /* who refuses is there */
        return sl_fail(SL_ERR_PEER, "%s: not reached: %s", place, strerror(error));
    return SL_OK;
}

static pid_t start_probe(const struct sl_launch *l, const struct sl_launch_host *host) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    static struct words w;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    add_agent(l, host, &w);
    add_quoted(&w, own_path(), is_ssh(l));
    add(&w, "launch");
    add(&w, "--probe");
    add(&w, l->meet);
    if (!freopen("/dev/null", "w", stderr))
        _exit(SL_ERR_SYSTEM);
    become(&w);
}

/* The exit status of a child, or -1 when it takes too long. */
static int await(pid_t pid, int64_t until_ns) {
    const struct timespec nap = {.tv_nsec = 10000000};
    int status;
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (ended < 0 || sl_clock_ns() > until_ns)
            break;
        nanosleep(&nap, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

static bool answers(const struct sl_launch *l, const struct sl_launch_host *host) {
    pid_t pid = start_probe(l, host);
    return pid > 0 && await(pid, sl_clock_ns() + AGENT_MS * 1000000LL) == 0;
}

sl_err sl_cli_launch_look_again(struct sl_launch *l) {
    int64_t before = l->ranks;
    bool any = false;
    for (int h = 0; h < l->host_count; h++) {
        struct sl_launch_host *host = &l->hosts[h];
        if (host->gone)
            continue;
        if (!any) /* the first that answers at all is the place that others must reach */
            snprintf(l->meet, sizeof l->meet, "%s:9", host->address);
        host->gone = !answers(l, host);
        any |= !host->gone;
        if (!host->gone)
            continue;
        l->ranks -= host->ranks;
        sl_log_note("host %s is gone: it does not answer, or does not reach the others",
                    host->name);
    }
    if (!any)
        return sl_fail(SL_ERR_PEER, "no host of --hosts answers any more");
    return l->ranks < before ? sl_cli_launch_reshape(l, before, l->ranks) : SL_OK;
}
