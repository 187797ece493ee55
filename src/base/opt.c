/* Command-line options as tables. */
#include "base/opt.h"

#include <string.h>

struct names {
    const struct sl_option *options, *common;
};

static int table_count(const struct sl_option *table) {
    int count = 0;
    while (table && table[count].name)
        count++;
    return count;
}

static const char *name_at(const void *ctx, int i) {
    const struct names *names = ctx;
    int count = table_count(names->options);
    return i < count ? names->options[i].name : names->common[i - count].name;
}

static const struct sl_option *find_row(const struct sl_option *table, const char *name,
                                        size_t length) {
    for (int i = 0; table && table[i].name; i++)
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
            return &table[i];
    return NULL;
}

static sl_err fail_unknown(const char *command, const struct names *names, const char *given,
                           size_t length) {
    char wanted[64];
    size_t kept = length < sizeof wanted - 1 ? length : sizeof wanted - 1;
    memcpy(wanted, given, kept);
    wanted[kept] = 0;
    const char *near = sl_nearest(wanted, table_count(names->options) + table_count(names->common),
                                  name_at, names);
    if (near)
        return sl_fail(SL_ERR_USAGE, "%s: unknown option '%s'; did you mean '%s'?", command, wanted,
                       near);
    return sl_fail(SL_ERR_USAGE, "%s: unknown option '%s'; see 'sluice %s --help'", command, wanted,
                   command);
}

static sl_err take_option(struct sl_args *args, const struct names *names, int argc, char **argv,
                          int *i) {
    const char *given = argv[*i], *equals = strchr(given, '=');
    size_t length = equals ? (size_t)(equals - given) : strlen(given);
    const struct sl_option *row = find_row(names->options, given, length);
    if (!row)
        row = find_row(names->common, given, length);
    if (!row)
        return fail_unknown(args->command, names, given, length);
    if (!row->arg && equals)
        return sl_fail(SL_ERR_USAGE, "%s: %s takes no value", args->command, row->name);
    if (row->arg && !equals && *i + 1 >= argc)
        return sl_fail(SL_ERR_USAGE, "%s: %s needs a value %s", args->command, row->name, row->arg);
    if (!row->repeats && sl_args_has(args, row->name))
        return sl_fail(SL_ERR_USAGE, "%s: %s is given twice", args->command, row->name);
    if (args->option_count == SL_ARGS_MAX)
        return sl_fail(SL_ERR_USAGE, "%s: more than %d options", args->command, SL_ARGS_MAX);
    const char *value = !row->arg ? NULL : equals ? equals + 1 : argv[++*i];
    args->option[args->option_count] = row;
    args->value[args->option_count++] = value;
    return SL_OK;
}

sl_err sl_args_parse(struct sl_args *args, const char *command, const struct sl_option *options,
                     const struct sl_option *common, int argc, char **argv) {
    struct names names = {options, common};
    bool only_positional = false;
    *args = (struct sl_args){.command = command};
    for (int i = 0; i < argc; i++) {
        bool is_option = argv[i][0] == '-' && argv[i][1] && !only_positional;
        if (is_option && strcmp(argv[i], "--") == 0) {
            only_positional = true;
        } else if (is_option) {
            SL_TRY(take_option(args, &names, argc, argv, &i));
        } else {
            if (args->positional_count == SL_ARGS_MAX)
                return sl_fail(SL_ERR_USAGE, "%s: more than %d arguments", command, SL_ARGS_MAX);
            args->positional[args->positional_count++] = argv[i];
        }
    }
    return SL_OK;
}

bool sl_args_has(const struct sl_args *args, const char *name) {
    for (int i = 0; i < args->option_count; i++)
        if (strcmp(args->option[i]->name, name) == 0)
            return true;
    return false;
}

const char *sl_args_text(const struct sl_args *args, const char *name, const char *fallback) {
    for (int i = args->option_count - 1; i >= 0; i--)
        if (strcmp(args->option[i]->name, name) == 0)
            return args->value[i];
    return fallback;
}

const char *sl_args_nth(const struct sl_args *args, const char *name, int n) {
    for (int i = 0; i < args->option_count; i++)
        if (strcmp(args->option[i]->name, name) == 0 && n-- == 0)
            return args->value[i];
    return NULL;
}

sl_err sl_args_int(const struct sl_args *args, const char *name, int64_t low, int64_t high,
                   int64_t *out) {
    const char *text = sl_args_text(args, name, NULL);
    if (!text)
        return SL_OK;
    SL_TRY(sl_parse_int(text, name, out));
    if (*out < low || *out > high)
        return sl_fail(SL_ERR_USAGE, "%s: %lld is not between %lld and %lld", name, (long long)*out,
                       (long long)low, (long long)high);
    return SL_OK;
}

sl_err sl_args_double(const struct sl_args *args, const char *name, double low, double high,
                      double *out) {
    const char *text = sl_args_text(args, name, NULL);
    if (!text)
        return SL_OK;
    SL_TRY(sl_parse_double(text, name, out));
    if (*out < low || *out > high)
        return sl_fail(SL_ERR_USAGE, "%s: %g is not between %g and %g", name, *out, low, high);
    return SL_OK;
}

sl_err sl_args_bytes(const struct sl_args *args, const char *name, int64_t *out) {
    const char *text = sl_args_text(args, name, NULL);
    return text ? sl_parse_bytes(text, name, out) : SL_OK;
}
