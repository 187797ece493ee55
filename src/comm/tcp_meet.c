/* Rendezvous of ranks over TCP.
 *
 *   rank 0 listens at HOST:PORT; every other rank connects and sends its number and its own address;
 *   when all have connected, rank 0 sends the table; then each rank connects to the lower ranks.
 *   The first connections stay open as those to rank 0.
 */
#include "comm/tcp_state.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const uint64_t magic = 0x31656369756c7301u; /* also detects another byte order */

struct hello {
    uint64_t magic, key;
    int32_t ranks, length; /* of where.address */
    struct sl_comm_tcp_who who;
    struct sockaddr_storage at; /* where it listens */
};

/* ---- sockets ---- */

static sl_err find_address(const struct sl_comm_job *job, bool listen, struct addrinfo **out) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = listen ? AI_PASSIVE : 0};
    const char *meet = job->meet, *colon = strrchr(meet, ':');
    char host[256];
    if (!colon || colon == meet || !colon[1] || (size_t)(colon - meet) >= sizeof host)
        return sl_fail(SL_ERR_USAGE, "SLUICE_MEET: '%s' is not HOST:PORT", meet);
    snprintf(host, sizeof host, "%.*s", (int)(colon - meet), meet);
    int code = getaddrinfo(listen && job->anywhere ? NULL : host, colon + 1, &hints, out);
    if (code != 0)
        return sl_fail(SL_ERR_SYSTEM, "%s: cannot find the host: %s", meet, gai_strerror(code));
    return SL_OK;
}

static sl_err fail_errno(const char *where, const char *what) {
    return sl_fail(SL_ERR_SYSTEM, "%s: cannot %s: %s", where, what, strerror(errno));
}

static sl_err listen_at(const struct sockaddr *at, socklen_t length, const char *where, int *out) {
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return fail_errno(where, "make a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at, length) != 0 || listen(fd, TCP_RANKS_MAX) != 0) {
        sl_err err = fail_errno(where, "listen");
        close(fd);
        return err;
    }
    *out = fd;
    return SL_OK;
}

static sl_err connect_to(const struct sockaddr *at, socklen_t length, const char *where,
                         int64_t end_ns, int *out) {
    const struct timespec nap = {.tv_nsec = 20000000};
    for (;;) {
        int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return fail_errno(where, "make a socket");
        if (connect(fd, at, length) == 0) {
            *out = fd;
            return SL_OK;
        }
        int why = errno;
        close(fd);
        if (sl_clock_ns() > end_ns)
            return sl_fail(SL_ERR_PEER, "%s: cannot connect: %s", where, strerror(why));
        nanosleep(&nap, NULL); /* rank 0 may not listen yet */
    }
}

/* Read exactly `size` bytes before the timeout. */
static bool read_all(int fd, void *bytes, size_t size, int64_t end_ns) {
    for (char *at = bytes; size > 0;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left_ms = (end_ns - sl_clock_ns()) / 1000000;
        if (left_ms <= 0 || poll(&ready, 1, left_ms > 1000 ? 1000 : (int)left_ms) < 0)
            return false;
        if (!ready.revents)
            continue;
        ssize_t got = recv(fd, at, size, 0);
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *bytes, size_t size) {
    for (const char *at = bytes; size > 0;) {
        ssize_t put = send(fd, at, size, MSG_NOSIGNAL);
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

/* ---- meeting ---- */

struct meeting {
    const struct sl_comm_job *job;
    int *fds;
    struct sl_comm_tcp_who *who;
    struct hello *table; /* [ranks] */
    int listener;
    int64_t end_ns;
};

static struct hello hello_of(const struct sl_comm_job *job) {
    struct hello hello = {.magic = magic, .key = job->key, .ranks = job->ranks};
    hello.who.rank = job->rank;
    hello.who.pid = (int32_t)getpid();
    gethostname(hello.who.host, sizeof hello.who.host - 1);
    return hello;
}

static sl_err fail_missing(const struct meeting *m) {
    struct sl_text text = {0};
    for (int r = 0; r < m->job->ranks; r++)
        if (r != m->job->rank && m->fds[r] < 0)
            sl_text_printf(&text, "%s%d", text.length ? ", " : "", r);
    sl_err err = sl_fail(SL_ERR_PEER, "rank %s did not come to rank %d (%s) within %lld s", text.at,
                         m->job->rank, m->job->meet, (long long)(m->job->timeout_ns / 1000000000));
    sl_text_free(&text);
    return err;
}

/* Close connections with a wrong key and of ranks that are connected already. */
static sl_err admit(struct meeting *m, int fd) {
    struct hello hello;
    int64_t soon = sl_clock_ns() + 5000000000;
    int ranks = m->job->ranks;
    if (!read_all(fd, &hello, sizeof hello, soon < m->end_ns ? soon : m->end_ns) ||
        hello.magic != magic || hello.key != m->job->key || hello.who.rank < 0 ||
        hello.who.rank >= ranks || m->fds[hello.who.rank] >= 0 || hello.who.rank == m->job->rank) {
        close(fd);
        return SL_OK;
    }
    if (hello.ranks != ranks) {
        close(fd);
        return sl_fail(SL_ERR_REFUSED,
                       "rank %d was started as one of %d ranks, rank %d as one of %d",
                       hello.who.rank, hello.ranks, m->job->rank, ranks);
    }
    int r = hello.who.rank;
    hello.who.host[TCP_HOST_TEXT - 1] = 0;
    m->fds[r] = fd;
    m->who[r] = hello.who;
    m->table[r] = hello;
    return SL_OK;
}

static sl_err accept_until(struct meeting *m, int first) {
    for (int r = first; r < m->job->ranks;) {
        struct pollfd ready = {.fd = m->listener, .events = POLLIN};
        if (m->fds[r] >= 0) {
            r++;
            continue;
        }
        if (sl_clock_ns() > m->end_ns)
            return fail_missing(m);
        if (poll(&ready, 1, 100) <= 0)
            continue;
        int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            SL_TRY(admit(m, fd));
    }
    return SL_OK;
}

static sl_err meet_as_first(struct meeting *m) {
    struct addrinfo *found;
    m->listener = m->job->meet_fd;
    if (m->listener < 0) {
        SL_TRY(find_address(m->job, true, &found));
        sl_err err = listen_at(found->ai_addr, found->ai_addrlen, m->job->meet, &m->listener);
        freeaddrinfo(found);
        SL_TRY(err);
    }
    SL_TRY(accept_until(m, 1));
    m->table[0] = hello_of(m->job);
    size_t bytes = sizeof *m->table * (size_t)m->job->ranks;
    for (int r = 1; r < m->job->ranks; r++)
        if (!write_all(m->fds[r], m->table, bytes))
            return sl_fail(SL_ERR_PEER, "rank %d went away while all were coming", r);
    return SL_OK;
}

static sl_err say_hello(struct meeting *m, const struct hello *hello, int rank) {
    if (write_all(m->fds[rank], hello, sizeof *hello))
        return SL_OK;
    return sl_fail(SL_ERR_PEER, "rank %d went away while all were coming", rank);
}

/* A rank listens on the address by which it reaches rank 0. */
static sl_err meet_first(struct meeting *m, struct hello *hello) {
    struct addrinfo *found;
    SL_TRY(find_address(m->job, false, &found));
    sl_err err = connect_to(found->ai_addr, found->ai_addrlen, m->job->meet, m->end_ns, &m->fds[0]);
    freeaddrinfo(found);
    SL_TRY(err);
    socklen_t length = sizeof hello->at;
    if (getsockname(m->fds[0], (struct sockaddr *)&hello->at, &length) != 0)
        return fail_errno(m->job->meet, "read the own address");
    if (hello->at.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&hello->at)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&hello->at)->sin_port = 0;
    SL_TRY(listen_at((struct sockaddr *)&hello->at, length, "own address", &m->listener));
    if (getsockname(m->listener, (struct sockaddr *)&hello->at, &length) != 0)
        return fail_errno("own address", "read it");
    hello->length = (int32_t)length;
    return say_hello(m, hello, 0);
}

static sl_err meet_as_other(struct meeting *m) {
    struct hello hello = hello_of(m->job);
    SL_TRY(meet_first(m, &hello));
    if (!read_all(m->fds[0], m->table, sizeof *m->table * (size_t)m->job->ranks, m->end_ns))
        return sl_fail(SL_ERR_PEER, "rank 0 (%s) ended before all ranks were there", m->job->meet);
    for (int r = 0; r < m->job->ranks; r++) {
        m->who[r] = m->table[r].who;
        m->who[r].host[TCP_HOST_TEXT - 1] = 0;
    }
    for (int r = 1; r < m->job->rank; r++) {
        const struct hello *to = &m->table[r];
        if (to->length < 0 || to->length > (int32_t)sizeof to->at)
            return sl_fail(SL_ERR_PEER, "rank 0 (%s) sent something that is no table of ranks",
                           m->job->meet);
        SL_TRY(connect_to((const struct sockaddr *)&to->at, (socklen_t)to->length, m->who[r].host,
                          m->end_ns, &m->fds[r]));
        SL_TRY(say_hello(m, &hello, r));
    }
    return accept_until(m, m->job->rank + 1);
}

sl_err sl_comm_tcp_meet(const struct sl_comm_job *job, int *fds, struct sl_comm_tcp_who *who) {
    struct meeting m = {.job = job, .fds = fds, .who = who, .listener = -1};
    int on = 1;
    m.end_ns = sl_clock_ns() + job->timeout_ns;
    m.table = calloc((size_t)job->ranks, sizeof *m.table);
    if (!m.table)
        sl_out_of_memory((size_t)job->ranks * sizeof *m.table);
    for (int r = 0; r < job->ranks; r++)
        fds[r] = -1;
    sl_err err = SL_OK;
    if (job->ranks > 1)
        err = job->rank == 0 ? meet_as_first(&m) : meet_as_other(&m);
    who[job->rank] = hello_of(job).who;
    for (int r = 0; r < job->ranks; r++) {
        if (fds[r] >= 0 && err == SL_OK)
            setsockopt(fds[r], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        else if (fds[r] >= 0)
            close(fds[r]);
    }
    if (m.listener >= 0)
        close(m.listener);
    free(m.table);
    return err;
}
