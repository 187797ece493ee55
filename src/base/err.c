/* Errors: the thread-local message and trail that belong to an `sl_err`. */
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 2048, TRAIL_MAX = 32, PLACE_BYTES = 256 };

struct place {
    const char *file, *function;
    int line;
};

static _Thread_local char message[MESSAGE_BYTES];
static _Thread_local sl_err last_code;
static _Thread_local struct place trail[TRAIL_MAX];
static _Thread_local int trail_count;

sl_err sl_vfail(sl_err code, const char *fmt, va_list args) {
    char fresh[MESSAGE_BYTES]; /* a second buffer: the arguments may point into `message` */
    vsnprintf(fresh, sizeof fresh, fmt, args);
    memcpy(message, fresh, sizeof message);
    last_code = code;
    trail_count = 0;
    return code;
}

/* Adds a place to the trail. When the trail is full, the outer places are not recorded. */
sl_err sl_err_pass(sl_err code, const char *file, int line, const char *function) {
    if (trail_count < TRAIL_MAX)
        trail[trail_count++] = (struct place){file, function, line};
    last_code = code;
    return code;
}

const char *sl_err_trail(int index) {
    static _Thread_local char text[PLACE_BYTES];
    if (index < 0 || index >= trail_count)
        return NULL;
    const struct place *at = &trail[index];
    snprintf(text, sizeof text, "%s:%d %s", at->file, at->line, at->function);
    return text;
}

sl_err sl_err_code(void) { return last_code; }

sl_err(sl_fail)(sl_err code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    sl_vfail(code, fmt, args);
    va_end(args);
    return code;
}

sl_err sl_err_context(sl_err code, const char *fmt, ...) {
    char fresh[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    int used = vsnprintf(fresh, sizeof fresh, fmt, args);
    va_end(args);
    if (used < 0 || used > MESSAGE_BYTES - 3)
        return code;
    size_t room = (size_t)(MESSAGE_BYTES - used - 3), tail = strlen(message);
    memcpy(fresh + used, ": ", 2);
    memcpy(fresh + used + 2, message, tail < room ? tail : room);
    fresh[used + 2 + (int)(tail < room ? tail : room)] = 0;
    memcpy(message, fresh, sizeof message);
    return code;
}

const char *sl_err_message(void) { return message; }

void sl_err_set_message(const char *text) {
    snprintf(message, sizeof message, "%s", text);
    trail_count = 0;
}

const char *sl_err_name(sl_err code) {
    static const char *const names[] = {"ok",          "refused",      "usage error",
                                        "input error", "system error", "peer failed"};
    return (unsigned)code < (unsigned)SL_COUNT(names) ? names[code] : "unknown error";
}

_Noreturn void sl_assert_fail(const char *expr, const char *file, int line) {
    fprintf(stderr, "sluice: internal error: %s:%d: assertion `%s` failed\n", file, line, expr);
    abort();
}
