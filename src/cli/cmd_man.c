/* sluice man: print one manual page, or write all. */
#include "base/json.h"
#include "cli/man_page.h"

#include <string.h>

static const char *command_name(const void *ctx, int i) {
    (void)ctx;
    return sl_cli_commands[i]->name;
}

static sl_err find_command(const char *name, const struct sl_command **out) {
    int count = 0;
    for (; sl_cli_commands[count]; count++)
        if (strcmp(sl_cli_commands[count]->name, name) == 0) {
            *out = sl_cli_commands[count];
            return SL_OK;
        }
    const char *near = sl_nearest(name, count, command_name, NULL);
    return sl_fail(SL_ERR_USAGE, "man: there is no command '%s'; %s%s%s", name,
                   near ? "did you mean '" : "'sluice --help' lists them", near ? near : "",
                   near ? "'?" : "");
}

static void put_page(struct sl_text *text, const struct sl_command *command) {
    if (command)
        sl_cli_man_command(text, command);
    else
        sl_cli_man_overview(text);
}

static sl_err write_page(const char *folder, const struct sl_command *command) {
    struct sl_text text = {0}, path = {0};
    put_page(&text, command);
    sl_text_printf(&path, "%s/sluice%s%s.1", folder, command ? "-" : "",
                   command ? command->name : "");
    sl_err err = sl_file_write(path.at, text.at, text.length);
    sl_text_free(&text);
    sl_text_free(&path);
    return err;
}

static sl_err write_all(const struct sl_args *args, const char *folder) {
    SL_TRY(write_page(folder, NULL));
    for (int i = 0; sl_cli_commands[i]; i++)
        SL_TRY(write_page(folder, sl_cli_commands[i]));
    return sl_args_has(args, "--json") ? sl_cli_print_written(args, "-o") : SL_OK;
}

/* ---- JSON ---- */

static void options_json(struct sl_json_out *json, const struct sl_option *options) {
    for (; options->name; options++) {
        sl_json_open(json, '{');
        sl_json_put_string(json, "name", options->name);
        if (options->arg)
            sl_json_put_string(json, "value", options->arg);
        sl_json_put_string(json, "help", options->help);
        sl_json_put_bool(json, "repeats", options->repeats);
        sl_json_close(json, '}');
    }
}

static void command_json(struct sl_json_out *json, const struct sl_command *command) {
    sl_json_open(json, '{');
    sl_json_put_string(json, "name", command->name);
    sl_json_put_string(json, "synopsis", command->synopsis);
    sl_json_put_string(json, "brief", command->brief);
    sl_json_put_string(json, "detail", command->detail ? command->detail : "");
    sl_json_key(json, "options");
    sl_json_open(json, '[');
    options_json(json, command->options);
    options_json(json, sl_cli_common_options);
    sl_json_close(json, ']');
    sl_json_close(json, '}');
}

/* One command, or all of them in a list. */
static void put_json(struct sl_text *text, const struct sl_command *command) {
    struct sl_json_out json = {.text = text, .indent = 2};
    if (command) {
        command_json(&json, command);
    } else {
        sl_json_open(&json, '[');
        for (int i = 0; sl_cli_commands[i]; i++)
            command_json(&json, sl_cli_commands[i]);
        sl_json_close(&json, ']');
    }
    sl_text_put(text, "\n");
}

static sl_err run(const struct sl_args *args) {
    struct sl_text text = {0};
    const struct sl_command *command = NULL;
    const char *folder = sl_args_text(args, "-o", NULL);
    if (folder)
        return write_all(args, folder);
    if (args->positional_count)
        SL_TRY(find_command(args->positional[0], &command));
    if (sl_args_has(args, "--json"))
        put_json(&text, command);
    else
        put_page(&text, command);
    sl_err err = sl_cli_print(&text);
    sl_text_free(&text);
    return err;
}

const struct sl_command sl_cli_cmd_man = {
    .name = "man",
    .synopsis = "[COMMAND | -o DIR]",
    .brief = "print or write manual pages",
    .detail =
        "Prints the manual page of a command, or of sluice, for man(1). -o writes all pages.\n"
        "Packages install them in share/man. --json prints the tables of options.\n"
        "\n"
        "  sluice man train | man -l -",
    .options =
        (const struct sl_option[]){{"-o", "DIR", "write all pages into this directory", false},
                                   {0}},
    .max_args = 1,
    .run = run,
};
