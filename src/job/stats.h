/* Measurements of a run: time per step after warm-up, current speed, memory of the process. */
#ifndef SL_JOB_STATS_H
#define SL_JOB_STATS_H

#include "base/json.h"
#include "run/session.h"

/* The first steps do not count: caches fill and kernels are chosen. */
enum { SL_JOB_STATS_WARM = 2, SL_JOB_STATS_KEPT = 1024 };

struct sl_job_stats {
    int64_t step_ns[SL_JOB_STATS_KEPT];       /* ring buffer of the steps after warm-up */
    int64_t steps;                            /* with warm-up */
    int64_t cpu_ns;                           /* of the process, in steps after warm-up */
    double late_steps, late_samples, late_ns; /* decaying sums over about the last ten steps */
    int64_t empty_bytes;                      /* of the process, when the stats were opened */
    int64_t held_bytes;                       /* of the process, at the end of the run */
};

/* High-water mark of this process; 0 if the system has none. Cheap, and a few pages short. */
int64_t sl_job_peak_bytes(void);
/* The same with every page counted: exact, for rare use. */
int64_t sl_job_counted_bytes(void);

/* `empty_bytes`: memory before the run. */
void sl_job_stats_open(struct sl_job_stats *stats, int64_t empty_bytes);
/* Call while the run still holds all its memory. */
void sl_job_stats_hold(struct sl_job_stats *stats);
void sl_job_stats_step(struct sl_job_stats *stats, const struct sl_step_report *report);

/* Current samples per second; this step's duration over the current one; time for `steps` more.
 * Durations are added before they are divided, because steps of a pipeline may end in bursts. */
double sl_job_stats_rate(const struct sl_job_stats *stats);
double sl_job_stats_pace(const struct sl_job_stats *stats, const struct sl_step_report *report);
int64_t sl_job_stats_left_ns(const struct sl_job_stats *stats, int64_t steps);

/* Results; NAN: not measured. */
struct sl_job_summary {
    double step_s;      /* median */
    double step_spread; /* (slowest - fastest) / median */
    double step_cpu_s;  /* mean CPU time of a step */
    double peak_bytes;  /* high-water mark less empty_bytes */
};
struct sl_job_summary sl_job_stats_summary(const struct sl_job_stats *stats);
/* Every rank calls: peak bytes of each process into peaks[ranks]. */
SL_MUST_CHECK sl_err sl_job_stats_ranks(const struct sl_job_stats *stats, struct sl_comm *comm,
                                        int64_t *peaks);

#endif
