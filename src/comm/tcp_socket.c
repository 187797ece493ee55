/* Sockets of the TCP transport. */
#include "comm/tcp_socket.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 1024, WAIT_MS = 100 };

static sl_err fail_errno(const char *where, const char *what) {
    return sl_fail(SL_ERR_SYSTEM, "%s: cannot %s: %s", where, what, strerror(errno));
}

/* Writes an address as "127.0.0.1:29500". */
static const char *text_of(const struct sl_address *at, char out[128]) {
    char host[96], port[16];
    bool six = at->at.ss_family == AF_INET6;
    if (getnameinfo((const struct sockaddr *)&at->at, at->length, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "?";
    snprintf(out, 128, "%s%s%s:%s", six ? "[" : "", host, six ? "]" : "", port);
    return out;
}

sl_err sl_comm_tcp_listen(const struct sl_address *at, const char *where, int *out) {
    int fd = socket(at->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    char text[128];
    if (fd < 0)
        return fail_errno(where, "make a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at->at.ss_family == AF_INET6) /* IPv4 has a separate socket */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&at->at, at->length) != 0 || listen(fd, BACKLOG) != 0) {
        sl_err err = sl_fail(SL_ERR_SYSTEM, "%s: cannot listen at %s: %s", where, text_of(at, text),
                             strerror(errno));
        close(fd);
        return err;
    }
    *out = fd;
    return SL_OK;
}

sl_err sl_comm_tcp_unblock(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return fail_errno("SLUICE_MEET_FD", "use it");
    return SL_OK;
}

int sl_comm_tcp_accept(int listener) {
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

sl_err sl_comm_tcp_start_connect(const struct sl_address *at, int *out) {
    int fd = socket(at->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    char text[128];
    if (fd < 0)
        return fail_errno(text_of(at, text), "make a socket");
    if (connect(fd, (const struct sockaddr *)&at->at, at->length) != 0 && errno != EINPROGRESS) {
        sl_err err = fail_errno(text_of(at, text), "connect");
        close(fd);
        return err;
    }
    *out = fd;
    return SL_OK;
}

sl_err sl_comm_tcp_own_address(int fd, struct sl_address *out) {
    out->length = sizeof out->at;
    if (getsockname(fd, (struct sockaddr *)&out->at, &out->length) != 0)
        return fail_errno("own address", "read it");
    return SL_OK;
}

sl_err sl_comm_tcp_connected(int fd, struct sl_address *own) {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        error = errno;
    if (error)
        return sl_fail(SL_ERR_SYSTEM, "cannot connect: %s", strerror(error));
    return sl_comm_tcp_own_address(fd, own);
}

static bool wait_for(int fd, short events, int64_t end_ns) {
    struct pollfd ready = {.fd = fd, .events = events};
    while (sl_clock_ns() < end_ns)
        if (poll(&ready, 1, WAIT_MS) > 0)
            return true;
    return false;
}

bool sl_comm_tcp_read_all(int fd, void *bytes, size_t size, int64_t end_ns) {
    for (char *at = bytes; size > 0;) {
        if (!wait_for(fd, POLLIN, end_ns))
            return false;
        ssize_t got = recv(fd, at, size, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

bool sl_comm_tcp_write_all(int fd, const void *bytes, size_t size, int64_t end_ns) {
    for (const char *at = bytes; size > 0;) {
        if (!wait_for(fd, POLLOUT, end_ns))
            return false;
        ssize_t put = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}
