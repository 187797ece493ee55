/* Running another program: a process group of its own, a pipe, a deadline. */
#define _GNU_SOURCE
#include "cli/capture.h"

#include "base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT_BYTES = 1 << 16, NAP_MS = 20 };

/* In the child: only what is safe after a fork. */
static _Noreturn void become(const char *const *argv, int to) {
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(to, STDOUT_FILENO);
    dup2(to, STDERR_FILENO);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(SL_CAPTURE_ABSENT);
}

/* What is there now; false at the end. */
static bool drain(int from, struct sl_text *out, size_t *kept) {
    char bytes[4096];
    ssize_t got;
    while ((got = read(from, bytes, sizeof bytes)) > 0) {
        size_t room = KEPT_BYTES - *kept, take = (size_t)got < room ? (size_t)got : room;
        sl_text_put_bytes(out, bytes, take);
        *kept += take;
    }
    return got != 0;
}

/* Its children may hold the pipe open when it has ended, and it may go on when it has closed it:
 * only its own end counts. */
static int wait_for(pid_t pid, int from, int64_t deadline_ns, struct sl_text *out) {
    size_t kept = 0;
    bool open = true, late = false;
    int status;
    for (;;) {
        struct pollfd ready = {.fd = open ? from : -1, .events = POLLIN};
        poll(&ready, 1, NAP_MS);
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
        return SL_CAPTURE_LATE;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int sl_cli_capture(const char *const *argv, int patience_s, struct sl_text *out) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return SL_CAPTURE_ABSENT;
    pid_t pid = fork();
    if (pid == 0)
        become(argv, ends[1]);
    close(ends[1]);
    int status = SL_CAPTURE_ABSENT;
    if (pid > 0) {
        setpgid(pid, pid); /* whoever comes first */
        status = wait_for(pid, ends[0], sl_clock_ns() + (int64_t)patience_s * 1000000000, out);
    }
    close(ends[0]);
    return status;
}

bool sl_cli_capture_finds(const char *program) {
    const char *at = getenv("PATH");
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
