/* sluice list: print the rows of a registry. */
#include "cli/command.h"
#include "cli/model_file.h"
#include "list/list.h"

sl_err sl_cli_print_list(const struct sl_args *args, const char *name) {
    struct sl_list list = {0};
    struct sl_text text = {0};
    const struct sl_list_kind *kind = NULL;
    sl_err err = SL_OK;
    if (name) {
        SL_TRY_OUT(sl_list_kind_find(name, &kind));
        SL_TRY_OUT(kind->fill(sl_cli_model_dirs(args, &list.arena), &list));
    } else {
        for (kind = sl_list_kinds; kind->name; kind++)
            SL_PUSH(&list.rows, ((struct sl_list_row){kind->name, NULL, kind->brief}));
    }
    if (sl_args_has(args, "--json"))
        sl_list_json(&list, &text);
    else
        sl_list_put(&list, kind->detail, &text);
    SL_TRY_OUT(sl_cli_print(&text));
out:
    sl_text_free(&text);
    sl_list_free(&list);
    return err;
}

static sl_err run(const struct sl_args *args) {
    return sl_cli_print_list(args, args->positional_count ? args->positional[0] : NULL);
}

static const struct sl_option options[] = {
    {"--models", "DIR", "first directory to search for models by name", false},
    {0},
};

const struct sl_command sl_cli_cmd_list = {
    .name = "list",
    .synopsis = "[KIND] [--json]",
    .brief = "list models, ops, optimizers, schedules, ...",
    .detail = "KIND is a kind of entry; without it the kinds are listed.\n"
              "\n"
              "  sluice list models\n"
              "  sluice list ops --json",
    .options = options,
    .max_args = 1,
    .run = run,
};
