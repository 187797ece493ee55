/* Policies that predict: how many steps beyond its version a pass should read. Sources: Chen et
 * al. 2018 (SpecTrain), Guan et al. 2019 (XPipe), Guan et al. 2023 (PipeOptim).
 *
 * A stage of height h in a graph of depth D is r = D-1-h edges below the top. In 1F1B without a
 * flush forward k runs at half time 2k - (h+1) and backward k at 2k + h, so micro-batch k enters at
 * 2k - D and returns to the top at 2k + D-1. With m micro-batches per step a stage makes step v
 * after backward vm-1. docs/design/0015-weight-prediction.md has the derivation.
 *
 *   spectrain    the version that the stage will have when micro-batch k returns to the top:
 *                floor((k + floor(r/2)) / m). With m = 1, in steady state, as in the paper:
 *                s_f = floor(r/2) + h, s_b = floor(r/2).
 *   pipeoptim    forward only: the version that its own gradient will be applied to, floor(k/m).
 *                With m = 1: s = h (so has version 2 of SpecTrain).
 *   xpipe        the formula of the paper with N = D and k = r; the first micro-batch of a step
 *                 predicts for the others.
 *   2bw-predict  both passes: the version that the gradient will be applied to, one step ahead.
 *
 * A stage with w replicas is w pipelines that step together: each runs m/w micro-batches per step.
 * The formulas then hold with m/w for m, and with k counted on one replica.
 *
 * `reach` multiplies s. Successive directions agree only in part: with correlation c, the best
 * prediction along the last direction is c steps ahead.
 *
 * With a global step (one decision for all stages) no stage steps before the top has its gradients.
 * Then floor(k/m), the version that micro-batch k's gradient is applied to, is also the newest one
 * when k returns to the top, and spectrain predicts that one. */
#include "optim/policy.h"

static int64_t below_top(const struct sl_policy_pass *p) { return p->depth - 1 - p->height; }

static int64_t from_target(const struct sl_policy_pass *p, int64_t target) {
    return target > p->version ? target - p->version : 0;
}

static int64_t spectrain(const struct sl_policy_use *use, const struct sl_policy_pass *p) {
    (void)use;
    int64_t later = p->global_step ? 0 : below_top(p) / 2 * p->width;
    return from_target(p, (p->micro + later) / p->micros);
}

static int64_t pipeoptim(const struct sl_policy_use *use, const struct sl_policy_pass *p) {
    (void)use;
    return p->backward ? 0 : from_target(p, p->micro / p->micros);
}

/* Returns a/b rounded to the nearest integer, halves to the even one. */
static int64_t round_even(int64_t a, int64_t b) {
    int64_t low = a / b, rest = 2 * (a % b);
    return rest > b || (rest == b && low % 2) ? low + 1 : low;
}

static int64_t xpipe(const struct sl_policy_use *use, const struct sl_policy_pass *p) {
    (void)use;
    int64_t t = p->micros, n = p->depth, k = below_top(p), w = p->width; /* T is t/w */
    if (p->backward)
        return t + w * (k / 2 - 1) > 0 ? (t + w * (k / 2 - 1)) / t : 0;
    int64_t twice = 2 * t + w * (2 * (n - 2) - k); /* equals 2w (T + N - k/2 - 2) */
    return twice > 0 ? round_even(twice, 2 * t) : 0;
}

static int64_t one(const struct sl_policy_use *use, const struct sl_policy_pass *p) {
    (void)use;
    return from_target(p, p->micro / p->micros);
}

static const struct sl_hyper predict_hyper[] = {
    {"reach", 1, 0, 4, SL_RANGE_CLOSED, "factor of s: below 1 where steps turn"}, {0}};

#define WHY_STASH                                                                                  \
    "it predicts from the newest weights, and so needs a schedule without stashed versions; use "  \
    "'async' or 'paci'"

const struct sl_policy sl_optim_policy_spectrain = {
    .name = "spectrain",
    .brief = "forward and backward passes read the weights predicted for the step of their "
             "gradient (SpecTrain)",
    .note = "W^ = W - s*lr*Delta, s_f = floor(r/2) + h, s_b = floor(r/2) at m = 1",
    .rules = "newest",
    .why = WHY_STASH,
    .hyper = predict_hyper,
    .kept = SL_KEPT_DELTA,
    .ahead = spectrain,
};

const struct sl_policy sl_optim_policy_xpipe = {
    .name = "xpipe",
    .brief =
        "one prediction per step, for its first micro-batch, serves all its micro-batches (XPipe)",
    .note = "s_f = round((T+N-k/2-2)/T), s_b = floor((T+floor(k/2)-1)/T)",
    .rules = "newest",
    .why = WHY_STASH,
    .hyper = predict_hyper,
    .kept = SL_KEPT_DELTA,
    .bellwether = true,
    .ahead = xpipe,
};

const struct sl_policy sl_optim_policy_pipeoptim = {
    .name = "pipeoptim",
    .brief = "forward passes read the predicted weights of their backward pass (PipeOptim)",
    .note = "s_f = h at m = 1, backward on the true weights",
    .rules = "newest",
    .why = WHY_STASH,
    .hyper = predict_hyper,
    .kept = SL_KEPT_DELTA,
    .ahead = pipeoptim,
};

const struct sl_policy sl_optim_policy_2bw_predict = {
    .name = "2bw-predict",
    .brief = "2bw; passes read weights predicted one step ahead, equally on all stages",
    .note = "W^(t+1) = W(t) - lr*Delta(t) wherever 2bw reads W(t); s = 1",
    .rules = "twobw",
    .why = "s = 1 everywhere is right only where the delay is one step everywhere; use '2bw', or "
           "policy 'spectrain' or 'pipeoptim'",
    .hyper = predict_hyper,
    .kept = SL_KEPT_DELTA,
    .ahead = one,
};
