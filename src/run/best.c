/* Finds and notes the best evaluation of a run. */
#include "run/best.h"

#include "ckpt/ckpt.h"

#include <math.h>

void sl_run_best_read(const char *run, int64_t step, struct sl_best *out) {
    struct sl_best best;
    if (sl_ckpt_best_read(run, &best.step, &best.loss) && best.step <= step)
        *out = best;
}

sl_err sl_run_best_judge(struct sl_best *best, const char *run, int64_t step, double loss,
                         bool *better) {
    *better = !isnan(loss) && !(best->loss <= loss);
    if (!*better)
        return SL_OK;
    *best = (struct sl_best){step, loss};
    return run ? sl_ckpt_best_write(run, step, loss) : SL_OK;
}
