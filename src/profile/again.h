/* A forward pass that is computed again, as a stage that recomputes does: right before the backward
 * pass of its micro-batch, with weights that another forward pass has just read, and without inputs
 * being fed. */
#ifndef SL_PROFILE_AGAIN_H
#define SL_PROFILE_AGAIN_H

#include "profile/body.h"

/* Rounds of a short measurement by all workers: enough of them in all. */
enum { SL_ROUNDS_MOST = 9 };
static inline int sl_rounds_of(int workers) {
    enum { LEAST = 3, ENOUGH = 24 };
    int rounds = ENOUGH / workers;
    return rounds < LEAST ? LEAST : rounds < SL_ROUNDS_MOST ? rounds : SL_ROUNDS_MOST;
}

/* What it takes, of what a forward pass takes with its inputs: the median of some rounds, fewer
 * where more workers measure it. */
SL_MUST_CHECK sl_err sl_again_measure(struct sl_body *body, int workers, double *out);

#endif
