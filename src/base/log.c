/* Messages for the user on standard error. */
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* Written once by sl_log_open before threads start, then only read. */
static enum sl_log_level log_level = SL_LOG_NORMAL;
static bool log_terminal, log_colour;
static int open_lines; /* lines of the status or frame that the cursor is in; 0: none */

void sl_log_open(enum sl_log_level level, bool terminal, bool colour) {
    log_level = level;
    log_terminal = terminal;
    log_colour = colour;
}

bool sl_log_is_terminal(void) { return log_terminal; }
bool sl_log_has_colour(void) { return log_colour; }

/* Erase the status or frame: move to its first line, then clear to the end of the screen. */
static void erase_open(void) {
    if (open_lines > 1)
        fprintf(stderr, "\r\033[%dA\033[J", open_lines - 1);
    else if (open_lines == 1)
        fputs("\r\033[K", stderr);
    open_lines = 0;
}

static void put_line(const char *prefix, const char *fmt, va_list args) {
    char line[2048];
    vsnprintf(line, sizeof line, fmt, args);
    erase_open();
    fprintf(stderr, "%s%s\n", prefix, line);
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

/* Cut the line at the width of the terminal: erase_open would leave the first part of a wrapped
 * line on the screen. */
static void clip_to_terminal(char *line) {
    struct winsize size = {0};
    size_t column = 0;
    if (ioctl(fileno(stderr), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return;
    for (; *line; line++) {
        /* first byte of a UTF-8 character */
        bool first_byte = ((unsigned char)*line & 0xC0) != 0x80;
        if (first_byte && ++column == size.ws_col) {
            *line = 0;
            return;
        }
    }
}

void sl_log_status(bool keep, const char *fmt, ...) {
    if (log_level < SL_LOG_NORMAL || (!log_terminal && !keep))
        return;
    va_list args;
    va_start(args, fmt);
    if (keep) {
        put_line("", fmt, args);
    } else {
        char line[2048];
        vsnprintf(line, sizeof line, fmt, args);
        clip_to_terminal(line);
        open_lines = open_lines ? open_lines : 1;
        erase_open();
        fputs(line, stderr);
        fflush(stderr);
        open_lines = 1;
    }
    va_end(args);
}

void sl_log_status_end(void) { erase_open(); }

void sl_log_frame(const char *lines) {
    size_t length = strlen(lines);
    if (log_level < SL_LOG_NORMAL || !log_terminal)
        return;
    erase_open();
    while (length && lines[length - 1] == '\n')
        length--;
    fwrite(lines, 1, length, stderr);
    fflush(stderr);
    open_lines = 1;
    for (size_t i = 0; i < length; i++)
        open_lines += lines[i] == '\n';
}

void sl_log_keep_frame(void) {
    if (open_lines)
        fputs("\n", stderr);
    open_lines = 0;
}
