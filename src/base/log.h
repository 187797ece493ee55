/* Messages for the user on standard error: notes, warnings, progress. Never data. */
#ifndef SL_BASE_LOG_H
#define SL_BASE_LOG_H

#include "base/err.h"

#include <stdbool.h>

enum sl_log_level { SL_LOG_QUIET, SL_LOG_NORMAL, SL_LOG_VERBOSE };

/* Set once by cli/ before any thread starts. */
void sl_log_open(enum sl_log_level level, bool terminal, bool colour);
bool sl_log_is_terminal(void); /* may lines be redrawn in place? */
bool sl_log_has_colour(void);

void sl_log_note(const char *fmt, ...) SL_PRINTF(1, 2);
void sl_log_warn(const char *fmt, ...) SL_PRINTF(1, 2);
void sl_log_debug(const char *fmt, ...) SL_PRINTF(1, 2);

/* Shows a status line, redrawn in place on a terminal; elsewhere it is printed only if `keep`. */
void sl_log_status(bool keep, const char *fmt, ...) SL_PRINTF(2, 3);
/* Erases the status line; call it before data is printed. */
void sl_log_status_end(void);

/* Shows several lines that are redrawn in place, on a terminal only. A note erases them; the next
 * call draws them again. */
void sl_log_frame(const char *lines);
void sl_log_keep_frame(void); /* leaves the last frame on the screen */

#endif
