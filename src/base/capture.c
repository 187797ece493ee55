/* Runs a program to its end and captures its output. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT_BYTES = 1 << 16, POLL_MS = 20 };

/* Reads what the pipe holds now. Returns false at the end of the pipe. */
static bool drain(int from, struct sl_text *out, size_t *kept) {
    char bytes[4096];
    ssize_t got;
    while ((got = read(from, bytes, sizeof bytes)) > 0) {
        size_t room = KEPT_BYTES - *kept, count = (size_t)got < room ? (size_t)got : room;
        sl_text_put_bytes(out, bytes, count);
        *kept += count;
    }
    return got != 0;
}

/* Waits until the process itself ends. The end of the pipe is not enough: children of the process
 * may keep it open longer, and the process may close it and run on. */
static int wait_for(pid_t pid, int from, int64_t deadline_ns, struct sl_text *out) {
    size_t kept = 0;
    bool open = true, late = false;
    int status;
    for (;;) {
        struct pollfd ready = {.fd = open ? from : -1, .events = POLLIN};
        poll(&ready, 1, POLL_MS);
        open = open && drain(from, out, &kept);
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            break;
        if (!late && sl_clock_ns() > deadline_ns) {
            late = true;
            kill(-pid, SIGKILL);
        }
    }
    drain(from, out, &kept);
    if (late)
        return SL_CAPTURE_TIMEOUT;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int sl_capture(const char *const *argv, int timeout_s, struct sl_text *out) {
    int ends[2], status = SL_CAPTURE_ABSENT;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return SL_CAPTURE_ABSENT;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    sl_err err =
        sl_spawn(&(struct sl_spawn){.argv = argv, .out_fd = ends[1], .err_fd = ends[1]}, &pid);
    close(ends[1]);
    if (err == SL_OK)
        status = wait_for(pid, ends[0], sl_clock_ns() + (int64_t)timeout_s * 1000000000, out);
    close(ends[0]);
    return status;
}

bool sl_capture_finds(const char *program, const char *at) {
    struct sl_text path = {0};
    bool found = false;
    while (at && *at && !found) {
        size_t length = strcspn(at, ":");
        path.length = 0;
        sl_text_put_bytes(&path, at, length);
        sl_text_printf(&path, "/%s", program);
        found = access(path.at, X_OK) == 0;
        at += length + (at[length] == ':');
    }
    sl_text_free(&path);
    return found;
}
