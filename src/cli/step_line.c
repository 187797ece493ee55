/* Prints the line of a training step. */
#include "cli/step_line.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>

static bool is_worth_a_line(const struct sl_step_line *line, int64_t step) {
    int64_t tenth = line->steps / 10 > 0 ? line->steps / 10 : 1;
    return (step & (step - 1)) == 0 || step % tenth == 0 || step == line->steps;
}

static void put(struct sl_step_line *line, bool keep, const struct sl_step_report *r,
                const struct sl_job_speed *speed) {
    char text[SL_HUMAN_BYTES], left[SL_HUMAN_BYTES] = "", memory[SL_HUMAN_BYTES];
    char norm[32] = "", peak[32] = "";
    bool todo = r->step < line->steps;
    int64_t now = sl_clock_ns();
    if (!keep && now - line->last_ns < 100000000)
        return;
    line->last_ns = now;
    sl_human_ns(speed->left_ns, left);
    if (!isnan(r->norm))
        snprintf(norm, sizeof norm, "  norm %.3f", r->norm);
    if (!isnan(speed->peak))
        snprintf(peak, sizeof peak, "  %.0f%% of peak", 100 * speed->peak);
    sl_log_status(keep, "step %lld/%lld  loss %.4f%s  lr %.2e  %s %s/s%s  %s%s%s%s",
                  (long long)r->step, (long long)line->steps, r->loss, norm, r->lr,
                  sl_human_count(speed->rate, text), line->item, peak,
                  sl_human_bytes(sl_job_peak_bytes(), memory), todo ? "  left " : "",
                  todo ? left : "", r->skipped ? "  SKIPPED" : "");
}

void sl_cli_step_line_put(struct sl_step_line *line, const struct sl_step_report *report,
                          const struct sl_job_speed *speed) {
    put(line, !sl_log_is_terminal() && is_worth_a_line(line, report->step), report, speed);
}

void sl_cli_step_line_provisional(struct sl_step_line *line, const struct sl_step_report *report,
                                  const struct sl_job_speed *speed) {
    bool late = !line->last_ns || sl_clock_ns() - line->last_ns > 10000000000;
    put(line, !sl_log_is_terminal() && late, report, speed);
}
