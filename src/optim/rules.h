/* The arithmetic of every elementwise optimizer, one element at a time: this header defines the
 * bits.
 *
 * All rules are float operations in the order written, each rounded separately. Compile with
 * -ffp-contract=off (otherwise gcc also fuses intrinsics; note that the avx2 and avx512 files of
 * device/cpu are built with contraction on), nvcc with -fmad=false -prec-sqrt=true -prec-div=true.
 * No branch depends on data except the sign in lion. Each rule returns Delta and stores w -
 * lr*Delta in *w.
 *
 * SL_RULE may be defined before inclusion (CUDA: `static __host__ __device__ inline`). */
#ifndef SL_OPTIM_RULES_H
#define SL_OPTIM_RULES_H

#include "optim/optim.h"

#include <math.h>

#ifndef SL_RULE
#define SL_RULE static inline
#endif

/* g = scale*g + l2*w */
SL_RULE float sl_rule_grad(const struct sl_step_coef *c, float w, float g) {
    float scaled = g * c->scale;
    float decay = c->l2 * w;
    return scaled + decay;
}

/* w = w*shrink - lr*delta */
SL_RULE float sl_rule_apply(const struct sl_step_coef *c, float w, float delta) {
    float kept = w * c->shrink;
    float step = c->lr * delta;
    return kept - step;
}

/* beta*m + rest*g */
SL_RULE float sl_rule_mean(float beta, float rest, float m, float g) {
    float old = beta * m;
    float fresh = rest * g;
    return old + fresh;
}

SL_RULE float sl_rule_sgd(const struct sl_step_coef *c, float *w, float g) {
    float delta = sl_rule_grad(c, *w, g);
    *w = sl_rule_apply(c, *w, delta);
    return delta;
}

SL_RULE float sl_rule_momentum(const struct sl_step_coef *c, float *w, float g, float *buf) {
    g = sl_rule_grad(c, *w, g);
    *buf = sl_rule_mean(c->beta1, c->rest1, *buf, g);
    *w = sl_rule_apply(c, *w, *buf);
    return *buf;
}

/* delta = rest1*g + beta1*buf */
SL_RULE float sl_rule_nesterov(const struct sl_step_coef *c, float *w, float g, float *buf) {
    g = sl_rule_grad(c, *w, g);
    *buf = sl_rule_mean(c->beta1, c->rest1, *buf, g);
    float delta = sl_rule_mean(c->beta1, c->rest1, *buf, g);
    *w = sl_rule_apply(c, *w, delta);
    return delta;
}

/* sqrt(v)*fix2 + eps */
SL_RULE float sl_rule_root(const struct sl_step_coef *c, float v) {
    float root = sqrtf(v);
    float fixed = root * c->fix2;
    return fixed + c->eps;
}

SL_RULE float sl_rule_adam_delta(const struct sl_step_coef *c, float m, float v) {
    float fixed = m * c->fix1;
    return fixed / sl_rule_root(c, v);
}

/* Updates m and v of adam, adamw, nadam: v = beta2*v + (rest2*g)*g. */
SL_RULE void sl_rule_moments(const struct sl_step_coef *c, float g, float *m, float *v) {
    float weighted = c->rest2 * g;
    *m = sl_rule_mean(c->beta1, c->rest1, *m, g);
    *v = sl_rule_mean(c->beta2, weighted, *v, g);
}

/* adam and adamw differ only in shrink and l2. */
SL_RULE float sl_rule_adam(const struct sl_step_coef *c, float *w, float g, float *m, float *v) {
    g = sl_rule_grad(c, *w, g);
    sl_rule_moments(c, g, m, v);
    float delta = sl_rule_adam_delta(c, *m, *v);
    *w = sl_rule_apply(c, *w, delta);
    return delta;
}

SL_RULE float sl_rule_nadam(const struct sl_step_coef *c, float *w, float g, float *m, float *v) {
    g = sl_rule_grad(c, *w, g);
    sl_rule_moments(c, g, m, v);
    float mixed = sl_rule_mean(c->mix_m, c->mix_g, *m, g);
    float delta = mixed / sl_rule_root(c, *v);
    *w = sl_rule_apply(c, *w, delta);
    return delta;
}

/* delta = sign(beta1*m + rest1*g), then m = beta2*m + rest2*g; the sign of 0 is 0 */
SL_RULE float sl_rule_lion(const struct sl_step_coef *c, float *w, float g, float *m) {
    g = sl_rule_grad(c, *w, g);
    float mixed = sl_rule_mean(c->beta1, c->rest1, *m, g);
    float delta = (float)((mixed > 0.0f) - (mixed < 0.0f));
    *m = sl_rule_mean(c->beta2, c->rest2, *m, g);
    *w = sl_rule_apply(c, *w, delta);
    return delta;
}

#endif
