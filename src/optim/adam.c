/* adam, adamw, nadam: first and second moments with bias correction (Kingma & Ba; Loshchilov &
 * Hutter; Dozat), with torch's formulas. adam adds weight decay to the gradient, adamw shrinks
 * the weight; nadam can do both (decoupled=1, as in asynchronous Nesterov, Ajanthan et al.
 * 2025). */
#include "optim/common.h"
#include "optim/rules.h"

static const struct sl_hyper adam_hyper[] = {
    SL_HYPER_BETA("beta1", 0.9, "decay of the mean"),
    SL_HYPER_BETA("beta2", 0.999, "decay of the mean square"),
    SL_HYPER_EPS(1e-8),
    SL_HYPER_DECAY(0),
    {0}};

static const struct sl_hyper adamw_hyper[] = {
    SL_HYPER_BETA("beta1", 0.9, "decay of the mean"),
    SL_HYPER_BETA("beta2", 0.999, "decay of the mean square"),
    SL_HYPER_EPS(1e-8),
    SL_HYPER_DECAY(0.01),
    {0}};

static const struct sl_hyper nadam_hyper[] = {
    SL_HYPER_BETA("beta1", 0.9, "decay of the mean"),
    SL_HYPER_BETA("beta2", 0.999, "decay of the mean square"),
    SL_HYPER_EPS(1e-8),
    {"momentum_decay", 0.004, 0, 1, SL_RANGE_CLOSED, "how fast the momentum schedule rises"},
    {"decoupled", 0, 0, 1, SL_RANGE_WHOLE, "1: weight decay as in adamw, 0: as in adam (torch)"},
    SL_HYPER_DECAY(0),
    {0}};

/* Computes betas, bias correction and eps; 1/(1-beta^t) and 1/sqrt(1-beta2^t) are computed in
 * double. */
static void moments_coef(const struct sl_optim_param *param, int64_t t, struct sl_step_coef *out) {
    double beta1 = sl_optim_value(&param->optim, "beta1");
    double beta2 = sl_optim_value(&param->optim, "beta2");
    sl_optim_coef_beta(beta1, &out->beta1, &out->rest1);
    sl_optim_coef_beta(beta2, &out->beta2, &out->rest2);
    out->fix1 = (float)(1 / (1 - sl_optim_power(beta1, t)));
    out->fix2 = (float)(1 / sqrt(1 - sl_optim_power(beta2, t)));
    out->eps = (float)sl_optim_value(&param->optim, "eps");
}

static void adam_coef(const struct sl_optim_param *param, int64_t t, double lr,
                      struct sl_step_coef *out) {
    sl_optim_coef_coupled(param, lr, out);
    moments_coef(param, t, out);
}

static void adamw_coef(const struct sl_optim_param *param, int64_t t, double lr,
                       struct sl_step_coef *out) {
    sl_optim_coef_decoupled(param, lr, out);
    moments_coef(param, t, out);
}

static void adam_step(const struct sl_step_coef *coef, const struct sl_step_io *io) {
    float *m = io->state[0], *v = io->state[1];
    for (int64_t i = 0; i < io->count; i++) {
        float delta = sl_rule_adam(coef, &io->w[i], io->g[i], &m[i], &v[i]);
        if (io->delta)
            io->delta[i] = delta;
    }
}

static void adam_delta(const struct sl_step_coef *coef, const struct sl_step_io *io) {
    for (int64_t i = 0; i < io->count; i++)
        io->delta[i] = sl_rule_adam_delta(coef, io->state[0][i], io->state[1][i]);
}

/* Applies weight decay to the weight or gradient, then updates the moments. */
static double ref_moments(const struct sl_optim_param *param, const struct sl_step_ref *io,
                          int64_t i, bool decoupled) {
    double beta1 = sl_optim_value(&param->optim, "beta1");
    double beta2 = sl_optim_value(&param->optim, "beta2");
    double decay = sl_optim_decay(param), g = io->g[i] * io->scale;
    if (decoupled)
        io->w[i] *= 1 - io->lr * decay;
    else
        g += decay * io->w[i];
    io->state[0][i] = beta1 * io->state[0][i] + (1 - beta1) * g;
    io->state[1][i] = beta2 * io->state[1][i] + (1 - beta2) * g * g;
    return g;
}

static double ref_root(const struct sl_optim_param *param, const struct sl_step_ref *io,
                       int64_t i) {
    double beta2 = sl_optim_value(&param->optim, "beta2");
    return sqrt(io->state[1][i] / (1 - pow(beta2, (double)io->t))) +
           sl_optim_value(&param->optim, "eps");
}

static void any_adam_ref(const struct sl_optim_param *param, const struct sl_step_ref *io,
                         bool decoupled) {
    double beta1 = sl_optim_value(&param->optim, "beta1");
    for (int64_t i = 0; i < io->count; i++) {
        ref_moments(param, io, i, decoupled);
        double mean = io->state[0][i] / (1 - pow(beta1, (double)io->t));
        io->delta[i] = mean / ref_root(param, io, i);
        io->w[i] -= io->lr * io->delta[i];
    }
}

static void adam_ref(const struct sl_optim_param *param, const struct sl_step_ref *io) {
    any_adam_ref(param, io, false);
}

static void adamw_ref(const struct sl_optim_param *param, const struct sl_step_ref *io) {
    any_adam_ref(param, io, true);
}

const struct sl_optimizer sl_optim_row_adam = {
    .name = "adam",
    .brief = "Adam; weight decay is part of the gradient",
    .note = "m^ = m/(1-beta1^t), v^ = v/(1-beta2^t); w -= lr*m^/(sqrt(v^)+eps)",
    .lr = 1e-3,
    .hyper = adam_hyper,
    .state_count = 2,
    .state = {"exp_avg", "exp_avg_sq"},
    .momentum = "beta1",
    .delta_from = SL_DELTA_STATE,
    .direction = "m^/(sqrt(v^)+eps)",
    .coef = adam_coef,
    .step = adam_step,
    .delta = adam_delta,
    .ref = adam_ref,
};

const struct sl_optimizer sl_optim_row_adamw = {
    .name = "adamw",
    .brief = "Adam with decoupled weight decay",
    .note = "w *= 1 - lr*wd, then as adam",
    .lr = 1e-3,
    .hyper = adamw_hyper,
    .state_count = 2,
    .state = {"exp_avg", "exp_avg_sq"},
    .momentum = "beta1",
    .delta_from = SL_DELTA_STATE,
    .direction = "m^/(sqrt(v^)+eps)",
    .coef = adamw_coef,
    .step = adam_step,
    .delta = adam_delta,
    .ref = adamw_ref,
};

/* mu_t = beta1*(1 - 0.5*0.96^(t*momentum_decay)); *product = mu_1*...*mu_t. The product is a
 * function of t, so checkpoints need not contain it; it falls below 1e-40 within some thousand
 * steps and then no longer changes 1 - product. */
static double nadam_mu(double beta1, double decay, int64_t t, double *product) {
    double base = pow(0.96, decay), running = 1, mu = 0;
    *product = 1;
    for (int64_t i = 1; i <= t && *product > 1e-40; i++) {
        running *= base;
        *product *= beta1 * (1 - 0.5 * running);
    }
    mu = beta1 * (1 - 0.5 * sl_optim_power(base, t));
    return mu;
}

static void nadam_coef(const struct sl_optim_param *param, int64_t t, double lr,
                       struct sl_step_coef *out) {
    double beta1 = sl_optim_value(&param->optim, "beta1"), product, unused;
    double decay = sl_optim_value(&param->optim, "momentum_decay");
    double mu = nadam_mu(beta1, decay, t, &product);
    double mu_next = nadam_mu(beta1, decay, t + 1, &unused);
    if (sl_optim_value(&param->optim, "decoupled") != 0)
        sl_optim_coef_decoupled(param, lr, out);
    else
        sl_optim_coef_coupled(param, lr, out);
    moments_coef(param, t, out);
    out->mix_g = (float)((1 - mu) / (1 - product));
    out->mix_m = (float)(mu_next / (1 - product * mu_next));
}

static void nadam_step(const struct sl_step_coef *coef, const struct sl_step_io *io) {
    float *m = io->state[0], *v = io->state[1];
    for (int64_t i = 0; i < io->count; i++) {
        float delta = sl_rule_nadam(coef, &io->w[i], io->g[i], &m[i], &v[i]);
        if (io->delta)
            io->delta[i] = delta;
    }
}

static void nadam_ref(const struct sl_optim_param *param, const struct sl_step_ref *io) {
    double beta1 = sl_optim_value(&param->optim, "beta1"), product = 1, mu = 0;
    double decay = sl_optim_value(&param->optim, "momentum_decay");
    bool decoupled = sl_optim_value(&param->optim, "decoupled") != 0;
    for (int64_t t = 1; t <= io->t; t++) {
        mu = beta1 * (1 - 0.5 * pow(0.96, (double)t * decay));
        product *= mu;
    }
    double next = beta1 * (1 - 0.5 * pow(0.96, (double)(io->t + 1) * decay));
    for (int64_t i = 0; i < io->count; i++) {
        double g = ref_moments(param, io, i, decoupled);
        io->delta[i] =
            ((1 - mu) / (1 - product) * g + next / (1 - product * next) * io->state[0][i]) /
            ref_root(param, io, i);
        io->w[i] -= io->lr * io->delta[i];
    }
}

const struct sl_optimizer sl_optim_row_nadam = {
    .name = "nadam",
    .brief = "Adam with Nesterov's momentum",
    .note = "torch.optim.NAdam; asynchronous Nesterov is nadam:beta1=0.99,decoupled=1",
    .lr = 2e-3,
    .hyper = nadam_hyper,
    .state_count = 2,
    .state = {"exp_avg", "exp_avg_sq"},
    .nesterov = true,
    .momentum = "beta1",
    .delta_from = SL_DELTA_KEPT,
    .direction = "((1-mu_t)/(1-P_t)*g + mu_t+1/(1-P_t+1)*m) / (sqrt(v^)+eps), P = product of mu",
    .coef = nadam_coef,
    .step = nadam_step,
    .ref = nadam_ref,
};
