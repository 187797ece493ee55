/* A timeline as a standalone SVG: lanes, bars with their micro-batch, critical path, memory curve,
 * time axis, legend. Uses the light or dark scheme of the viewer. */
#include "report/markup.h"
#include "report/picture.h"

#include <string.h>

enum { LABEL = 76, TOP = 46, BAR = 26, CURVE = 14, GAP = 8, BOTTOM = 40, TEXT_WIDTH = 7 };

struct svg {
    const struct sl_picture *p;
    struct sl_text *out;
    double scale; /* pixels per ns */
    int width, lane;
    int first_stage; /* first stage of the lane; later stages are paler */
};

static double x_of(const struct svg *s, int64_t time_ns) {
    return LABEL + (double)time_ns * s->scale;
}

static void put_bar(struct svg *s, const struct sl_bar *bar, int y) {
    double x = x_of(s, bar->start_ns), w = x_of(s, bar->end_ns) - x;
    if (bar->end_ns <= bar->start_ns)
        return;
    sl_text_printf(s->out,
                   "<g><rect class=\"k%d%s%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" "
                   "height=\"%d\"/><title>",
                   bar->kind, bar->critical ? " c" : "", bar->stage > s->first_stage ? " d" : "", x,
                   y, w > 0.4 ? w : 0.4, BAR);
    sl_text_printf(s->out, "%s ", sl_sched_kind_name((enum sl_kind)bar->kind));
    sl_report_markup_escape(s->out, s->p->stages[bar->stage]);
    if (bar->micro >= 0)
        sl_text_printf(s->out, ", micro-batch %d", bar->micro);
    sl_text_printf(s->out, ", %lld to %lld ns</title>", (long long)bar->start_ns,
                   (long long)bar->end_ns);
    char label[16];
    struct sl_text text = {0};
    sl_text_printf(&text, "%d", bar->micro);
    size_t length = text.length;
    memcpy(label, text.at, length < sizeof label ? length + 1 : sizeof label);
    sl_text_free(&text);
    if (bar->micro >= 0 && w > (double)length * TEXT_WIDTH + 3)
        sl_text_printf(s->out, "<text class=\"b\" x=\"%.2f\" y=\"%d\">%s</text>", x + w / 2,
                       y + BAR / 2 + 4, label);
    sl_text_put(s->out, "</g>\n");
}

static void put_curve(struct svg *s, int lane, int y, int64_t max) {
    const struct sl_picture *p = s->p;
    if (!max || p->lane_at[lane] == p->lane_at[lane + 1])
        return;
    sl_text_printf(s->out, "<path class=\"m\" d=\"M%.2f %d",
                   x_of(s, p->bars[p->lane_at[lane]].start_ns), y + CURVE);
    for (int64_t i = p->lane_at[lane]; i < p->lane_at[lane + 1]; i++) {
        double level = y + CURVE - (double)p->bars[i].bytes / (double)max * CURVE;
        int64_t until = i + 1 < p->lane_at[lane + 1] ? p->bars[i + 1].start_ns : p->end_ns;
        sl_text_printf(s->out, "L%.2f %.2fL%.2f %.2f", x_of(s, p->bars[i].start_ns), level,
                       x_of(s, until), level);
    }
    sl_text_printf(s->out, "L%.2f %dZ\"/>\n", x_of(s, p->end_ns), y + CURVE);
}

static void put_axis(struct svg *s, int height) {
    double step = 1, target = (double)s->p->end_ns / 10;
    while (step * 10 <= target)
        step *= 10;
    step *= step * 5 <= target ? 5 : step * 2 <= target ? 2 : 1;
    for (double t = 0; t <= (double)s->p->end_ns && step > 0; t += step) {
        char human[SL_HUMAN_BYTES];
        double x = x_of(s, (int64_t)t);
        sl_text_printf(s->out,
                       "<path class=\"x\" d=\"M%.2f %dV%d\"/><text class=\"t\" x=\"%.2f\" "
                       "y=\"%d\">%s</text>\n",
                       x, TOP - 6, height - BOTTOM + 4, x, TOP - 10,
                       sl_human_ns((int64_t)t, human));
    }
}

static void put_legend(struct svg *s, int height) {
    bool seen[SL_KIND_COUNT] = {false};
    int x = LABEL;
    for (int64_t i = 0; i < s->p->lane_at[s->p->lane_count]; i++)
        seen[s->p->bars[i].kind] |= s->p->bars[i].end_ns > s->p->bars[i].start_ns;
    for (int k = 0; k < SL_KIND_COUNT; k++) {
        const char *name = sl_sched_kind_name((enum sl_kind)k);
        if (!seen[k])
            continue;
        sl_text_printf(s->out,
                       "<rect class=\"k%d\" x=\"%d\" y=\"%d\" width=\"14\" height=\"14\"/><text "
                       "x=\"%d\" y=\"%d\">%s</text>\n",
                       k, x, height - 26, x + 20, height - 15, name);
        x += 40 + (int)strlen(name) * 9;
    }
    sl_text_printf(s->out,
                   "<rect class=\"k0 c\" style=\"fill:none\" x=\"%d\" y=\"%d\" width=\"14\" "
                   "height=\"14\"/><text x=\"%d\" y=\"%d\">critical path</text>\n",
                   x, height - 26, x + 20, height - 15);
}

static void put_style(struct svg *s) {
    sl_text_put(
        s->out,
        "<style>\n.a{fill:#fff}text{font:12px system-ui,sans-serif;fill:#222}"
        ".t{text-anchor:middle;font-size:11px;fill:#666}"
        ".b{text-anchor:middle;fill:#111}.x{stroke:#8884;stroke-width:1}"
        ".h{font-size:15px;font-weight:600}.m{fill:#8886}"
        ".d{fill-opacity:.6}rect{stroke:#0003;stroke-width:.5}rect.c{stroke:#d00;stroke-width:2}\n"
        "@media(prefers-color-scheme:dark){.a{fill:#16181d}text{fill:#ddd}"
        ".t{fill:#999}rect.c{stroke:#ff5c5c}}\n");
    for (int k = 0; k < SL_KIND_COUNT; k++)
        sl_text_printf(s->out, ".k%d{fill:%s}", k, sl_report_colour((enum sl_kind)k));
    sl_text_put(s->out, "\n</style>\n");
}

void sl_report_svg(const struct sl_picture *picture, int width, struct sl_text *out) {
    struct svg s = {.p = picture, .out = out, .width = width, .lane = BAR + CURVE + GAP};
    int height = TOP + picture->lane_count * s.lane + BOTTOM;
    int64_t max = 0;
    char end[SL_HUMAN_BYTES];
    s.scale = (width - LABEL - 16) / (picture->end_ns > 0 ? (double)picture->end_ns : 1);
    for (int l = 0; l < picture->lane_count; l++) {
        int64_t peak = sl_report_picture_peak(picture, l);
        max = peak > max ? peak : max;
    }
    sl_text_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                   "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
                   width, height, width, height);
    sl_report_markup_escape(out, picture->title);
    sl_text_printf(out, ": %d workers, %s</title>\n", picture->lane_count,
                   sl_human_ns(picture->end_ns, end));
    put_style(&s);
    sl_text_printf(out,
                   "<rect class=\"a\" style=\"stroke:none\" width=\"%d\" height=\"%d\"/>"
                   "<text class=\"h\" x=\"8\" y=\"20\">",
                   width, height);
    sl_report_markup_escape(out, picture->title);
    sl_text_put(out, "</text>\n");
    put_axis(&s, height);
    for (int l = 0; l < picture->lane_count; l++) {
        int y = TOP + l * s.lane;
        sl_text_printf(out, "<text x=\"8\" y=\"%d\">worker %d</text>\n", y + BAR / 2 + 4, l);
        put_curve(&s, l, y + BAR, max);
        s.first_stage = picture->stage_count;
        for (int64_t i = picture->lane_at[l]; i < picture->lane_at[l + 1]; i++)
            if (picture->bars[i].stage < s.first_stage)
                s.first_stage = picture->bars[i].stage;
        for (int64_t i = picture->lane_at[l]; i < picture->lane_at[l + 1]; i++)
            put_bar(&s, &picture->bars[i], y);
    }
    put_legend(&s, height);
    sl_text_put(out, "</svg>\n");
}
