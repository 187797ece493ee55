/* 'sluice launch --serve' on the host of a rank: starts the rank and ends it with the launcher.
 *
 *     read the order --> start the rank --> its exit status
 *                          |  a byte > 0 of standard input: send this signal to the rank
 *                          |  end of standard input, or nothing for `silence`: kill the rank
 *
 * The launcher, its host or the network may fail without notice. Then the connection of the
 * agent closes, which is the end of standard input; or no more bytes arrive. */
#include "base/clock.h"
#include "base/spawn.h"
#include "launch/launch.h"
#include "launch/order.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ORDER_MS = 30000, POLL_MS = 50 };

/* Reads bytes of standard input before the deadline. */
static sl_err read_some(void *bytes, size_t size, int64_t until_ns) {
    for (char *at = bytes; size > 0;) {
        struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
        ssize_t got = 0;
        if (poll(&ready, 1, POLL_MS) > 0) {
            got = read(STDIN_FILENO, at, size);
            if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
                return sl_fail(SL_ERR_INPUT, "standard input ends before the order does");
        }
        at += got > 0 ? got : 0;
        size -= got > 0 ? (size_t)got : 0;
        if (size && sl_clock_ns() > until_ns)
            return sl_fail(SL_ERR_INPUT, "no order on standard input; 'launch --hosts' sends it");
    }
    return SL_OK;
}

static sl_err read_order(struct sl_launch_order *order, char **fields) {
    char line[SL_LAUNCH_ORDER_HEAD_MAX] = "";
    int64_t until_ns = sl_clock_ns() + ORDER_MS * 1000000LL, length;
    for (size_t i = 0;; i++) {
        if (i == sizeof line)
            return sl_fail(SL_ERR_INPUT, "standard input holds no order");
        SL_TRY(read_some(&line[i], 1, until_ns));
        if (line[i] == '\n') {
            line[i] = 0;
            break;
        }
    }
    SL_TRY(sl_launch_order_read_head(line, &length));
    *fields = sl_realloc(NULL, (size_t)length);
    SL_TRY(read_some(*fields, (size_t)length, until_ns));
    return sl_launch_order_read(*fields, length, order);
}

/* Passes signals to the rank. False: the launcher is gone. */
static bool obey(pid_t rank, int64_t *heard_ns) {
    unsigned char bytes[256];
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&ready, 1, POLL_MS) <= 0)
        return true;
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
        return false;
    *heard_ns = sl_clock_ns();
    for (ssize_t i = 0; i < got; i++)
        if (bytes[i] > 0 && bytes[i] < NSIG)
            kill(rank, bytes[i]);
    return true;
}

static sl_err tend(const struct sl_launch_order *order, pid_t rank, int *status) {
    int64_t heard_ns = sl_clock_ns(), silence_ns = order->silence_s * 1000000000;
    bool alive = true;
    for (;;) {
        pid_t ended = waitpid(rank, status, WNOHANG);
        if (ended == rank)
            return SL_OK;
        if (alive && obey(rank, &heard_ns) && sl_clock_ns() - heard_ns < silence_ns)
            continue;
        alive = false;
        kill(rank, SIGKILL);
        if (waitpid(rank, status, 0) == rank)
            return sl_fail(SL_ERR_PEER, "the launcher is gone: its rank on this host is ended");
    }
}

sl_err sl_launch_serve(int *exit_status) {
    struct sl_launch_order order;
    char *fields = NULL;
    int status = 0;
    pid_t rank;
    sl_err err = SL_OK;
    SL_TRY_OUT(read_order(&order, &fields));
    if (chdir(order.directory) != 0) {
        err = sl_fail(SL_ERR_SYSTEM,
                      "%s: cannot enter this directory of the launcher on this host: %s",
                      order.directory, strerror(errno));
        goto out;
    }
    SL_TRY_OUT(sl_spawn(&(struct sl_spawn){.program = order.program,
                                           .argv = order.argv,
                                           .env = order.env,
                                           .dies_with_parent = true},
                        &rank));
    SL_TRY_OUT(tend(&order, rank, &status));
    if (WIFSIGNALED(status))
        err = sl_fail(SL_ERR_PEER, "the rank was ended by signal %d (%s)", WTERMSIG(status),
                      strsignal(WTERMSIG(status)));
    *exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : SL_ERR_PEER;
out:
    free(fields);
    return err;
}
