/* A table in memory and the binding of its columns to inputs, in this order:
 *
 *   1. a column with the name of the input         age      -> input age : float[B]
 *   2. columns with that name and a number         x0 x1 x2 -> input x : float[B,3]  (x.0, x_0 too)
 *   3. label inputs: a column named label, y, target, class ... or the last free column
 *   4. one remaining input: all free columns, if their number fits
 */
#include "data/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct binder {
    struct sl_data *data;
    struct sl_table *table;
    bool *used; /* [columns] */
};

static int find_column(const struct binder *b, const char *name) {
    for (int i = 0; i < b->table->columns; i++)
        if (!b->used[i] && strcmp(b->table->name[i], name) == 0)
            return i;
    return -1;
}

static int *new_columns(const struct binder *b, const struct sl_data_bound *bound) {
    return SL_NEW(&b->data->arena, int, bound->numel);
}

static bool bind_one(struct binder *b, struct sl_data_bound *bound, const char *name) {
    int column = bound->numel == 1 ? find_column(b, name) : -1;
    if (column < 0)
        return false;
    int *from = new_columns(b, bound);
    from[0] = column;
    b->used[column] = true;
    bound->from = from;
    return true;
}

/* Returns the number after a prefix: 12 in x12, x.12, x_12; -1 if there is none. */
static int64_t number_behind(const char *name, const char *prefix) {
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0)
        return -1;
    name += length;
    name += *name == '.' || *name == '_';
    if (!*name || strspn(name, "0123456789") != strlen(name) || strlen(name) > 9)
        return -1;
    return strtol(name, NULL, 10);
}

static bool bind_numbered(struct binder *b, struct sl_data_bound *bound) {
    int64_t found = 0, lowest = INT64_MAX;
    if (bound->numel > b->table->columns)
        return false;
    for (int i = 0; i < b->table->columns; i++) {
        int64_t number = b->used[i] ? -1 : number_behind(b->table->name[i], bound->want.name);
        found += number >= 0;
        lowest = number >= 0 && number < lowest ? number : lowest;
    }
    if (found != bound->numel)
        return false;
    int *from = new_columns(b, bound);
    for (int64_t i = 0; i < bound->numel; i++)
        from[i] = -1;
    for (int i = 0; i < b->table->columns; i++) {
        int64_t number = b->used[i] ? -1 : number_behind(b->table->name[i], bound->want.name);
        if (number < 0)
            continue;
        if (number - lowest >= bound->numel || from[number - lowest] >= 0)
            return false;
        from[number - lowest] = i;
    }
    for (int64_t i = 0; i < bound->numel; i++)
        b->used[from[i]] = true;
    bound->from = from;
    return true;
}

static bool bind_label(struct binder *b, struct sl_data_bound *bound) {
    static const char *const names[] = {"label", "labels", "y", "target", "targets", "class"};
    if (bound->role != SL_ROLE_TARGET || bound->numel != 1)
        return false;
    for (int i = 0; i < SL_COUNT(names); i++)
        if (bind_one(b, bound, names[i]))
            return true;
    for (int i = b->table->columns - 1; i >= 0; i--)
        if (!b->used[i])
            return bind_one(b, bound, b->table->name[i]);
    return false;
}

static bool bind_rest(struct binder *b, struct sl_data_bound *bound) {
    int64_t free_columns = 0, at = 0;
    for (int i = 0; i < b->table->columns; i++)
        free_columns += !b->used[i];
    if (free_columns != bound->numel)
        return false;
    int *from = new_columns(b, bound);
    for (int i = 0; i < b->table->columns; i++)
        if (!b->used[i]) {
            from[at++] = i;
            b->used[i] = true;
        }
    bound->from = from;
    return true;
}

static sl_err check_whole(const struct sl_data *data, const struct sl_table *table,
                          const struct sl_data_bound *bound) {
    for (int64_t row = 0; row < table->rows; row++)
        for (int64_t i = 0; i < bound->numel; i++) {
            float value = table->at[row * table->columns + bound->from[i]];
            double below = bound->want.below ? (double)bound->want.below : 2147483648.0;
            if (value != floorf(value) || value < 0 || value >= below)
                return sl_fail(SL_ERR_INPUT,
                               "%s: column '%s', row %lld: %g; input '%s' of the model takes whole "
                               "numbers from 0 to %.0f",
                               data->blob[0].name, table->name[bound->from[i]], (long long)row + 1,
                               (double)value, bound->want.name, below - 1);
        }
    return SL_OK;
}

static sl_err no_column(const struct sl_data *data, const struct sl_table *table,
                        const struct sl_data_bound *bound) {
    char text[SL_DATA_INPUT_TEXT];
    struct sl_text names = {0};
    sl_text_put(&names, "");
    for (int i = 0; i < table->columns && i < 12; i++)
        sl_text_printf(&names, "%s%s", i ? ", " : "", table->name[i]);
    if (table->columns > 12)
        sl_text_put(&names, ", ...");
    sl_err err = sl_fail(SL_ERR_INPUT,
                         "%s: no columns for input %s of the model (%lld values); the table has %d "
                         "columns: %s",
                         data->blob[0].name, sl_data_input_text(&bound->want, text),
                         (long long)bound->numel, table->columns, names.at);
    sl_text_free(&names);
    return err;
}

sl_err sl_data_table_bind(struct sl_data *data, struct sl_table *table) {
    struct binder b = {data, table, SL_NEW(&data->arena, bool, table->columns)};
    for (int step = 0; step < 4; step++)
        for (int i = 0; i < data->bound_count; i++) {
            struct sl_data_bound *bound = &data->bound[i];
            if (bound->from || bound->role == SL_ROLE_ROW)
                continue;
            switch (step) {
            case 0: bind_one(&b, bound, bound->want.name); break;
            case 1: bind_numbered(&b, bound); break;
            case 2: bind_label(&b, bound); break;
            default:
                if (!bind_rest(&b, bound))
                    return no_column(data, table, bound);
            }
        }
    for (int i = 0; i < data->bound_count; i++)
        if (data->bound[i].from && data->bound[i].want.dtype == SL_DATA_INT)
            SL_TRY(check_whole(data, table, &data->bound[i]));
    return SL_OK;
}

sl_err sl_data_table_fill(const struct sl_data *data, const struct sl_data_ask *ask) {
    const struct sl_table *table = data->state;
    const struct sl_data_bound *bound = &data->bound[ask->input];
    const float *row = table->at + ask->sample * table->columns;
    if (!bound->from)
        return sl_data_fill_plain(bound, ask) ? SL_OK : sl_data_refuse(data, &bound->want);
    for (int64_t i = 0; i < bound->numel; i++) {
        if (bound->want.dtype == SL_DATA_INT)
            ((int32_t *)ask->dst)[i] = (int32_t)row[bound->from[i]];
        else
            ((float *)ask->dst)[i] = row[bound->from[i]];
    }
    return SL_OK;
}

void sl_data_table_describe(const struct sl_data *data, struct sl_json_out *json) {
    const struct sl_table *table = data->state;
    sl_json_put_int(json, "columns", table->columns);
    sl_json_key(json, "names");
    sl_json_open(json, '[');
    for (int i = 0; i < table->columns && i < 64; i++)
        sl_json_string(json, table->name[i]);
    sl_json_close(json, ']');
}

void sl_data_table_close(struct sl_data *data) {
    struct sl_table *table = data->state;
    if (table)
        free(table->at);
}
