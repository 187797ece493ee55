/* A command: a row with name, help texts, options and the function that runs it. */
#ifndef SL_CLI_COMMAND_H
#define SL_CLI_COMMAND_H

#include "base/opt.h"

struct sl_command {
    const char *name;                /* "sched" */
    const char *synopsis;            /* "MODEL [--set K=V]... [--json]" */
    const char *brief;               /* one line for the list of commands */
    const char *detail;              /* paragraphs with an example, or NULL */
    const struct sl_option *options; /* ends with {0}; --help --json --quiet are added everywhere */
    int min_args, max_args;          /* positional arguments; max < 0: any number */
    sl_err (*run)(const struct sl_args *args);
};

/* All commands in alphabetical order; ends with NULL. */
extern const struct sl_command *const sl_cli_commands[];

/* --help, --json, --quiet */
extern const struct sl_option sl_cli_common_options[];

/* Print a text to standard output; a write error is a system error. */
SL_MUST_CHECK sl_err sl_cli_print(const struct sl_text *text);

/* For --json of commands that only write files: {"written": [...]}, the values of an option. */
SL_MUST_CHECK sl_err sl_cli_print_written(const struct sl_args *args, const char *option);

/* Print a list of 'sluice list KIND'; NULL: the kinds. */
SL_MUST_CHECK sl_err sl_cli_print_list(const struct sl_args *args, const char *kind);

#endif
