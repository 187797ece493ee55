/* Line charts as SVG inside a page: axes, curves, bands from minimum to maximum, and a legend whose
 * entries hide curves. chart.css and chart.js are part of the page (sl_report_chart_page_open).
 *
 *     y |\           curve: a line through its points, with gaps at values that are not finite
 *       | \__        band:  from `low` to `high` of each point
 *       +------ x
 */
#ifndef SL_REPORT_CHART_H
#define SL_REPORT_CHART_H

#include "base/text.h"

struct sl_chart_point {
    double x, y, low, high; /* low = high = y: the point has no band */
};

struct sl_chart_curve {
    const char *name;
    int colour; /* index >= 0 into the palette; wraps around */
    bool dashed, strong;
    const struct sl_chart_point *at; /* ascending x */
    int64_t count;
};

struct sl_chart {
    const char *title;
    const char *x_label, *y_label;
    const struct sl_chart_curve *curves;
    int curve_count;
    bool log_y;           /* logarithmic axis, which leaves out values <= 0 */
    double y_low, y_high; /* range shown; if equal, the range of the values */
    bool small;           /* as wide as a third of the page */
};

void sl_report_chart_put(const struct sl_chart *chart, struct sl_text *out);

/* Reduces the points to at most `max`: averages neighbours, and their extremes become the band.
 * Overwrites `at` and returns the new count. */
int64_t sl_report_chart_thin(struct sl_chart_point *at, int64_t count, int64_t max);

/* A page: open, put charts and other elements, close. */
void sl_report_chart_page_open(struct sl_text *out, const char *title);
void sl_report_chart_page_close(struct sl_text *out);

#endif
