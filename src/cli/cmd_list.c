/* sluice list: what there is. A new kind is a function and a row of the table at the end. */
#include "base/json.h"
#include "cli/command.h"
#include "cli/list.h"
#include "cli/model_file.h"
#include "cli/model_report.h"
#include "op/registry.h"

#include <string.h>

/* ---- kinds ---- */

/* A model that does not read is listed with its error: the others are still worth seeing. */
static sl_err fill_models(const struct sl_args *args, struct sl_list *list) {
    struct sl_model_names names = sl_model_names(args, &list->arena);
    for (int i = 0; i < names.count; i++) {
        struct sl_graph *graph = NULL;
        struct sl_list_row row = {.name = names.at[i], .detail = "-"};
        if (sl_model_open(args, names.at[i], false, &graph) == SL_OK) {
            char count[SL_HUMAN_BYTES];
            double elements = 0;
            for (int64_t p = 0; p < graph->params.count; p++)
                elements +=
                    (double)sl_shape_numel(&graph->values.at[graph->params.at[p].value].shape, 1);
            row.detail = sl_arena_printf(&list->arena, "%s", sl_human_params(elements, count));
            row.brief = sl_arena_dup(&list->arena, graph->brief, strlen(graph->brief));
        } else {
            row.brief = sl_arena_printf(&list->arena, "does not read: %s", sl_err_message());
        }
        sl_graph_close(graph);
        SL_PUSH(&list->rows, row);
    }
    return SL_OK;
}

static sl_err fill_ops(const struct sl_args *args, struct sl_list *list) {
    (void)args;
    for (int i = 0; i < sl_op_count; i++) {
        const struct sl_op *op = sl_ops[i];
        struct sl_text text = {0};
        if (op->internal)
            continue;
        sl_text_put(&text, op->inputs);
        for (int a = 0; op->attrs && op->attrs[a].name; a++)
            sl_text_printf(&text, "%s%s", a ? " " : "; ", op->attrs[a].name);
        struct sl_list_row row = {op->name, sl_arena_dup(&list->arena, text.at, text.length),
                                  op->brief};
        SL_PUSH(&list->rows, row);
        sl_text_free(&text);
    }
    return SL_OK;
}

/* In the order of the help text. */
static const struct sl_list_kind kinds[] = {
    {"models", "models by name", "parameters", fill_models},
    {"ops", "ops that models are made of", "inputs; attributes", fill_ops},
};

/* ---- the command ---- */

static const char *kind_name(const void *ctx, int i) {
    (void)ctx;
    return kinds[i].name;
}

static sl_err find_kind(const char *name, const struct sl_list_kind **out) {
    for (int i = 0; i < SL_COUNT(kinds); i++) {
        *out = &kinds[i];
        if (strcmp(kinds[i].name, name) == 0)
            return SL_OK;
    }
    const char *near = sl_nearest(name, SL_COUNT(kinds), kind_name, NULL);
    if (near)
        return sl_fail(SL_ERR_USAGE, "list: no kind '%s'; did you mean '%s'?", name, near);
    return sl_fail(SL_ERR_USAGE, "list: no kind '%s'; 'sluice list' names them", name);
}

static int widest(const struct sl_list *list, const char *heading, bool of_detail) {
    size_t width = heading ? strlen(heading) : 0;
    for (int64_t i = 0; i < list->rows.count; i++) {
        const char *cell = of_detail ? list->rows.at[i].detail : list->rows.at[i].name;
        if (cell && strlen(cell) > width)
            width = strlen(cell);
    }
    return (int)width;
}

static void put_table(struct sl_text *text, const struct sl_list *list, const char *detail) {
    int name = widest(list, NULL, false), middle = widest(list, detail, true);
    for (int64_t i = 0; i < list->rows.count; i++) {
        const struct sl_list_row *row = &list->rows.at[i];
        sl_text_printf(text, "  %-*s  ", name, row->name);
        if (detail)
            sl_text_printf(text, "%-*s  ", middle, row->detail ? row->detail : "");
        sl_text_printf(text, "%s\n", row->brief);
    }
}

static void put_json(struct sl_text *text, const struct sl_list *list) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '[');
    for (int64_t i = 0; i < list->rows.count; i++) {
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "name", list->rows.at[i].name);
        if (list->rows.at[i].detail)
            sl_json_put_string(&json, "detail", list->rows.at[i].detail);
        sl_json_put_string(&json, "brief", list->rows.at[i].brief);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_text_put(text, "\n");
}

static sl_err run(const struct sl_args *args) {
    struct sl_list list = {0};
    struct sl_text text = {0};
    const struct sl_list_kind *kind = NULL;
    sl_err err = SL_OK;
    if (args->positional_count) {
        SL_TRY_OUT(find_kind(args->positional[0], &kind));
        SL_TRY_OUT(kind->fill(args, &list));
    } else {
        for (int i = 0; i < SL_COUNT(kinds); i++)
            SL_PUSH(&list.rows, ((struct sl_list_row){kinds[i].name, NULL, kinds[i].brief}));
    }
    if (sl_args_has(args, "--json"))
        put_json(&text, &list);
    else
        put_table(&text, &list, kind ? kind->detail : NULL);
    SL_TRY_OUT(sl_print(&text));
out:
    sl_text_free(&text);
    SL_VEC_FREE(&list.rows);
    sl_arena_free(&list.arena);
    return err;
}

static const struct sl_option options[] = {
    {"--models", "DIR", "look for models by name here first", false},
    {0},
};

const struct sl_command sl_cmd_list = {
    .name = "list",
    .synopsis = "[KIND] [--json]",
    .brief = "what there is: models, ops",
    .detail = "Without KIND, the kinds.\n\n  sluice list models\n  sluice list ops",
    .options = options,
    .max_args = 1,
    .run = run,
};
