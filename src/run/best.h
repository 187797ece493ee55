/* The evaluation with the lowest validation loss. RUN/ckpt/best names its step, whose checkpoint is kept
 * (ckpt/ckpt.h). */
#ifndef SL_RUN_BEST_H
#define SL_RUN_BEST_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct sl_best {
    int64_t step;
    double loss; /* validation loss; NAN: no evaluation yet */
};

/* Reads the best evaluation of the run up to `step`. */
void sl_run_best_read(const char *run, int64_t step, struct sl_best *out);
/* Sets *better if `loss` is the lowest so far; then notes the step in `run` (NULL: nowhere). */
SL_MUST_CHECK sl_err sl_run_best_judge(struct sl_best *best, const char *run, int64_t step,
                                       double loss, bool *better);

#endif
