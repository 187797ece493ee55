/* Scale of schedules: generate, lower and verify; prints RESULT lines. Limits are on wall time. The
 * growth exponent is a least-squares fit of log CPU time (the machine may be busy) to log actions
 * over four sizes of 1f1b.
 *
 *     build/release/bench/sched [--quick]
 */
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"
#include "lower/lower.h"
#include "schedules/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct timing {
    int64_t actions;
    double generate_s, lower_s, verify_s, cpu_s;
};

static double since(int64_t *from_ns) {
    int64_t now = sl_clock_ns();
    double s = (double)(now - *from_ns) * 1e-9;
    *from_ns = now;
    return s;
}

static sl_err measure(const char *name, int stages, int micros, struct timing *out) {
    const struct sl_schedule *row = sl_schedules_row_find(name);
    struct sl_arena arena = {0}, passes_arena = {0};
    const struct sl_plan *plan;
    struct sl_sched *passes, *lowered;
    struct sl_schedule_opts opts = {.schedule = name, .micros = micros};
    sl_err err;
    int workers = row->layout_chunks ? stages / 2 : stages;
    SL_TRY_OUT(sl_plan_chain(&arena, stages, workers, row->layout, &plan));
    clock_t start = clock();
    int64_t at = sl_clock_ns();
    SL_TRY_OUT(sl_schedules_generate(&passes_arena, plan, &opts, &passes));
    out->generate_s = since(&at);
    SL_TRY_OUT(sl_lower_passes(&arena, passes, &lowered));
    out->lower_s = since(&at);
    SL_TRY_OUT(sl_sched_verify(lowered));
    out->verify_s = since(&at);
    out->cpu_s = (double)(clock() - start) / CLOCKS_PER_SEC;
    out->actions = sl_sched_action_count(lowered);
out:
    sl_arena_free(&passes_arena);
    sl_arena_free(&arena);
    return err;
}

static struct timing report(const char *name, int stages, int micros, double limit_s) {
    struct timing t = {0};
    struct rusage usage;
    if (measure(name, stages, micros, &t) != SL_OK) {
        printf("RESULT bench=sched schedule=%s stages=%d micros=%d error=\"%s\"\n", name, stages,
               micros, sl_err_message());
        return t;
    }
    double total = t.generate_s + t.lower_s + t.verify_s;
    getrusage(RUSAGE_SELF, &usage);
    printf("RESULT bench=sched schedule=%s stages=%d micros=%d actions=%lld generate_s=%.3f "
           "lower_s=%.3f verify_s=%.3f total_s=%.3f cpu_s=%.3f verify_actions_s=%.0f peak_gib=%.2f",
           name, stages, micros, (long long)t.actions, t.generate_s, t.lower_s, t.verify_s, total,
           t.cpu_s, (double)t.actions / t.verify_s, (double)usage.ru_maxrss / (1024.0 * 1024.0));
    if (limit_s > 0)
        printf(" limit_s=%.0f ok=%s", limit_s, total < limit_s ? "yes" : "no");
    printf("\n");
    fflush(stdout);
    return t;
}

static double slope(const struct timing *t, int count) {
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < count; i++) {
        double a = log((double)t[i].actions), s = log(t[i].cpu_s);
        x += a;
        y += s;
        xx += a * a;
        xy += a * s;
    }
    return (count * xy - x * y) / (count * xx - x * x);
}

int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    int rows;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    for (int i = 0; i < rows; i++)
        report(registry[i]->name, 64, 512, 1);
    if (quick)
        return 0;
    const struct timing sizes[] = {
        report("1f1b", 64, 512, 1),
        report("1f1b", 256, 1024, 0),
        report("1f1b", 512, 2048, 0),
        report("1f1b", 1024, 4096, 60),
    };
    report("zb-h1", 1024, 4096, 60);
    report("2bw", 1024, 4096, 60);
    printf("RESULT bench=sched case=growth schedule=1f1b exponent=%.3f (CPU time against "
           "actions)\n",
           slope(sizes, SL_COUNT(sizes)));
    return 0;
}
