/* Loss scaling: the loss's gradient is multiplied by a power of two, so that small gradients do not
 * vanish in 16 bits, and the gradients of the weights are divided by it before anybody reads them.
 * Powers of two are exact: where nothing overflows or vanishes, not a bit changes.
 *
 *     none                            1
 *     4096                            always 4096
 *     dynamic:start=65536,every=2000  halved by a step whose gradient is not finite (and which is
 *                                     skipped), doubled after so many good ones; from 1 to 2^24
 */
#ifndef SL_OPTIM_LOSS_SCALE_H
#define SL_OPTIM_LOSS_SCALE_H

#include "base/text.h"

struct sl_loss_scale {
    bool dynamic;
    double start;  /* a power of two; 0: none, as 1 */
    int64_t every; /* dynamic: good steps until it doubles */
};

/* Where a run stands. */
struct sl_scale_state {
    double value;
    int64_t good; /* steps since it changed */
};

SL_MUST_CHECK sl_err sl_optim_loss_scale_parse(const char *text, struct sl_loss_scale *out);
void sl_optim_loss_scale_put(struct sl_text *text, const struct sl_loss_scale *rule);
bool sl_optim_loss_scale_is_none(const struct sl_loss_scale *rule);

struct sl_scale_state sl_optim_loss_scale_begin(const struct sl_loss_scale *rule);
/* After the verdict on a step whose gradient was scaled by `used`. That is the value at hand, but
 * where the next steps are under way before the verdict: then several may overflow for one reason,
 * which must not be paid for again and again. */
struct sl_scale_state sl_optim_loss_scale_next(const struct sl_loss_scale *rule,
                                               struct sl_scale_state at, double used, bool finite);
/* Is a step skipped for its scale, as far as one can tell? The loss, which is not scaled, is
 * finite, and the next step tries a smaller one. */
bool sl_optim_loss_scale_blames(const struct sl_loss_scale *rule, double used, double loss);

/* "65536 17", in checkpoints: value and good. Returns false when the text is not of that form. */
void sl_optim_scale_state_put(struct sl_text *text, const struct sl_scale_state *at);
bool sl_optim_scale_state_parse(const char *text, struct sl_scale_state *out);

#endif
