/* Every optimizer of the registry: float against double, its facts (whole matrices, Nesterov, Delta),
 * its text, and its refusals. Every learning-rate schedule likewise. */
#include "base/rng.h"
#include "optim/lr.h"
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 23, ROWS = 13, COLS = 7, COUNT = ROWS * COLS };

/* One parameter's tensors. */
struct tensors {
    float w[COUNT], g[COUNT], state[SL_OPTIM_STATE][COUNT], delta[COUNT];
    float scratch[4 * COUNT + 2 * ROWS * ROWS];
};

static struct sl_step_io io_of(struct tensors *at, int64_t from, int64_t count) {
    struct sl_step_io io = {.count = count,
                            .rows = ROWS,
                            .cols = COLS,
                            .w = at->w + from,
                            .g = at->g + from,
                            .delta = at->delta + from,
                            .scratch = at->scratch};
    for (int i = 0; i < SL_OPTIM_STATE; i++)
        io.state[i] = at->state[i] + from;
    return io;
}

static void fill(struct tensors *at) {
    memset(at, 0, sizeof *at);
    for (int i = 0; i < COUNT; i++)
        at->w[i] = (float)sl_rng_normal(7, 1, (uint64_t)i);
}

static void draw(struct tensors *at, int t) {
    for (int i = 0; i < COUNT; i++)
        at->g[i] = (float)sl_rng_normal(7, 2, (uint64_t)(t * COUNT + i));
}

static struct sl_optim_param param_of(const struct sl_optimizer *row) {
    struct sl_optim optim;
    struct sl_optim_shape shape = {.rank = 2, .dim = {ROWS, COLS}};
    char text[64];
    snprintf(text, sizeof text, "%s:wd=0.03", row->name);
    assert_int_equal(sl_optim_parse(text, &optim), SL_OK);
    return sl_optim_for(&optim, &shape);
}

static double rate(int t) { return 0.01 * (1 - 0.02 * t); }

/* w_new == w*shrink - lr*Delta to the last bit, and Delta from state is the Delta of the step. */
static void direction_is_what_was_subtracted(void **state) {
    (void)state;
    for (int r = 0; r < sl_optim_row_count; r++) {
        struct sl_optim_param param = param_of(sl_optim_rows[r]);
        const struct sl_optimizer *row = param.optim.row;
        struct tensors at, before;
        fill(&at);
        for (int t = 1; t <= STEPS; t++) {
            struct sl_step_coef coef = sl_optim_coef(&param, t, rate(t), 0.5f);
            draw(&at, t);
            before = at;
            struct sl_step_io io = io_of(&at, 0, COUNT);
            row->step(&coef, &io);
            for (int i = 0; i < COUNT; i++) {
                float kept = before.w[i] * coef.shrink, step = coef.lr * at.delta[i];
                if (at.w[i] != kept - step)
                    fail_msg("%s, step %d: w is not w*shrink - lr*Delta", row->name, t);
            }
            if (row->delta_from != SL_DELTA_STATE)
                continue;
            float again[COUNT];
            io.delta = again;
            row->delta(&coef, &io);
            if (memcmp(again, at.delta, sizeof again) != 0)
                fail_msg("%s, step %d: Delta from state differs from the step's", row->name, t);
        }
    }
}

/* A step in any pieces, and without a place for Delta, gives the same bits. */
static void elementwise_rows_can_be_cut(void **state) {
    (void)state;
    for (int r = 0; r < sl_optim_row_count; r++) {
        struct sl_optim_param param = param_of(sl_optim_rows[r]);
        const struct sl_optimizer *row = param.optim.row;
        struct tensors whole, cut;
        fill(&whole);
        fill(&cut);
        for (int t = 1; t <= STEPS; t++) {
            struct sl_step_coef coef = sl_optim_coef(&param, t, rate(t), 1);
            draw(&whole, t);
            draw(&cut, t);
            struct sl_step_io io = io_of(&whole, 0, COUNT);
            row->step(&coef, &io);
            for (int64_t from = 0; from < COUNT;) {
                int64_t share = row->whole_matrix ? COUNT : 1 + (from * 5 + t) % 17;
                share = share < COUNT - from ? share : COUNT - from;
                io = io_of(&cut, from, share);
                io.delta = NULL;
                row->step(&coef, &io);
                from += share;
            }
        }
        if (memcmp(whole.w, cut.w, sizeof cut.w) != 0 ||
            memcmp(whole.state, cut.state, sizeof cut.state) != 0)
            fail_msg("%s: bits depend on how the parameter is cut", row->name);
    }
}

/* whole_matrix: one element of the gradient changes other weights; else only its own. */
static void whole_matrix_rows_mix_elements(void **state) {
    (void)state;
    for (int r = 0; r < sl_optim_row_count; r++) {
        struct sl_optim_param param = param_of(sl_optim_rows[r]);
        struct tensors at[2];
        for (int i = 0; i < 2; i++) {
            struct sl_step_coef coef = sl_optim_coef(&param, 1, rate(1), 1);
            fill(&at[i]);
            draw(&at[i], 1);
            at[i].g[0] += (float)i;
            struct sl_step_io io = io_of(&at[i], 0, COUNT);
            param.optim.row->step(&coef, &io);
        }
        bool others = memcmp(at[0].w + 1, at[1].w + 1, sizeof(float) * (COUNT - 1)) != 0;
        if (others != param.optim.row->whole_matrix)
            fail_msg("%s: whole_matrix is %d", param.optim.row->name,
                     param.optim.row->whole_matrix);
    }
}

/* nesterov: with the usual values the momentum `beta` already counts in the first step. */
static void nesterov_rows_look_ahead(void **state) {
    (void)state;
    for (int r = 0; r < sl_optim_row_count; r++) {
        struct sl_optim_param param = param_of(sl_optim_rows[r]);
        const struct sl_optimizer *row = param.optim.row;
        float delta[2];
        if (row->whole_matrix || !row->momentum) {
            assert_false(row->nesterov);
            continue;
        }
        int beta = sl_optim_hyper_find(row->hyper, sl_str(row->momentum));
        assert_true(beta >= 0);
        for (int i = 0; i < 2; i++) {
            struct tensors at;
            param.optim.hyper[beta] = i ? 0.5 : 0.9;
            struct sl_step_coef coef = sl_optim_coef(&param, 1, rate(1), 1);
            fill(&at);
            draw(&at, 1);
            struct sl_step_io io = io_of(&at, 0, COUNT);
            float before = at.w[0];
            row->step(&coef, &io);
            delta[i] = at.w[0] - before;
        }
        bool depends = fabsf(delta[0] - delta[1]) > 1e-3f * fabsf(delta[0]);
        if (depends != row->nesterov)
            fail_msg("%s: nesterov is %d", row->name, row->nesterov);
    }
}

static void float_follows_double(void **state) {
    (void)state;
    for (int r = 0; r < sl_optim_row_count; r++) {
        struct sl_optim_param param = param_of(sl_optim_rows[r]);
        const struct sl_optimizer *row = param.optim.row;
        static double w[COUNT], g[COUNT], s[SL_OPTIM_STATE][COUNT], delta[COUNT];
        struct tensors at;
        fill(&at);
        memset(s, 0, sizeof s);
        for (int i = 0; i < COUNT; i++)
            w[i] = at.w[i];
        for (int t = 1; t <= STEPS; t++) {
            struct sl_step_coef coef = sl_optim_coef(&param, t, rate(t), 0.25f);
            draw(&at, t);
            for (int i = 0; i < COUNT; i++)
                g[i] = at.g[i];
            struct sl_step_io io = io_of(&at, 0, COUNT);
            struct sl_step_ref ref = {t,    rate(t), 0.25, COUNT,        ROWS,
                                      COLS, w,       g,    {s[0], s[1]}, delta};
            row->step(&coef, &io);
            row->ref(&param, &ref);
        }
        for (int i = 0; i < COUNT; i++)
            if (!(fabs((double)at.w[i] - w[i]) <= 1e-5 * (1 + fabs(w[i]))))
                fail_msg("%s: %g in float, %g in double after %d steps", row->name, (double)at.w[i],
                         w[i], STEPS);
    }
}

/* Stop after some steps, copy weights and state, go on: the same bits. */
static void state_is_all_there_is(void **state) {
    (void)state;
    for (int r = 0; r < sl_optim_row_count; r++) {
        struct sl_optim_param param = param_of(sl_optim_rows[r]);
        const struct sl_optimizer *row = param.optim.row;
        struct tensors straight, resumed;
        fill(&straight);
        for (int t = 1; t <= STEPS; t++) {
            struct sl_step_coef coef = sl_optim_coef(&param, t, rate(t), 1);
            if (t == 9) {
                memset(&resumed, 0, sizeof resumed);
                memcpy(resumed.w, straight.w, sizeof resumed.w);
                for (int i = 0; i < row->state_count; i++)
                    memcpy(resumed.state[i], straight.state[i], sizeof resumed.state[i]);
            }
            draw(&straight, t);
            struct sl_step_io io = io_of(&straight, 0, COUNT);
            row->step(&coef, &io);
            if (t < 9)
                continue;
            draw(&resumed, t);
            io = io_of(&resumed, 0, COUNT);
            row->step(&coef, &io);
        }
        if (memcmp(resumed.w, straight.w, sizeof resumed.w) != 0)
            fail_msg("%s: something besides w and %d state tensors is carried", row->name,
                     row->state_count);
    }
}

static void rows_are_complete(void **state) {
    (void)state;
    for (int r = 0; r < sl_optim_row_count; r++) {
        const struct sl_optimizer *row = sl_optim_rows[r];
        if (r)
            assert_true(strcmp(sl_optim_rows[r - 1]->name, row->name) < 0);
        assert_ptr_equal(sl_optim_row_find(sl_str(row->name)), row);
        assert_true(row->brief && row->note && row->direction && row->lr > 0);
        assert_true(row->coef && row->step && row->ref);
        assert_true((row->delta != NULL) == (row->delta_from == SL_DELTA_STATE));
        assert_true((row->takes != NULL) == (row->fallback != NULL));
        assert_true(sl_optim_hyper_count(row->hyper) <= SL_OPTIM_HYPER);
        for (int i = 0; i < SL_OPTIM_STATE; i++)
            assert_true((row->state[i] != NULL) == (i < row->state_count));
        for (int i = 0; row->hyper[i].name; i++)
            assert_true(row->hyper[i].fallback >= row->hyper[i].low &&
                        row->hyper[i].fallback <= row->hyper[i].high && row->hyper[i].brief);
    }
}

/* Text: put(parse(x)) reads back the same for random values of every hyper-parameter. */
static void text_round_trips(void **state) {
    (void)state;
    for (int r = 0; r < sl_optim_row_count; r++)
        for (int trial = 0; trial < 50; trial++) {
            struct sl_optim optim = {.row = sl_optim_rows[r]}, again;
            struct sl_text text = {0};
            for (int i = 0; optim.row->hyper[i].name; i++) {
                const struct sl_hyper *h = &optim.row->hyper[i];
                double u = sl_rng_uniform(3, (uint64_t)r, (uint64_t)(trial * 16 + i));
                optim.hyper[i] = trial % 3 == 0 ? h->fallback : h->low + u * (h->high - h->low);
                if (h->range == SL_RANGE_WHOLE)
                    optim.hyper[i] = floor(optim.hyper[i]);
            }
            sl_optim_put(&text, &optim);
            if (sl_optim_parse(text.at, &again) != SL_OK)
                fail_msg("%s: %s", text.at, sl_err_message());
            assert_memory_equal(&again, &optim, sizeof optim);
            sl_text_free(&text);
        }
}

static void expect_refusal(sl_err err, const char *text, const char *says) {
    if (err != SL_ERR_USAGE || !strstr(sl_err_message(), says))
        fail_msg("'%s': error %d '%s' does not say '%s'", text, (int)err, sl_err_message(), says);
}

static void refusals_name_the_nearest(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"adamv", "no optimizer 'adamv'; did you mean 'adam"},
        {"", "no optimizer ''"},
        {"frobnicate", "'sluice list optimizers' names them"},
        {"adamw:beta3=0.9", "optimizer 'adamw' has no value 'beta3'; did you mean 'beta"},
        {"sgd:foobarbaz=1", "it has: wd, wd_all"},
        {"adamw:beta2=1", "beta2=1 is not in [0, 1)"},
        {"adamw:beta2=-0.1", "is not in [0, 1)"},
        {"adam:eps=0", "eps=0 is not in [1e-30, 1]"},
        {"momentum:ema=0.5", "ema=0.5 is not a whole number from 0 to 1"},
        {"adamw:wd=0.1,wd=0.2", "wd is given twice"},
        {"adamw:wd", "'wd' is not NAME=VALUE"},
        {"adamw:wd=", "wd"},
        {"adamw:wd=nan", "wd"},
        {"adamw:wd=0.1,", "nothing follows the last comma"},
        {"muon:rounds=0", "rounds=0 is not a whole number from 1 to 20"},
        {"adamw:wd=0.1000000000000000000000000000000000000000000000000000000000000000", "too long"},
    };
    struct sl_optim optim;
    for (int i = 0; i < SL_COUNT(rows); i++)
        expect_refusal(sl_optim_parse(rows[i].text, &optim), rows[i].text, rows[i].says);
    for (int r = 0; r < sl_optim_row_count; r++) {
        char text[64];
        snprintf(text, sizeof text, "%s:wdd=1", sl_optim_rows[r]->name);
        expect_refusal(sl_optim_parse(text, &optim), text, "did you mean 'wd'");
    }
}

static void decay_and_fallback_follow_the_shape(void **state) {
    (void)state;
    struct sl_optim optim;
    struct sl_optim_shape matrix = {.rank = 2, .dim = {5, 3}}, bias = {.rank = 1, .dim = {5}};
    struct sl_optim_shape table = {.rank = 2, .dim = {5, 3}, .lookup = true};
    struct sl_optim_shape filter = {.rank = 4, .dim = {2, 3, 5, 7}}, scalar = {.rank = 0};
    assert_int_equal(sl_optim_parse("muon:beta1=0.8,wd=0.2", &optim), SL_OK);
    assert_string_equal(sl_optim_for(&optim, &matrix).optim.row->name, "muon");
    assert_string_equal(sl_optim_for(&optim, &bias).optim.row->name, "adamw");
    assert_string_equal(sl_optim_for(&optim, &table).optim.row->name, "adamw");
    assert_string_equal(sl_optim_for(&optim, &filter).optim.row->name, "adamw");
    assert_int_equal(sl_optim_for(&optim, &filter).count, 210);
    assert_int_equal(sl_optim_for(&optim, &scalar).count, 1);
    struct sl_optim_param param = sl_optim_for(&optim, &table);
    assert_true(sl_optim_value(&param.optim, "beta1") == 0.8);
    assert_true(sl_optim_value(&param.optim, "wd") == 0.2);
    assert_true(param.decays && !sl_optim_for(&optim, &bias).decays);
    assert_true(sl_optim_coef(&param, 1, 0.5, 1).shrink == 0.9f);
    param = sl_optim_for(&optim, &bias);
    assert_true(sl_optim_coef(&param, 1, 0.5, 1).shrink == 1);
    assert_int_equal(sl_optim_tensors(&param, true), 2);
    param = sl_optim_for(&optim, &matrix);
    assert_int_equal(sl_optim_tensors(&param, false), 1);
    assert_int_equal(sl_optim_tensors(&param, true), 2);
    assert_int_equal(sl_optim_parse("sgd:wd=0.5,wd_all=1", &optim), SL_OK);
    assert_true(sl_optim_for(&optim, &bias).decays);
}

/* With a constant gradient and a converged velocity the prediction is exact. */
static void prediction_is_exact_on_constant_velocity(void **state) {
    (void)state;
    struct sl_optim optim;
    struct sl_optim_shape shape = {.rank = 1, .dim = {3}};
    assert_int_equal(sl_optim_parse("momentum:beta=0.5,ema=1", &optim), SL_OK);
    struct sl_optim_param param = sl_optim_for(&optim, &shape);
    float w[3] = {1, -2, 3}, g[3] = {0.5f, 0.25f, -1}, v[3] = {0.5f, 0.25f, -1}, predicted[3];
    sl_optim_predict(3, w, v, 0.125, 4, predicted);
    struct sl_step_io io = {.count = 3, .w = w, .g = g, .state = {v}};
    for (int t = 1; t <= 4; t++) {
        struct sl_step_coef coef = sl_optim_coef(&param, t, 0.125, 1);
        param.optim.row->step(&coef, &io);
    }
    assert_memory_equal(w, predicted, sizeof w);
}

/* Rises to the base rate, then falls; stays at its last value after `total`, if it has one. */
static void check_rates(const struct sl_lr *lr, const double base) {
    int64_t t = 1;
    while (t < 130 && sl_optim_lr_at(lr, base, t + 1) > sl_optim_lr_at(lr, base, t))
        t++;
    assert_true(fabs(sl_optim_lr_at(lr, base, t) - base) < 1e-3 * base);
    for (; t < 130; t++)
        assert_true(sl_optim_lr_at(lr, base, t + 1) <= sl_optim_lr_at(lr, base, t) &&
                    sl_optim_lr_at(lr, base, t + 1) >= 0);
    if (sl_optim_hyper_find(lr->row->hyper, SL_STR("total")) >= 0)
        assert_true(sl_optim_lr_at(lr, base, 101) == sl_optim_lr_at(lr, base, 1000));
}

static void rates_are_pure_and_bounded(void **state) {
    (void)state;
    for (int r = 0; r < sl_optim_lr_row_count; r++) {
        const struct sl_lr_row *row = sl_optim_lr_rows[r];
        bool warms_up = row->hyper[0].high > 0;
        struct sl_lr lr, again;
        struct sl_text text = {0};
        char spec[64];
        snprintf(spec, sizeof spec, "%s%s", row->name, warms_up ? ":warmup=17" : "");
        assert_int_equal(sl_optim_lr_parse(spec, 101, &lr), SL_OK);
        for (int64_t t = 1; warms_up && t <= 17; t++)
            assert_true(fabs(sl_optim_lr_at(&lr, 0.3, t) - 0.3 * (double)t / 17) < 1e-15);
        check_rates(&lr, 0.3);
        /* The written text does not depend on the length of the run. */
        sl_optim_lr_put(&text, &lr);
        assert_int_equal(sl_optim_lr_parse(text.at, 7, &again), SL_OK);
        assert_memory_equal(&lr, &again, sizeof lr);
        sl_text_free(&text);
    }
    struct sl_lr lr;
    expect_refusal(sl_optim_lr_parse("cosin", 10, &lr), "cosin", "did you mean 'cosine'");
    expect_refusal(sl_optim_lr_parse("cosine", 0, &lr), "cosine", "needs total=STEPS");
    expect_refusal(sl_optim_lr_parse("linear:warmup=20,total=10", 0, &lr), "linear",
                   "longer than total");
    expect_refusal(sl_optim_lr_parse("constant:total=10", 0, &lr), "constant",
                   "has no value 'total'");
    expect_refusal(sl_optim_lr_parse("linear:mim=0.1", 10, &lr), "linear", "did you mean 'min'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(direction_is_what_was_subtracted),
        cmocka_unit_test(elementwise_rows_can_be_cut),
        cmocka_unit_test(whole_matrix_rows_mix_elements),
        cmocka_unit_test(nesterov_rows_look_ahead),
        cmocka_unit_test(float_follows_double),
        cmocka_unit_test(state_is_all_there_is),
        cmocka_unit_test(text_round_trips),
        cmocka_unit_test(refusals_name_the_nearest),
        cmocka_unit_test(decay_and_fallback_follow_the_shape),
        cmocka_unit_test(prediction_is_exact_on_constant_velocity),
        cmocka_unit_test(rates_are_pure_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
