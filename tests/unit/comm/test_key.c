/* The secret of a job in a file: only a private regular file of this user counts, and a long enough one. */
#include "comm/key.h"
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char secret[] = "0123456789abcdef";

static const char *write_key(const char *text, mode_t mode) {
    const char *path = sl_test_text("key", text);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static void refuse(const char *path, sl_err code, const char *why) {
    struct sl_comm_job job = {0};
    SL_TEST_FAILS(sl_comm_key_read(&job, path), code, why);
    assert_false(job.has_key);
}

static void test_modes(void **state) {
    struct sl_comm_job job = {0};
    char link[512];
    (void)state;
    SL_TEST_OK(sl_comm_key_read(&job, write_key(secret, 0600)));
    assert_true(job.has_key);
    SL_TEST_OK(sl_comm_key_read(&job, write_key(secret, 0400)));
    static const mode_t open_modes[] = {0640, 0620, 0610, 0604, 0602, 0601, 0666};
    for (int i = 0; i < SL_COUNT(open_modes); i++)
        refuse(write_key(secret, open_modes[i]), SL_ERR_REFUSED, "others may use this key");
    const char *path = write_key(secret, 0600);
    snprintf(link, sizeof link, "%s.link", path);
    assert_int_equal(symlink(path, link), 0);
    refuse(link, SL_ERR_INPUT, "cannot read the key");
    unlink(link);
    refuse(sl_test_folder(), SL_ERR_REFUSED, "regular file");
    refuse("/no/such/key", SL_ERR_INPUT, "cannot read the key");
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 1, (gid_t)-1), 0);
        refuse(path, SL_ERR_REFUSED, "belongs to user 1");
    }
}

/* White space at the end, as editors leave it, does not count; another letter does. */
static void test_secrets(void **state) {
    struct sl_comm_job a = {0}, b = {0}, c = {0};
    (void)state;
    SL_TEST_OK(sl_comm_key_read(&a, write_key("0123456789abcdef", 0600)));
    SL_TEST_OK(sl_comm_key_read(&b, write_key("0123456789abcdef \n\n", 0600)));
    SL_TEST_OK(sl_comm_key_read(&c, write_key("0123456789abcdeg", 0600)));
    assert_memory_equal(a.key, b.key, sizeof a.key);
    assert_memory_not_equal(a.key, c.key, sizeof a.key);
    refuse(write_key("0123456789abcde", 0600), SL_ERR_USAGE, "15 characters can be guessed");
    refuse(write_key("0123456789abcde   ", 0600), SL_ERR_USAGE, "15 characters");
    refuse(write_key("", 0600), SL_ERR_USAGE, "0 characters");
}

/* Rank 0 leaves its secret for the others; it is private, and gone when all are there. */
static void test_share(void **state) {
    struct sl_comm_job first = {.rank = 0, .ranks = 2}, other = {.rank = 1, .ranks = 2};
    struct stat info;
    (void)state;
    snprintf(first.step, sizeof first.step, "slurm-1.0");
    snprintf(other.step, sizeof other.step, "slurm-1.0");
    SL_TEST_OK(sl_comm_key_share(&other, sl_test_folder()));
    assert_false(other.has_key); /* it has to wait */
    assert_int_not_equal(stat(other.key_file, &info), 0);
    SL_TEST_OK(sl_comm_key_share(&first, sl_test_folder()));
    assert_true(first.has_key);
    assert_string_equal(first.key_file, other.key_file);
    assert_int_equal(stat(first.key_file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    SL_TEST_OK(sl_comm_key_read(&other, other.key_file));
    assert_memory_equal(first.key, other.key, sizeof first.key);
    sl_comm_key_forget(&other); /* only rank 0 removes it */
    assert_int_equal(stat(first.key_file, &info), 0);
    struct sl_comm_job again = {.rank = 0, .ranks = 2};
    snprintf(again.step, sizeof again.step, "slurm-1.0");
    SL_TEST_OK(sl_comm_key_share(&again, sl_test_folder()));
    assert_memory_not_equal(first.key, again.key, sizeof first.key); /* drawn */
    sl_comm_key_forget(&first);
    assert_int_not_equal(stat(first.key_file, &info), 0);
}

static int remove_folder(void **state) {
    (void)state;
    sl_test_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_modes), cmocka_unit_test(test_secrets),
                                       cmocka_unit_test(test_share)};
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
