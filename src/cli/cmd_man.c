/* sluice man: manual pages, one or all. */
#include "cli/man_page.h"

#include <string.h>

static const char *command_name(const void *ctx, int i) {
    (void)ctx;
    return sl_commands[i]->name;
}

static sl_err put_page(struct sl_text *text, const char *name) {
    int count = 0;
    for (; sl_commands[count]; count++)
        if (strcmp(sl_commands[count]->name, name) == 0) {
            sl_man_command(text, sl_commands[count]);
            return SL_OK;
        }
    const char *near = sl_nearest(name, count, command_name, NULL);
    return sl_fail(SL_ERR_USAGE, "man: there is no command '%s'; %s%s%s", name,
                   near ? "did you mean '" : "'sluice --help' lists them", near ? near : "",
                   near ? "'?" : "");
}

static sl_err write_page(const char *folder, const char *name) {
    struct sl_text text = {0}, path = {0};
    sl_err err = SL_OK;
    if (*name)
        SL_TRY_OUT(put_page(&text, name));
    else
        sl_man_overview(&text);
    sl_text_printf(&path, "%s/sluice%s%s.1", folder, *name ? "-" : "", name);
    SL_TRY_OUT(sl_file_write(path.at, text.at, text.length));
out:
    sl_text_free(&text);
    sl_text_free(&path);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_text text = {0};
    const char *folder = sl_args_text(args, "-o", NULL);
    sl_err err = SL_OK;
    if (folder) {
        SL_TRY(write_page(folder, ""));
        for (int i = 0; sl_commands[i]; i++)
            SL_TRY(write_page(folder, sl_commands[i]->name));
        return SL_OK;
    }
    if (args->positional_count)
        SL_TRY_OUT(put_page(&text, args->positional[0]));
    else
        sl_man_overview(&text);
    SL_TRY_OUT(sl_print(&text));
out:
    sl_text_free(&text);
    return err;
}

const struct sl_command sl_cmd_man = {
    .name = "man",
    .synopsis = "[COMMAND | -o DIR]",
    .brief = "manual pages, from the tables that the options are read by",
    .detail =
        "The page of a command, or of sluice itself, for man(1); with -o all of them as files.\n"
        "An installation has them in share/man.\n\n"
        "  sluice man train | man -l -",
    .options =
        (const struct sl_option[]){{"-o", "DIR", "write all pages into this directory", false},
                                   {0}},
    .max_args = 1,
    .run = run,
};
