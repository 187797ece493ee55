/* Starting a child process.
 *
 * The parent allocates; between fork and exec the child only makes async-signal-safe calls. A pipe
 * that closes on exec reports a failed exec to the parent:
 *
 *     parent: pipe, fork ------------------------ read: 0 bytes -> started, errno -> failed
 *     child:         group, files, CPU, exec ---- exec closes the pipe, or write(errno)
 */
#define _GNU_SOURCE
#include "base/spawn.h"

#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NOT_STARTED = 127 };

static bool same_name(const char *entry, const char *change) {
    size_t length = strcspn(change, "=");
    return strncmp(entry, change, length) == 0 && entry[length] == '=';
}

/* Returns the environment with the changes applied: an array that the caller frees. */
static char **build_env(const char *const *changes) {
    SL_VEC(char *) all = {0};
    for (char **at = environ; *at; at++) {
        bool changed = false;
        for (int i = 0; changes && changes[i]; i++)
            changed |= same_name(*at, changes[i]);
        if (!changed)
            SL_PUSH(&all, *at);
    }
    for (int i = 0; changes && changes[i]; i++)
        if (strchr(changes[i], '='))
            SL_PUSH(&all, (char *)(uintptr_t)changes[i]);
    SL_PUSH(&all, NULL);
    return all.at;
}

static void bind_to_cpu(int number) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    int left = (number - 1) % CPU_COUNT(&all);
    CPU_ZERO(&one);
    for (size_t c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all) && left-- == 0)
            CPU_SET(c, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void set_files(const struct sl_spawn *s) {
    int in = s->in_fd ? s->in_fd : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in >= 0)
        dup2(in, STDIN_FILENO);
    if (s->out_fd)
        dup2(s->out_fd, STDOUT_FILENO);
    if (s->err_fd)
        dup2(s->err_fd, STDERR_FILENO);
    if (s->keep_fd)
        fcntl(s->keep_fd, F_SETFD, 0);
}

static void block(const int *signals) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; signals && signals[i]; i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static _Noreturn void run_child(const struct sl_spawn *s, char **env, int report_fd, pid_t parent) {
    char *const *argv = (char *const *)(uintptr_t)s->argv;
    if (s->dies_with_parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* the parent ended before prctl was called */
            _exit(EXIT_NOT_STARTED);
    }
    setpgid(0, 0);
    block(s->blocked);
    if (s->cpu)
        bind_to_cpu(s->cpu);
    set_files(s);
    if (s->program)
        execve(s->program, argv, env);
    else
        execvpe(argv[0], argv, env);
    int cause = errno;
    ssize_t written = write(report_fd, &cause, sizeof cause);
    _exit(written == (ssize_t)sizeof cause ? EXIT_NOT_STARTED : EXIT_NOT_STARTED - 1);
}

static int read_cause(int fd) {
    int cause = 0;
    ssize_t got;
    do
        got = read(fd, &cause, sizeof cause);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof cause ? cause : 0;
}

sl_err sl_spawn(const struct sl_spawn *spawn, pid_t *out) {
    const char *name = spawn->program ? spawn->program : spawn->argv[0];
    pid_t parent = getpid();
    int ends[2], cause = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return sl_fail(SL_ERR_SYSTEM, "%s: cannot start: %s", name, strerror(errno));
    char **env = build_env(spawn->env);
    *out = fork();
    if (*out == 0)
        run_child(spawn, env, ends[1], parent);
    cause = *out < 0 ? errno : 0;
    free(env);
    close(ends[1]);
    if (*out > 0) {
        setpgid(*out, *out); /* parent and child both call it, because either may run first */
        cause = read_cause(ends[0]);
        if (cause)
            waitpid(*out, NULL, 0);
    }
    close(ends[0]);
    return cause ? sl_fail(SL_ERR_SYSTEM, "%s: cannot start: %s", name, strerror(cause)) : SL_OK;
}
