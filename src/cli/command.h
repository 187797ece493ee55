/* The table of commands, and functions with which they print. */
#ifndef SL_CLI_COMMAND_H
#define SL_CLI_COMMAND_H

#include "manual/manual.h"

/* All commands. */
extern const struct sl_command_set sl_cli_commands;

/* Prints a text to standard output; a write error is a system error. */
SL_MUST_CHECK sl_err sl_cli_print(const struct sl_text *text);

/* Prints {"written": [...]}, the values of an option: for --json of commands that only write
 * files. */
SL_MUST_CHECK sl_err sl_cli_print_written(const struct sl_args *args, const char *option);

/* Prints a list of 'sluice list KIND'; kind NULL: the list of kinds. */
SL_MUST_CHECK sl_err sl_cli_print_list(const struct sl_args *args, const char *kind);

/* Ranks start with blocked signals, so that one that comes early is handled, not fatal. */
void sl_cli_unblock_signals(void);

#endif
