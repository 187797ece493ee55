/* The elementwise optimizers as loops that the compiler vectorizes. optim/rules.h does the
 * arithmetic. Compiled without contraction: all instruction sets give the same bits. */
#include "optim/rules.h"
#include "device/cpu/isa.h"
#include "device/cpu/optim.h"
#include "optim/norm.h"

/* Defines two loops, with and without Delta, so that neither has a branch. */
#define LOOP(name, rule)                                                                           \
    static void name(const struct sl_step_coef *coef, const struct sl_step_io *io) {               \
        const struct sl_step_coef c = *coef;                                                       \
        int64_t count = io->count;                                                                 \
        float *restrict w = io->w, *restrict m = io->state[0], *restrict v = io->state[1];         \
        float *restrict delta = io->delta;                                                         \
        const float *restrict g = io->g;                                                           \
        (void)m;                                                                                   \
        (void)v;                                                                                   \
        if (delta)                                                                                 \
            for (int64_t i = 0; i < count; i++)                                                    \
                delta[i] = rule;                                                                   \
        else                                                                                       \
            for (int64_t i = 0; i < count; i++)                                                    \
                (void)(rule);                                                                      \
    }

LOOP(step_sgd, sl_rule_sgd(&c, &w[i], g[i]))
LOOP(step_momentum, sl_rule_momentum(&c, &w[i], g[i], &m[i]))
LOOP(step_nesterov, sl_rule_nesterov(&c, &w[i], g[i], &m[i]))
LOOP(step_adam, sl_rule_adam(&c, &w[i], g[i], &m[i], &v[i]))
LOOP(step_nadam, sl_rule_nadam(&c, &w[i], g[i], &m[i], &v[i]))
LOOP(step_lion, sl_rule_lion(&c, &w[i], g[i], &m[i]))

/* `out` may be `w`: error feedback and PipeMare's velocity use it in place. */
static void predict_by(float *out, const float *w, const float *delta, float by, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float step = by * delta[i];
        out[i] = w[i] - step;
    }
}

static void predict(const struct sl_step_coef *coef, const struct sl_step_io *io, float by,
                    float *out) {
    (void)coef;
    predict_by(out, io->w, io->delta, by, io->count);
}

static void predict_momentum(const struct sl_step_coef *coef, const struct sl_step_io *io, float by,
                             float *out) {
    (void)coef;
    predict_by(out, io->w, io->state[0], by, io->count);
}

static void predict_adam(const struct sl_step_coef *coef, const struct sl_step_io *io, float by,
                         float *restrict out) {
    const struct sl_step_coef c = *coef;
    const float *restrict w = io->w, *restrict m = io->state[0], *restrict v = io->state[1];
    for (int64_t i = 0; i < io->count; i++) {
        float step = by * sl_rule_adam_delta(&c, m[i], v[i]);
        out[i] = w[i] - step;
    }
}

/* clang-format off */
static const struct sl_device_cpu_rule rules[] = {
    {"adam", step_adam, predict_adam},
    {"adamw", step_adam, predict_adam},
    {"lion", step_lion, predict},
    {"momentum", step_momentum, predict_momentum},
    {"nadam", step_nadam, predict},
    {"nesterov", step_nesterov, predict},
    {"sgd", step_sgd, predict},
    {NULL, NULL, predict},
};
/* clang-format on */

/* The sum of squares of a block, in the order of optim/norm.h. */
static double norm_block(const float *x, int64_t count) {
    double lane[SL_NORM_LANES] = {0};
    int64_t at = 0;
    for (; at + SL_NORM_LANES <= count; at += SL_NORM_LANES)
        for (int l = 0; l < SL_NORM_LANES; l++)
            lane[l] += (double)x[at + l] * (double)x[at + l];
    for (int l = 0; at + l < count; l++)
        lane[l] += (double)x[at + l] * (double)x[at + l];
    for (int h = SL_NORM_LANES / 2; h; h /= 2)
        for (int l = 0; l < h; l++)
            lane[l] += lane[l + h];
    return lane[0];
}

static void norm_blocks(const float *x, int64_t count, int64_t first, int64_t blocks, double *out) {
    for (int64_t i = 0; i < blocks; i++) {
        int64_t start = (first + i) * SL_NORM_BLOCK, left = count - start;
        out[i] = norm_block(x + start, left < SL_NORM_BLOCK ? left : SL_NORM_BLOCK);
    }
}

extern const struct sl_device_cpu_optim SL_ISA_NAME(optim);
const struct sl_device_cpu_optim SL_ISA_NAME(optim) = {
    SL_ISA_TEXT,
    SL_ISA_NAME(has),
    rules,
    norm_blocks,
};
