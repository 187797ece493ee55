/* Loss scaling. */
#include "optim/loss_scale.h"

#include "optim/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX 16777216.0

enum { START, EVERY, HYPERS };

static const struct sl_hyper hyper[] = {
    {"start", 65536, 1, MAX, SL_RANGE_WHOLE, "scale of the first step, a power of two"},
    {"every", 2000, 1, 1e15, SL_RANGE_WHOLE, "good steps until it is doubled"},
    {0},
};

static bool is_scale(double x) {
    int exponent;
    return x >= 1 && x <= MAX && frexp(x, &exponent) == 0.5;
}

static sl_err fail_number(const char *text) {
    return sl_fail(SL_ERR_USAGE,
                   "loss scale: expected none, dynamic[:start=S,every=N] or a power of two from 1 "
                   "to %.0f, found '%.40s'",
                   MAX, text);
}

sl_err sl_optim_loss_scale_parse(const char *text, struct sl_loss_scale *out) {
    double values[HYPERS];
    struct sl_str name;
    const char *rest;
    *out = (struct sl_loss_scale){.start = 1};
    sl_optim_spec_split(text, &name, &rest);
    if (sl_str_is(sl_str(text), "none")) /* not an entry: no scaling */
        return SL_OK;
    if (sl_str_is(name, "dynamic")) {
        SL_TRY(sl_optim_spec_values("loss scale 'dynamic'", hyper, rest, values, NULL));
        if (!is_scale(values[START]))
            return fail_number(text);
        *out = (struct sl_loss_scale){true, values[START], (int64_t)values[EVERY]};
        return SL_OK;
    }
    char *end;
    out->start = strtod(text, &end);
    return *text >= '0' && *text <= '9' && !*end && is_scale(out->start) ? SL_OK
                                                                         : fail_number(text);
}

bool sl_optim_loss_scale_is_none(const struct sl_loss_scale *rule) {
    return !rule->dynamic && rule->start <= 1;
}

void sl_optim_loss_scale_put(struct sl_text *text, const struct sl_loss_scale *rule) {
    double values[HYPERS] = {rule->start, (double)rule->every};
    if (rule->dynamic)
        sl_optim_spec_put(text, "dynamic", hyper, values);
    else if (sl_optim_loss_scale_is_none(rule))
        sl_text_put(text, "none");
    else
        sl_text_printf(text, "%.0f", rule->start);
}

struct sl_scale_state sl_optim_loss_scale_begin(const struct sl_loss_scale *rule) {
    return (struct sl_scale_state){.value = rule->start >= 1 ? rule->start : 1};
}

struct sl_scale_state sl_optim_loss_scale_next(const struct sl_loss_scale *rule,
                                               struct sl_scale_state at, double used, bool finite) {
    if (!rule->dynamic)
        return at;
    if (!finite && used <= at.value)
        return (struct sl_scale_state){.value = used > 1 ? used / 2 : 1};
    if (!finite || used != at.value)
        return at;
    if (++at.good < rule->every || at.value >= MAX)
        return at;
    return (struct sl_scale_state){.value = 2 * at.value};
}

bool sl_optim_loss_scale_blames(const struct sl_loss_scale *rule, double used, double loss) {
    return rule->dynamic && used > 1 && isfinite(loss);
}

void sl_optim_scale_state_put(struct sl_text *text, const struct sl_scale_state *at) {
    sl_text_printf(text, "%.0f %lld", at->value, (long long)at->good);
}

bool sl_optim_scale_state_parse(const char *text, struct sl_scale_state *out) {
    char *end;
    out->value = strtod(text, &end);
    if (*end != ' ' || !is_scale(out->value))
        return false;
    const char *good = end + 1;
    out->good = strtoll(good, &end, 10);
    return end != good && !*end && out->good >= 0;
}
