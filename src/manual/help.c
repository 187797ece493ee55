/* Writes help for the terminal. */
#include "base/version.h"
#include "manual/manual.h"

#include <stdio.h>
#include <string.h>

static const char *command_name(const void *ctx, int i) {
    const struct sl_command_set *set = ctx;
    return set->commands[i]->name;
}

const struct sl_command *sl_manual_find(const struct sl_command_set *set, const char *name,
                                        const char **nearest) {
    int count = 0;
    for (; set->commands[count]; count++)
        if (strcmp(set->commands[count]->name, name) == 0)
            return set->commands[count];
    if (nearest)
        *nearest = sl_nearest(name, count, command_name, set);
    return NULL;
}

void sl_manual_overview(const struct sl_command_set *set, struct sl_text *out) {
    sl_text_printf(out,
                   "sluice %s: pipeline-parallel training of neural networks\n\n"
                   "usage: sluice COMMAND [ARGUMENTS] [OPTIONS]\n\ncommands:\n",
                   sl_version());
    for (int i = 0; set->commands[i]; i++)
        sl_text_printf(out, "  %-10s %s\n", set->commands[i]->name, set->commands[i]->brief);
    sl_text_put(out, "\n'sluice COMMAND --help' shows the options of a command.\n"
                     "exit status: 0 ok, 1 refused, 2 usage, 3 input, 4 system, "
                     "5 a peer failed\n");
}

static void put_options(struct sl_text *out, const struct sl_option *options) {
    for (int i = 0; options[i].name; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", options[i].name, options[i].arg ? " " : "",
                 options[i].arg ? options[i].arg : "");
        sl_text_printf(out, "  %-24s %s%s\n", left, options[i].help,
                       options[i].repeats ? " (may be repeated)" : "");
    }
}

void sl_manual_help(const struct sl_command_set *set, const struct sl_command *command,
                    struct sl_text *out) {
    sl_text_printf(out, "sluice %s: %s\n\nusage: sluice %s%s%s\n", command->name, command->brief,
                   command->name, *command->synopsis ? " " : "", command->synopsis);
    if (command->detail)
        sl_text_printf(out, "\n%s\n", command->detail);
    sl_text_put(out, "\noptions:\n");
    put_options(out, command->options);
    put_options(out, set->common);
}
