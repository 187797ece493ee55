/* What may come next on a command line, from the same tables as the help; the shells' completion
 * scripts ask for it. */
#ifndef SL_CLI_COMPLETE_H
#define SL_CLI_COMPLETE_H

#include "base/opt.h"

/* `words` are what stands after "sluice"; the last one, maybe empty, is being typed. A line
 * "word<TAB>what it is" for each that fits; a line ":files" where file names fit too. */
SL_MUST_CHECK sl_err sl_cli_complete(const struct sl_args *args, const char *const *words,
                                     int count, struct sl_text *out);

#endif
