/* What the tuning of a study found: the mean loss of every rate. */
#include "report/study.h"

#include <math.h>

struct view {
    const struct sl_study *study;
    const struct sl_study_cell *cells;
    int64_t count;
};

/* The last loss, mean of the seeds; NAN: not run; infinite: a run is lost. */
static double loss_of(const struct view *v, int task, int mode, double rate) {
    double sum = 0;
    int count = 0;
    for (int64_t i = 0; i < v->count; i++) {
        const struct sl_study_cell *c = &v->cells[i];
        if (c->kind != SL_CELL_TUNE || c->task != task || c->mode != mode || c->rate != rate ||
            !c->record || !c->record->eval_count)
            continue;
        double loss = c->record->evals[c->record->eval_count - 1].loss;
        sum += isfinite(loss) ? loss : (double)INFINITY;
        count++;
    }
    return count ? sum / count : (double)NAN;
}

double sl_study_best_rate(const struct sl_study *study, const struct sl_study_cell *cells,
                          int64_t count, int task, int mode) {
    const struct view v = {study, cells, count};
    const struct sl_study_task *t = &study->tasks[task];
    double rate = t->rates[0], best = (double)INFINITY;
    for (int r = 0; r < t->rate_count; r++) {
        double loss = loss_of(&v, task, mode, t->rates[r]);
        if (loss < best) {
            best = loss;
            rate = t->rates[r];
        }
    }
    return rate;
}

static void put_row(const struct view *v, int task, int mode, struct sl_text *out) {
    const struct sl_study *s = v->study;
    const struct sl_study_task *t = &s->tasks[task];
    double best[2];
    for (int i = 0; i < 2; i++) {
        int which = i ? s->modes[mode].base : mode;
        best[i] = loss_of(v, task, which, sl_study_best_rate(s, v->cells, v->count, task, which));
    }
    sl_text_printf(out, "| %s |", s->modes[mode].name);
    for (int r = 0; r < t->rate_count; r++) {
        double loss = loss_of(v, task, mode, t->rates[r]);
        if (isnan(loss))
            sl_text_put(out, " |");
        else if (isinf(loss))
            sl_text_put(out, " lost |");
        else
            sl_text_printf(out, loss == best[0] ? " **%.4f** |" : " %.4f |", loss);
    }
    if (s->modes[mode].base != mode && isfinite(best[0]) && isfinite(best[1]))
        sl_text_printf(out, " %+.2f |\n", 100 * (best[0] / best[1] - 1));
    else
        sl_text_put(out, " |\n");
}

void sl_study_put_tuning(const struct sl_study *study, const struct sl_study_cell *cells,
                         int64_t count, struct sl_text *out) {
    const struct view v = {study, cells, count};
    for (int task = 0; task < study->task_count; task++) {
        const struct sl_study_task *t = &study->tasks[task];
        bool any = false;
        for (int64_t i = 0; i < count; i++)
            any |= cells[i].kind == SL_CELL_TUNE && cells[i].task == task && cells[i].record;
        if (!any)
            continue;
        sl_text_printf(out, "\n## Tuning of %s\n\nLast validation loss by rate, %g of the steps, ",
                       t->name, study->tune_part);
        sl_text_printf(out, study->tune_seed_count > 1 ? "mean of seeds" : "one run each: seed");
        for (int i = 0; i < study->tune_seed_count; i++)
            sl_text_printf(out, " %lld", (long long)study->tune_seeds[i]);
        sl_text_put(out, ".\n\n| mode |");
        for (int r = 0; r < t->rate_count; r++)
            sl_text_printf(out, " %g |", t->rates[r]);
        sl_text_put(out, " best, difference, % |\n|---|");
        for (int r = 0; r <= t->rate_count; r++)
            sl_text_put(out, "---|");
        sl_text_put(out, "\n");
        for (int i = 0; i < t->mode_count; i++)
            put_row(&v, task, t->modes[i], out);
    }
}
