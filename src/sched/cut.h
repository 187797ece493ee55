/* A cut: a place in the list of every worker, right after its own step, where a run can pause.
 *
 *     worker 0 | F5 B2 F6 B3 STEP 2 ¦ F7 B4 F8 ...     micro-batches in flight, and messages under
 *     worker 1 | F4 B4 STEP 2 ¦ F5 B5 F6 ...           way, cross the cut
 *
 * No action before the cut needs an action behind it, so all workers reach the cut. The
 * verifier's machine finds the cut: while another worker needs more, a stopped worker continues. */
#ifndef SL_SCHED_CUT_H
#define SL_SCHED_CUT_H

#include "sched/sched.h"

/* Sets at[worker] to the number of actions that the worker runs before the cut after step `version`
 * (1 to iters). After the last step these are all. Returns SL_ERR_REFUSED if a worker with several
 * stages steps one of them again before it has made this step for the others. */
SL_MUST_CHECK sl_err sl_sched_cut(const struct sl_sched *sched, int32_t version, int64_t *at);

/* length: number of actions of a worker in the whole run. sl_spot: where one of these actions is in
 * the lists. */
int64_t sl_sched_length(const struct sl_sched *sched, int worker);
struct sl_spot {
    int segment;
    int32_t rep; /* the repetition, as sl_sched_at takes it */
    int64_t index;
};
struct sl_spot sl_sched_spot(const struct sl_sched *sched, int worker, int64_t number);

#endif
