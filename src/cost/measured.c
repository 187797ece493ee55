/* Reads tables of measured steps and all-reduces: values are separated by commas, and the first
 * line names the columns. */
#include "cost/measured.h"

#include "base/text.h"
#include "base/vec.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { COLUMNS_MAX = 64, CELL_MAX = 64 };

struct table {
    const char *file, *at, *end;
    int line;
    struct sl_str cells[COLUMNS_MAX]; /* cells of the current line */
    int count;
};

static sl_err bad(const struct table *t, const char *what) {
    return sl_fail(SL_ERR_INPUT, "%s:%d: %s", t->file, t->line, what);
}

/* Reads the next line that is not empty; t->count 0: there are no more. */
static sl_err next_line(struct table *t) {
    for (t->count = 0; t->at < t->end && !t->count;) {
        const char *stop = memchr(t->at, '\n', (size_t)(t->end - t->at));
        const char *last = stop ? stop : t->end, *cell = t->at;
        t->line++;
        if (last > cell && last[-1] == '\r')
            last--;
        for (const char *at = cell; last > cell || t->count; at++) {
            if (at < last && *at != ',')
                continue;
            if (t->count == COLUMNS_MAX)
                return bad(t, "too many columns");
            t->cells[t->count++] = (struct sl_str){cell, (size_t)(at - cell)};
            if (at == last)
                break;
            cell = at + 1;
        }
        t->at = stop ? stop + 1 : t->end;
    }
    return SL_OK;
}

static bool holds(struct sl_str text, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= text.length; i++) {
        size_t k = 0;
        while (k < length && tolower((unsigned char)text.at[i + k]) == word[k])
            k++;
        if (k == length)
            return true;
    }
    return false;
}

static sl_err find_column(const struct table *t, const char *word, int *out) {
    *out = -1;
    for (int i = t->count - 1; i >= 0; i--)
        if (holds(t->cells[i], word))
            *out = i;
    return *out >= 0
               ? SL_OK
               : sl_fail(SL_ERR_INPUT, "%s:%d: no column is called '%s'", t->file, t->line, word);
}

static sl_err cell_number(const struct table *t, int column, double low, double high, double *out) {
    char text[CELL_MAX];
    if (column >= t->count || t->cells[column].length >= sizeof text)
        return bad(t, "a cell is missing or too long");
    struct sl_str cell = t->cells[column];
    while (cell.length && isspace((unsigned char)*cell.at)) {
        cell.at++;
        cell.length--;
    }
    while (cell.length && isspace((unsigned char)cell.at[cell.length - 1]))
        cell.length--;
    memcpy(text, cell.at, cell.length);
    text[cell.length] = 0;
    if (sl_parse_double(text, "cell", out) != SL_OK || !(*out >= low && *out <= high))
        return sl_fail(SL_ERR_INPUT, "%s:%d: column %d: '%s' is not a number in %g..%g", t->file,
                       t->line, column + 1, text, low, high);
    return SL_OK;
}

static sl_err cell_count(const struct table *t, int column, int64_t *out) {
    double value;
    SL_TRY(cell_number(t, column, 1, 1 << 24, &value));
    if (value != floor(value))
        return sl_fail(SL_ERR_INPUT, "%s:%d: column %d is not an integer", t->file, t->line,
                       column + 1);
    *out = (int64_t)value;
    return SL_OK;
}

/* --- steps --- */

enum { FIELDS = 10 };

static sl_err read_step(const struct table *t, const int *columns, struct sl_measured_step *s) {
    int64_t *fields[FIELDS] = {&s->devices, &s->batch,    &s->micro, &s->hidden, &s->heads,
                               &s->layers,  &s->sequence, &s->tp,    &s->dp,     &s->pp};
    s->line = t->line;
    for (int i = 0; i < FIELDS; i++)
        SL_TRY(cell_count(t, columns[i], fields[i]));
    SL_TRY(cell_number(t, columns[FIELDS], 1e-6, 1e12, &s->seconds));
    s->seconds *= 1e-3;
    if (s->tp > s->devices || s->dp > s->devices || s->tp * s->dp > s->devices ||
        s->tp * s->dp * s->pp != s->devices)
        return bad(t, "the GPUs are not tensor x data x pipeline parallelism");
    if (s->batch % (s->micro * s->dp))
        return bad(t, "the batch is no multiple of the micro-batch times the replicas");
    return SL_OK;
}

sl_err sl_cost_measured_steps(struct sl_arena *arena, const char *file, const char *text,
                              size_t length, const struct sl_measured_step **out, int *count) {
    static const char *const names[FIELDS + 1] = {
        "gpus",     "global batch", "micro batch", "hidden",   "heads",    "# layers",
        "sequence", "tensor",       "data par",    "pipeline", "time (ms)"};
    struct table t = {.file = file, .at = text, .end = text + length};
    SL_VEC(struct sl_measured_step) rows = {0};
    int columns[FIELDS + 1];
    sl_err err = SL_OK;
    SL_TRY(next_line(&t));
    for (int i = 0; i <= FIELDS; i++)
        SL_TRY(find_column(&t, names[i], &columns[i]));
    for (;;) {
        struct sl_measured_step step;
        SL_TRY_OUT(next_line(&t));
        if (!t.count)
            break;
        SL_TRY_OUT(read_step(&t, columns, &step));
        if (rows.count == SL_MEASURED_ROWS) {
            err = bad(&t, "too many rows");
            goto out;
        }
        SL_PUSH(&rows, step);
    }
    if (!rows.count)
        err = bad(&t, "no rows");
    *out = SL_VEC_FREEZE(&rows, arena);
    *count = (int)rows.count;
out:
    SL_VEC_FREE(&rows);
    return err;
}

/* --- all-reduces --- */

sl_err sl_cost_measured_sums(struct sl_arena *arena, const char *file, const char *text,
                             size_t length, const struct sl_measured_sum **out, int *count) {
    struct table t = {.file = file, .at = text, .end = text + length};
    SL_VEC(struct sl_measured_sum) rows = {0};
    int size, time;
    sl_err err = SL_OK;
    SL_TRY(next_line(&t));
    SL_TRY(find_column(&t, "size(b)", &size));
    SL_TRY(find_column(&t, "time(ns)", &time));
    for (;;) {
        struct sl_measured_sum sum;
        SL_TRY_OUT(next_line(&t));
        if (!t.count)
            break;
        SL_TRY_OUT(cell_number(&t, size, 1, 1e15, &sum.bytes));
        SL_TRY_OUT(cell_number(&t, time, 1, 1e15, &sum.seconds));
        sum.seconds *= 1e-9;
        if (rows.count == SL_MEASURED_ROWS) {
            err = bad(&t, "too many rows");
            goto out;
        }
        SL_PUSH(&rows, sum);
    }
    if (!rows.count)
        err = bad(&t, "no rows");
    *out = SL_VEC_FREEZE(&rows, arena);
    *count = (int)rows.count;
out:
    SL_VEC_FREE(&rows);
    return err;
}
