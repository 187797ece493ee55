/* Messages for people, on standard error: notes, warnings, progress. Data never goes here. */
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

/* One line that replaces itself on a terminal; elsewhere it is printed only when `keep`. */
void sl_log_status(bool keep, const char *fmt, ...) SL_PRINTF(2, 3);
/* Takes that line away, before data is printed. */
void sl_log_status_end(void);

/* Lines that replace themselves, on a terminal only. Notes go above them; they are drawn again with
 * the next frame. */
void sl_log_frame(const char *lines);
void sl_log_keep_frame(void); /* leave the last one where it is */

#endif
