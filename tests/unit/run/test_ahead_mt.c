/* Inputs made ahead of time have the values of the data set, whatever the readers ask for and in whatever
 * order; errors reach the reader; memory is bounded. */
#include "base/par.h"
#include "image/image.h"
#include "run/ahead.h"
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { SIDE = 8, NUMEL = 3 * SIDE * SIDE, BATCH = 6, MICROS = 3, STEPS = 12, READERS = 3 };

struct job {
    struct sl_ahead *ahead;
    const struct sl_data *data;
    bool jumps; /* readers go back, as after a restore */
    bool equal[READERS];
    sl_err err[READERS];
};

static void read_micros(void *ctx, int64_t reader) {
    struct job *job = ctx;
    float a[NUMEL * BATCH / MICROS], b[NUMEL * BATCH / MICROS];
    int32_t label[BATCH];
    job->equal[reader] = true;
    for (int64_t n = 0; n < STEPS && job->err[reader] == SL_OK; n++) {
        int64_t step = job->jumps ? (n * 7 + reader) % STEPS : n;
        struct sl_data_range range = {step * BATCH + reader * (BATCH / MICROS), BATCH / MICROS};
        enum sl_data_split split = job->jumps && n % 3 == 2 ? SL_DATA_VALID : SL_DATA_TRAIN;
        if (split == SL_DATA_VALID)
            range = (struct sl_data_range){n % 2, 1};
        job->err[reader] = sl_run_ahead_fill(job->ahead, split, &range, 0, a);
        if (job->err[reader] != SL_OK ||
            sl_run_ahead_fill(job->ahead, split, &range, 1, label) != SL_OK ||
            sl_data_fill(job->data, split, range.first, range.count, 0, b) != SL_OK)
            return;
        job->equal[reader] &= memcmp(a, b, sizeof *a * (size_t)(NUMEL * range.count)) == 0;
    }
}

static char root[64];

static void make_folder(bool damaged) {
    static const char *const names[] = {"grey.png", "palette.png", "alpha.png", "photo.png"};
    snprintf(root, sizeof root, "/tmp/sluice-ahead-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < SL_COUNT(names); i++) {
            char path[300], *bytes;
            size_t length;
            snprintf(path, sizeof path, "%s/%s%d", root, "class", c);
            mkdir(path, 0777);
            snprintf(path, sizeof path, SL_TEST_SRC_DIR "/tests/fixtures/images/%s", names[i]);
            SL_TEST_OK(sl_file_read(path, 1 << 24, &bytes, &length));
            snprintf(path, sizeof path, "%s/class%d/%s", root, c, names[i]);
            SL_TEST_OK(sl_file_write(path, bytes, damaged && c ? length / 2 : length));
            free(bytes);
        }
}

static void remove_folder(void) {
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a folder of this test */
}

static void check(bool jumps, bool damaged, int threads) {
    struct sl_data_input inputs[2] = {sl_test_float("image", 3, SIDE, SIDE),
                                      sl_test_int("label", 0, 2)};
    make_folder(damaged);
    struct sl_data_spec spec = {.source = root,
                                .inputs = inputs,
                                .input_count = 2,
                                .seed = 4,
                                .validation = damaged ? 0 : 2,
                                .images = "crop=scaled,flip=1"};
    struct job job = {.jumps = jumps};
    struct sl_data *data;
    SL_TEST_OK(sl_data_open(&spec, &data));
    struct sl_ahead_config config = {.data = data,
                                     .inputs = inputs,
                                     .input_count = 2,
                                     .batch = BATCH,
                                     .micros = MICROS,
                                     .last = STEPS * BATCH,
                                     .threads = threads};
    SL_TEST_OK(sl_run_ahead_open(&config, &job.ahead));
    job.data = data;
    assert_true(sl_run_ahead_bytes(job.ahead) >= BATCH * NUMEL * 4);
    sl_par_for(READERS, READERS, read_micros, &job);
    bool failed = false;
    for (int i = 0; i < READERS; i++) {
        failed |= job.err[i] != SL_OK;
        assert_true(job.equal[i] || damaged);
    }
    assert_int_equal(failed, damaged);
    assert_true(sl_run_ahead_take_ns(job.ahead) > 0);
    assert_int_equal(sl_run_ahead_take_ns(job.ahead), 0);
    sl_run_ahead_close(job.ahead);
    sl_data_close(data);
    remove_folder();
}

static void test_values(void **state) {
    (void)state;
    if (!sl_image_has_png)
        skip();
    for (int threads = 1; threads <= 4; threads += 3)
        for (int jumps = 0; jumps < 2; jumps++)
            check(jumps, false, threads);
}

static void test_errors(void **state) {
    (void)state;
    if (!sl_image_has_png)
        skip();
    check(false, true, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
