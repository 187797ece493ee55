/* lion: the sign of an interpolated momentum (Chen et al. 2023, arXiv 2302.06675); decoupled decay.
 * Its usual learning rate is 3 to 10 times smaller than adamw's, its weight decay as much larger.
 */
#include "optim/common.h"
#include "optim/rules.h"

static const struct sl_hyper hyper[] = {SL_HYPER_BETA("beta1", 0.9, "interpolation for the sign"),
                                        SL_HYPER_BETA("beta2", 0.99, "decay of the momentum"),
                                        SL_HYPER_DECAY(0),
                                        {0}};

static void coef(const struct sl_optim_param *param, int64_t t, double lr,
                 struct sl_step_coef *out) {
    (void)t;
    sl_optim_coef_decoupled(param, lr, out);
    sl_optim_coef_beta(sl_optim_value(&param->optim, "beta1"), &out->beta1, &out->rest1);
    sl_optim_coef_beta(sl_optim_value(&param->optim, "beta2"), &out->beta2, &out->rest2);
}

static void step(const struct sl_step_coef *c, const struct sl_step_io *io) {
    float *m = io->state[0];
    for (int64_t i = 0; i < io->count; i++) {
        float delta = sl_rule_lion(c, &io->w[i], io->g[i], &m[i]);
        if (io->delta)
            io->delta[i] = delta;
    }
}

static void ref(const struct sl_optim_param *param, const struct sl_step_ref *io) {
    double beta1 = sl_optim_value(&param->optim, "beta1");
    double beta2 = sl_optim_value(&param->optim, "beta2");
    for (int64_t i = 0; i < io->count; i++) {
        double g = io->g[i] * io->scale;
        double mixed = beta1 * io->state[0][i] + (1 - beta1) * g;
        io->delta[i] = (mixed > 0) - (mixed < 0);
        io->w[i] = io->w[i] * (1 - io->lr * sl_optim_decay(param)) - io->lr * io->delta[i];
        io->state[0][i] = beta2 * io->state[0][i] + (1 - beta2) * g;
    }
}

const struct sl_optimizer sl_optim_row_lion = {
    .name = "lion",
    .brief = "sign of the momentum; one state tensor",
    .note = "w -= lr*(sign(beta1*m + (1-beta1)*g) + wd*w); m = beta2*m + (1-beta2)*g",
    .lr = 1e-4,
    .hyper = hyper,
    .state_count = 1,
    .state = {"exp_avg"},
    .momentum = "beta1",
    .delta_from = SL_DELTA_KEPT,
    .direction = "sign(beta1*m + (1-beta1)*g)",
    .coef = coef,
    .step = step,
    .ref = ref,
};
