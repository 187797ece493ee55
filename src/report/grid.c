/* A timeline as a text grid, as in the papers.
 *
 *     0 |F0 F1 F2 F3 .  .  B0=== ...        a bar starts with its kind and micro-batch
 *     1 |.  F0 F1 F2 B0=== F3 B1=== ...     and is filled, so that bars differ without colour */
#include "report/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct grid {
    const struct sl_picture *picture;
    const struct sl_grid_opts *opts;
    struct sl_text *out;
    int64_t unit_ns; /* all times are multiples of it; 0: the grid is drawn to scale */
    int cell;        /* characters per unit */
    int width;       /* characters of the whole timeline */
    char *text;      /* characters of a lane */
    int16_t
        *kinds; /* of a lane: kind, -1: idle; + 256: critical; + 512: first character of a bar */
};

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int digits(int32_t number) {
    int count = 1;
    while (number >= 10) {
        number /= 10;
        count++;
    }
    return count;
}

/* Does the timeline fit with one cell per unit? */
static void measure(struct grid *g, int room) {
    const struct sl_picture *p = g->picture;
    int64_t unit = 0;
    int label = 2;
    for (int64_t i = 0; i < p->lane_at[p->lane_count] && unit != 1; i++) {
        unit = gcd(p->bars[i].start_ns, unit);
        unit = gcd(p->bars[i].end_ns - p->bars[i].start_ns, unit);
    }
    for (int64_t i = 0; i < p->lane_at[p->lane_count]; i++)
        if (p->bars[i].micro >= 0 && digits(p->bars[i].micro) + 1 > label)
            label = digits(p->bars[i].micro) + 1;
    g->unit_ns = 0;
    g->width = room;
    if (unit > 0 && p->end_ns / unit * (label + 1) <= room) {
        g->unit_ns = unit;
        g->cell = label + 1;
        g->width = (int)(p->end_ns / unit) * g->cell;
    }
}

static int column_of(const struct grid *g, int64_t time_ns) {
    if (g->unit_ns)
        return (int)(time_ns / g->unit_ns) * g->cell;
    return (int)((double)time_ns / (double)(g->picture->end_ns + 1) * g->width);
}

static void put_bar(struct grid *g, const struct sl_bar *bar) {
    static const char fills[SL_KIND_COUNT] = {[SL_FORWARD] = '-',        [SL_BACKWARD] = '=',
                                              [SL_BACKWARD_INPUT] = '~', [SL_BACKWARD_WEIGHT] = '+',
                                              [SL_RECOMPUTE] = ':',      [SL_REDUCE] = '%',
                                              [SL_STEP] = '#',           [SL_PREDICT] = '^'};
    static const char letters[SL_KIND_COUNT] = "FBIWRSVDUP";
    char label[24];
    int first = column_of(g, bar->start_ns), last = column_of(g, bar->end_ns);
    if (last <= first || last > g->width)
        return;
    bool gap = g->unit_ns || last - first > 3; /* leave a blank before the next bar */
    snprintf(label, sizeof label, "%c%.0d%s", letters[bar->kind], bar->micro > 0 ? bar->micro : 0,
             bar->micro == 0 ? "0" : "");
    int length = (int)strlen(label), end = last - (gap && !g->opts->colour);
    for (int i = first; i < last; i++) {
        int at = i - first;
        char fill = g->opts->colour ? ' ' : fills[bar->kind];
        g->text[i] = i >= end ? ' ' : at < length ? label[at] : fill;
        g->kinds[i] = (int16_t)(bar->kind + (bar->critical ? 256 : 0));
    }
    if (g->opts->critical && bar->critical && !g->opts->colour && end - first > length)
        g->text[end - 1] = '*';
}

static void put_lane(struct grid *g, int lane) {
    const struct sl_picture *p = g->picture;
    memset(g->text, ' ', (size_t)g->width);
    for (int i = 0; i < g->width; i++) {
        g->kinds[i] = -1;
        if (!g->opts->colour && (g->unit_ns ? i % g->cell == 0 : i % 3 == 0))
            g->text[i] = '.';
    }
    for (int64_t i = p->lane_at[lane]; i < p->lane_at[lane + 1]; i++)
        put_bar(g, &p->bars[i]);
    int used = g->width;
    while (!g->opts->colour && used && g->text[used - 1] == ' ')
        used--;
    if (!g->opts->colour) {
        sl_text_put_bytes(g->out, g->text, (size_t)used);
        return;
    }
    int now = -2;
    for (int i = 0; i < g->width; i++) {
        if (g->kinds[i] != now) {
            now = g->kinds[i];
            bool strong = now >= 256 && g->opts->critical;
            if (now < 0)
                sl_text_put(g->out, "\033[0m");
            else
                sl_text_printf(g->out, "\033[0;%s38;5;%d;48;5;%dm", strong ? "1;4;" : "",
                               strong ? 232 : 234, sl_report_ansi((enum sl_kind)(now % 256)));
        }
        sl_text_put_bytes(g->out, &g->text[i], 1);
    }
    sl_text_put(g->out, "\033[0m");
}

static void put_legend(struct grid *g) {
    bool seen[SL_KIND_COUNT] = {false};
    const struct sl_picture *p = g->picture;
    for (int64_t i = 0; i < p->lane_at[p->lane_count]; i++)
        seen[p->bars[i].kind] |= p->bars[i].end_ns > p->bars[i].start_ns;
    for (int k = 0; k < SL_KIND_COUNT && g->opts->colour; k++)
        if (seen[k])
            sl_text_printf(g->out, "\033[38;5;234;48;5;%dm %s \033[0m ",
                           sl_report_ansi((enum sl_kind)k), sl_sched_kind_name((enum sl_kind)k));
    char end[SL_HUMAN_BYTES], unit[SL_HUMAN_BYTES];
    sl_text_printf(g->out, "%s", sl_human_ns(p->end_ns, end));
    if (g->unit_ns)
        sl_text_printf(g->out, ", a column is %s", sl_human_ns(g->unit_ns, unit));
    sl_text_put(g->out, g->opts->critical && !g->opts->colour ? "; * critical path\n" : "\n");
}

void sl_report_grid(const struct sl_picture *picture, const struct sl_grid_opts *opts,
                    struct sl_text *out) {
    int columns = opts->columns > 0 ? opts->columns : 100, label = digits(picture->lane_count);
    struct grid g = {.picture = picture, .opts = opts, .out = out};
    int room = columns - label - 3;
    measure(&g, room > 20 ? room : 20);
    g.text = sl_realloc(NULL, (size_t)g.width + 1);
    g.kinds = sl_realloc(NULL, sizeof *g.kinds * ((size_t)g.width + 1));
    int lanes = picture->lane_count;
    if (opts->max_lanes > 0 && lanes > opts->max_lanes)
        lanes = opts->max_lanes;
    for (int i = 0; i < lanes; i++) {
        sl_text_printf(out, "%*d |", label, i);
        put_lane(&g, i);
        sl_text_put(out, "\n");
    }
    if (lanes < picture->lane_count)
        sl_text_printf(out, "... and %d more workers\n", picture->lane_count - lanes);
    put_legend(&g);
    free(g.text);
    free(g.kinds);
}
