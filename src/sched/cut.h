/* A cut: a place in the list of every worker, right after its own step, where a run can pause.
 *
 *     worker 0 | F5 B2 F6 B3 STEP 2 ¦ F7 B4 F8 ...     micro-batches in flight, and messages under
 *     worker 1 | F4 B4 STEP 2 ¦ F5 B5 F6 ...           way, cross the cut
 *
 * What is before the cut needs nothing that is behind it, so workers that stop there all arrive. The
 * verifier's machine finds it: a worker whose place is too early for another one goes on.
 */
#ifndef SL_SCHED_CUT_H
#define SL_SCHED_CUT_H

#include "sched/sched.h"

/* at[worker]: actions of the whole run before the cut after step `version`, 1 to iters. After the
 * last step: all. SL_ERR_REFUSED if a worker with several stages has made one step more on one of
 * them before the others made this one. */
SL_MUST_CHECK sl_err sl_sched_cut(const struct sl_sched *sched, int32_t version, int64_t *at);

/* Actions of a worker in the whole run; where one of them is in the lists. */
int64_t sl_sched_length(const struct sl_sched *sched, int worker);
struct sl_spot {
    int segment;
    int32_t rep; /* for sl_sched_at */
    int64_t index;
};
struct sl_spot sl_sched_spot(const struct sl_sched *sched, int worker, int64_t number);

#endif
