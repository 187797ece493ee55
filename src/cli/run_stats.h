/* What a run cost: time per step after the first ones, and memory; for `train --json` and benches.
 */
#ifndef SL_CLI_RUN_STATS_H
#define SL_CLI_RUN_STATS_H

#include "base/json.h"
#include "pipe/pipe.h"
#include "run/session.h"

/* Steps that do not count, because caches fill and kernels are chosen; steps that are kept. */
enum { SL_RUN_STATS_WARM = 2, SL_RUN_STATS_KEPT = 1024 };

struct sl_run_stats {
    int64_t step_ns[SL_RUN_STATS_KEPT];       /* a ring: the last ones after warm-up */
    int64_t steps;                            /* with warm-up */
    int64_t cpu_ns;                           /* of the process, in the steps that count */
    double late_steps, late_samples, late_ns; /* of about the last ten steps, fading */
    int64_t empty_bytes;                      /* high-water mark when the stats were opened */
    int64_t held_bytes;                       /* at the end of the run, all pages counted */
};

/* High-water mark of this process, 0 where the system does not tell. */
int64_t sl_cli_run_stats_peak_bytes(void);
void sl_cli_run_stats_open(struct sl_run_stats *stats);
/* While all memory is still held. */
void sl_cli_run_stats_hold(struct sl_run_stats *stats);
void sl_cli_run_stats_step(struct sl_run_stats *stats, const struct sl_step_report *report);
/* Samples per second of late, and how long `steps` take at that pace. Times are added before they
 * are divided: steps of a pipeline may end in bursts. */
double sl_cli_run_stats_rate(const struct sl_run_stats *stats);
/* How much faster than this step. */
double sl_cli_run_stats_pace(const struct sl_run_stats *stats, const struct sl_step_report *report);
int64_t sl_cli_run_stats_left_ns(const struct sl_run_stats *stats, int64_t steps);
/* Median of the steps that count; NAN: there are none. */
double sl_cli_run_stats_step_s(const struct sl_run_stats *stats);
/* A member `ranks`: predicted bytes and peak_bytes of every process; all ranks call, one has the
 * text. `predicted` is read there only; NULL: it is not known. */
SL_MUST_CHECK sl_err sl_cli_run_stats_put_ranks(const struct sl_run_stats *stats,
                                                struct sl_comm *comm, const int64_t *predicted,
                                                struct sl_json_out *json);
/* Members step_s (median), step_spread ((slowest - fastest) / median), step_cpu_s (mean CPU time)
 * and peak_bytes (high-water mark less what it was at open); null where nothing was measured. */
void sl_cli_run_stats_put(const struct sl_run_stats *stats, struct sl_json_out *json);

#endif
