/* Tuning: finds rates to drop and the best rate, and writes the table of mean losses. */
#include "study/study.h"

#include <math.h>

struct view {
    const struct sl_study *study;
    const struct sl_study_cell *cells;
    int64_t count;
};

/* The result of one rate. */
struct tuned {
    double loss; /* mean of the last losses; NAN: not run; INFINITY: a run diverged */
    int seeds;
};

static struct tuned tuned_at(const struct view *v, int task, int mode, double rate) {
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
    return (struct tuned){count ? sum / count : (double)NAN, count};
}

/* Returns the best rate of a mode among those with the most seeds. */
static struct tuned best_of(const struct view *v, int task, int mode, double *rate) {
    const struct sl_study_task *t = &v->study->tasks[task];
    struct tuned best = {.loss = (double)NAN};
    *rate = t->rates[0];
    for (int r = 0; r < t->rate_count; r++) {
        struct tuned at = tuned_at(v, task, mode, t->rates[r]);
        if (at.seeds > best.seeds || (at.seeds == best.seeds && at.loss < best.loss)) {
            best = at;
            *rate = t->rates[r];
        }
    }
    return best;
}

bool sl_study_dropped(const struct sl_study *study, const struct sl_study_cell *cells,
                      int64_t count, int task, int mode, double rate) {
    const struct view v = {study, cells, count};
    double best_rate;
    struct tuned best = best_of(&v, task, mode, &best_rate);
    struct tuned at = tuned_at(&v, task, mode, rate);
    return at.seeds < best.seeds || at.loss > best.loss * (1 + study->tune_drop / 100);
}

double sl_study_best_rate(const struct sl_study *study, const struct sl_study_cell *cells,
                          int64_t count, int task, int mode) {
    const struct view v = {study, cells, count};
    double rate;
    best_of(&v, task, mode, &rate);
    return rate;
}

static void put_row(const struct view *v, int task, int mode, struct sl_text *out) {
    const struct sl_study *s = v->study;
    const struct sl_study_task *t = &s->tasks[task];
    double best_rate, base_rate;
    struct tuned best = best_of(v, task, mode, &best_rate);
    struct tuned base = best_of(v, task, s->modes[mode].base, &base_rate);
    sl_text_printf(out, "| %s |", s->modes[mode].name);
    for (int r = 0; r < t->rate_count; r++) {
        struct tuned at = tuned_at(v, task, mode, t->rates[r]);
        if (isinf(at.loss))
            sl_text_put(out, " lost");
        else if (!isnan(at.loss))
            sl_text_printf(out, t->rates[r] == best_rate ? " **%.4f**" : " %.4f", at.loss);
        if (at.seeds && at.seeds < best.seeds)
            sl_text_printf(out, " (%d)", at.seeds);
        sl_text_put(out, " |");
    }
    if (s->modes[mode].base != mode && isfinite(best.loss) && isfinite(base.loss))
        sl_text_printf(out, " %+.2f |\n", 100 * (best.loss / base.loss - 1));
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
        sl_text_printf(out, "\n## Tuning of %s\n\nLast validation loss by rate, ", t->name);
        if (study->tune_part < 1)
            sl_text_printf(out, "%g of the steps, ", study->tune_part);
        else
            sl_text_put(out, "all of the steps, ");
        sl_text_printf(out, study->tune_seed_count > 1 ? "mean of seeds" : "one run each: seed");
        for (int i = 0; i < study->tune_seed_count; i++)
            sl_text_printf(out, " %lld", (long long)study->tune_seeds[i]);
        if (isfinite(study->tune_drop))
            sl_text_printf(out,
                           ", one after another. (n): after n seeds the mean was more than %g %% "
                           "above the best of the mode; no further seeds",
                           study->tune_drop);
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
