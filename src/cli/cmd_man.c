/* sluice man: print one manual page, or write all. */
#include "cli/command.h"

static sl_err find_command(const char *name, const struct sl_command **out) {
    const char *near = NULL;
    *out = sl_manual_find(&sl_cli_commands, name, &near);
    if (*out)
        return SL_OK;
    return sl_fail(SL_ERR_USAGE, "man: there is no command '%s'; %s%s%s", name,
                   near ? "did you mean '" : "'sluice --help' lists them", near ? near : "",
                   near ? "'?" : "");
}

static sl_err write_page(const char *folder, const struct sl_command *command) {
    struct sl_text text = {0}, path = {0};
    sl_manual_page(&sl_cli_commands, command, &text);
    sl_text_printf(&path, "%s/sluice%s%s.1", folder, command ? "-" : "",
                   command ? command->name : "");
    sl_err err = sl_file_write(path.at, text.at, text.length);
    sl_text_free(&text);
    sl_text_free(&path);
    return err;
}

static sl_err write_all(const struct sl_args *args, const char *folder) {
    SL_TRY(write_page(folder, NULL));
    for (int i = 0; sl_cli_commands.commands[i]; i++)
        SL_TRY(write_page(folder, sl_cli_commands.commands[i]));
    return sl_args_has(args, "--json") ? sl_cli_print_written(args, "-o") : SL_OK;
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
        sl_manual_json(&sl_cli_commands, command, &text);
    else
        sl_manual_page(&sl_cli_commands, command, &text);
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
