/* Learning-rate schedules against their formulas, and what the texts of optimizers and schedules may not say. */
#include "optim/lr.h"
#include "optim/optim.h"
#include "optim/policy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static const double pi = 3.14159265358979323846;

static double constant(double t) {
    (void)t;
    return 1;
}
static double after(double t) { return t >= 20 ? 1 : (t - 4) / (20 - 4); } /* warmup 4, total 20 */
static double linear(double t) { return 1 - (1 - 0.1) * after(t); }
static double cosine(double t) { return 0.1 + 0.9 * 0.5 * (1 + cos(pi * after(t))); }
static double polynomial(double t) { return 0.1 + 0.9 * pow(1 - after(t), 3); }
static double wsd(double t) { return after(t) <= 0.75 ? 1 : 1 - 0.9 * (after(t) - 0.75) / 0.25; }
static double step(double t) { return pow(0.5, fmax(0, floor((t - 1 - 4) / 5))); }
static double inverse_sqrt(double t) { return sqrt(4 / t); }
static double onecycle(double t) {
    double p = t >= 20 ? 1 : t / 20;
    return p < 0.25 ? 0.2 + 0.8 * 0.5 * (1 - cos(pi * p / 0.25))
                    : 0.1 + 0.9 * 0.5 * (1 + cos(pi * (p - 0.25) / 0.75));
}

static void test_formulas(void **state) {
    static const struct {
        const char *text;
        double (*factor)(double t);
        int warmup;
    } rows[] = {
        {"constant:warmup=4", constant, 4},
        {"linear:warmup=4,total=20,min=0.1", linear, 4},
        {"cosine:warmup=4,total=20,min=0.1", cosine, 4},
        {"polynomial:warmup=4,total=20,min=0.1,power=3", polynomial, 4},
        {"wsd:warmup=4,total=20,min=0.1,decay=0.25", wsd, 4},
        {"step:warmup=4,every=5,gamma=0.5", step, 4},
        {"inverse-sqrt:warmup=4", inverse_sqrt, 4},
        {"onecycle:total=20,min=0.1,up=0.25,start=0.2", onecycle, 0},
    };
    (void)state;
    assert_int_equal(SL_COUNT(rows), sl_optim_lr_row_count); /* a new one needs its formula here */
    for (int i = 0; i < SL_COUNT(rows); i++) {
        struct sl_lr lr;
        assert_int_equal(sl_optim_lr_parse(rows[i].text, 0, &lr), SL_OK);
        for (int t = 1; t < 60; t++) {
            double want = t < rows[i].warmup ? t / (double)rows[i].warmup : rows[i].factor(t);
            double got = sl_optim_lr_at(&lr, 2, t);
            if (!(fabs(got - 2 * want) < 1e-14))
                fail_msg("%s, step %d: %.17g, not %.17g", rows[i].text, t, got, 2 * want);
        }
    }
}

/* The length of the run is the default of total. A schedule that is all warm-up ends at the base rate. */
static void test_total(void **state) {
    struct sl_lr lr;
    (void)state;
    assert_int_equal(sl_optim_lr_parse("linear", 10, &lr), SL_OK);
    assert_true(sl_optim_lr_at(&lr, 1, 5) == 0.5 && sl_optim_lr_at(&lr, 1, 10) == 0);
    assert_int_equal(sl_optim_lr_parse("linear:total=20", 10, &lr), SL_OK);
    assert_true(sl_optim_lr_at(&lr, 1, 5) == 0.75);
    assert_int_equal(sl_optim_lr_parse("linear:warmup=10", 10, &lr), SL_OK);
    assert_true(sl_optim_lr_at(&lr, 1, 5) == 0.5);
    /* gamma^n of a step far away is 0, not an endless loop */
    assert_int_equal(sl_optim_lr_parse("step:every=1,gamma=0.5", 0, &lr), SL_OK);
    assert_true(sl_optim_lr_at(&lr, 1, 1000000000000) == 0);
}

static void refuse_lr(const char *text, const char *why) {
    struct sl_lr lr;
    assert_int_equal(sl_optim_lr_parse(text, 10, &lr), SL_ERR_USAGE);
    if (!strstr(sl_err_message(), why))
        fail_msg("'%s' is not in: %s", why, sl_err_message());
}

static void refuse(const char *text, const char *why) {
    struct sl_optim optim;
    assert_int_equal(sl_optim_parse(text, &optim), SL_ERR_USAGE);
    if (!strstr(sl_err_message(), why))
        fail_msg("'%s' is not in: %s", why, sl_err_message());
}

static void test_refused(void **state) {
    struct sl_optim optim;
    struct sl_lr lr;
    (void)state;
    refuse_lr("cosine:warmup=11,total=10", "longer than total");
    refuse_lr("cosine:warmup=11", "longer than total");
    assert_int_equal(sl_optim_lr_parse("cosine:warmup=10,total=10", 0, &lr), SL_OK);
    assert_int_equal(sl_optim_lr_parse("cosine", 0, &lr), SL_ERR_USAGE);
    assert_non_null(strstr(sl_err_message(), "needs total=STEPS"));
    refuse_lr("cosin", "did you mean 'cosine'");
    refuse_lr("cosine:warmup=1.5", "whole number");
    refuse_lr("cosine:min=1.1", "not in [0, 1]");
    refuse_lr("cosine:min=-0.1", "not in [0, 1]");
    assert_int_equal(sl_optim_lr_parse("cosine:min=1", 10, &lr), SL_OK);
    refuse("adamw:beta1=0.9,", "nothing follows the last comma");
    refuse("adamw:beta1=1", "not in [0, 1)");
    refuse("adamw:beta1=0.9,beta1=0.8", "given twice");
    refuse("adamw:=1", "is not NAME=VALUE");
    refuse("adamw:beta1", "is not NAME=VALUE");
    refuse("adamw:betta1=0", "did you mean 'beta1'");
    refuse("adamw:beta1=0000000000000000000000000000000000000000000000000000000000", "is too long");
    assert_int_equal(sl_optim_parse("adamw:beta1=0,beta2=0.5", &optim), SL_OK);
    assert_true(sl_optim_value(&optim, "beta1") == 0 && sl_optim_value(&optim, "beta2") == 0.5);
}

/* nesterov-async: one momentum for all, or graded from the optimizer's own up to beta, by height. */
static void test_momentum(void **state) {
    (void)state;
    for (int graded = 0; graded < 2; graded++) {
        struct sl_policy_use use;
        assert_int_equal(sl_optim_policy_parse(graded ? "nesterov-async:beta=0.8,graded=1"
                                                      : "nesterov-async:beta=0.8",
                                               &use),
                         SL_OK);
        for (int height = 0; height < 4; height++) {
            struct sl_policy_at at = {.height = height, .depth = 4};
            struct sl_optim optim;
            assert_int_equal(sl_optim_parse("nesterov:beta=0.4,ema=1", &optim), SL_OK);
            use.row->momentum(&use, &at, &optim);
            double want = graded ? 0.4 + height * (0.8 - 0.4) / 4 : 0.8;
            assert_true(fabs(sl_optim_value(&optim, "beta") - want) < 1e-15);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formulas),
                                       cmocka_unit_test(test_total), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_momentum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
