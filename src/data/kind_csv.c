/* CSV: rows of numbers or categories, separated by commas, semicolons or tabs. A first row with a
 * non-number has the column names. A column whose first value is a text has categories: its values,
 * sorted, are numbered from 0, or as in the list of the run. The file is streamed twice, to count and to convert.
 * The table needs 4 bytes per cell, at most twice the size of the file. */
#include "data/source.h"

#include "base/map.h"
#include "base/sort.h"
#include "base/vec.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_MAX = 255, COLUMNS_MAX = 1 << 16, CATEGORIES_MAX = 1 << 16 };

struct column { /* with categories, else {0} */
    bool is_text;
    bool known; /* the run has the list */
    struct sl_map number;
    SL_VEC(const char *) value;
};

struct reader {
    struct sl_data_blob_stream stream;
    const char *name;
    char separator;
    int64_t line;
    int ahead; /* a byte that has already been read, or -2 */
    int length;
    char cell[CELL_MAX + 1];
    SL_VEC(struct column) column; /* of the first row */
    bool last;                    /* the cell was the last of its row */
    bool end;                     /* no cell: end of the file */
};

static void rewind_to_start(struct reader *r, const struct sl_blob *blob, char separator) {
    sl_data_blob_stream(&r->stream, blob);
    r->name = blob->name;
    r->separator = separator;
    r->line = 1;
    r->ahead = -2;
    r->last = true;
    r->end = false;
}

static int next_byte(struct reader *r) {
    int byte = r->ahead == -2 ? sl_blob_byte(&r->stream) : r->ahead;
    r->ahead = -2;
    return byte;
}

static sl_err cell_fail(const struct reader *r, const char *what) {
    return sl_fail(SL_ERR_INPUT, "%s:%lld: %s", r->name, (long long)r->line, what);
}

/* Reads a quoted cell whose opening quote has been read. "" inside is a quote. */
static sl_err read_quoted(struct reader *r) {
    for (;;) {
        int c = next_byte(r);
        if (c == '"') {
            c = next_byte(r);
            if (c != '"') {
                r->ahead = c;
                return SL_OK;
            }
        }
        if (c < 0 || c == '\n')
            return cell_fail(r, "a quoted cell is not closed");
        if (!c)
            return cell_fail(r, "a zero byte: not a table");
        if (r->length == CELL_MAX)
            return cell_fail(r, "a cell is longer than 255 bytes: not a table");
        r->cell[r->length++] = (char)c;
    }
}

/* Reads the next cell without surrounding blanks; skips blank lines. */
static sl_err next_cell(struct reader *r) {
    bool starts_row = r->last;
    int c;
    r->length = 0;
    do {
        c = next_byte(r);
        r->line += starts_row && c == '\n';
    } while (c == ' ' || c == '\r' || (starts_row && c == '\n'));
    if (c == '"') {
        SL_TRY(read_quoted(r));
        c = next_byte(r);
    }
    for (; c >= 0 && c != '\n' && c != r->separator; c = next_byte(r)) {
        if (!c)
            return cell_fail(r, "a zero byte: not a table");
        if (r->length == CELL_MAX)
            return cell_fail(r, "a cell is longer than 255 bytes: not a table");
        r->cell[r->length++] = (char)c;
    }
    SL_TRY(r->stream.err);
    while (r->length && (r->cell[r->length - 1] == ' ' || r->cell[r->length - 1] == '\r'))
        r->length--;
    r->cell[r->length] = 0;
    r->last = c != r->separator;
    r->end = c < 0 && starts_row && !r->length;
    if (!r->length && !r->end)
        return cell_fail(r, "an empty cell: every row needs a value in every column");
    if (c == '\n')
        r->line++;
    return SL_OK;
}

static bool is_number(const struct reader *r, double *value) {
    char *end;
    bool plain = strspn(r->cell, "+-.0123456789eE") == (size_t)r->length;
    *value = plain ? strtod(r->cell, &end) : 0;
    return plain && r->length && end == r->cell + r->length && fabs(*value) <= FLT_MAX;
}

/* Not even "nan" or "1e99". */
static bool is_text(const struct reader *r) {
    char *end;
    double value = strtod(r->cell, &end);
    (void)value;
    return end != r->cell + r->length;
}

static char find_separator(const struct sl_blob *blob) {
    static const char known[] = ",;\t";
    unsigned char head[4096];
    int64_t length = sl_data_blob_head(blob, head, (int64_t)sizeof head), best_count = 0;
    char best = ',';
    for (int s = 0; known[s]; s++) {
        int64_t count = 0;
        for (int64_t i = 0; i < length && head[i] != '\n'; i++)
            count += head[i] == (unsigned char)known[s];
        if (count > best_count) {
            best = known[s];
            best_count = count;
        }
    }
    return best;
}

static sl_err uneven(const struct reader *r, int64_t cells, int64_t columns) {
    return sl_fail(SL_ERR_INPUT, "%s: row %lld has %lld cells, the first row has %lld", r->name,
                   (long long)r->line - 1, (long long)cells, (long long)columns);
}

/* Counts rows (including names) and columns; *named: the first row has the names. */
static sl_err count_cells(struct reader *r, int64_t *rows, int64_t *columns, bool *named) {
    const struct column empty = {0};
    int64_t cells = 0;
    double value;
    *rows = *columns = 0;
    *named = false;
    for (;;) {
        SL_TRY(next_cell(r));
        if (r->end)
            return SL_OK;
        cells++;
        if (cells > COLUMNS_MAX)
            return cell_fail(r, "more than 65,536 columns: not a table");
        if (!*rows) {
            SL_PUSH(&r->column, empty);
            *named |= !is_number(r, &value);
        }
        if (*rows == 1 && *named && cells <= r->column.count)
            r->column.at[cells - 1].is_text = is_text(r);
        if (!r->last)
            continue;
        if (!*rows)
            *columns = cells;
        else if (cells != *columns)
            return uneven(r, cells, *columns);
        ++*rows;
        cells = 0;
    }
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static sl_err check_names(const struct reader *r, const struct sl_table *table) {
    sl_err err = SL_OK;
    const char **sorted = sl_realloc(NULL, sizeof *sorted * (size_t)table->columns);
    memcpy(sorted, table->name, sizeof *sorted * (size_t)table->columns);
    sl_sort(sorted, table->columns, sizeof *sorted, compare_names);
    for (int i = 1; i < table->columns && err == SL_OK; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            err = sl_fail(SL_ERR_INPUT, "%s:1: two columns are called '%s'; rename one", r->name,
                          sorted[i]);
    free(sorted);
    return err;
}

static sl_err read_names(struct reader *r, struct sl_data *data, struct sl_table *table,
                         bool named) {
    table->name = SL_NEW(&data->arena, const char *, table->columns);
    for (int i = 0; i < table->columns; i++) {
        if (named) {
            SL_TRY(next_cell(r));
            table->name[i] = sl_arena_dup(&data->arena, r->cell, (size_t)r->length);
        } else {
            table->name[i] = sl_arena_printf(&data->arena, "c%d", i);
        }
    }
    return named ? check_names(r, table) : SL_OK;
}

/* ---- categories ---- */

/* Columns of text, and those that have a list in the run. */
static void find_text(struct reader *r, const struct sl_data *data, const struct sl_table *table) {
    for (int i = 0; i < table->columns; i++) {
        struct column *column = &r->column.at[i];
        const struct sl_data_list *list = sl_data_list_find(data, table->name[i]);
        column->is_text = list || (column->is_text && !data->has_categories);
        column->known = list != NULL;
        for (int64_t k = 0; list && k < list->count; k++)
            sl_map_put(&column->number, sl_str(list->value[k]), k);
    }
}

/* The number of a category: of the run, or in order of appearance. */
static sl_err read_category(struct reader *r, struct sl_data *data, const char *name,
                            struct column *column, double *out) {
    struct sl_str text = {r->cell, (size_t)r->length};
    const int64_t *found = sl_map_find(&column->number, text);
    if (!found && column->known)
        return sl_data_list_unknown(sl_data_list_find(data, name), r->name, r->cell);
    if (!found && column->value.count == CATEGORIES_MAX)
        return sl_fail(SL_ERR_INPUT,
                       "%s: column '%s' has more than %d different values: not categories", r->name,
                       name, CATEGORIES_MAX);
    if (!found) {
        text.at = sl_arena_dup(&data->arena, r->cell, text.length);
        sl_map_put(&column->number, text, column->value.count);
        SL_PUSH(&column->value, text.at);
        found = sl_map_find(&column->number, text);
    }
    *out = (double)*found;
    return SL_OK;
}

/* Renumbers a column in the order of its sorted values and lists them. */
static void sort_column(struct sl_data *data, struct sl_table *table, int at,
                        struct column *column) {
    int64_t count = column->value.count;
    const char **sorted = SL_VEC_FREEZE(&column->value, &data->arena);
    float *rank = sl_realloc(NULL, sizeof *rank * (size_t)(count + 1));
    sl_sort(sorted, count, sizeof *sorted, compare_names);
    for (int64_t i = 0; i < count; i++)
        rank[*sl_map_find(&column->number, sl_str(sorted[i]))] = (float)i;
    for (int64_t row = 0; row < table->rows; row++) {
        float *cell = &table->at[row * table->columns + at];
        *cell = rank[(int64_t)*cell];
    }
    sl_data_list_add(data, table->name[at], sorted, count);
    free(rank);
}

static sl_err read_cells(struct reader *r, struct sl_data *data, struct sl_table *table) {
    find_text(r, data, table);
    for (int64_t i = 0; i < table->rows * table->columns; i++) {
        double value;
        struct column *column = &r->column.at[i % table->columns];
        SL_TRY(next_cell(r));
        if (column->is_text)
            SL_TRY(read_category(r, data, table->name[i % table->columns], column, &value));
        else if (!is_number(r, &value))
            return sl_fail(SL_ERR_INPUT, "%s:%lld: column '%s': '%s' is not a finite number",
                           r->name, (long long)(r->last ? r->line - 1 : r->line),
                           table->name[i % table->columns], r->cell);
        table->at[i] = (float)value;
    }
    for (int i = 0; i < table->columns; i++)
        if (r->column.at[i].is_text && !r->column.at[i].known)
            sort_column(data, table, i, &r->column.at[i]);
    return SL_OK;
}

static sl_err read_table(struct sl_data *data, struct reader *r, struct sl_table *table) {
    const struct sl_blob *blob = &data->blob[0];
    int64_t rows, columns;
    bool named;
    char separator = find_separator(blob);
    rewind_to_start(r, blob, separator);
    SL_TRY(count_cells(r, &rows, &columns, &named));
    table->rows = rows - named;
    table->columns = (int)columns;
    if (table->rows <= 0)
        return sl_fail(SL_ERR_INPUT, "%s: no rows of numbers; expected a CSV table", blob->name);
    int64_t size_bytes = table->rows * table->columns * (int64_t)sizeof *table->at;
    table->at = malloc((size_t)size_bytes);
    if (!table->at)
        return sl_fail(SL_ERR_SYSTEM, "%s: no memory for its %lld cells", blob->name,
                       (long long)table->rows * table->columns);
    data->own_bytes = size_bytes;
    rewind_to_start(r, blob, separator);
    SL_TRY(read_names(r, data, table, named));
    return read_cells(r, data, table);
}

static sl_err open_set(struct sl_data *data, const struct sl_data_spec *spec) {
    struct sl_table *table = SL_NEW(&data->arena, struct sl_table, 1);
    (void)spec;
    data->state = table;
    SL_TRY(sl_data_blob_inflate(&data->blob[0]));
    struct reader *r = sl_realloc(NULL, sizeof *r);
    memset(&r->column, 0, sizeof r->column);
    sl_err err = read_table(data, r, table);
    for (int64_t i = 0; i < r->column.count; i++) {
        sl_map_free(&r->column.at[i].number);
        SL_VEC_FREE(&r->column.at[i].value);
    }
    SL_VEC_FREE(&r->column);
    free(r);
    if (err != SL_OK)
        return err;
    data->total = table->rows;
    return sl_data_table_bind(data, table);
}

const struct sl_data_kind sl_data_csv = {
    .name = "csv",
    .brief = "a table of numbers and categories; the first row has the names",
    .offers = "its columns by the names in the first row",
    .suffixes = ".csv.tsv",
    .files_max = 1,
    .open = open_set,
    .fill = sl_data_table_fill,
    .describe = sl_data_table_describe,
    .close = sl_data_table_close,
};
