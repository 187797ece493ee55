/* The note of the best checkpoint of a run: written, read again; anything else is no note. */
#include "ckpt/ckpt.h"
#include "support/data_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[512];

static void put(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void test_best(void **state) {
    const char *run = sl_test_folder();
    int64_t step = -7;
    double loss = -7;
    (void)state;
    snprintf(path, sizeof path, "%s/ckpt/best", run);
    assert_false(sl_ckpt_best_read(run, &step, &loss)); /* no ckpt/ yet */
    SL_TEST_OK(sl_ckpt_best_write(run, 1234567, 0.1));
    assert_true(sl_ckpt_best_read(run, &step, &loss));
    assert_int_equal(step, 1234567);
    assert_true(loss == 0.1);
    SL_TEST_OK(sl_ckpt_best_write(run, 3, 1e-30)); /* ckpt/ exists */
    assert_true(sl_ckpt_best_read(run, &step, &loss));
    assert_int_equal(step, 3);
    assert_true(loss == 1e-30);
    static const char *const bad[] = {"",           "step-",      "step-0 1", "step--4 1",
                                      "step-5 nan", "step-5 inf", "4 0.5",    "steps-4 1"};
    for (int i = 0; i < SL_COUNT(bad); i++) {
        put(bad[i]);
        if (sl_ckpt_best_read(run, &step, &loss))
            fail_msg("'%s' was read as a note", bad[i]);
    }
    put("step-00000009 -2.5\n");
    assert_true(sl_ckpt_best_read(run, &step, &loss));
    assert_int_equal(step, 9);
    assert_true(loss == -2.5);
    unlink(path);
    snprintf(path, sizeof path, "%s/ckpt", run);
    rmdir(path);
    put("a file"); /* where the directory should be */
    assert_int_equal(sl_ckpt_best_write(run, 1, 1), SL_ERR_SYSTEM);
    unlink(path);
}

static int remove_folder(void **state) {
    (void)state;
    sl_test_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_best)};
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
