/* Loss scaling: its text, its updates after steps, its text in checkpoints. */
#include "optim/loss_scale.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void texts(void **state) {
    static const struct {
        const char *text, *again;
        bool dynamic;
        double start;
        int64_t every;
    } rows[] = {
        {"none", "none", false, 1, 0},
        {"1", "none", false, 1, 0},
        {"1024", "1024", false, 1024, 0},
        {"16777216", "16777216", false, 16777216, 0},
        {"dynamic", "dynamic", true, 65536, 2000},
        {"dynamic:every=3", "dynamic:every=3", true, 65536, 3},
        {"dynamic:every=2000,start=8", "dynamic:start=8", true, 8, 2000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sl_loss_scale rule;
        struct sl_text text = {0};
        assert_int_equal(sl_optim_loss_scale_parse(rows[i].text, &rule), SL_OK);
        assert_int_equal(rule.dynamic, rows[i].dynamic);
        assert_true(rule.start == rows[i].start);
        assert_true(!rule.dynamic || rule.every == rows[i].every);
        sl_optim_loss_scale_put(&text, &rule);
        assert_string_equal(text.at, rows[i].again);
        sl_text_free(&text);
    }
    struct sl_loss_scale zero = {0};
    assert_true(sl_optim_loss_scale_is_none(&zero));
    assert_true(sl_optim_loss_scale_begin(&zero).value == 1);
}

static void refusals(void **state) {
    static const char *const bad[] = {
        "",
        "0",
        "-2",
        "3",
        "0.5",
        "1e9",
        "33554432",
        "2x",
        " 2",
        "inf",
        "nan",
        "dynami",
        "none:x=1",
        "dynamic:start=3",
        "dynamic:x",
        "dynamic:every=0",
        "dynamic:every=1.5",
        "dynamic:start=0",
        "dynamic:,",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sl_loss_scale rule;
        if (sl_optim_loss_scale_parse(bad[i], &rule) != SL_ERR_USAGE)
            fail_msg("'%s' is taken for a loss scale", bad[i]);
    }
}

static void verdicts(void **state) {
    static const bool finite[] = {true, true, true, false, true, false, false, false, false, true};
    static const double after[] = {4, 8, 8, 4, 4, 2, 1, 1, 1, 1};
    static const int64_t good[] = {1, 0, 1, 0, 1, 0, 0, 0, 0, 1};
    struct sl_loss_scale rule;
    (void)state;
    assert_int_equal(sl_optim_loss_scale_parse("dynamic:start=4,every=2", &rule), SL_OK);
    struct sl_scale_state at = sl_optim_loss_scale_begin(&rule);
    for (int i = 0; i < 10; i++) {
        at = sl_optim_loss_scale_next(&rule, at, at.value, finite[i]);
        assert_true(at.value == after[i] && at.good == good[i]);
    }
    rule.start = 16777216; /* never more */
    at = sl_optim_loss_scale_begin(&rule);
    for (int i = 0; i < 9; i++)
        at = sl_optim_loss_scale_next(&rule, at, at.value, true);
    assert_true(at.value == 16777216);
    assert_int_equal(sl_optim_loss_scale_parse("512", &rule), SL_OK);
    at = sl_optim_loss_scale_begin(&rule);
    at = sl_optim_loss_scale_next(&rule, at, at.value, false);
    assert_true(at.value == 512); /* by hand it stays */
}

/* Results of steps that began before the last change. */
static void late_verdicts(void **state) {
    struct sl_loss_scale rule = {true, 64, 2};
    struct sl_scale_state at = {64, 1};
    (void)state;
    at = sl_optim_loss_scale_next(&rule, at, 64, false);
    assert_true(at.value == 32 && at.good == 0);
    at = sl_optim_loss_scale_next(&rule, at, 64, false); /* the same cause */
    assert_true(at.value == 32);
    at = sl_optim_loss_scale_next(&rule, at, 64, true); /* no evidence for 32 */
    assert_true(at.value == 32 && at.good == 0);
    at = sl_optim_loss_scale_next(&rule, at, 16, false); /* even that was too much */
    assert_true(at.value == 8);
}

static void blame(void **state) {
    struct sl_loss_scale dynamic = {true, 64, 2}, fixed = {false, 64, 0};
    (void)state;
    assert_true(sl_optim_loss_scale_blames(&dynamic, 2, 1.5));
    assert_false(sl_optim_loss_scale_blames(&dynamic, 1, 1.5)); /* there is none smaller */
    assert_false(sl_optim_loss_scale_blames(&dynamic, 2, (double)NAN));
    assert_false(sl_optim_loss_scale_blames(&fixed, 64, 1.5));
}

static void states(void **state) {
    static const char *const bad[] = {"",    "8",   "8 ",   "8 x",   "8 -1", "3 0",  "0 0",
                                      "x 1", "8  ", "8 1 ", "1e9 0", "-8 1", "8 1x", "inf 1"};
    struct sl_scale_state at = {4096, 17}, again;
    struct sl_text text = {0};
    (void)state;
    sl_optim_scale_state_put(&text, &at);
    assert_string_equal(text.at, "4096 17");
    assert_true(sl_optim_scale_state_parse(text.at, &again));
    assert_true(again.value == 4096 && again.good == 17);
    sl_text_free(&text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (sl_optim_scale_state_parse(bad[i], &again))
            fail_msg("'%s' is taken for the state of a loss scale", bad[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),         cmocka_unit_test(refusals), cmocka_unit_test(verdicts),
        cmocka_unit_test(late_verdicts), cmocka_unit_test(blame),    cmocka_unit_test(states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
