/* Optimizers: the registry, their text form, and functions that all share. */
#include "optim/common.h"

#include <stdio.h>
#include <string.h>

/* One line per optimizer, in alphabetical order. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sl_optim_row_adam) \
    ROW(sl_optim_row_adamw) \
    ROW(sl_optim_row_lion) \
    ROW(sl_optim_row_momentum) \
    ROW(sl_optim_row_muon) \
    ROW(sl_optim_row_nadam) \
    ROW(sl_optim_row_nesterov) \
    ROW(sl_optim_row_sgd)
/* clang-format on */

#define DECLARE(row) extern const struct sl_optimizer row;
ROWS(DECLARE)
#define POINT(row) &(row),
const struct sl_optimizer *const sl_optim_rows[] = {ROWS(POINT)};
const int sl_optim_row_count = SL_COUNT(sl_optim_rows);

const struct sl_optimizer *sl_optim_row_find(struct sl_str name) {
    for (int i = 0; i < sl_optim_row_count; i++)
        if (sl_str_is(name, sl_optim_rows[i]->name))
            return sl_optim_rows[i];
    return NULL;
}

static const char *name_at(const void *ctx, int i) {
    (void)ctx;
    return sl_optim_rows[i]->name;
}

sl_err sl_optim_parse(const char *text, struct sl_optim *out) {
    struct sl_str name;
    const char *rest;
    char what[64];
    *out = (struct sl_optim){0};
    sl_optim_spec_split(text, &name, &rest);
    out->row = sl_optim_row_find(name);
    if (!out->row) {
        snprintf(what, sizeof what, "%.*s", (int)(name.length < 40 ? name.length : 40), name.at);
        const char *near = sl_nearest(what, sl_optim_row_count, name_at, NULL);
        return sl_fail(SL_ERR_USAGE, "no optimizer '%s'%s%s%s; 'sluice list optimizers' names them",
                       what, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    snprintf(what, sizeof what, "optimizer '%s'", out->row->name);
    return sl_optim_spec_values(what, out->row->hyper, rest, out->hyper, NULL);
}

void sl_optim_put(struct sl_text *text, const struct sl_optim *optim) {
    sl_optim_spec_put(text, optim->row->name, optim->row->hyper, optim->hyper);
}

double sl_optim_value(const struct sl_optim *optim, const char *name) {
    int i = sl_optim_hyper_find(optim->row->hyper, sl_str(name));
    SL_ASSERT(i >= 0);
    return optim->hyper[i];
}

/* Returns the fallback of an optimizer: values with the same name are taken over, others have their
 * defaults. */
static struct sl_optim fall_back(const struct sl_optim *optim) {
    struct sl_optim out = {.row = optim->row->fallback};
    for (int i = 0; i < sl_optim_hyper_count(out.row->hyper); i++) {
        int from = sl_optim_hyper_find(optim->row->hyper, sl_str(out.row->hyper[i].name));
        out.hyper[i] = from >= 0 ? optim->hyper[from] : out.row->hyper[i].fallback;
    }
    return out;
}

struct sl_optim_param sl_optim_for(const struct sl_optim *optim,
                                   const struct sl_optim_shape *shape) {
    struct sl_optim_param out = {.optim = *optim, .shape = *shape, .count = 1};
    if (optim->row->takes && !optim->row->takes(shape))
        out.optim = fall_back(optim);
    for (int i = 0; i < shape->rank; i++)
        out.count *= shape->dim[i];
    out.decays = shape->rank >= 2 || sl_optim_value(optim, "wd_all") != 0;
    return out;
}

int sl_optim_tensors(const struct sl_optim_param *param, bool delta) {
    const struct sl_optimizer *row = param->optim.row;
    return row->state_count + (delta && row->delta_from == SL_DELTA_KEPT);
}

int64_t sl_optim_scratch_bytes(const struct sl_optim_param *param) {
    const struct sl_optimizer *row = param->optim.row;
    return row->scratch_bytes ? row->scratch_bytes(&param->shape) : 0;
}

struct sl_step_coef sl_optim_coef(const struct sl_optim_param *param, int64_t t, double lr,
                                  float scale) {
    struct sl_step_coef out = {.scale = scale, .shrink = 1};
    SL_ASSERT(t >= 1);
    param->optim.row->coef(param, t, lr, &out);
    return out;
}

void sl_optim_predict(int64_t count, const float *w, const float *delta, double lr, double s,
                      float *out) {
    float far = (float)(lr * s);
    for (int64_t i = 0; i < count; i++) {
        float step = far * delta[i];
        out[i] = w[i] - step;
    }
}

double sl_optim_power(double base, int64_t exponent) {
    double result = 1;
    SL_ASSERT(exponent >= 0);
    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            result *= base;
        base *= base;
    }
    return result;
}

double sl_optim_decay(const struct sl_optim_param *param) {
    return param->decays ? sl_optim_value(&param->optim, "wd") : 0;
}

void sl_optim_coef_decoupled(const struct sl_optim_param *param, double lr,
                             struct sl_step_coef *out) {
    out->lr = (float)lr;
    out->shrink = (float)(1 - lr * sl_optim_decay(param));
}

void sl_optim_coef_coupled(const struct sl_optim_param *param, double lr,
                           struct sl_step_coef *out) {
    out->lr = (float)lr;
    out->l2 = (float)sl_optim_decay(param);
}

void sl_optim_coef_beta(double beta, float *out, float *rest) {
    *out = (float)beta;
    *rest = (float)(1 - beta);
}
