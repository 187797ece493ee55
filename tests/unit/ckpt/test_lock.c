/* The lock of a run directory: one holder at a time, in one process and in two, by the kernel and by
 * a file; a holder that has ended does not count. */
#include "ckpt/lock.h"

#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

typedef sl_err (*take)(const char *run, struct sl_ckpt_lock **out);

static char directory[] = "/tmp/sl-lock-XXXXXX";

static const struct way {
    take take;
    const char *file;
} ways[] = {
    {sl_ckpt_lock_take, "lock"},
    {sl_ckpt_lock_take_by_file, "lock.held"},
};

static const char *path_of(const struct way *way, char out[128]) {
    snprintf(out, 128, "%s/%s", directory, way->file);
    return out;
}

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static void refused(const struct way *way, const char *message) {
    struct sl_ckpt_lock *lock;
    assert_int_equal(way->take(directory, &lock), SL_ERR_REFUSED);
    if (!strstr(sl_err_message(), message))
        fail_msg("'%s' does not hold '%s'", sl_err_message(), message);
}

static void test_one_process(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(ways); i++) {
        struct sl_ckpt_lock *lock;
        char mine[64], path[128];
        snprintf(mine, sizeof mine, "in use by process %d on host ", (int)getpid());
        must(ways[i].take(directory, &lock));
        refused(&ways[i], mine);
        sl_ckpt_lock_release(lock);
        assert_int_not_equal(access(path_of(&ways[i], path), F_OK), 0);
        must(ways[i].take(directory, &lock));
        sl_ckpt_lock_release(lock);
    }
    sl_ckpt_lock_release(NULL);
}

static void test_killed(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(ways); i++) {
        struct sl_ckpt_lock *lock;
        char byte, theirs[64], path[128];
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        if (child == 0) {
            bool ok = ways[i].take(directory, &lock) == SL_OK && write(ready[1], "x", 1) == 1;
            for (;;)
                pause();
            _exit(ok);
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        snprintf(theirs, sizeof theirs, "in use by process %d on host ", (int)child);
        refused(&ways[i], theirs);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        /* the holder could not remove its file */
        assert_int_equal(access(path_of(&ways[i], path), F_OK), 0);
        must(ways[i].take(directory, &lock));
        sl_ckpt_lock_release(lock);
        close(ready[0]);
        close(ready[1]);
    }
}

static void leave(const struct way *way, const char *text) {
    char path[128];
    FILE *file = fopen(path_of(way, path), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Files that earlier holders left behind. */
static void test_left_behind(void **state) {
    (void)state;
    const struct way *by_kernel = &ways[0], *by_file = &ways[1];
    struct sl_ckpt_lock *lock;
    char host[65] = "", boot[64] = "", text[256];
    gethostname(host, sizeof host - 1);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    assert_true(file && fscanf(file, "%63s", boot) == 1);
    fclose(file);

    /* the kernel has no lock on it */
    leave(by_kernel, "host elsewhere process 1 start 1 boot x\n");
    must(by_kernel->take(directory, &lock));
    sl_ckpt_lock_release(lock);
    leave(by_kernel, "garbage");
    must(by_kernel->take(directory, &lock));
    sl_ckpt_lock_release(lock);

    leave(by_file, "host elsewhere process 77 start 1 boot x\n");
    refused(by_file, "in use by process 77 on host elsewhere");
    refused(by_file, "(if it has ended, remove ");
    leave(by_file, "");
    refused(by_file, "in use by another run");
    snprintf(text, sizeof text, "host %s process %d start 1 boot %s\n", host, (int)getpid(), boot);
    leave(by_file, text); /* the process number now belongs to another process */
    must(by_file->take(directory, &lock));
    sl_ckpt_lock_release(lock);
    snprintf(text, sizeof text, "host %s process 1 start 1 boot earlier\n", host);
    leave(by_file, text);
    must(by_file->take(directory, &lock));
    sl_ckpt_lock_release(lock);
}

static void test_no_directory(void **state) {
    (void)state;
    struct sl_ckpt_lock *lock;
    for (int i = 0; i < SL_COUNT(ways); i++)
        assert_int_equal(ways[i].take("/tmp/sl-lock-none/run", &lock), SL_ERR_SYSTEM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_process),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_no_directory),
    };
    if (!mkdtemp(directory))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    return failed;
}
