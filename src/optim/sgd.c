/* sgd, momentum, nesterov: with coupled weight decay (it is a part of the gradient), like
 * torch.optim.SGD.
 *
 * Two conventions of momentum are in use:
 *   ema=0  v = beta*v + g              torch; a steady gradient g moves w by lr*g/(1-beta) per step
 *   ema=1  v = beta*v + (1-beta)*g     SpecTrain (Chen et al. 2018), FairScale; moves w by lr*g
 * With ema=1 the buffer starts at zero; torch's `dampening` instead starts with the undamped
 * first gradient. */
#include "optim/common.h"
#include "optim/rules.h"

static const struct sl_hyper sgd_hyper[] = {SL_HYPER_DECAY(0), {0}};

static const struct sl_hyper momentum_hyper[] = {
    SL_HYPER_BETA("beta", 0.9, "momentum"),
    {"ema", 0, 0, 1, SL_RANGE_WHOLE, "1: weight new gradients by 1-beta, 0: by 1 (torch)"},
    SL_HYPER_DECAY(0),
    {0}};

static void sgd_coef(const struct sl_optim_param *param, int64_t t, double lr,
                     struct sl_step_coef *out) {
    (void)t;
    sl_optim_coef_coupled(param, lr, out);
}

static void sgd_step(const struct sl_step_coef *coef, const struct sl_step_io *io) {
    for (int64_t i = 0; i < io->count; i++) {
        float delta = sl_rule_sgd(coef, &io->w[i], io->g[i]);
        if (io->delta)
            io->delta[i] = delta;
    }
}

/* Returns g with scale and decay, in double. */
static double ref_grad(const struct sl_optim_param *param, const struct sl_step_ref *io,
                       int64_t i) {
    return io->g[i] * io->scale + sl_optim_decay(param) * io->w[i];
}

static void sgd_ref(const struct sl_optim_param *param, const struct sl_step_ref *io) {
    for (int64_t i = 0; i < io->count; i++) {
        io->delta[i] = ref_grad(param, io, i);
        io->w[i] -= io->lr * io->delta[i];
    }
}

const struct sl_optimizer sl_optim_row_sgd = {
    .name = "sgd",
    .brief = "gradient descent",
    .note = "w -= lr*g; coupled weight decay",
    .lr = 0.1,
    .hyper = sgd_hyper,
    .delta_from = SL_DELTA_KEPT,
    .direction = "g",
    .coef = sgd_coef,
    .step = sgd_step,
    .ref = sgd_ref,
};

static void momentum_coef(const struct sl_optim_param *param, int64_t t, double lr,
                          struct sl_step_coef *out) {
    (void)t;
    sl_optim_coef_coupled(param, lr, out);
    sl_optim_coef_beta(sl_optim_value(&param->optim, "beta"), &out->beta1, &out->rest1);
    if (sl_optim_value(&param->optim, "ema") == 0)
        out->rest1 = 1;
}

static void momentum_step(const struct sl_step_coef *coef, const struct sl_step_io *io) {
    float *buf = io->state[0];
    for (int64_t i = 0; i < io->count; i++) {
        float delta = sl_rule_momentum(coef, &io->w[i], io->g[i], &buf[i]);
        if (io->delta)
            io->delta[i] = delta;
    }
}

static void momentum_delta(const struct sl_step_coef *coef, const struct sl_step_io *io) {
    (void)coef;
    for (int64_t i = 0; i < io->count; i++)
        io->delta[i] = io->state[0][i];
}

static void momentum_ref(const struct sl_optim_param *param, const struct sl_step_ref *io) {
    double beta = sl_optim_value(&param->optim, "beta");
    double rest = sl_optim_value(&param->optim, "ema") != 0 ? 1 - beta : 1;
    for (int64_t i = 0; i < io->count; i++) {
        io->state[0][i] = beta * io->state[0][i] + rest * ref_grad(param, io, i);
        io->delta[i] = io->state[0][i];
        io->w[i] -= io->lr * io->delta[i];
    }
}

const struct sl_optimizer sl_optim_row_momentum = {
    .name = "momentum",
    .brief = "gradient descent with momentum (heavy ball)",
    .note = "v = beta*v + g (torch) or, ema=1, beta*v + (1-beta)*g (SpecTrain); w -= lr*v",
    .lr = 0.02,
    .hyper = momentum_hyper,
    .state_count = 1,
    .state = {"momentum_buffer"},
    .momentum = "beta",
    .delta_from = SL_DELTA_STATE,
    .direction = "v",
    .coef = momentum_coef,
    .step = momentum_step,
    .delta = momentum_delta,
    .ref = momentum_ref,
};

static void nesterov_step(const struct sl_step_coef *coef, const struct sl_step_io *io) {
    float *buf = io->state[0];
    for (int64_t i = 0; i < io->count; i++) {
        float delta = sl_rule_nesterov(coef, &io->w[i], io->g[i], &buf[i]);
        if (io->delta)
            io->delta[i] = delta;
    }
}

static void nesterov_ref(const struct sl_optim_param *param, const struct sl_step_ref *io) {
    double beta = sl_optim_value(&param->optim, "beta");
    double rest = sl_optim_value(&param->optim, "ema") != 0 ? 1 - beta : 1;
    for (int64_t i = 0; i < io->count; i++) {
        double g = ref_grad(param, io, i);
        io->state[0][i] = beta * io->state[0][i] + rest * g;
        io->delta[i] = rest * g + beta * io->state[0][i];
        io->w[i] -= io->lr * io->delta[i];
    }
}

const struct sl_optimizer sl_optim_row_nesterov = {
    .name = "nesterov",
    .brief = "gradient descent with Nesterov's momentum",
    .note = "as momentum, then w -= lr*(g + beta*v) (torch's nesterov=True)",
    .lr = 0.02,
    .hyper = momentum_hyper,
    .state_count = 1,
    .state = {"momentum_buffer"},
    .nesterov = true,
    .momentum = "beta",
    .delta_from = SL_DELTA_KEPT,
    .direction = "g + beta*v",
    .coef = momentum_coef,
    .step = nesterov_step,
    .ref = nesterov_ref,
};
