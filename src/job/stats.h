/* Measurements of a run: time per step after warm-up, current speed, memory of the process. */
#ifndef SL_JOB_STATS_H
#define SL_JOB_STATS_H

#include "base/json.h"
#include "run/session.h"

/* The first SL_JOB_STATS_WARM steps do not count, because caches fill and kernels are chosen. */
enum { SL_JOB_STATS_WARM = 2, SL_JOB_STATS_KEPT = 1024 };

struct sl_job_stats {
    int64_t step_ns[SL_JOB_STATS_KEPT];       /* ring buffer of step times after warm-up */
    int64_t steps;                            /* number of steps, with those of the warm-up */
    int64_t cpu_ns;                           /* CPU time of the process in steps after warm-up */
    double late_steps, late_samples, late_ns; /* decaying sums over about the last ten steps */
    int64_t empty_bytes;                      /* memory of the process when the stats were opened */
    int64_t held_bytes;                       /* memory of the process at the end of the run */
};

/* Returns the most memory that this process has used; 0: the system does not say. Cheap, and a few
 * pages too low. */
int64_t sl_job_peak_bytes(void);
/* The same with every page counted: exact, but slow. */
int64_t sl_job_counted_bytes(void);

/* `empty_bytes`: memory of the process before the run. */
void sl_job_stats_open(struct sl_job_stats *stats, int64_t empty_bytes);
/* Call it while the run still holds all its memory. */
void sl_job_stats_hold(struct sl_job_stats *stats);
void sl_job_stats_step(struct sl_job_stats *stats, const struct sl_step_report *report);

/* rate: current samples per second. pace: duration of this step relative to the current one.
 * left_ns: time for `steps` more steps. Durations are added before they are divided, because steps
 * of a pipeline may end in bursts. */
double sl_job_stats_rate(const struct sl_job_stats *stats);
double sl_job_stats_pace(const struct sl_job_stats *stats, const struct sl_step_report *report);
int64_t sl_job_stats_left_ns(const struct sl_job_stats *stats, int64_t steps);

/* The results; NAN: not measured. */
struct sl_job_summary {
    double step_s;      /* median time of a step */
    double step_spread; /* (slowest - fastest) / median */
    double step_cpu_s;  /* mean CPU time of a step */
    double peak_bytes;  /* most memory used, minus empty_bytes */
};
struct sl_job_summary sl_job_stats_summary(const struct sl_job_stats *stats);
/* Fills peaks[ranks] with the peak bytes of each process; every rank calls. */
SL_MUST_CHECK sl_err sl_job_stats_ranks(const struct sl_job_stats *stats, struct sl_comm *comm,
                                        int64_t *peaks);

#endif
