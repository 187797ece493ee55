/* The commands as tables of texts and options, and the texts made from them: help, manual pages,
 * JSON, completion. */
#ifndef SL_MANUAL_MANUAL_H
#define SL_MANUAL_MANUAL_H

#include "base/json.h"
#include "base/opt.h"

/* A command: name, help texts, options and the function that runs it. */
struct sl_command {
    const char *name;                /* "sched" */
    const char *synopsis;            /* "MODEL [--set K=V]... [--json]" */
    const char *brief;               /* one line for the list of commands */
    const char *detail;              /* paragraphs with an example, or NULL */
    const struct sl_option *options; /* ends with {0}; all commands have the common options too */
    int min_args, max_args;          /* positional arguments; max < 0: any number */
    sl_err (*run)(const struct sl_args *args);
    bool catches_signals; /* it unblocks those that 'launch' has blocked */
};

struct sl_command_set {
    const struct sl_command *const *commands; /* in alphabetical order; ends with NULL */
    const struct sl_option *common;           /* options of all commands: --help, --json, --quiet */
};

/* Returns the command with this name, or NULL; then `*nearest` is a similar name or NULL. */
const struct sl_command *sl_manual_find(const struct sl_command_set *set, const char *name,
                                        const char **nearest);

void sl_manual_overview(const struct sl_command_set *set, struct sl_text *out);
void sl_manual_help(const struct sl_command_set *set, const struct sl_command *command,
                    struct sl_text *out);

/* Writes a manual page with the man macros; `command` NULL: sluice(1). */
void sl_manual_page(const struct sl_command_set *set, const struct sl_command *command,
                    struct sl_text *out);

/* Writes the tables as JSON; `command` NULL: a list of all commands. */
void sl_manual_json(const struct sl_command_set *set, const struct sl_command *command,
                    struct sl_text *out);

struct sl_manual_completion {
    const struct sl_command_set *set;
    const char *const *model_dirs; /* ends with NULL */
    /* the words after "sluice"; the last one, perhaps empty, is being typed */
    const char *const *words;
    int count;
};

/* Appends a line "word<TAB>description" per candidate, and a line ":files" if file names are
 * possible too. */
SL_MUST_CHECK sl_err sl_manual_complete(const struct sl_manual_completion *request,
                                        struct sl_text *out);

/* Writes these lines as JSON. */
void sl_manual_candidates_json(const struct sl_text *lines, struct sl_json_out *json);

#endif
