/* Loss scaling: the gradient of the loss is multiplied by a power of two, so that small gradients do
 * not underflow in 16 bits. Gradients of weights are divided by it before use. Multiplying by a
 * power of two is exact: without overflow and underflow the results have the same bits.
 *
 *     none                            1
 *     4096                            always 4096
 *     dynamic:start=65536,every=2000  halved when a step is skipped for a gradient that is not
 *                                     finite, doubled after `every` finite steps; from 1 to 2^24 */
#ifndef SL_OPTIM_LOSS_SCALE_H
#define SL_OPTIM_LOSS_SCALE_H

#include "base/text.h"

struct sl_loss_scale {
    bool dynamic;
    double start;  /* a power of two; 0 or 1: no scaling */
    int64_t every; /* dynamic: number of finite steps until it doubles */
};

/* The state of a dynamic scale. */
struct sl_scale_state {
    double value;
    int64_t good; /* number of finite steps since it changed */
};

SL_MUST_CHECK sl_err sl_optim_loss_scale_parse(const char *text, struct sl_loss_scale *out);
void sl_optim_loss_scale_put(struct sl_text *text, const struct sl_loss_scale *rule);
bool sl_optim_loss_scale_is_none(const struct sl_loss_scale *rule);

struct sl_scale_state sl_optim_loss_scale_begin(const struct sl_loss_scale *rule);
/* Updates the scale after the decision (finite or skip) about a step whose gradient was scaled by
 * `used`. With several steps in flight `used` may be an older value: back off once per cause, even
 * if several of them overflow. */
struct sl_scale_state sl_optim_loss_scale_next(const struct sl_loss_scale *rule,
                                               struct sl_scale_state at, double used, bool finite);
/* Was a step skipped because of its scale? Yes if the loss, which is not scaled, is finite and the
 * scale can still be halved. */
bool sl_optim_loss_scale_blames(const struct sl_loss_scale *rule, double used, double loss);

/* The text "65536 17" in checkpoints: value and good. parse returns false if the text has another
 * form. */
void sl_optim_scale_state_put(struct sl_text *text, const struct sl_scale_state *at);
bool sl_optim_scale_state_parse(const char *text, struct sl_scale_state *out);

#endif
