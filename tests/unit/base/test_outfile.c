/* Atomic output files: new, replaced, abandoned, on devices, in unwritable directories. */
#define _DEFAULT_SOURCE
#include "base/outfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];

static int open_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/sluice-outfile-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x", folder);
    return 0;
}

static int files(void) {
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static int close_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails if a test left a file */
}

static void expect(const char *want) {
    char *text;
    size_t length;
    assert_int_equal(sl_file_read(path, 1000, &text, &length), SL_OK);
    assert_string_equal(text, want);
    free(text);
    assert_int_equal(files(), 1);
}

static void put(const char *first, const char *second, sl_err so_far) {
    struct sl_outfile file;
    assert_int_equal(sl_outfile_open(&file, path), SL_OK);
    assert_int_equal(sl_outfile_write(&file, first, strlen(first)), SL_OK);
    assert_int_equal(sl_outfile_write(&file, second, strlen(second)), SL_OK);
    assert_int_equal(sl_outfile_close(&file, so_far), so_far);
}

static void whole_or_absent(void **state) {
    (void)state;
    put("a", "b", SL_ERR_INPUT);
    assert_int_equal(files(), 0);
    put("one ", "two", SL_OK);
    expect("one two");
    put("half of ", "it", SL_ERR_REFUSED);
    expect("one two");
    put("three", "", SL_OK);
    expect("three");
}

/* Before close, the new file is invisible and the old one still exists. */
static void unseen(void **state) {
    (void)state;
    struct sl_outfile file;
    put("old", "", SL_OK);
    assert_int_equal(sl_outfile_open(&file, path), SL_OK);
    assert_int_equal(sl_outfile_write(&file, "new", 3), SL_OK);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_nlink, 1);
    char *text;
    size_t length;
    assert_int_equal(sl_file_read(path, 1000, &text, &length), SL_OK);
    assert_string_equal(text, "old");
    free(text);
    assert_int_equal(sl_outfile_close(&file, SL_OK), SL_OK);
    expect("new");
}

static void elsewhere(void **state) {
    (void)state;
    struct sl_outfile file;
    char below[128];
    assert_int_equal(sl_file_write("/dev/null", "x", 1), SL_OK);
    assert_int_equal(sl_file_write("/dev/full", "x", 1), SL_ERR_SYSTEM);
    snprintf(below, sizeof below, "%s/nowhere/x", folder);
    assert_int_equal(sl_outfile_open(&file, below), SL_ERR_SYSTEM);
    assert_non_null(strstr(sl_err_message(), below));
    put("file", "", SL_OK);
    snprintf(below, sizeof below, "%s/x/y", folder);
    assert_int_equal(sl_outfile_open(&file, below), SL_ERR_SYSTEM);
    assert_int_equal(sl_outfile_open(&file, folder), SL_ERR_SYSTEM);
    assert_int_equal(files(), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_or_absent, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(unseen, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(elsewhere, open_folder, close_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
