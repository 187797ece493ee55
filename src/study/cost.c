/* Sums the cost of a study in CPU time, which depends less on the load of the machine than wall
 * time. */
#include "study/study.h"

struct cost {
    int64_t runs, known;
    double cpu_s; /* sum over the runs whose time is known */
};

static struct cost cost_of(const struct sl_study_cell *cells, int64_t count, int task) {
    struct cost cost = {0};
    for (int64_t i = 0; i < count; i++)
        if (cells[i].task == task && cells[i].record && cells[i].kind != SL_CELL_TIME) {
            cost.runs++;
            cost.known += cells[i].cpu_s > 0;
            cost.cpu_s += cells[i].cpu_s;
        }
    return cost;
}

void sl_study_put_cost(const struct sl_study *study, const struct sl_study_cell *cells,
                       int64_t count, struct sl_text *out) {
    struct cost all = {0};
    double sum = 0; /* a run whose time is unknown counts as the mean of its task */
    for (int t = 0; t < study->task_count; t++) {
        struct cost cost = cost_of(cells, count, t);
        if (!cost.known)
            continue;
        if (!all.known)
            sl_text_put(out, "\n## What it took\n\nProcessor time of the runs, tuning included.\n\n"
                             "| task | runs | known of these | seconds a run | seconds |\n"
                             "|---|---|---|---|---|\n");
        double mean = cost.cpu_s / (double)cost.known, total = mean * (double)cost.runs;
        sl_text_printf(out, "| %s | %lld | %lld | %.1f | %.0f |\n", study->tasks[t].name,
                       (long long)cost.runs, (long long)cost.known, mean, total);
        all.runs += cost.runs;
        all.known += cost.known;
        sum += total;
    }
    if (all.known)
        sl_text_printf(out, "\n%lld runs: %.0f s, on two cores %.0f minutes.\n",
                       (long long)all.runs, sum, sum / 120);
}
