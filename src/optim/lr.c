/* Learning-rate schedules. */
#include "optim/lr.h"

#include <stdio.h>

enum { WARMUP, TOTAL, MIN };

#define STEPS_MAX 1e15
#define HYPER_WARMUP                                                                               \
    { "warmup", 0, 0, STEPS_MAX, SL_RANGE_WHOLE, "steps from 0 to the base rate" }
#define HYPER_TOTAL                                                                                \
    { "total", 0, 1, STEPS_MAX, SL_RANGE_WHOLE, "step at which min is reached" }
#define HYPER_MIN                                                                                  \
    { "min", 0, 0, 1, SL_RANGE_CLOSED, "last rate as a fraction of the base" }

static const struct sl_hyper constant_hyper[] = {HYPER_WARMUP, {0}};
static const struct sl_hyper falling_hyper[] = {HYPER_WARMUP, HYPER_TOTAL, HYPER_MIN, {0}};

/* cos(pi*p) for p in [0, 1] by plain arithmetic: the same bits with every libm. */
static double cos_pi(double p) {
    double sign = 1;
    if (p > 0.5) {
        p = 1 - p;
        sign = -1;
    }
    double x = p * 3.14159265358979323846, square = x * x, sum = 0;
    for (int n = 22; n >= 2; n -= 2) /* Horner: 1 - x^2/2 (1 - x^2/12 (1 - ...)) */
        sum = square / (n * (n - 1)) * (1 - sum);
    return sign * (1 - sum);
}

static double constant_factor(const double *hyper, double p) {
    (void)hyper;
    (void)p;
    return 1;
}

static double linear_factor(const double *hyper, double p) { return 1 - (1 - hyper[MIN]) * p; }

static double cosine_factor(const double *hyper, double p) {
    return hyper[MIN] + (1 - hyper[MIN]) * (0.5 * (1 + cos_pi(p)));
}

static const struct sl_lr_row constant_row = {"constant", "stays at the base rate", constant_hyper,
                                              constant_factor};
static const struct sl_lr_row cosine_row = {"cosine", "half a cosine from the base rate to min",
                                            falling_hyper, cosine_factor};
static const struct sl_lr_row linear_row = {"linear", "a straight line from the base rate to min",
                                            falling_hyper, linear_factor};

const struct sl_lr_row *const sl_optim_lr_rows[] = {&constant_row, &cosine_row, &linear_row};
const int sl_optim_lr_row_count = SL_COUNT(sl_optim_lr_rows);

static const char *name_at(const void *ctx, int i) {
    (void)ctx;
    return sl_optim_lr_rows[i]->name;
}

sl_err sl_optim_lr_parse(const char *text, int64_t steps, struct sl_lr *out) {
    struct sl_str name;
    const char *rest;
    char what[64];
    unsigned given;
    *out = (struct sl_lr){0};
    sl_optim_spec_split(text, &name, &rest);
    for (int i = 0; i < sl_optim_lr_row_count; i++)
        if (sl_str_is(name, sl_optim_lr_rows[i]->name))
            out->row = sl_optim_lr_rows[i];
    if (!out->row) {
        snprintf(what, sizeof what, "%.*s", (int)(name.length < 40 ? name.length : 40), name.at);
        const char *near = sl_nearest(what, sl_optim_lr_row_count, name_at, NULL);
        return sl_fail(SL_ERR_USAGE,
                       "no learning-rate schedule '%s'%s%s%s; there are constant, cosine, linear",
                       what, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    snprintf(what, sizeof what, "learning-rate schedule '%s'", out->row->name);
    SL_TRY(sl_optim_spec_values(what, out->row->hyper, rest, out->hyper, &given));
    if (sl_optim_hyper_find(out->row->hyper, SL_STR("total")) < 0)
        return SL_OK;
    if (!(given & 1u << TOTAL))
        out->hyper[TOTAL] = (double)steps;
    if (out->hyper[TOTAL] < 1)
        return sl_fail(SL_ERR_USAGE, "%s needs total=STEPS (the length of the run is not known)",
                       what);
    if (out->hyper[WARMUP] > out->hyper[TOTAL])
        return sl_fail(SL_ERR_USAGE, "%s: warmup=%g is longer than total=%g", what,
                       out->hyper[WARMUP], out->hyper[TOTAL]);
    return SL_OK;
}

void sl_optim_lr_put(struct sl_text *text, const struct sl_lr *lr) {
    sl_optim_spec_put(text, lr->row->name, lr->row->hyper, lr->hyper);
}

double sl_optim_lr_at(const struct sl_lr *lr, double base, int64_t t) {
    double warmup = lr->hyper[WARMUP], p = 1;
    if ((double)t < warmup)
        return base * ((double)t / warmup);
    if (lr->hyper[TOTAL] > warmup)
        p = ((double)t - warmup) / (lr->hyper[TOTAL] - warmup);
    return base * lr->row->factor(lr->hyper, p < 1 ? p : 1);
}
