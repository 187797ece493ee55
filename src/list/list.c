/* Lists what the program has. A kind of list is a function and a row of the table below. */
#include "list/list.h"

#include "base/json.h"
#include "comm/comm.h"
#include "cost/machine.h"
#include "data/data.h"
#include "device/device.h"
#include "interop/importer.h"
#include "job/model.h"
#include "op/registry.h"
#include "optim/lr.h"
#include "optim/policy.h"
#include "peers/peers.h"
#include "planners/registry.h"
#include "profile/devices.h"
#include "report/model.h"
#include "schedules/schedule.h"

#include <string.h>

/* Lists models; one that cannot be read is listed with its error. */
static sl_err fill_models(const char *const *model_dirs, struct sl_list *list) {
    struct sl_job_model_names names = sl_job_model_names(model_dirs, &list->arena);
    for (int i = 0; i < names.count; i++) {
        struct sl_graph *graph = NULL;
        struct sl_list_row row = {.name = names.at[i], .detail = "-"};
        if (sl_job_model_open(&(struct sl_job_model_request){.name = names.at[i],
                                                             .dirs = model_dirs,
                                                             .sizes = ""},
                              &graph, NULL) == SL_OK) {
            char count[SL_HUMAN_BYTES];
            double elements = 0;
            for (int64_t p = 0; p < graph->params.count; p++)
                elements += (double)sl_graph_shape_numel(
                    &graph->values.at[graph->params.at[p].value].shape, 1);
            row.detail =
                sl_arena_printf(&list->arena, "%s", sl_report_human_params(elements, count));
            row.brief = sl_arena_dup(&list->arena, graph->brief, strlen(graph->brief));
        } else {
            row.brief = sl_arena_printf(&list->arena, "does not read: %s", sl_err_message());
        }
        sl_graph_close(graph);
        SL_PUSH(&list->rows, row);
    }
    return SL_OK;
}

static sl_err fill_ops(const char *const *model_dirs, struct sl_list *list) {
    (void)model_dirs;
    for (int i = 0; i < sl_op_count; i++) {
        const struct sl_op *op = sl_op_rows[i];
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

static void add_row(struct sl_list *list, const char *name, const char *detail, const char *brief) {
    SL_PUSH(&list->rows, ((struct sl_list_row){name, detail, brief}));
}

static void add_device(struct sl_list *list, const struct sl_device_row *row) {
    const char *why = row->missing(),
               *here = why ? NULL : sl_profile_devices_text(&list->arena, row);
    const char *text = row->brief;
    if (why)
        text = sl_arena_printf(&list->arena, "%s (not here: %s)", row->brief, why);
    else if (here)
        text = sl_arena_printf(&list->arena, "%s: %s", row->brief, here);
    add_row(list, row->name, NULL, text);
}

static sl_err fill_data(const char *const *model_dirs, struct sl_list *list) {
    const char *name, *brief;
    (void)model_dirs;
    for (int i = 0; (name = sl_data_kind_name(i, &brief)); i++)
        add_row(list, name, NULL, brief);
    return SL_OK;
}

static sl_err fill_devices(const char *const *model_dirs, struct sl_list *list) {
    (void)model_dirs;
    for (int i = 0; sl_device_rows[i]; i++)
        add_device(list, sl_device_rows[i]);
    return SL_OK;
}

/* Returns "beta1=0.9 beta2=0.999". */
static const char *hyper_text(struct sl_list *list, const struct sl_hyper *table) {
    struct sl_text text = {0};
    for (int i = 0; table && table[i].name; i++) {
        sl_text_printf(&text, "%s%s=", i ? " " : "", table[i].name);
        sl_text_put_double(&text, table[i].fallback);
    }
    const char *out = sl_arena_dup(&list->arena, text.at, text.length);
    sl_text_free(&text);
    return out;
}

static sl_err fill_formats(const char *const *model_dirs, struct sl_list *list) {
    (void)model_dirs;
    for (int i = 0; sl_interop_importers[i]; i++)
        add_row(list, sl_interop_importers[i]->name, NULL, sl_interop_importers[i]->brief);
    return SL_OK;
}

static sl_err fill_machines(const char *const *model_dirs, struct sl_list *list) {
    (void)model_dirs;
    for (int i = 0; i < sl_cost_machine_row_count; i++)
        add_row(list, sl_cost_machine_rows[i].name, NULL, sl_cost_machine_rows[i].brief);
    return SL_OK;
}

static sl_err fill_cost_models(const char *const *model_dirs, struct sl_list *list) {
    (void)model_dirs;
    for (int i = 0; sl_peers_cost_models[i]; i++)
        add_row(list, sl_peers_cost_models[i]->name, sl_peers_cost_models[i]->format,
                sl_peers_cost_models[i]->brief);
    return SL_OK;
}

static sl_err fill_planners(const char *const *model_dirs, struct sl_list *list) {
    (void)model_dirs;
    for (int i = 0; sl_planners_rows[i]; i++)
        add_row(list, sl_planners_rows[i]->name, NULL, sl_planners_rows[i]->brief);
    return SL_OK;
}

static sl_err fill_optimizers(const char *const *model_dirs, struct sl_list *list) {
    (void)model_dirs;
    for (int i = 0; i < sl_optim_row_count; i++)
        add_row(list, sl_optim_rows[i]->name, hyper_text(list, sl_optim_rows[i]->hyper),
                sl_optim_rows[i]->brief);
    return SL_OK;
}

static sl_err fill_policies(const char *const *model_dirs, struct sl_list *list) {
    (void)model_dirs;
    for (int i = 0; i < sl_optim_policy_count; i++)
        add_row(list, sl_optim_policies[i]->name, sl_optim_policies[i]->rules,
                sl_optim_policies[i]->brief);
    return SL_OK;
}

static sl_err fill_lr_schedules(const char *const *model_dirs, struct sl_list *list) {
    (void)model_dirs;
    for (int i = 0; i < sl_optim_lr_row_count; i++)
        add_row(list, sl_optim_lr_rows[i]->name, hyper_text(list, sl_optim_lr_rows[i]->hyper),
                sl_optim_lr_rows[i]->brief);
    return SL_OK;
}

static sl_err fill_schedules(const char *const *model_dirs, struct sl_list *list) {
    int count;
    const struct sl_schedule *const *rows = sl_schedules_row_registry(&count);
    (void)model_dirs;
    for (int i = 0; i < count; i++)
        add_row(list, rows[i]->name, NULL, rows[i]->brief);
    return SL_OK;
}

static sl_err fill_transports(const char *const *model_dirs, struct sl_list *list) {
    (void)model_dirs;
    for (int i = 0; sl_comm_transports[i]; i++)
        add_row(list, sl_comm_transports[i]->name, NULL, sl_comm_transports[i]->brief);
    return SL_OK;
}

const struct sl_list_kind sl_list_kinds[] = {
    {"cost-models", "cost models of 'plan FILE'", "format", fill_cost_models},
    {"data", "kinds of data sets: --data KIND:FILE", NULL, fill_data},
    {"devices", "what runs kernels", NULL, fill_devices},
    {"formats", "inputs of other planners that 'import' reads", NULL, fill_formats},
    {"lr-schedules", "how the learning rate changes", "defaults", fill_lr_schedules},
    {"machines", "machines to plan for", NULL, fill_machines},
    {"models", "models by name", "parameters", fill_models},
    {"ops", "ops that models are made of", "inputs; attributes", fill_ops},
    {"optimizers", "optimizers of 'train'", "defaults", fill_optimizers},
    {"planners", "planners of 'plan'", NULL, fill_planners},
    {"policies", "what to do about stale weights", "version rules", fill_policies},
    {"schedules", "pipeline schedules", NULL, fill_schedules},
    {"transports", "how workers reach each other", NULL, fill_transports},
    {0},
};
enum { KIND_COUNT = SL_COUNT(sl_list_kinds) - 1 };

static const char *kind_name(const void *ctx, int i) {
    (void)ctx;
    return sl_list_kinds[i].name;
}

sl_err sl_list_kind_find(const char *name, const struct sl_list_kind **out) {
    for (int i = 0; i < KIND_COUNT; i++) {
        *out = &sl_list_kinds[i];
        if (strcmp(sl_list_kinds[i].name, name) == 0)
            return SL_OK;
    }
    const char *near = sl_nearest(name, KIND_COUNT, kind_name, NULL);
    if (near)
        return sl_fail(SL_ERR_USAGE, "list: no kind '%s'; did you mean '%s'?", name, near);
    return sl_fail(SL_ERR_USAGE, "list: no kind '%s'; 'sluice list' names them", name);
}

void sl_list_free(struct sl_list *list) {
    SL_VEC_FREE(&list->rows);
    sl_arena_free(&list->arena);
}

/* ---- text ---- */

static int widest(const struct sl_list *list, const char *heading, bool of_detail) {
    size_t width = heading ? strlen(heading) : 0;
    for (int64_t i = 0; i < list->rows.count; i++) {
        const char *cell = of_detail ? list->rows.at[i].detail : list->rows.at[i].name;
        if (cell && strlen(cell) > width)
            width = strlen(cell);
    }
    return (int)width;
}

void sl_list_put(const struct sl_list *list, const char *detail, struct sl_text *text) {
    int name = widest(list, NULL, false), middle = widest(list, detail, true);
    for (int64_t i = 0; i < list->rows.count; i++) {
        const struct sl_list_row *row = &list->rows.at[i];
        sl_text_printf(text, "  %-*s  ", name, row->name);
        if (detail)
            sl_text_printf(text, "%-*s  ", middle, row->detail ? row->detail : "");
        sl_text_printf(text, "%s\n", row->brief);
    }
}

void sl_list_json(const struct sl_list *list, struct sl_text *text) {
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
