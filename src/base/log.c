/* Messages for people, on standard error. */
#include "base/log.h"

#include <stdio.h>

/* Written once by sl_log_open before threads start, then only read. */
static enum sl_log_level log_level = SL_LOG_NORMAL;
static bool log_terminal, log_colour, status_open;

void sl_log_open(enum sl_log_level level, bool terminal, bool colour) {
    log_level = level;
    log_terminal = terminal;
    log_colour = colour;
}

bool sl_log_is_terminal(void) { return log_terminal; }
bool sl_log_has_colour(void) { return log_colour; }

static void put_line(const char *prefix, const char *fmt, va_list args) {
    char line[2048];
    vsnprintf(line, sizeof line, fmt, args);
    fprintf(stderr, "%s%s%s\n", status_open ? "\r\033[K" : "", prefix, line);
    status_open = false;
}

#define LOG_BODY(minimum, prefix)                                                                  \
    if (log_level < (minimum))                                                                     \
        return;                                                                                    \
    va_list args;                                                                                  \
    va_start(args, fmt);                                                                           \
    put_line((prefix), fmt, args);                                                                 \
    va_end(args)

void sl_log_note(const char *fmt, ...) { LOG_BODY(SL_LOG_NORMAL, ""); }

void sl_log_warn(const char *fmt, ...) { LOG_BODY(SL_LOG_QUIET, "warning: "); }

void sl_log_debug(const char *fmt, ...) { LOG_BODY(SL_LOG_VERBOSE, ""); }

void sl_log_status(bool keep, const char *fmt, ...) {
    if (log_level < SL_LOG_NORMAL || (!log_terminal && !keep))
        return;
    va_list args;
    va_start(args, fmt);
    if (keep) {
        put_line("", fmt, args);
    } else {
        fputs("\r\033[K", stderr);
        vfprintf(stderr, fmt, args);
        fflush(stderr);
        status_open = true;
    }
    va_end(args);
}

void sl_log_status_end(void) {
    if (status_open)
        fputs("\r\033[K", stderr);
    status_open = false;
}
