/* The hosts of a launch. After a loss, hosts that no longer answer are dropped. */
#include "base/address.h"
#include "base/log.h"
#include "launch/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROBE_MS = 3000, AGENT_MS = 8000, WORDS_MAX = SL_ARGS_MAX + 32 };

/* ---- the list of hosts ---- */

/* Is it free of characters that a shell could interpret? Names and addresses become words of
 * command lines. */
static bool is_plain(const char *text, size_t length) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-:@%[]";
    for (size_t i = 0; i < length; i++)
        if (!text[i] || !strchr(letters, text[i]))
            return false;
    return true;
}

static sl_err add_host(struct sl_launch *l, const char *text, size_t length) {
    const char *equals = memchr(text, '=', length);
    size_t name = equals ? (size_t)(equals - text) : length;
    const char *address = equals ? equals + 1 : text;
    size_t rest = equals ? length - name - 1 : length;
    struct sl_launch_host *host = &l->hosts[l->host_count];
    if (name == 0 || rest == 0 || name >= sizeof host->name || rest >= sizeof host->address ||
        text[0] == '-' || !is_plain(text, name) || !is_plain(address, rest))
        return sl_fail(SL_ERR_USAGE, "`hosts`: '%.*s' is not NAME or NAME=ADDRESS", (int)length,
                       text);
    l->host_count++;
    *host = (struct sl_launch_host){0};
    memcpy(host->name, text, name);
    memcpy(host->address, address, rest);
    return SL_OK;
}

sl_err sl_launch_read_hosts(struct sl_launch *l, const char *hosts, const char *agent) {
    int count = 0;
    for (const char *at = hosts; at;) {
        const char *comma = strchr(at, ',');
        if (l->host_count == SL_LAUNCH_HOSTS_MAX)
            return sl_fail(SL_ERR_USAGE, "`hosts`: more than %d", SL_LAUNCH_HOSTS_MAX);
        SL_TRY(add_host(l, at, comma ? (size_t)(comma - at) : strlen(at)));
        at = comma ? comma + 1 : NULL;
    }
    if (l->ranks < l->host_count)
        return sl_fail(SL_ERR_USAGE, "`hosts`: %d hosts for %lld ranks", l->host_count,
                       (long long)l->ranks);
    for (int64_t r = 0; r < l->ranks; r++)
        l->hosts[r * l->host_count / l->ranks].ranks++;
    if (strlen(agent) >= sizeof l->agent_text)
        return sl_fail(SL_ERR_USAGE, "`agent`: the command is too long");
    snprintf(l->agent_text, sizeof l->agent_text, "%s", agent);
    for (char *word = strtok(l->agent_text, " "); word && count + 1 < SL_LAUNCH_AGENT_MAX;
         word = strtok(NULL, " "))
        l->agent[count++] = word;
    if (count == 0)
        return sl_fail(SL_ERR_USAGE, "`agent`: the command is empty");
    return SL_OK;
}

static const struct sl_launch_host *first_host(const struct sl_launch *l) {
    int h = 0;
    while (h + 1 < l->host_count && l->hosts[h].lost)
        h++;
    return &l->hosts[h];
}

const struct sl_launch_host *sl_launch_host_of(const struct sl_launch *l, int rank) {
    for (int h = 0; h < l->host_count; h++) {
        if (l->hosts[h].lost)
            continue;
        if (rank < l->hosts[h].ranks)
            return &l->hosts[h];
        rank -= l->hosts[h].ranks;
    }
    return first_host(l);
}

/* Writes l->meet. An IPv6 address needs brackets before a port. */
static void put_meet(struct sl_launch *l, const char *address, int port) {
    bool bare = strchr(address, ':') && address[0] != '[';
    snprintf(l->meet, sizeof l->meet, "%s%s%s:%d", bare ? "[" : "", address, bare ? "]" : "", port);
}

/* Chooses the address of rank 0. A port of another host cannot be reserved from here, so each
 * attempt draws a random one. */
sl_err sl_launch_choose_meet(struct sl_launch *l) {
    uint16_t dice;
    if (getrandom(&dice, sizeof dice, 0) != (ssize_t)sizeof dice)
        return sl_fail(SL_ERR_SYSTEM, "cannot draw a port for the job: %s", strerror(errno));
    put_meet(l, first_host(l)->address, 20000 + dice % 10000);
    return SL_OK;
}

/* ---- finding hosts that still answer ---- */

/* Tries to connect. "Connection refused" is an answer too: the host is alive. */
static int try_address(const struct sl_address *at) {
    int fd = socket(at->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t length = sizeof error;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (fd < 0 || connect(fd, (const struct sockaddr *)&at->at, at->length) != 0)
        error = errno;
    if (error == EINPROGRESS && (poll(&ready, 1, PROBE_MS) != 1 ||
                                 getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0))
        error = ETIMEDOUT;
    if (fd >= 0)
        close(fd);
    return error == ECONNREFUSED ? 0 : error;
}

sl_err sl_launch_probe(const char *place) {
    struct sl_addresses found;
    int error = 0;
    SL_TRY(sl_address_find(place, "`probe`", &found));
    for (int i = 0; i < found.count; i++) {
        error = try_address(&found.at[i]);
        if (error == 0)
            return SL_OK;
    }
    return sl_fail(SL_ERR_PEER, "%s: not reached: %s", place, strerror(error));
}

sl_err sl_launch_probe_hosts(struct sl_launch *l) {
    int64_t before = l->ranks;
    bool any = false;
    for (int h = 0; h < l->host_count; h++) {
        struct sl_launch_host *host = &l->hosts[h];
        if (host->lost)
            continue;
        if (!any) /* rank 0 will be on the first host that answers, and the others must reach it */
            put_meet(l, host->address, 9);
        host->lost = !sl_launch_answers(l, host);
        any |= !host->lost;
        if (!host->lost)
            continue;
        l->ranks -= host->ranks;
        sl_log_note("host %s is gone: it does not answer, or does not reach the others",
                    host->name);
    }
    if (!any)
        return sl_fail(SL_ERR_PEER, "no host answers any more");
    return l->ranks < before ? sl_launch_reshape(l, before, l->ranks) : SL_OK;
}
