/* What a run cost. */
#include "cli/run_stats.h"

#include "base/sort.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line of a file of /proc that begins with `name`, 0 where there is none. */
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

/* getrusage would count what the parent had before exec. */
int64_t sl_cli_run_stats_peak_bytes(void) { return proc_bytes("/proc/self/status", "VmHWM:"); }

/* The mark lacks up to 32 pages of each kind on every processor that the kernel has yet to add up:
 * megabytes on 16 of them. Counting pages is exact, and not for every step. */
static int64_t counted_bytes(void) {
    int64_t mark = sl_cli_run_stats_peak_bytes(),
            now = proc_bytes("/proc/self/smaps_rollup", "Rss:");
    return mark > now ? mark : now;
}

void sl_cli_run_stats_open(struct sl_run_stats *stats) {
    memset(stats, 0, sizeof *stats);
    stats->empty_bytes = counted_bytes();
}

void sl_cli_run_stats_hold(struct sl_run_stats *stats) { stats->held_bytes = counted_bytes(); }

static int64_t max_bytes(const struct sl_run_stats *stats) {
    int64_t mark = sl_cli_run_stats_peak_bytes();
    return (mark > stats->held_bytes ? mark : stats->held_bytes) - stats->empty_bytes;
}

void sl_cli_run_stats_step(struct sl_run_stats *stats, const struct sl_step_report *report) {
    const double fade = 0.9;
    int64_t at = stats->steps++ - SL_RUN_STATS_WARM;
    stats->late_steps = fade * stats->late_steps + 1;
    stats->late_samples = fade * stats->late_samples + (double)report->samples;
    stats->late_ns = fade * stats->late_ns + (double)report->dur_ns;
    if (at < 0)
        return;
    stats->step_ns[at % SL_RUN_STATS_KEPT] = report->dur_ns;
    stats->cpu_ns += report->cpu_ns;
}

double sl_cli_run_stats_rate(const struct sl_run_stats *stats) {
    return 1e9 * stats->late_samples / stats->late_ns;
}

double sl_cli_run_stats_pace(const struct sl_run_stats *stats,
                             const struct sl_step_report *report) {
    return sl_cli_run_stats_rate(stats) * 1e-9 * (double)report->dur_ns / (double)report->samples;
}

int64_t sl_cli_run_stats_left_ns(const struct sl_run_stats *stats, int64_t steps) {
    return (int64_t)((double)steps * stats->late_ns / stats->late_steps);
}

/* Times of the steps that are kept, ascending; how many. */
static int64_t sort_steps(const struct sl_run_stats *stats, int64_t sorted[SL_RUN_STATS_KEPT]) {
    int64_t counted = stats->steps - SL_RUN_STATS_WARM;
    if (counted <= 0)
        return 0;
    int64_t kept = counted < SL_RUN_STATS_KEPT ? counted : SL_RUN_STATS_KEPT;
    memcpy(sorted, stats->step_ns, sizeof *sorted * (size_t)kept);
    sl_sort_ints(sorted, kept);
    return kept;
}

static double median_s(const int64_t *sorted, int64_t kept) {
    int64_t low = sorted[(kept - 1) / 2], high = sorted[kept / 2];
    return 0.5e-9 * (double)(low + high);
}

double sl_cli_run_stats_step_s(const struct sl_run_stats *stats) {
    int64_t sorted[SL_RUN_STATS_KEPT], kept = sort_steps(stats, sorted);
    return kept ? median_s(sorted, kept) : (double)NAN;
}

void sl_cli_run_stats_put(const struct sl_run_stats *stats, struct sl_json_out *json) {
    double median = NAN, spread = NAN, cpu = NAN, peak = NAN;
    int64_t sorted[SL_RUN_STATS_KEPT], kept = sort_steps(stats, sorted);
    if (kept > 0) {
        median = median_s(sorted, kept);
        spread = 1e-9 * (double)(sorted[kept - 1] - sorted[0]) / median;
        cpu = 1e-9 * (double)stats->cpu_ns / (double)(stats->steps - SL_RUN_STATS_WARM);
    }
    if (stats->empty_bytes)
        peak = (double)max_bytes(stats);
    sl_json_put_double(json, "step_s", median);
    sl_json_put_double(json, "step_spread", spread);
    sl_json_put_double(json, "step_cpu_s", cpu);
    sl_json_put_double(json, "peak_bytes", peak);
}

sl_err sl_cli_run_stats_put_ranks(const struct sl_run_stats *stats, struct sl_comm *comm,
                                  const int64_t *predicted, struct sl_json_out *json) {
    struct sl_arena arena = {0};
    int64_t *peaks = SL_NEW(&arena, int64_t, comm->ranks);
    peaks[comm->rank] = max_bytes(stats);
    sl_err err = sl_comm_merge(comm, peaks, comm->ranks * (int64_t)sizeof *peaks);
    sl_json_key(json, "ranks");
    sl_json_open(json, '[');
    for (int r = 0; r < comm->ranks; r++) {
        sl_json_open(json, '{');
        sl_json_put_int(json, "rank", r);
        if (predicted)
            sl_json_put_int(json, "bytes", predicted[r]);
        sl_json_put_int(json, "peak_bytes", peaks[r]);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
    sl_arena_free(&arena);
    return err;
}
