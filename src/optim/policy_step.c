/* Policies that change steps: learning rate, momentum, corrections.
 * Sources: Yang et al. 2021 (PipeMare); Ajanthan et al. 2025 (asynchronous Nesterov).
 *
 *   pipemare        T1: lr_i = lr / max(tau_i, 1)^p, p = 1 - min((t-1)/K, 1)
 *                   T2: the backward pass reads u = w - tau_i*velocity, with
 *                   velocity <- gamma_i*velocity + (1-gamma_i)*(w_new - w_old),
 *                   gamma_i = D^(1/tau_i).   tau_i = (2h+1)/m as in the paper; `exact=1`: h/m, the
 *                   delay of 1F1B. With w replicas m/w for m. A tau below 1 does not raise the rate.
 *   lr-rescale      lr_i = lr / (1 + delay_i)^power
 *   nesterov-async  momentum 0.99 on all stages, or, `graded=1`, beta + h*(0.99-beta)/depth
 *   error-feedback  step t-1 used the direction Delta(t-1) of a gradient that was one step old;
 *                   Delta(t) is the correct one. So step t replaces it at the rate of step t-1:
 *                   w <- w + lr(t-1)*Delta(t-1);  w <- step t;  w <- w - lr(t-1)*Delta(t)
 *                   which is w - lr*(2*Delta(t) - Delta(t-1)) while lr is steady. */
#include "optim/policy.h"

#include <math.h>
#include <string.h>

/* --- pipemare --- */

static const struct sl_hyper pipemare_hyper[] = {
    {"K", 100, 1, 1e9, SL_RANGE_WHOLE, "steps after which the learning rate is the plain one"},
    {"D", 0.135, 0, 1, SL_RANGE_HALF_OPEN, "decay of the velocity over tau steps; 0: no T2"},
    {"exact", 0, 0, 1, SL_RANGE_WHOLE, "1: tau = h/m, the delay of 1F1B; 0: (2h+1)/m (paper)"},
    {0}};

static int64_t mare_micros(const struct sl_policy_use *use, int64_t height) {
    return sl_optim_policy_value(use, "exact") != 0 ? height : 2 * height + 1;
}

static int64_t mare_ahead(const struct sl_policy_use *use, const struct sl_policy_pass *p) {
    bool corrects = p->backward && sl_optim_policy_value(use, "D") > 0;
    return corrects ? mare_micros(use, p->height) * p->width : 0;
}

static double mare_tau(const struct sl_policy_use *use, const struct sl_policy_at *at) {
    return (double)(mare_micros(use, at->height) * at->width) / (double)at->micros;
}

static double mare_rate(const struct sl_policy_use *use, const struct sl_policy_at *at, int64_t t) {
    double tau = mare_tau(use, at), done = (double)(t - 1) / sl_optim_policy_value(use, "K");
    return tau > 1 ? pow(tau, -(1 - (done < 1 ? done : 1))) : 1;
}

static double mare_decay(const struct sl_policy_use *use, const struct sl_policy_at *at) {
    double tau = mare_tau(use, at);
    return tau > 0 ? pow(sl_optim_policy_value(use, "D"), 1 / tau) : 0;
}

const struct sl_policy sl_optim_policy_pipemare = {
    .name = "pipemare",
    .brief = "smaller steps early in training; backward passes on an estimate of the forward "
             "weights (PipeMare)",
    .note = "T1 lr/tau^p, T2 u = w - tau*velocity, tau = (2h+1)/m",
    .rules = "newest",
    .why = "its correction replaces stashed versions; use 'async' or 'paci'",
    .hyper = pipemare_hyper,
    .kept = SL_KEPT_VELOCITY,
    .ahead = mare_ahead,
    .rate = mare_rate,
    .decay = mare_decay,
};

/* --- lr-rescale --- */

static const struct sl_hyper rescale_hyper[] = {{"power", 1, 0, 4, SL_RANGE_CLOSED, "of 1 + delay"},
                                                {0}};

static double rescale(const struct sl_policy_use *use, const struct sl_policy_at *at, int64_t t) {
    (void)t;
    return pow(1 + at->delay, -sl_optim_policy_value(use, "power"));
}

const struct sl_policy sl_optim_policy_lr_rescale = {
    .name = "lr-rescale",
    .brief = "divides a stage's learning rate by one plus its delay",
    .note = "lr/(1+delay)^power, delay in steps: h/m, in 2bw 1, in vsync (depth-1)/m",
    .rules = "twobw stash vsync newest",
    .why = "",
    .hyper = rescale_hyper,
    .rate = rescale,
};

/* --- nesterov-async --- */

static const struct sl_hyper nesterov_hyper[] = {
    {"beta", 0.99, 0, 1, SL_RANGE_HALF_OPEN, "momentum of the stage that is furthest behind"},
    {"graded", 0, 0, 1, SL_RANGE_WHOLE, "1: from the optimizer's own momentum up to beta, by h"},
    {0}};

static void nesterov(const struct sl_policy_use *use, const struct sl_policy_at *at,
                     struct sl_optim *optim) {
    int i = sl_optim_hyper_find(optim->row->hyper, sl_str(optim->row->momentum));
    double max = sl_optim_policy_value(use, "beta"), own = optim->hyper[i];
    if (sl_optim_policy_value(use, "graded") != 0)
        max = own + (double)at->height * (max - own) / (double)at->depth;
    optim->hyper[i] = max;
}

const struct sl_policy sl_optim_policy_nesterov_async = {
    .name = "nesterov-async",
    .brief = "Nesterov momentum 0.99; its look-ahead compensates for the delay",
    .note = "torch.optim.NAdam with beta1 = 0.99 and decoupled decay on stashed weights",
    .rules = "stash vsync newest twobw",
    .why = "",
    .needs_nesterov = true,
    .why_optimizer = "the look-ahead is Nesterov's; use 'nadam:decoupled=1' or 'nesterov:ema=1'",
    .hyper = nesterov_hyper,
    .momentum = nesterov,
};

/* --- error feedback --- */

const struct sl_policy sl_optim_policy_error_feedback = {
    .name = "error-feedback",
    .brief = "each step corrects the previous step, which used a stale gradient",
    .note = "w -= lr*(2*Delta(t) - Delta(t-1)) at a steady rate (our reading)",
    .rules = "twobw",
    .why = "it knows the error of exactly one step of delay; use '2bw'",
    .kept = SL_KEPT_ALWAYS,
    .feedback = true,
};
