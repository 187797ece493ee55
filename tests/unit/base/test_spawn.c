/* Child processes: environment, files, CPU, exit status, end with the parent. */
#define _GNU_SOURCE
#include "base/spawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts `sh -c script` with its output in a pipe; returns the exit status and the output. */
static int run(struct sl_spawn *spawn, const char *script, char *out, size_t size) {
    const char *const argv[] = {"sh", "-c", script, NULL};
    int ends[2], status;
    pid_t pid;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    spawn->argv = argv;
    spawn->out_fd = ends[1];
    if (sl_spawn(spawn, &pid) != SL_OK)
        fail_msg("%s", sl_err_message());
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], out + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    out[length] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_environment(void **state) {
    static const char *const changes[] = {"SL_ONE=1", "SL_TWO", "SL_THREE=a=b", "SL_FO", NULL};
    struct sl_spawn spawn = {.env = changes};
    char out[4096];
    (void)state;
    setenv("SL_ONE", "old", 1);
    setenv("SL_TWO", "old", 1);
    setenv("SL_FOUR", "kept", 1);
    assert_int_equal(
        run(&spawn, "echo $SL_ONE,${SL_TWO-unset},$SL_THREE,$SL_FOUR; env | grep -c ^SL_ONE=", out,
            sizeof out),
        0);
    assert_string_equal(out, "1,unset,a=b,kept\n1\n");
    spawn.env = NULL;
    assert_int_equal(run(&spawn, "echo $SL_ONE,$SL_TWO", out, sizeof out), 0);
    assert_string_equal(out, "old,old\n");
}

static void test_files(void **state) {
    struct sl_spawn spawn = {0};
    char out[256];
    int ends[2], kept[2];
    (void)state;
    assert_int_equal(run(&spawn, "cat; echo end; exit 7", out, sizeof out), 7); /* /dev/null */
    assert_string_equal(out, "end\n");
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "word\n", 5), 5);
    close(ends[1]);
    spawn.in_fd = ends[0];
    assert_int_equal(run(&spawn, "cat", out, sizeof out), 0);
    assert_string_equal(out, "word\n");
    close(ends[0]);
    assert_int_equal(pipe2(kept, O_CLOEXEC), 0);
    char script[64];
    snprintf(script, sizeof script, "echo through >&%d", kept[1]);
    spawn = (struct sl_spawn){.keep_fd = kept[1]};
    assert_int_equal(run(&spawn, script, out, sizeof out), 0);
    assert_int_equal(read(kept[0], out, 8), 8);
    assert_memory_equal(out, "through\n", 8);
    spawn.keep_fd = 0;
    assert_int_not_equal(run(&spawn, script, out, sizeof out), 0); /* closed on exec */
    spawn.err_fd = kept[1];
    assert_int_equal(run(&spawn, "echo error >&2", out, sizeof out), 0);
    assert_int_equal(read(kept[0], out, 6), 6);
    assert_memory_equal(out, "error\n", 6);
    close(kept[0]);
    close(kept[1]);
}

/* The k-th allowed CPU, also for k beyond their number. */
static void test_cpu(void **state) {
    cpu_set_t all;
    char out[64], want[64];
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int cpus[CPU_SETSIZE], count = 0;
    for (size_t c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all))
            cpus[count++] = (int)c;
    for (int k = 1; k <= count + 1; k++) {
        struct sl_spawn spawn = {.cpu = k};
        assert_int_equal(run(&spawn,
                             "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status", out,
                             sizeof out),
                         0);
        snprintf(want, sizeof want, "%d\n", cpus[(k - 1) % count]);
        assert_string_equal(out, want);
    }
}

static void test_group(void **state) {
    struct sl_spawn spawn = {0};
    char out[64];
    (void)state;
    assert_int_equal(run(&spawn, "[ $(ps -o pgid= -p $$) = $$ ] || exit 1", out, sizeof out), 0);
}

static void test_failures(void **state) {
    const char *const nothing[] = {"/no/such/program", NULL}, *const echo[] = {"true", NULL};
    struct sl_spawn spawn = {.argv = nothing};
    pid_t pid;
    int status;
    (void)state;
    assert_int_equal(sl_spawn(&spawn, &pid), SL_ERR_SYSTEM);
    assert_non_null(strstr(sl_err_message(), "/no/such/program: cannot start: No such file"));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    spawn = (struct sl_spawn){.program = "/etc/passwd", .argv = echo};
    assert_int_equal(sl_spawn(&spawn, &pid), SL_ERR_SYSTEM);
    assert_non_null(strstr(sl_err_message(), "/etc/passwd: cannot start: Permission denied"));
    spawn = (struct sl_spawn){.program = "/bin/sh",
                              .argv = (const char *const[]){"other", "-c", "exit 3", NULL}};
    assert_int_equal(sl_spawn(&spawn, &pid), SL_OK);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 3);
}

/* A parent starts a child that outlives it by far, says its number and is killed. */
static void test_parent(void **state) {
    (void)state;
    for (int dies = 0; dies < 2; dies++) {
        int ends[2];
        pid_t pid, child = 0;
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* the child becomes ours, to wait for */
        if ((pid = fork()) == 0) {
            const char *const argv[] = {"sleep", "1000", NULL};
            struct sl_spawn spawn = {.argv = argv, .dies_with_parent = dies};
            if (sl_spawn(&spawn, &child) != SL_OK ||
                write(ends[1], &child, sizeof child) != sizeof child)
                _exit(1);
            pause();
        }
        assert_int_equal(read(ends[0], &child, sizeof child), (int)sizeof child);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        int status = 0;
        if (!dies) {
            assert_int_equal(waitpid(child, &status, WNOHANG), 0); /* it lives on */
            kill(child, SIGTERM);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), dies ? SIGKILL : SIGTERM);
        close(ends[0]);
        close(ends[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment), cmocka_unit_test(test_files),
        cmocka_unit_test(test_cpu),         cmocka_unit_test(test_group),
        cmocka_unit_test(test_failures),    cmocka_unit_test(test_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
