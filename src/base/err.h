/* Errors: a code that is also the exit status, and one thread-local message.
 *
 * A function returns `sl_err` for failures that input, memory, a device or a peer can cause, and
 * uses SL_ASSERT for bugs. A message states what is wrong, where, why and what to try. Callers add
 * context in front (`sl_err_context`), so the message reads from the outside in:
 *
 *     models/foo.model:12:9: matmul: inner sizes differ: [B,128,64] x [32,10]
 */
#ifndef SL_BASE_ERR_H
#define SL_BASE_ERR_H

#include "sluice/err.h"

#include <stdarg.h>
#include <stddef.h>

#if defined(__GNUC__)
#define SL_MUST_CHECK __attribute__((warn_unused_result))
#define SL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define SL_MUST_CHECK
#define SL_PRINTF(fmt, args)
#endif

/* Replace the recorded message, start a new trail and return `code`. */
sl_err sl_fail(sl_err code, const char *fmt, ...) SL_PRINTF(2, 3);
sl_err sl_vfail(sl_err code, const char *fmt, va_list args) SL_PRINTF(2, 0);

/* Append a place to the trail of the recorded error (sl_err_trail); returns `code`. */
sl_err sl_err_pass(sl_err code, const char *file, int line, const char *function);

/* The first place of the trail is the one that found the error. */
#define sl_fail(code, ...) sl_err_pass((sl_fail)(code, __VA_ARGS__), __FILE__, __LINE__, __func__)

/* Put "context: " in front of the recorded message; returns `code` for chaining. */
sl_err sl_err_context(sl_err code, const char *fmt, ...) SL_PRINTF(2, 3);

/* Copy a message from another thread into this one. */
void sl_err_set_message(const char *text);

/* On an error, SL_TRY returns it; SL_TRY_OUT puts it into the variable `err` and goes to `out`. */
#define SL_TRY(expr)                                                                               \
    do {                                                                                           \
        sl_err try_err_ = (expr);                                                                  \
        if (try_err_ != SL_OK)                                                                     \
            return sl_err_pass(try_err_, __FILE__, __LINE__, __func__);                            \
    } while (0)

#define SL_TRY_OUT(expr)                                                                           \
    do {                                                                                           \
        err = (expr);                                                                              \
        if (err != SL_OK) {                                                                        \
            sl_err_pass(err, __FILE__, __LINE__, __func__);                                        \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

/* Print the place of a failed assertion and abort, in release builds too. */
_Noreturn void sl_assert_fail(const char *expr, const char *file, int line);
#define SL_ASSERT(expr) ((expr) ? (void)0 : sl_assert_fail(#expr, __FILE__, __LINE__))

#define SL_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#endif
