/* Learning-rate schedules. */
#include "optim/lr.h"

#include <math.h>
#include <stdio.h>

enum { WARMUP, TOTAL, MIN, POWER, DECAY = POWER, UP = POWER, START };
enum { EVERY = 1, GAMMA };

#define STEPS_MAX 1e15
#define HYPER_WARMUP                                                                               \
    { "warmup", 0, 0, STEPS_MAX, SL_RANGE_WHOLE, "steps from 0 to the base rate" }
#define HYPER_TOTAL                                                                                \
    { "total", 0, 1, STEPS_MAX, SL_RANGE_WHOLE, "step at which min is reached" }
#define HYPER_MIN                                                                                  \
    { "min", 0, 0, 1, SL_RANGE_CLOSED, "last rate as a fraction of the base" }

static const struct sl_hyper constant_hyper[] = {HYPER_WARMUP, {0}};
static const struct sl_hyper falling_hyper[] = {HYPER_WARMUP, HYPER_TOTAL, HYPER_MIN, {0}};

/* Returns cos(pi*p) for p in [0, 1], by plain arithmetic, so that every libm gives the same
 * bits. */
static double cos_pi(double p) {
    double sign = 1;
    if (p > 0.5) {
        p = 1 - p;
        sign = -1;
    }
    double x = p * 3.14159265358979323846, square = x * x, sum = 0;
    for (int n = 22; n >= 2; n -= 2) /* Horner's rule: 1 - x^2/2 (1 - x^2/12 (1 - ...)) */
        sum = square / (n * (n - 1)) * (1 - sum);
    return sign * (1 - sum);
}

static double constant_factor(const double *hyper, double p, double t) {
    (void)hyper, (void)p, (void)t;
    return 1;
}

static double linear_factor(const double *hyper, double p, double t) {
    (void)t;
    return 1 - (1 - hyper[MIN]) * p;
}

static double cosine_factor(const double *hyper, double p, double t) {
    (void)t;
    return hyper[MIN] + (1 - hyper[MIN]) * (0.5 * (1 + cos_pi(p)));
}

/* Returns x to an integer power, by products, so that every libm gives the same bits. */
static double power_of(double x, double n) {
    double out = 1;
    for (int64_t i = 0; i < (int64_t)n; i++)
        out *= x;
    return out;
}

static double polynomial_factor(const double *hyper, double p, double t) {
    (void)t;
    return hyper[MIN] + (1 - hyper[MIN]) * power_of(1 - p, hyper[POWER]);
}

static double wsd_factor(const double *hyper, double p, double t) {
    double from = 1 - hyper[DECAY];
    (void)t;
    return p <= from ? 1 : 1 - (1 - hyper[MIN]) * (p - from) / hyper[DECAY];
}

static double onecycle_factor(const double *hyper, double p, double t) {
    double up = hyper[UP], low = p < up ? hyper[START] : hyper[MIN];
    double q = p < up ? 1 - p / up : (p - up) / (1 - up);
    (void)t;
    return low + (1 - low) * (0.5 * (1 + cos_pi(q)));
}

static double step_factor(const double *hyper, double p, double t) {
    enum { FALLS_MAX = 4096 }; /* after this many the rate is 0 anyway, or gamma is 1 */
    double falls = floor((t - 1 - hyper[WARMUP]) / hyper[EVERY]);
    (void)p;
    /* 1 if there was no fall yet */
    return power_of(hyper[GAMMA], falls < FALLS_MAX ? falls : FALLS_MAX);
}

static double inverse_sqrt_factor(const double *hyper, double p, double t) {
    double warmup = hyper[WARMUP] > 1 ? hyper[WARMUP] : 1;
    (void)p;
    return sqrt(warmup / t);
}

static const struct sl_hyper polynomial_hyper[] = {
    HYPER_WARMUP, HYPER_TOTAL, HYPER_MIN, {"power", 2, 1, 64, SL_RANGE_WHOLE, "exponent"}, {0}};
static const struct sl_hyper wsd_hyper[] = {
    HYPER_WARMUP,
    HYPER_TOTAL,
    HYPER_MIN,
    {"decay", 0.2, 0.001, 1, SL_RANGE_CLOSED, "last part of the steps, in which the rate falls"},
    {0}};
static const struct sl_hyper onecycle_hyper[] = {
    {"warmup", 0, 0, 0, SL_RANGE_WHOLE, "always 0: `up` is the warm-up"},
    HYPER_TOTAL,
    HYPER_MIN,
    {"up", 0.3, 0.001, 0.999, SL_RANGE_CLOSED, "first part of the steps, in which the rate rises"},
    {"start", 0.04, 0, 1, SL_RANGE_CLOSED, "first rate as a fraction of the base"},
    {0}};
static const struct sl_hyper step_hyper[] = {
    HYPER_WARMUP,
    {"every", 100, 1, STEPS_MAX, SL_RANGE_WHOLE, "steps between two falls"},
    {"gamma", 0.1, 0, 1, SL_RANGE_CLOSED, "factor of a fall"},
    {0}};

static const struct sl_lr_row constant_row = {"constant", "stays at the base rate", constant_hyper,
                                              constant_factor};
static const struct sl_lr_row cosine_row = {"cosine", "half a cosine from the base rate to min",
                                            falling_hyper, cosine_factor};
static const struct sl_lr_row inverse_sqrt_row = {"inverse-sqrt",
                                                  "falls as 1 / sqrt(step) after the warm-up",
                                                  constant_hyper, inverse_sqrt_factor};
static const struct sl_lr_row linear_row = {"linear", "a straight line from the base rate to min",
                                            falling_hyper, linear_factor};
static const struct sl_lr_row onecycle_row = {
    "onecycle", "rises from start to the base rate, falls to min", onecycle_hyper, onecycle_factor};
static const struct sl_lr_row polynomial_row = {
    "polynomial", "falls to min as a power of the steps left", polynomial_hyper, polynomial_factor};
static const struct sl_lr_row step_row = {"step", "falls by gamma every so many steps", step_hyper,
                                          step_factor};
static const struct sl_lr_row wsd_row = {"wsd", "warm-up, stable, then a line to min", wsd_hyper,
                                         wsd_factor};

const struct sl_lr_row *const sl_optim_lr_rows[] = {&constant_row, &cosine_row,   &inverse_sqrt_row,
                                                    &linear_row,   &onecycle_row, &polynomial_row,
                                                    &step_row,     &wsd_row};
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
        return sl_fail(
            SL_ERR_USAGE,
            "no learning-rate schedule '%s'%s%s%s; 'sluice list lr-schedules' names them", what,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
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
    bool ends = sl_optim_hyper_find(lr->row->hyper, SL_STR("total")) >= 0;
    if ((double)t < warmup)
        return base * ((double)t / warmup);
    if (ends && lr->hyper[TOTAL] > warmup)
        p = ((double)t - warmup) / (lr->hyper[TOTAL] - warmup);
    return base * lr->row->factor(lr->hyper, p < 1 ? p : 1, (double)t);
}
