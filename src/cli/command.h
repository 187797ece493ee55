/* The commands, and what they print with. */
#ifndef SL_CLI_COMMAND_H
#define SL_CLI_COMMAND_H

#include "manual/manual.h"

/* All commands. */
extern const struct sl_command_set sl_cli_commands;

/* Print a text to standard output; a write error is a system error. */
SL_MUST_CHECK sl_err sl_cli_print(const struct sl_text *text);

/* For --json of commands that only write files: {"written": [...]}, the values of an option. */
SL_MUST_CHECK sl_err sl_cli_print_written(const struct sl_args *args, const char *option);

/* Print a list of 'sluice list KIND'; NULL: the kinds. */
SL_MUST_CHECK sl_err sl_cli_print_list(const struct sl_args *args, const char *kind);

#endif
