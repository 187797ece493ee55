/* sluice version: print the version and the features of this build. */
#include "cli/command.h"

#include "base/json.h"
#include "base/version.h"

static sl_err run(const struct sl_args *args) {
    struct sl_text text = {0};
    if (sl_args_has(args, "--json")) {
        struct sl_json_out json = {.text = &text, .indent = 2};
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "name", "sluice");
        sl_json_put_string(&json, "version", sl_version());
        sl_json_close(&json, '}');
        sl_text_put(&text, "\n");
    } else {
        sl_text_printf(&text, "sluice %s\n", sl_version());
    }
    sl_err err = sl_cli_print(&text);
    sl_text_free(&text);
    return err;
}

const struct sl_command sl_cli_cmd_version = {
    .name = "version",
    .synopsis = "",
    .brief = "print the version",
    .options = (const struct sl_option[]){{0}},
    .run = run,
};
