/* ./dev bench sim: actions per second of the simulator, and how time grows with size. */
#include "sim/sim.h"
#include "schedules/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct row {
    const char *schedule, *mode;
    int stages;
    int64_t micros;
    struct sl_sim_links links;
    bool has_links, timeline;
};

static sl_err run(const struct row *row, double *seconds, int64_t *actions) {
    struct sl_arena arena = {0};
    const struct sl_schedule *found = sl_schedules_row_find(row->schedule);
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    const struct sl_sim *sim = NULL;
    int workers = found->layout_chunks ? row->stages / 2 : row->stages;
    struct sl_schedule_opts opts = {.schedule = row->schedule, .micros = row->micros};
    struct sl_sim_opts how = {.timeline = row->timeline};
    sl_err err = sl_plan_chain(&arena, row->stages, workers, found->layout, &plan);
    if (err == SL_OK)
        err = sl_schedules_build(&arena, plan, &opts, &sched);
    if (row->has_links)
        how.net = sl_sim_uniform(&row->links);
    *seconds = INFINITY;
    for (int i = 0; i < 5 && err == SL_OK; i++) {
        struct sl_arena_mark mark = sl_arena_mark(&arena);
        clock_t start = clock(); /* CPU time: the machine may be busy */
        err = sl_sim_run(&arena, sched, &how, &sim);
        double took = (double)(clock() - start) / CLOCKS_PER_SEC;
        *seconds = took < *seconds ? took : *seconds;
        *actions = err == SL_OK ? sim->actions : 0;
        sl_arena_release(&arena, mark);
    }
    sl_arena_free(&arena);
    return err;
}

int main(void) {
    static const struct sl_sim_links own = {.latency_ns = 3, .bytes_per_s = 1000000000};
    static const struct sl_sim_links shared = {
        .latency_ns = 3, .bytes_per_s = 1000000000, .sharing = SL_SHARE_WORKER};
    static const struct row rows[] = {
        {"1f1b", "totals", 64, 512, {0}, false, false},
        {"1f1b", "totals", 256, 1024, {0}, false, false},
        {"1f1b", "totals", 1024, 2048, {0}, false, false},
        {"zb-h1", "totals", 256, 1024, {0}, false, false},
        {"zb-v", "totals", 256, 1024, {0}, false, false},
        {"1f1b", "links", 256, 1024, own, true, false},
        {"1f1b", "shared-links", 256, 1024, shared, true, false},
        {"1f1b", "timeline", 256, 1024, {0}, false, true},
    };
    double first = 0, first_actions = 0;
    for (int i = 0; i < SL_COUNT(rows); i++) {
        double seconds, exponent = 1;
        int64_t actions = 0;
        if (run(&rows[i], &seconds, &actions) != SL_OK) {
            fprintf(stderr, "bench sim: %s\n", sl_err_message());
            return 1;
        }
        if (i == 0) {
            first = seconds;
            first_actions = (double)actions;
        }
        if (i == 2)
            exponent = log(seconds / first) / log((double)actions / first_actions);
        printf("RESULT bench=sim case=%s schedule=%s stages=%d micros=%lld actions=%lld "
               "cpu_s=%.4f actions_s=%.4g%s",
               rows[i].mode, rows[i].schedule, rows[i].stages, (long long)rows[i].micros,
               (long long)actions, seconds, (double)actions / seconds, i == 2 ? "" : "\n");
        if (i == 2)
            printf(" exponent=%.3f\n", exponent);
    }
    return 0;
}
