/* Tables of measured steps and all-reduces, and the fit of constants. */
#include "cost/fit.h"
#include "cost/measured.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define HEAD                                                                                       \
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor " \
    "parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n"

static void steps(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    const struct sl_measured_step *at;
    int count;
    const char *text = "Parameters (billion)," HEAD "3.6,12,24,2,64,4,5,32,2,3,2, 5.5\r\n\n"
                       "1,1,1,1,64,4,5,32,1,1,1,7\n";
    assert_int_equal(sl_cost_measured_steps(&arena, "t", text, strlen(text), &at, &count), SL_OK);
    assert_int_equal(count, 2);
    assert_int_equal(at[0].devices, 12);
    assert_int_equal(at[0].layers, 5);
    assert_int_equal(at[0].dp, 3);
    assert_int_equal(at[1].line, 4);
    assert_true(fabs(at[0].seconds - 0.0055) < 1e-12);
    sl_arena_free(&arena);
}

static void broken(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"", "no column"},
        {HEAD, "no rows"},
        {"# GPUs,global batch\n1,2\n", "no column is called 'micro batch'"},
        {HEAD "4,8,2,64,4,4,32,2,1,2\n", "missing"},
        {HEAD "4,8,2,64,4,4,32,2,1,2,x\n", "not a number"},
        {HEAD "4,8,2,64,4,4,32,2,1,2,nan\n", "not a number"},
        {HEAD "4,8,2,64,4,4.5,32,2,1,2,5\n", "not an integer"},
        {HEAD "4,8,2,64,4,4,32,2,2,2,5\n", "not tensor x data x pipeline"},
        {HEAD "4,8,3,64,4,4,32,2,1,2,5\n", "no multiple"},
        {HEAD "0,8,2,64,4,4,32,2,1,2,5\n", "not a number in 1"},
        {HEAD "4,8,2,64,4,4,32,2,1,2,-5\n", "not a number in"},
    };
    for (int i = 0; i < SL_COUNT(rows); i++) {
        struct sl_arena arena = {0};
        const struct sl_measured_step *at;
        int count;
        assert_int_equal(
            sl_cost_measured_steps(&arena, "t", rows[i].text, strlen(rows[i].text), &at, &count),
            SL_ERR_INPUT);
        if (!strstr(sl_err_message(), rows[i].reason))
            fail_msg("%s: %s", rows[i].text, sl_err_message());
        sl_arena_free(&arena);
    }
}

static void sums(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    const struct sl_measured_sum *at;
    int count;
    const char *text =
        "size(B),count,type,time(ns),busbw(GB/s),time(ns)\n1048576,1,float,92790,1,3\n";
    assert_int_equal(sl_cost_measured_sums(&arena, "t", text, strlen(text), &at, &count), SL_OK);
    assert_int_equal(count, 1);
    assert_true(at[0].bytes == 1048576 && fabs(at[0].seconds - 92790e-9) < 1e-15);
    assert_int_equal(sl_cost_measured_sums(&arena, "t", "size(B)\n", 8, &at, &count), SL_ERR_INPUT);
    sl_arena_free(&arena);
}

/* time = exp(x0) i + exp(x1), one row ten times too long; x2 has no effect. */
static sl_err residuals(const void *ctx, const double *x, const bool *use, double *out) {
    const double *measured = ctx;
    for (int i = 0; i < 20; i++)
        out[i] = use && !use[i] ? 0 : log((exp(x[0]) * i + exp(x[1])) / measured[i]);
    return SL_OK;
}

static void fit(void **state) {
    (void)state;
    double measured[20], x[SL_FIT_MAX] = {0, 0, 1};
    bool use[20];
    struct sl_fit f = {.count = 3,
                       .rows = 20,
                       .low = {-9, -9, -9},
                       .high = {9, 9, 9},
                       .scale = 0.1,
                       .rounds = 40,
                       .residuals = residuals,
                       .ctx = measured};
    for (int i = 0; i < 20; i++) {
        measured[i] = 3 * i + 7;
        use[i] = true;
    }
    measured[11] *= 10;
    assert_int_equal(sl_cost_fit(&f, NULL, x), SL_OK);
    assert_true(fabs(exp(x[0]) / 3 - 1) < 0.05 && fabs(exp(x[1]) / 7 - 1) < 0.05);
    assert_true(fabs(x[2] - 1) < 1e-3);
    use[11] = false; /* held out: exact */
    assert_int_equal(sl_cost_fit(&f, use, x), SL_OK);
    assert_true(fabs(exp(x[0]) / 3 - 1) < 1e-3 && fabs(exp(x[1]) / 7 - 1) < 1e-3);
    f.high[0] = 0; /* a bound */
    assert_int_equal(sl_cost_fit(&f, use, x), SL_OK);
    assert_true(fabs(x[0]) < 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps),
        cmocka_unit_test(broken),
        cmocka_unit_test(sums),
        cmocka_unit_test(fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
