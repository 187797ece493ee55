/* Turns cells into rows: means, differences paired by seed, time to the target. */
#include "study/study.h"

#include "base/vec.h"

#include <math.h>

/* Returns the 97.5 % quantile of Student's t for a number of degrees of freedom; beyond the table
 * it is accurate to 0.1 %. */
static double student(int freedom) {
    static const double table[] = {0,     12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                   2.306, 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
                                   2.120, 2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069,
                                   2.064, 2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
    if (freedom < SL_COUNT(table))
        return table[freedom];
    return 1.959964 + 2.372 / freedom + 2.8 / ((double)freedom * freedom);
}

struct sl_interval sl_study_interval_of(const double *values, int count) {
    double mean = 0, square = 0;
    for (int i = 0; i < count; i++)
        mean += values[i] / count;
    for (int i = 0; i < count; i++)
        square += (values[i] - mean) * (values[i] - mean);
    if (count < 2)
        return (struct sl_interval){mean, (double)INFINITY};
    return (struct sl_interval){mean,
                                student(count - 1) * sqrt(square / (count - 1)) / sqrt(count)};
}

/* Returns a loss. One that is not finite counts as infinite: the run diverged, and no mean may hide
 * that. */
static double loss_at(const struct sl_record *r, int64_t i) {
    return isfinite(r->evals[i].loss) ? r->evals[i].loss : (double)INFINITY;
}

static double last_of(const struct sl_study_cell *c) {
    return loss_at(c->record, c->record->eval_count - 1);
}

static double best_of(const struct sl_study_cell *c) {
    double best = (double)INFINITY;
    for (int64_t i = 0; i < c->record->eval_count; i++)
        best = fmin(best, loss_at(c->record, i));
    return best;
}

/* Returns the steps until the validation loss reaches the target, interpolated linearly between
 * evaluations; NAN: never. */
static double crossing(const struct sl_record *r, double target) {
    for (int64_t i = 0; i < r->eval_count; i++) {
        double y = loss_at(r, i), before = i ? loss_at(r, i - 1) : y;
        if (!(y <= target))
            continue;
        if (!(before > y) || !isfinite(before))
            return (double)r->evals[i].step;
        double share = (before - target) / (before - y);
        return (double)r->evals[i - 1].step +
               share * (double)(r->evals[i].step - r->evals[i - 1].step);
    }
    return (double)NAN;
}

struct maker {
    const struct sl_study *study;
    const struct sl_study_cell *cells;
    int64_t count;
    struct sl_arena *arena;
};

static const struct sl_study_cell *find(const struct maker *m, enum sl_study_kind kind, int task,
                                        int mode, int64_t seed) {
    for (int64_t i = 0; i < m->count; i++) {
        const struct sl_study_cell *c = &m->cells[i];
        if (c->kind == kind && c->task == task && c->mode == mode && c->seed == seed && c->record &&
            c->record->eval_count)
            return c;
    }
    return NULL;
}

/* Returns the milliseconds per sample of a timed run, without its first tenth, which has one-time
 * costs: first use of memory, filling the pipeline. */
static double time_sample(const struct sl_record *r) {
    double total = 0, samples = 0;
    for (int64_t k = r->step_count / 10; k < r->step_count; k++) {
        total += r->steps[k].ms;
        samples += (double)r->steps[k].samples;
    }
    return samples > 0 ? total / samples : (double)NAN;
}

/* Returns the milliseconds per step of the task, from the fastest run, because disturbances only
 * add time. */
static double time_step(const struct maker *m, int task, int mode) {
    double best = (double)NAN;
    for (int i = 0; i < m->study->seed_count; i++) {
        const struct sl_study_cell *c = find(m, SL_CELL_TIME, task, mode, m->study->seeds[i]);
        best = c ? fmin(best, time_sample(c->record)) : best; /* fmin ignores NAN */
    }
    return best * (double)m->study->tasks[task].batch;
}

/* Compares losses with those of `against`, paired by seed; false: there is no common seed. */
static bool compare(const struct maker *m, struct sl_study_row *row) {
    const struct sl_study *s = m->study;
    double last[SL_STUDY_MAX], best[SL_STUDY_MAX];
    const struct sl_study_cell *cells[SL_STUDY_MAX], *bases[SL_STUDY_MAX];
    for (int i = 0; i < s->seed_count; i++) {
        const struct sl_study_cell *own = find(m, SL_CELL_RUN, row->task, row->mode, s->seeds[i]);
        const struct sl_study_cell *base =
            find(m, SL_CELL_RUN, row->task, s->modes[row->mode].base, s->seeds[i]);
        if (!own || !base)
            continue;
        last[row->seeds] = 100 * (last_of(own) / last_of(base) - 1);
        best[row->seeds] = 100 * (best_of(own) / best_of(base) - 1);
        bases[row->seeds] = base;
        cells[row->seeds++] = own;
        row->rate = own->rate;
    }
    for (int i = 0; i < row->seeds; i++) {
        row->last += last_of(cells[i]) / row->seeds;
        row->best += best_of(cells[i]) / row->seeds;
    }
    row->last_diff = sl_study_interval_of(last, row->seeds);
    row->best_diff = sl_study_interval_of(best, row->seeds);
    row->cells = sl_vec_freeze(m->arena, cells, row->seeds, sizeof *cells);
    row->bases = sl_vec_freeze(m->arena, bases, row->seeds, sizeof *bases);
    return row->seeds > 0;
}

/* Returns the mean number of steps of the task (`batch` samples each) to the target. */
static double reach(const struct sl_study *s, double target,
                    const struct sl_study_cell *const *cells, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
        double samples = (double)sl_study_step_samples(s, cells[i]);
        double batch = (double)s->tasks[cells[i]->task].batch;
        sum += crossing(cells[i]->record, target) * samples / batch;
    }
    return sum / count;
}

/* Computes the time to the target, relative to the runs of `against` with the same seeds. */
static void compare_times(const struct maker *m, const double *step_time,
                          struct sl_study_row *row) {
    const struct sl_study *s = m->study;
    int base = s->modes[row->mode].base;
    double base_time = step_time[row->task * s->mode_count + base], last = 0;
    for (int i = 0; i < row->seeds; i++)
        last += last_of(row->bases[i]) / row->seeds;
    row->target = last * (1 + s->target / 100);
    row->reached = reach(s, row->target, row->cells, row->seeds);
    double fewer = reach(s, row->target, row->bases, row->seeds) / row->reached;
    row->sooner = (double)NAN;
    if (row->step_time > 0 && base_time > 0)
        row->sooner = fewer * base_time / row->step_time;
    row->sooner_measured = fewer * time_step(m, row->task, base) / row->step_ms;
}

struct sl_study_table sl_study_table_build(struct sl_arena *arena, const struct sl_study *study,
                                           const struct sl_study_cell *cells, int64_t count,
                                           const double *step_time) {
    struct maker m = {.study = study, .cells = cells, .count = count, .arena = arena};
    SL_VEC(struct sl_study_row) out = {0};
    bool timed = false;
    for (int t = 0; t < study->task_count; t++) {
        const struct sl_study_task *task = &study->tasks[t];
        for (int i = 0; i < task->mode_count; i++) {
            struct sl_study_row row = {.task = t, .mode = task->modes[i]};
            row.step_time = step_time[t * study->mode_count + row.mode];
            row.step_ms = time_step(&m, t, row.mode);
            timed |= isfinite(row.step_ms);
            if (!compare(&m, &row))
                continue;
            compare_times(&m, step_time, &row);
            SL_PUSH(&out, row);
        }
    }
    struct sl_study_table table = {.study = study,
                                   .rows = SL_VEC_FREEZE(&out, arena),
                                   .count = (int)out.count,
                                   .timed = timed};
    SL_VEC_FREE(&out);
    return table;
}

enum sl_study_verdict sl_study_judge(const struct sl_study_table *table,
                                     const struct sl_study_claim *claim) {
    for (int i = 0; i < table->count; i++) {
        const struct sl_study_row *r = &table->rows[i];
        if (r->task != claim->task || r->mode != claim->mode || r->seeds < 2)
            continue;
        if (r->last_diff.mean + r->last_diff.half <= claim->within)
            return SL_CLAIM_HOLDS;
        if (!(r->last_diff.mean - r->last_diff.half <= claim->within))
            return SL_CLAIM_FAILS; /* a diverged run counts as failed too */
        return SL_CLAIM_UNDECIDED;
    }
    return SL_CLAIM_UNKNOWN;
}

const char *sl_study_verdict_text(enum sl_study_verdict verdict) {
    static const char *const names[] = {"not measured", "reproduces", "does NOT reproduce here",
                                        "these seeds cannot tell"};
    return names[verdict];
}
