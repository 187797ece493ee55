/* Completion candidates of a command line, from the tables that also make the help. */
#ifndef SL_CLI_COMPLETE_H
#define SL_CLI_COMPLETE_H

#include "base/opt.h"

/* `words` follow "sluice"; the last one, perhaps empty, is being typed. Appends a line
 * "word<TAB>description" per candidate, and a line ":files" if file names fit too. */
SL_MUST_CHECK sl_err sl_cli_complete(const struct sl_args *args, const char *const *words,
                                     int count, struct sl_text *out);

#endif
