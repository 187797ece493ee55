/* Line charts as SVG. */
#include "report/chart.h"

#include "report/assets.h"
#include "report/markup.h"

#include <math.h>

enum { LEFT = 62, RIGHT = 24, TOP = 12, BOTTOM = 38 };

/* The colour-blind safe palette of Okabe and Ito, then other distinct colours. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                      "#56b4e9", "#8c564b", "#7a5cc0", "#b5a400", "#708090",
                                      "#d62728", "#17a2a2", "#9acd32", "#ff9896", "#4b6b3c"};

struct frame {
    const struct sl_chart *chart;
    struct sl_text *out;
    int width, height;
    double x0, x1, y0, y1; /* range shown; y in the scale of the axis: log10 if log_y */
};

/* Can the value be shown? Values beyond 1e100 cannot, because differences would overflow. */
static bool shown(const struct sl_chart *c, double y) {
    return fabs(y) < 1e100 && (!c->log_y || y > 0);
}

static double scaled(const struct sl_chart *c, double y) { return c->log_y ? log10(y) : y; }

static double x_of(const struct frame *f, double x) {
    return LEFT + (x - f->x0) / (f->x1 - f->x0) * (f->width - LEFT - RIGHT);
}

/* Returns the y coordinate. Far outside the chart it is clamped: open_inside clips lines there, and
 * their slope does not matter. */
static double y_of(const struct frame *f, double y) {
    double share = (f->y1 - scaled(f->chart, y)) / (f->y1 - f->y0);
    share = share < -50 ? -50 : share > 50 ? 50 : share;
    return TOP + share * (f->height - TOP - BOTTOM);
}

/* Computes the range of the values shown; a default range if there are none. */
static void measure(struct frame *f) {
    const struct sl_chart *c = f->chart;
    f->x0 = f->y0 = INFINITY;
    f->x1 = f->y1 = -INFINITY;
    for (int i = 0; i < c->curve_count; i++)
        for (int64_t j = 0; j < c->curves[i].count; j++) {
            const struct sl_chart_point *p = &c->curves[i].at[j];
            if (!shown(c, p->y))
                continue;
            f->x0 = fmin(f->x0, p->x);
            f->x1 = fmax(f->x1, p->x);
            f->y0 = fmin(f->y0, scaled(c, p->y));
            f->y1 = fmax(f->y1, scaled(c, p->y));
        }
    if (c->y_low < c->y_high) {
        f->y0 = scaled(c, c->y_low);
        f->y1 = scaled(c, c->y_high);
    }
    if (!(f->x0 <= f->x1)) {
        f->x0 = f->y0 = 0;
        f->x1 = f->y1 = 1;
    }
    if (!(f->x0 < f->x1))
        f->x1 = f->x0 + 1;
    double room = f->y1 > f->y0 ? 0.04 * (f->y1 - f->y0) : 0.5 * fabs(f->y0) + 1e-3;
    f->y0 -= room;
    f->y1 += room;
}

/* Returns 1, 2 or 5 times a power of ten, so that about `count` of these steps fit. */
static double tick_step(double range, int count) {
    double raw = range / count, ten = pow(10, floor(log10(raw))), unit = raw / ten;
    return ten * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
}

static void put_y_tick(const struct frame *f, double at, const char *label) {
    double y = TOP + (f->y1 - at) / (f->y1 - f->y0) * (f->height - TOP - BOTTOM);
    sl_text_printf(f->out,
                   "<line class=\"tick\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                   "<text class=\"y\" x=\"%d\" y=\"%.1f\">%s</text>",
                   LEFT, f->width - RIGHT, y, y, LEFT - 6, y + 4, label);
}

static void put_number_tick(const struct frame *f, double at, double value) {
    struct sl_text label = {0};
    sl_text_printf(&label, "%.4g", value);
    put_y_tick(f, at, label.at);
    sl_text_free(&label);
}

/* Bounds the number of ticks. A loop over values might not end, because 1e17 + 1 is 1e17. */
enum { TICKS_MAX = 20 };

static void put_y_ticks(const struct frame *f, int count) {
    double step = tick_step(f->y1 - f->y0, count);
    for (int i = 0; i < TICKS_MAX; i++) {
        double at = (ceil(f->y0 / step) + i) * step;
        if (at <= f->y1)
            put_number_tick(f, at, fabs(at) < 1e-12 ? 0 : at);
    }
}

/* Writes ticks at round numbers: in a narrow range as on a linear axis, else at 1, 2, 5, else at
 * powers of ten. */
static void put_log_ticks(const struct frame *f, int count) {
    static const double parts[] = {1, 2, 5};
    bool narrow = f->y1 - f->y0 < 0.6;
    double low = pow(10, f->y0), high = pow(10, f->y1), range = f->y1 - f->y0;
    double step = tick_step(high - low, 2 * count), every = range < count ? 1 : ceil(range / count);
    for (int i = 0; i < TICKS_MAX; i++) {
        double plain = (ceil(low / step) + i) * step, ten = (floor(f->y0 / every) + i) * every;
        if (narrow && plain <= high)
            put_number_tick(f, log10(plain), plain);
        for (int p = 0; !narrow && p < (range < 3 ? SL_COUNT(parts) : 1); p++) {
            double value = parts[p] * pow(10, ten);
            if (value >= low && value <= high)
                put_number_tick(f, log10(value), value);
        }
    }
}

static void put_axes(const struct frame *f) {
    const struct sl_chart *c = f->chart;
    if (c->log_y)
        put_log_ticks(f, c->small ? 4 : 7);
    else
        put_y_ticks(f, c->small ? 4 : 7);
    double step = tick_step(f->x1 - f->x0, f->chart->small ? 3 : 8);
    for (int i = 0; i < TICKS_MAX; i++) {
        double at = (ceil(f->x0 / step) + i) * step;
        if (at <= f->x1)
            sl_text_printf(f->out, "<text class=\"x\" x=\"%.1f\" y=\"%d\">%.10g</text>",
                           x_of(f, at), f->height - BOTTOM + 16, at);
    }
    sl_text_printf(f->out, "<text class=\"x\" x=\"%d\" y=\"%d\">", (f->width + LEFT) / 2,
                   f->height - 5);
    sl_report_markup_escape(f->out, c->x_label);
    sl_text_printf(f->out, "</text><text class=\"x\" transform=\"translate(13 %d) rotate(-90)\">",
                   (f->height - BOTTOM) / 2);
    sl_report_markup_escape(f->out, c->y_label);
    sl_text_put(f->out, "</text>\n");
}

static void put_band(const struct frame *f, const struct sl_chart_curve *curve) {
    bool any = false;
    for (int64_t i = 0; i < curve->count; i++)
        any |= curve->at[i].low < curve->at[i].high;
    if (!any)
        return;
    sl_text_put(f->out, "<path class=\"band\" d=\"");
    const char *sign = "M";
    for (int64_t pass = 0, i = 0; pass < 2; pass++)
        for (; pass ? i-- > 0 : i < curve->count; i += !pass) {
            const struct sl_chart_point *p = &curve->at[i];
            if (!shown(f->chart, p->low) || !shown(f->chart, p->high))
                continue;
            sl_text_printf(f->out, "%s%.1f %.1f", sign, x_of(f, p->x),
                           y_of(f, pass ? p->low : p->high));
            sign = "L";
        }
    sl_text_put(f->out, "Z\"/>");
}

/* Clips curves to the area between the axes. */
static void open_inside(const struct frame *f) {
    int width = f->width - LEFT - RIGHT + 4, height = f->height - TOP - BOTTOM + 4;
    sl_text_printf(f->out,
                   "<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                   "viewBox=\"%d %d %d %d\">\n",
                   LEFT - 2, TOP - 2, width, height, LEFT - 2, TOP - 2, width, height);
}

/* Writes a curve; data-p has the values that are shown under the mouse pointer. */
static void put_curve(const struct frame *f, const struct sl_chart_curve *curve) {
    const char *sign = "M";
    sl_text_printf(f->out, "<g class=\"curve%s%s\" style=\"--c:%s\" data-name=\"",
                   curve->dashed ? " dashed" : "", curve->strong ? " strong" : "",
                   colours[curve->colour % SL_COUNT(colours)]);
    sl_report_markup_escape(f->out, curve->name);
    sl_text_put(f->out, "\" data-p=\"");
    for (int64_t i = 0; i < curve->count; i++)
        if (shown(f->chart, curve->at[i].y))
            sl_text_printf(f->out, "%.6g %.1f %.6g;", curve->at[i].x, x_of(f, curve->at[i].x),
                           curve->at[i].y);
    sl_text_put(f->out, "\">");
    put_band(f, curve);
    sl_text_put(f->out, "<path class=\"line\" d=\"");
    for (int64_t i = 0; i < curve->count; i++) {
        if (!shown(f->chart, curve->at[i].y)) {
            sign = "M";
            continue;
        }
        sl_text_printf(f->out, "%s%.1f %.1f", sign, x_of(f, curve->at[i].x),
                       y_of(f, curve->at[i].y));
        sign = "L";
    }
    sl_text_put(f->out, "\"/></g>\n");
}

static void put_legend(const struct sl_chart *chart, struct sl_text *out) {
    sl_text_put(out, "<div class=\"legend\">");
    for (int i = 0; i < chart->curve_count; i++) {
        const struct sl_chart_curve *curve = &chart->curves[i];
        sl_text_printf(out,
                       "<button type=\"button\" aria-pressed=\"true\" data-i=\"%d\">"
                       "<i class=\"%s\" style=\"--c:%s\"></i>",
                       i, curve->dashed ? "dashed" : "",
                       colours[curve->colour % SL_COUNT(colours)]);
        sl_report_markup_escape(out, curve->name);
        sl_text_put(out, "</button>");
    }
    sl_text_put(out, "</div>");
}

void sl_report_chart_put(const struct sl_chart *chart, struct sl_text *out) {
    struct frame f = {.chart = chart,
                      .out = out,
                      .width = chart->small ? 380 : 900,
                      .height = chart->small ? 230 : 430};
    measure(&f);
    sl_text_printf(out, "<figure class=\"chart%s\"><figcaption>", chart->small ? " small" : "");
    sl_report_markup_escape(out, chart->title);
    sl_text_printf(out, "</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
                   f.width, f.height);
    sl_report_markup_escape(out, chart->title);
    sl_text_put(out, "\">");
    put_axes(&f);
    open_inside(&f);
    for (int i = 0; i < chart->curve_count; i++)
        put_curve(&f, &chart->curves[i]);
    sl_text_put(out, "</svg>");
    sl_text_printf(out, "<line class=\"cursor\" x1=\"0\" x2=\"0\" y1=\"%d\" y2=\"%d\"/></svg>", TOP,
                   f.height - BOTTOM);
    put_legend(chart, out);
    sl_text_put(out, "</figure>\n");
}

int64_t sl_report_chart_thin(struct sl_chart_point *at, int64_t count, int64_t max) {
    if (count <= max)
        return count;
    for (int64_t b = 0; b < max; b++) {
        int64_t from = b * count / max, to = (b + 1) * count / max;
        struct sl_chart_point sum = {.low = INFINITY, .high = -INFINITY};
        for (int64_t i = from; i < to; i++) {
            sum.x += at[i].x / (double)(to - from);
            sum.y += at[i].y / (double)(to - from);
            sum.low = fmin(sum.low, at[i].low);
            sum.high = fmax(sum.high, at[i].high);
        }
        at[b] = sum;
    }
    return max;
}

void sl_report_chart_page_open(struct sl_text *out, const char *title) {
    sl_report_markup_head(out);
    sl_report_markup_escape(out, title);
    sl_text_put(out, " - Sluice</title>\n<style>\n");
    sl_text_put_bytes(out, sl_asset_chart_css, sl_asset_chart_css_size);
    sl_text_put(out, "</style></head>\n<body>\n<h1>");
    sl_report_markup_escape(out, title);
    sl_text_put(out, "</h1>\n");
}

void sl_report_chart_page_close(struct sl_text *out) {
    sl_text_put(out, "<div id=\"tip\" hidden></div>\n<script>\n");
    sl_text_put_bytes(out, sl_asset_chart_js, sl_asset_chart_js_size);
    sl_text_put(out, "</script>\n</body></html>\n");
}
