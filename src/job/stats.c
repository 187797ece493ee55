/* Measurements of a run. */
#include "job/stats.h"

#include "base/sort.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the bytes on the line of a /proc file that begins with `name` and gives kB; 0: there is
 * no such line. */
static int64_t proc_bytes(const char *path, const char *name) {
    char line[256];
    long long kib = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) {
            kib = strtoll(line + strlen(name), NULL, 10);
            break;
        }
    fclose(file);
    return (int64_t)kib * 1024;
}

/* VmHWM, not getrusage, which includes the memory of the parent before exec. */
int64_t sl_job_peak_bytes(void) { return proc_bytes("/proc/self/status", "VmHWM:"); }

/* Returns the peak with every page counted. The kernel may add up to 32 pages of each kind per
 * processor late to the mark: megabytes on 16 processors. smaps_rollup counts every page. */
int64_t sl_job_counted_bytes(void) {
    int64_t mark = sl_job_peak_bytes(), now = proc_bytes("/proc/self/smaps_rollup", "Rss:");
    return mark > now ? mark : now;
}

void sl_job_stats_open(struct sl_job_stats *stats, int64_t empty_bytes) {
    memset(stats, 0, sizeof *stats);
    stats->empty_bytes = empty_bytes;
}

void sl_job_stats_hold(struct sl_job_stats *stats) { stats->held_bytes = sl_job_counted_bytes(); }

static int64_t max_bytes(const struct sl_job_stats *stats) {
    int64_t mark = sl_job_peak_bytes();
    return (mark > stats->held_bytes ? mark : stats->held_bytes) - stats->empty_bytes;
}

void sl_job_stats_step(struct sl_job_stats *stats, const struct sl_step_report *report) {
    const double fade = 0.9;
    int64_t at = stats->steps++ - SL_JOB_STATS_WARM;
    stats->late_steps = fade * stats->late_steps + 1;
    stats->late_samples = fade * stats->late_samples + (double)report->samples;
    stats->late_ns = fade * stats->late_ns + (double)report->dur_ns;
    if (at < 0)
        return;
    stats->step_ns[at % SL_JOB_STATS_KEPT] = report->dur_ns;
    stats->cpu_ns += report->cpu_ns;
}

double sl_job_stats_rate(const struct sl_job_stats *stats) {
    return 1e9 * stats->late_samples / stats->late_ns;
}

double sl_job_stats_pace(const struct sl_job_stats *stats, const struct sl_step_report *report) {
    return sl_job_stats_rate(stats) * 1e-9 * (double)report->dur_ns / (double)report->samples;
}

int64_t sl_job_stats_left_ns(const struct sl_job_stats *stats, int64_t steps) {
    return (int64_t)((double)steps * stats->late_ns / stats->late_steps);
}

/* Copies the kept step times in ascending order; returns their number. */
static int64_t sort_steps(const struct sl_job_stats *stats, int64_t sorted[SL_JOB_STATS_KEPT]) {
    int64_t counted = stats->steps - SL_JOB_STATS_WARM;
    if (counted <= 0)
        return 0;
    int64_t kept = counted < SL_JOB_STATS_KEPT ? counted : SL_JOB_STATS_KEPT;
    memcpy(sorted, stats->step_ns, sizeof *sorted * (size_t)kept);
    sl_sort_ints(sorted, kept);
    return kept;
}

static double median_s(const int64_t *sorted, int64_t kept) {
    int64_t low = sorted[(kept - 1) / 2], high = sorted[kept / 2];
    return 0.5e-9 * (double)(low + high);
}

struct sl_job_summary sl_job_stats_summary(const struct sl_job_stats *stats) {
    struct sl_job_summary out = {NAN, NAN, NAN, NAN};
    int64_t sorted[SL_JOB_STATS_KEPT], kept = sort_steps(stats, sorted);
    if (kept > 0) {
        out.step_s = median_s(sorted, kept);
        out.step_spread = 1e-9 * (double)(sorted[kept - 1] - sorted[0]) / out.step_s;
        out.step_cpu_s = 1e-9 * (double)stats->cpu_ns / (double)(stats->steps - SL_JOB_STATS_WARM);
    }
    if (stats->empty_bytes)
        out.peak_bytes = (double)max_bytes(stats);
    return out;
}

sl_err sl_job_stats_ranks(const struct sl_job_stats *stats, struct sl_comm *comm, int64_t *peaks) {
    memset(peaks, 0, sizeof *peaks * (size_t)comm->ranks);
    peaks[comm->rank] = max_bytes(stats);
    return sl_comm_merge(comm, peaks, comm->ranks * (int64_t)sizeof *peaks);
}
