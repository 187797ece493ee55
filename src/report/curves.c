/* Writes the page of a run. */
#include "report/curves.h"

#include "base/sort.h"
#include "base/vec.h"
#include "report/chart.h"
#include "report/markup.h"

#include <math.h>

enum { POINTS_MAX = 600, SMALL_POINTS = 200, STALE_MAX = 128 };

struct points {
    struct sl_chart_point *at;
    int64_t count, room;
};

static void push(struct points *to, double x, double y) {
    struct sl_chart_point p = {x, y, y, y};
    SL_PUSH(to, p);
}

static struct sl_chart_curve curve_of(const char *name, int colour, struct points *p, int64_t max) {
    p->count = sl_report_chart_thin(p->at, p->count, max);
    return (struct sl_chart_curve){.name = name, .colour = colour, .at = p->at, .count = p->count};
}

static void put_losses(const struct sl_record *r, struct sl_text *out) {
    struct points train = {0}, valid = {0};
    for (int64_t i = 0; i < r->step_count; i++)
        push(&train, (double)r->steps[i].step, r->steps[i].loss);
    for (int64_t i = 0; i < r->eval_count; i++)
        push(&valid, (double)r->evals[i].step, r->evals[i].loss);
    struct sl_chart_curve curves[2] = {curve_of("training", 5, &train, POINTS_MAX),
                                       curve_of("validation", 1, &valid, POINTS_MAX)};
    curves[1].strong = true;
    struct sl_chart chart = {.title = "Loss",
                             .x_label = "step",
                             .y_label = "loss",
                             .curves = curves,
                             .curve_count = valid.count ? 2 : 1};
    sl_report_chart_put(&chart, out);
    SL_VEC_FREE(&train);
    SL_VEC_FREE(&valid);
}

static void put_small(const struct sl_record *r, const char *title, bool norm,
                      struct sl_text *out) {
    struct points p = {0};
    for (int64_t i = 0; i < r->step_count; i++)
        if (isfinite(norm ? r->steps[i].norm : r->steps[i].lr))
            push(&p, (double)r->steps[i].step, norm ? r->steps[i].norm : r->steps[i].lr);
    struct sl_chart_curve curve = curve_of(title, norm ? 2 : 3, &p, SMALL_POINTS);
    struct sl_chart chart = {.title = title,
                             .x_label = "step",
                             .y_label = "",
                             .curves = &curve,
                             .curve_count = 1,
                             .small = true};
    if (p.count)
        sl_report_chart_put(&chart, out);
    SL_VEC_FREE(&p);
}

/* ---- staleness ---- */

/* Curves of one stage and direction. */
static void put_stale(const struct sl_record_stale *at, int64_t count, struct sl_text *out) {
    struct points predicted = {0}, stale = {0};
    struct sl_text title = {0};
    for (int64_t i = 0; i < count; i++) {
        push(&stale, (double)at[i].step, at[i].stale);
        if (isfinite(at[i].predicted))
            push(&predicted, (double)at[i].step, at[i].predicted);
    }
    sl_text_printf(&title, "stage %d, %s", at->stage, at->backward ? "backward" : "forward");
    struct sl_chart_curve curves[2] = {curve_of("stale to true", 1, &stale, SMALL_POINTS),
                                       curve_of("predicted to true", 0, &predicted, SMALL_POINTS)};
    curves[1].strong = true;
    struct sl_chart chart = {.title = title.at,
                             .x_label = "step",
                             .y_label = "RMSE",
                             .curves = curves,
                             .curve_count = predicted.count ? 2 : 1,
                             .log_y = true,
                             .small = true};
    sl_report_chart_put(&chart, out);
    sl_text_free(&title);
    SL_VEC_FREE(&predicted);
    SL_VEC_FREE(&stale);
}

static int by_stage(const void *a, const void *b) {
    const struct sl_record_stale *x = a, *y = b;
    int64_t order = x->stage != y->stage         ? x->stage - y->stage
                    : x->backward != y->backward ? x->backward - y->backward
                                                 : x->step - y->step;
    return (order > 0) - (order < 0);
}

static void put_staleness(const struct sl_record *r, struct sl_text *out) {
    int64_t count = r->stale_count, end;
    int drawn = 0;
    if (!count)
        return;
    size_t bytes = sizeof *r->stales * (size_t)count;
    struct sl_record_stale *at = memcpy(sl_realloc(NULL, bytes), r->stales, bytes);
    sl_sort(at, count, sizeof *at, by_stage);
    sl_text_put(out, "<h2>Staleness</h2><p>Root mean square distance, over the weights of a stage, "
                     "from what a pass read to the true weights of the version that it stands for "
                     "(predicted), and from the version that it started from (stale).</p>\n"
                     "<div class=\"row\">");
    for (int64_t from = 0; from < count && drawn < STALE_MAX; from = end, drawn++) {
        for (end = from + 1; end < count && at[end].stage == at[from].stage &&
                             at[end].backward == at[from].backward;)
            end++;
        put_stale(at + from, end - from, out);
    }
    sl_text_put(out, "</div>\n");
    if (drawn == STALE_MAX)
        sl_text_printf(out, "<p class=\"soft\">The first %d charts.</p>\n", drawn);
    free(at);
}

void sl_report_run_page_put(const struct sl_report_run *page, struct sl_text *out) {
    sl_report_chart_page_open(out, page->title);
    sl_text_put(out, "<p class=\"soft\">");
    for (int i = 0; i < page->fact_count; i++) {
        sl_text_put(out, i ? ", " : "");
        sl_report_markup_escape(out, page->facts[i][0]);
        sl_text_put(out, " <b>");
        sl_report_markup_escape(out, page->facts[i][1]);
        sl_text_put(out, "</b>");
    }
    sl_text_put(out, "</p>\n");
    put_losses(page->record, out);
    sl_text_put(out, "<div class=\"row\">");
    put_small(page->record, "gradient norm", true, out);
    put_small(page->record, "learning rate", false, out);
    sl_text_put(out, "</div>\n");
    put_staleness(page->record, out);
    if (page->pipeline)
        sl_report_run_pipeline_put(page->pipeline, out);
    if (page->op_count)
        sl_report_run_ops_put(page->ops, page->op_count, out);
    sl_report_chart_page_close(out);
}
