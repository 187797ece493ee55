/* Reads and writes "name:key=value,key=value". */
#include "optim/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int sl_optim_hyper_count(const struct sl_hyper *table) {
    int count = 0;
    while (table && table[count].name)
        count++;
    return count;
}

int sl_optim_hyper_find(const struct sl_hyper *table, struct sl_str name) {
    for (int i = 0; table && table[i].name; i++)
        if (sl_str_is(name, table[i].name))
            return i;
    return -1;
}

void sl_optim_spec_split(const char *text, struct sl_str *name, const char **rest) {
    const char *colon = strchr(text, ':');
    name->at = text;
    name->length = colon ? (size_t)(colon - text) : strlen(text);
    *rest = colon ? colon + 1 : "";
}

static const char *name_at(const void *ctx, int i) {
    return ((const struct sl_hyper *)ctx)[i].name;
}

static sl_err fail_unknown(const char *what, const struct sl_hyper *table, const char *key) {
    int count = sl_optim_hyper_count(table);
    const char *near = sl_nearest(key, count, name_at, table);
    struct sl_text list = {0};
    for (int i = 0; i < count; i++)
        sl_text_printf(&list, "%s%s", i ? ", " : "", table[i].name);
    sl_err err =
        near ? sl_fail(SL_ERR_USAGE, "%s has no value '%s'; did you mean '%s'?", what, key, near)
             : sl_fail(SL_ERR_USAGE, "%s has no value '%s'; it has: %s", what, key,
                       count ? list.at : "none");
    sl_text_free(&list);
    return err;
}

static sl_err check_range(const char *what, const struct sl_hyper *row, double value) {
    bool inside = value >= row->low &&
                  (row->range == SL_RANGE_HALF_OPEN ? value < row->high : value <= row->high);
    if (row->range == SL_RANGE_WHOLE && (!inside || value != floor(value)))
        return sl_fail(SL_ERR_USAGE, "%s: %s=%g is not a whole number from %g to %g (%s)", what,
                       row->name, value, row->low, row->high, row->brief);
    if (!inside)
        return sl_fail(SL_ERR_USAGE, "%s: %s=%g is not in [%g, %g%c (%s)", what, row->name, value,
                       row->low, row->high, row->range == SL_RANGE_HALF_OPEN ? ')' : ']',
                       row->brief);
    return SL_OK;
}

/* Reads one "key=value" of `length` bytes. */
static sl_err take_value(const char *what, const struct sl_hyper *table, struct sl_str item,
                         double *values, unsigned *given) {
    char copy[64], where[128];
    if (item.length >= sizeof copy)
        return sl_fail(SL_ERR_USAGE, "%s: '%.*s...' is too long", what, 40, item.at);
    memcpy(copy, item.at, item.length);
    copy[item.length] = 0;
    char *equals = strchr(copy, '=');
    if (!equals || equals == copy)
        return sl_fail(SL_ERR_USAGE, "%s: '%s' is not NAME=VALUE", what, copy);
    *equals = 0;
    int i = sl_optim_hyper_find(table, sl_str(copy));
    if (i < 0)
        return fail_unknown(what, table, copy);
    if (*given & 1u << i)
        return sl_fail(SL_ERR_USAGE, "%s: %s is given twice", what, copy);
    snprintf(where, sizeof where, "%s: %s", what, copy);
    SL_TRY(sl_parse_double(equals + 1, where, &values[i]));
    *given |= 1u << i;
    return check_range(what, &table[i], values[i]);
}

sl_err sl_optim_spec_values(const char *what, const struct sl_hyper *table, const char *rest,
                            double *values, unsigned *given) {
    unsigned seen = 0;
    for (int i = 0; i < sl_optim_hyper_count(table); i++)
        values[i] = table[i].fallback;
    while (*rest) {
        const char *comma = strchr(rest, ',');
        struct sl_str item = {rest, comma ? (size_t)(comma - rest) : strlen(rest)};
        SL_TRY(take_value(what, table, item, values, &seen));
        rest += item.length;
        if (*rest && !*++rest)
            return sl_fail(SL_ERR_USAGE, "%s: nothing follows the last comma", what);
    }
    if (given)
        *given = seen;
    return SL_OK;
}

void sl_optim_spec_put(struct sl_text *text, const char *name, const struct sl_hyper *table,
                       const double *values) {
    char sign = ':';
    sl_text_put(text, name);
    for (int i = 0; i < sl_optim_hyper_count(table); i++)
        if (values[i] != table[i].fallback) {
            sl_text_printf(text, "%c%s=", sign, table[i].name);
            sl_text_put_double(text, values[i]);
            sign = ',';
        }
}
