/* Line charts as SVG inside a page: axes, curves, bands between the lowest and the highest, a
 * legend whose entries switch curves off. chart.css and chart.js belong to the page
 * (sl_chart_page_*).
 *
 *     y |\           curve: a line through its points; where a value is not finite, a gap
 *       | \__        band:  from `low` to `high` of each point
 *       +------ x
 */
#ifndef SL_REPORT_CHART_H
#define SL_REPORT_CHART_H

#include "base/text.h"

struct sl_chart_point {
    double x, y, low, high; /* low = high = y: no band */
};

struct sl_chart_curve {
    const char *name;
    int colour; /* any number >= 0; equal numbers are equal colours */
    bool dashed, strong;
    const struct sl_chart_point *at; /* ascending x */
    int64_t count;
};

struct sl_chart {
    const char *title;
    const char *x_label, *y_label;
    const struct sl_chart_curve *curves;
    int curve_count;
    bool log_y;           /* values must be positive; others are left out */
    double y_low, y_high; /* what is shown; equal: all */
    bool small;           /* a third of a line of the page, else the whole */
};

void sl_report_chart_put(const struct sl_chart *chart, struct sl_text *out);

/* At most `most` points: neighbours are averaged, their extremes become the band. Returns how many
 * are left; `at` is overwritten. */
int64_t sl_report_chart_thin(struct sl_chart_point *at, int64_t count, int64_t max);

/* A whole page: open, put charts and whatever else, close. */
void sl_report_chart_page_open(struct sl_text *out, const char *title);
void sl_report_chart_page_close(struct sl_text *out);

#endif
