/* Running another program and keeping what it says, with a limit on the time it may take. */
#ifndef SL_CLI_CAPTURE_H
#define SL_CLI_CAPTURE_H

#include "base/text.h"

enum { SL_CAPTURE_ABSENT = 127, SL_CAPTURE_LATE = 124 };

/* Runs argv (ends with NULL; found on the PATH) without input; standard output and error, up to
 * 64 KiB, are appended to `out`. Returns the exit status: SL_CAPTURE_ABSENT when it cannot be
 * started, SL_CAPTURE_LATE when it was killed with its children after `patience_s`, 128 + signal.
 */
int sl_cli_capture(const char *const *argv, int patience_s, struct sl_text *out);

/* Is there such a program on the PATH? */
bool sl_cli_capture_finds(const char *program);

#endif
