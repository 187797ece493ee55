/* Command-line options as tables. The rows also generate help, man pages and completions. */
#ifndef SL_BASE_OPT_H
#define SL_BASE_OPT_H

#include "base/text.h"

struct sl_option {
    const char *name; /* "--micro"; a row {0} ends a table */
    const char *arg;  /* "M", or NULL for a flag */
    const char *help; /* one line */
    bool repeats;     /* the option may be given more than once */
};

enum { SL_ARGS_MAX = 256 };

/* A parsed command line. Values point into argv. */
struct sl_args {
    const char *command; /* name of the command for messages, for example "train" */
    const char *positional[SL_ARGS_MAX];
    int positional_count;
    const struct sl_option *option[SL_ARGS_MAX]; /* options in the order of the command line */
    const char *value[SL_ARGS_MAX];              /* their values; NULL for a flag */
    int option_count;
};

/* Accepts --name value and --name=value; only positional arguments may follow `--`. The error for
 * an unknown option suggests the nearest known one. `common` (may be NULL) is a second table. */
SL_MUST_CHECK sl_err sl_args_parse(struct sl_args *args, const char *command,
                                   const struct sl_option *options, const struct sl_option *common,
                                   int argc, char **argv);

bool sl_args_has(const struct sl_args *args, const char *name);
/* Returns the last value of the option, or `fallback` if it is absent. */
const char *sl_args_text(const struct sl_args *args, const char *name, const char *fallback);
/* Returns the n-th value of an option that may repeat, or NULL. */
const char *sl_args_nth(const struct sl_args *args, const char *name, int n);

/* Reads a number in a range; *out keeps its value, the default, if the option is absent. */
SL_MUST_CHECK sl_err sl_args_int(const struct sl_args *args, const char *name, int64_t low,
                                 int64_t high, int64_t *out);
SL_MUST_CHECK sl_err sl_args_double(const struct sl_args *args, const char *name, double low,
                                    double high, double *out);
SL_MUST_CHECK sl_err sl_args_bytes(const struct sl_args *args, const char *name, int64_t *out);

#endif
