/* Writes the table of a study as Markdown and as a page. */
#include "study/study.h"

#include "report/chart.h"
#include "report/markup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 11, UNTIMED = 9, CELL = 48 };

static const char *const heads[COLUMNS] = {"mode",
                                           "rate",
                                           "seeds",
                                           "last loss",
                                           "difference, %",
                                           "best loss",
                                           "difference, %",
                                           "steps to target",
                                           "sooner (simulated)",
                                           "ms a step",
                                           "sooner (measured)"};

/* The last columns appear only if something was measured. */
static int columns(const struct sl_study_table *table) { return table->timed ? COLUMNS : UNTIMED; }

static void put_diff(char out[CELL], const struct sl_study *s, const struct sl_study_row *r,
                     struct sl_interval d) {
    if (s->modes[r->mode].base == r->mode)
        snprintf(out, CELL, "%s", "");
    else if (isfinite(d.half))
        snprintf(out, CELL, "%+.2f ± %.2f", d.mean, d.half);
    else
        snprintf(out, CELL, "%+.2f", d.mean);
}

static void fill(const struct sl_study *s, const struct sl_study_row *r, char out[COLUMNS][CELL]) {
    snprintf(out[0], CELL, "%.40s", s->modes[r->mode].name);
    snprintf(out[1], CELL, "%g", r->rate);
    snprintf(out[2], CELL, "%d", r->seeds);
    snprintf(out[3], CELL, "%.4f", r->last);
    put_diff(out[4], s, r, r->last_diff);
    snprintf(out[5], CELL, "%.4f", r->best);
    put_diff(out[6], s, r, r->best_diff);
    snprintf(out[7], CELL, "%s", "not reached");
    snprintf(out[8], CELL, "%s", "");
    if (isfinite(r->reached))
        snprintf(out[7], CELL, "%.0f", r->reached);
    if (isfinite(r->sooner))
        snprintf(out[8], CELL, "%.2fx", r->sooner);
    out[9][0] = out[10][0] = 0;
    if (isfinite(r->step_ms))
        snprintf(out[9], CELL, "%.3g", r->step_ms);
    if (isfinite(r->sooner_measured))
        snprintf(out[10], CELL, "%.2fx", r->sooner_measured);
}

/* ---- Markdown ---- */

static void table_of(const struct sl_study_table *table, int task, struct sl_text *out) {
    const struct sl_study *s = table->study;
    const struct sl_study_row *rows = table->rows;
    const struct sl_study_task *t = &s->tasks[task];
    bool headed = false;
    for (int i = 0; i < table->count; i++) {
        char cells[COLUMNS][CELL];
        if (rows[i].task != task)
            continue;
        if (!headed) {
            sl_text_printf(
                out,
                "\n## %s\n\n`sluice train %s`: %d stages, %lld micro-batches per step of "
                "%lld samples, %lld steps.\n\n|",
                t->name, t->options, t->stages, (long long)t->micro, (long long)t->batch,
                (long long)t->steps);
            for (int c = 0; c < columns(table); c++)
                sl_text_printf(out, " %s |", heads[c]);
            sl_text_put(out, "\n|");
            for (int c = 0; c < columns(table); c++)
                sl_text_put(out, "---|");
            sl_text_put(out, "\n");
            headed = true;
        }
        fill(s, &rows[i], cells);
        sl_text_put(out, "|");
        for (int c = 0; c < columns(table); c++)
            sl_text_printf(out, " %s |", cells[c]);
        sl_text_put(out, "\n");
    }
}

void sl_study_put_table(const struct sl_study_table *table, struct sl_text *out) {
    const struct sl_study *s = table->study;
    const struct sl_study_row *rows = table->rows;
    sl_text_printf(out, "# %s\n", s->brief);
    for (int i = 0; i < s->note_count; i++)
        sl_text_printf(out, "\n%s\n", s->notes[i]);
    for (int t = 0; t < s->task_count; t++)
        table_of(table, t, out);
    if (s->claim_count)
        sl_text_put(out, "\n## Claims\n\n| who says what | here | measured |\n|---|---|---|\n");
    for (int i = 0; i < s->claim_count; i++) {
        const struct sl_study_claim *c = &s->claims[i];
        sl_text_printf(out, "| %s | %s |", c->text,
                       sl_study_verdict_text(sl_study_judge(table, c)));
        for (int j = 0; j < table->count; j++)
            if (rows[j].task == c->task && rows[j].mode == c->mode) {
                char diff[CELL];
                put_diff(diff, s, &rows[j], rows[j].last_diff);
                sl_text_printf(out, " %s, %s: %s %%", s->tasks[c->task].name,
                               s->modes[c->mode].name, diff);
            }
        sl_text_put(out, " |\n");
    }
}

/* ---- the page ---- */

/* Computes mean, minimum and maximum over the seeds, per evaluation. */
static int64_t mean_curve(const struct sl_study *s, const struct sl_study_row *row,
                          struct sl_chart_point *at) {
    int64_t count = row->cells[0]->record->eval_count;
    for (int i = 1; i < row->seeds; i++)
        if (row->cells[i]->record->eval_count < count)
            count = row->cells[i]->record->eval_count;
    for (int64_t e = 0; e < count; e++) {
        struct sl_chart_point p = {.low = INFINITY, .high = -INFINITY};
        for (int i = 0; i < row->seeds; i++) {
            const struct sl_record_eval *eval = &row->cells[i]->record->evals[e];
            p.x = (double)eval->step * (double)sl_study_step_samples(s, row->cells[i]);
            p.y += eval->loss / row->seeds;
            p.low = fmin(p.low, eval->loss);
            p.high = fmax(p.high, eval->loss);
        }
        at[e] = p;
    }
    return count;
}

/* Sets the range of losses that a chart shows: from the minimum to the first mode's loss after a
 * quarter of its steps, or to the last loss of the worst mode that did not diverge. Early losses
 * would make the curves look flat. */
static void zoom(struct sl_chart *chart) {
    const struct sl_chart_curve *first = &chart->curves[0];
    double low = INFINITY;
    for (int i = 0; i < chart->curve_count; i++)
        for (int64_t j = 0; j < chart->curves[i].count; j++)
            low = fmin(low, chart->curves[i].at[j].y);
    if (first->count < 4 || !isfinite(first->at[first->count / 4].y))
        return;
    chart->y_low = low;
    chart->y_high = fmax(first->at[first->count / 4].y, low * 1.02);
    for (int i = 0; i < chart->curve_count; i++) {
        const struct sl_chart_curve *curve = &chart->curves[i];
        double last = curve->count ? curve->at[curve->count - 1].y : low;
        if (last < 2 * low)
            chart->y_high = fmax(chart->y_high, last);
    }
}

static void chart_of(const struct sl_study_table *table, int task, struct sl_text *out) {
    const struct sl_study *s = table->study;
    struct sl_chart_curve curves[SL_STUDY_MAX];
    struct sl_arena arena = {0};
    struct sl_chart chart = {.title = s->tasks[task].name,
                             .x_label = "samples",
                             .y_label = "validation loss",
                             .curves = curves};
    for (int i = 0; i < table->count; i++) {
        const struct sl_study_row *row = &table->rows[i];
        if (row->task != task)
            continue;
        struct sl_chart_point *at =
            SL_NEW(&arena, struct sl_chart_point, row->cells[0]->record->eval_count);
        int n = chart.curve_count++;
        curves[n] = (struct sl_chart_curve){.name = s->modes[row->mode].name,
                                            .colour = row->mode,
                                            .at = at,
                                            .count = mean_curve(s, row, at),
                                            .strong = n == 0,
                                            .dashed = s->modes[row->mode].split};
    }
    if (chart.curve_count) {
        zoom(&chart);
        sl_report_chart_put(&chart, out);
    }
    sl_arena_free(&arena);
}

static void html_row(const char *tag, const char *const *cells, int count, struct sl_text *out) {
    sl_text_put(out, "<tr>");
    for (int c = 0; c < count; c++) {
        sl_text_printf(out, "<%s>", tag);
        sl_report_markup_escape(out, cells[c]);
        sl_text_printf(out, "</%s>", tag);
    }
    sl_text_put(out, "</tr>\n");
}

static void html_table(const struct sl_study_table *table, int task, struct sl_text *out) {
    sl_text_put(out, "<div class=\"wide\"><table>");
    html_row("th", heads, columns(table), out);
    for (int i = 0; i < table->count; i++) {
        char cells[COLUMNS][CELL];
        const char *at[COLUMNS];
        if (table->rows[i].task != task)
            continue;
        fill(table->study, &table->rows[i], cells);
        for (int c = 0; c < columns(table); c++)
            at[c] = cells[c];
        html_row("td", at, columns(table), out);
    }
    sl_text_put(out, "</table></div>\n");
}

static bool has_rows(const struct sl_study_table *table, int task) {
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].task == task)
            return true;
    return false;
}

void sl_study_put_page(const struct sl_study_table *table, struct sl_text *out) {
    const struct sl_study *s = table->study;
    sl_report_chart_page_open(out, s->brief);
    for (int i = 0; i < s->note_count; i++) {
        sl_text_put(out, "<p>");
        sl_report_markup_escape(out, s->notes[i]);
        sl_text_put(out, "</p>\n");
    }
    sl_text_put(out, "<p class=\"soft\">Curves are means over seeds, bands go from the lowest to "
                     "the highest seed; dashed: a step after every micro-batch.</p>\n");
    for (int t = 0; t < s->task_count; t++) {
        if (!has_rows(table, t))
            continue;
        sl_text_put(out, "<h2>");
        sl_report_markup_escape(out, s->tasks[t].name);
        sl_text_put(out, "</h2>\n");
        chart_of(table, t, out);
        html_table(table, t, out);
    }
    if (s->claim_count)
        sl_text_put(out, "<h2>Claims</h2><ul>");
    for (int i = 0; i < s->claim_count; i++) {
        sl_text_put(out, "<li>");
        sl_report_markup_escape(out, s->claims[i].text);
        sl_text_printf(out, ": <b>%s</b></li>\n",
                       sl_study_verdict_text(sl_study_judge(table, &s->claims[i])));
    }
    if (s->claim_count)
        sl_text_put(out, "</ul>\n");
    sl_report_chart_page_close(out);
}
