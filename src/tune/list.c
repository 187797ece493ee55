/* Lists of parameters: parses and matches them. */
#include "tune/list.h"

#include <fnmatch.h>
#include <string.h>

const char *const *sl_tune_list_parse(struct sl_arena *arena, const char *text) {
    int count = 1, at = 0;
    for (const char *c = text; *c; c++)
        count += *c == ',';
    const char **items = SL_NEW(arena, const char *, count + 1);
    for (const char *from = text; at < count;) {
        size_t length = strcspn(from, ",");
        const char *item = sl_arena_dup(arena, from, length);
        if (*item)
            items[at++] = item;
        else
            count--;
        from += length + (from[length] == ',');
    }
    return items;
}

static bool is_glob(const char *item) { return strpbrk(item, "*?[") != NULL; }

bool sl_tune_matches(const char *item, const char *param) {
    size_t length = strlen(item);
    if (is_glob(item))
        return fnmatch(item, param, 0) == 0;
    return strncmp(item, param, length) == 0 && (!param[length] || param[length] == '.');
}

/* Returns the length of the module's name in a weight's name: without ".weight". */
static size_t module_length(const char *param) {
    static const char suffix[] = ".weight";
    size_t length = strlen(param), end = strlen(suffix);
    return length > end && strcmp(param + length - end, suffix) == 0 ? length - end : length;
}

bool sl_tune_is_target(const char *item, const char *param) {
    size_t module = module_length(param), length = strlen(item);
    if (sl_tune_matches(item, param) || is_glob(item))
        return sl_tune_matches(item, param);
    return length < module && param[module - length - 1] == '.' &&
           strncmp(param + module - length, item, length) == 0;
}

bool sl_tune_list_has(const char *const *items, const char *param) {
    bool in = items && items[0] && items[0][0] == '!';
    for (int i = 0; items && items[i]; i++)
        if (sl_tune_matches(items[i] + (items[i][0] == '!'), param))
            in = items[i][0] != '!';
    return in;
}

static const char *param_at(const void *ctx, int i) {
    return ((const struct sl_graph *)ctx)->params.at[i].name;
}

const char *sl_tune_list_nearest(const struct sl_graph *graph, const char *item) {
    return sl_nearest(item, (int)graph->params.count, param_at, graph);
}

sl_err sl_tune_list_check(const struct sl_graph *graph, const char *what,
                          const char *const *items) {
    for (int i = 0; items && items[i]; i++) {
        const char *item = items[i] + (items[i][0] == '!');
        bool any = false;
        for (int64_t p = 0; p < graph->params.count; p++)
            any |= sl_tune_matches(item, graph->params.at[p].name);
        if (any)
            continue;
        const char *near = sl_tune_list_nearest(graph, item);
        return sl_fail(SL_ERR_INPUT, "`%s`: no parameter of %s matches '%s'%s%s%s", what,
                       graph->name, item, near ? "; did you mean '" : "", near ? near : "",
                       near ? "'?" : "");
    }
    return SL_OK;
}
