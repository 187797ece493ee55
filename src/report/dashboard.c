/* Shows a training run on a terminal. */
#include "report/dashboard.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LABEL = 9, CURVE_ROWS = 8, COLUMNS_MAX = 400 };

void sl_report_dashboard_add(struct sl_dashboard *d, double loss) {
    d->per = d->per ? d->per : 1;
    if (!isfinite(loss))
        return;
    d->sum += loss;
    if (++d->in_sum < d->per)
        return;
    if (d->kept == SL_DASHBOARD_KEPT) {
        for (int i = 0; i < SL_DASHBOARD_KEPT / 2; i++)
            d->losses[i] = 0.5 * (d->losses[2 * i] + d->losses[2 * i + 1]);
        d->kept /= 2;
        d->per *= 2;
        return; /* no mean yet: the next one is incomplete */
    }
    d->losses[d->kept++] = d->sum / (double)d->in_sum;
    d->sum = 0;
    d->in_sum = 0;
}

/* Appends a line, truncated at the width; all its characters are one column wide. */
static void put_line(struct sl_text *out, const struct sl_text *line, int columns) {
    size_t length = line->length < (size_t)columns ? line->length : (size_t)columns;
    sl_text_put_bytes(out, line->at, length);
    sl_text_put(out, "\n");
}

static void put_head(const struct sl_dashboard *d, int columns, struct sl_text *out) {
    char right[96], left[SL_HUMAN_BYTES];
    struct sl_text line = {0};
    double part = d->steps ? 100.0 * (double)d->step / (double)d->steps : 0;
    bool ended = d->step >= d->steps;
    snprintf(right, sizeof right, "step %lld/%lld  %3.0f %%%s%s", (long long)d->step,
             (long long)d->steps, part, ended ? "" : "  left ",
             ended ? "" : sl_human_ns(d->left_ns, left));
    int gap = columns - (int)strlen(d->title) - (int)strlen(right);
    sl_text_printf(&line, "%s%*s%s", d->title, gap > 2 ? gap : 2, "", right);
    put_line(out, &line, columns);
    sl_text_free(&line);
}

/* Appends an item if the whole item fits into the line. */
SL_PRINTF(3, 4)
static void put_number(struct sl_text *line, int columns, const char *fmt, ...) {
    char number[96];
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(number, sizeof number, fmt, args);
    va_end(args);
    if (line->length + (size_t)length <= (size_t)columns)
        sl_text_put(line, number);
}

static void put_numbers(const struct sl_dashboard *d, int columns, struct sl_text *out) {
    char rate[SL_HUMAN_BYTES], bytes[SL_HUMAN_BYTES];
    struct sl_text line = {0};
    put_number(&line, columns, "loss %.4f", d->loss);
    if (!isnan(d->eval_loss))
        put_number(&line, columns, "  validation %.4f", d->eval_loss);
    put_number(&line, columns, "  %s %s/s", sl_human_count(d->rate, rate), d->item);
    if (!isnan(d->bubble))
        put_number(&line, columns, "  bubble %.1f %%", 100 * d->bubble);
    put_number(&line, columns, "  memory %s", sl_human_bytes(d->bytes, bytes));
    put_number(&line, columns, "  lr %.2e", d->lr);
    if (!isnan(d->norm))
        put_number(&line, columns, "  norm %.3f", d->norm);
    put_line(out, &line, columns);
    sl_text_free(&line);
}

/* ---- the curve ---- */

/* A bitmap of dots; a Braille character shows 2 x 4 of them. */
struct dots {
    int width, height;
    bool at[CURVE_ROWS * 4][COLUMNS_MAX * 2];
};

static void range_of(const struct sl_dashboard *d, double *low, double *high) {
    *low = INFINITY;
    *high = -INFINITY;
    for (int i = 0; i < d->kept; i++) {
        *low = fmin(*low, d->losses[i]);
        *high = fmax(*high, d->losses[i]);
    }
    if (*high - *low < 1e-12) {
        *low -= 0.5;
        *high += 0.5;
    }
}

/* Returns the loss for a column of dots: the mean of its values, or interpolated between
 * neighbours. */
static double loss_at(const struct sl_dashboard *d, int x, int width) {
    if (d->kept < width) {
        double place = (double)x * (d->kept - 1) / (width - 1);
        int left = (int)place, right = left + 1 < d->kept ? left + 1 : left;
        return d->losses[left] + (place - left) * (d->losses[right] - d->losses[left]);
    }
    int64_t from = (int64_t)x * d->kept / width, to = (int64_t)(x + 1) * d->kept / width;
    double sum = 0;
    for (int64_t i = from; i < to; i++)
        sum += d->losses[i];
    return sum / (double)(to - from);
}

/* Connects each column with the previous one. */
static void plot(const struct sl_dashboard *d, double low, double high, struct dots *dots) {
    int before = -1;
    for (int x = 0; x < dots->width; x++) {
        double part = (loss_at(d, x, dots->width) - low) / (high - low);
        int y = (int)((1 - part) * (dots->height - 1) + 0.5);
        int first = before < 0 || before == y ? y : before < y ? before + 1 : y;
        int last = before < 0 || before == y ? y : before < y ? y : before - 1;
        for (int i = first; i <= last; i++)
            dots->at[i][x] = true;
        before = y;
    }
}

static void put_braille(const struct dots *dots, int row, int column, struct sl_text *out) {
    /* bits of U+2800 by row; left column first */
    static const unsigned char bits[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    unsigned set = 0;
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 2; x++)
            if (dots->at[4 * row + y][2 * column + x])
                set |= bits[y][x];
    char utf8[4] = {(char)0xe2, (char)(0xa0 | set >> 6), (char)(0x80 | (set & 0x3f)), 0};
    sl_text_put(out, set ? utf8 : " ");
}

static void put_curve(const struct sl_dashboard *d, const struct sl_dashboard_room *room,
                      struct sl_text *out) {
    static _Thread_local struct dots dots; /* static, because it is too large for a stack */
    int columns = room->columns - LABEL - 2;
    double low, high;
    columns = columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
    memset(&dots, 0, sizeof dots);
    dots.width = room->unicode ? 2 * columns : columns;
    dots.height = room->unicode ? 4 * CURVE_ROWS : CURVE_ROWS;
    range_of(d, &low, &high);
    if (d->kept)
        plot(d, low, high, &dots);
    for (int row = 0; row < CURVE_ROWS; row++) {
        double value = high - (high - low) * row / (CURVE_ROWS - 1);
        if (d->kept && row % 3 == 0)
            sl_text_printf(out, "%*.4f |", LABEL, value);
        else
            sl_text_printf(out, "%*s |", LABEL, "");
        if (room->colour)
            sl_text_put(out, "\033[38;5;39m");
        for (int x = 0; x < columns; x++)
            if (room->unicode)
                put_braille(&dots, row, x, out);
            else
                sl_text_put(out, dots.at[row][x] ? "*" : " ");
        sl_text_put(out, room->colour ? "\033[0m\n" : "\n");
    }
}

void sl_report_dashboard_put(const struct sl_dashboard *d, const struct sl_picture *lanes,
                             const struct sl_dashboard_room *room, struct sl_text *out) {
    int rest = room->rows - 2 - CURVE_ROWS;
    put_head(d, room->columns, out);
    put_numbers(d, room->columns, out);
    if (rest >= 0 && room->columns >= 40)
        put_curve(d, room, out);
    /* the grid ends with a legend and, if lanes were left out, a line about them */
    if (lanes && rest > 4 && room->columns >= 40)
        sl_report_grid(lanes,
                       &(struct sl_grid_opts){
                           .columns = room->columns, .max_lanes = rest - 2, .colour = room->colour},
                       out);
}
