/* An order is the message that the launcher sends to 'sluice launch --serve' on another host to
 * start one rank.
 *
 *     sluice order 1 LENGTH\n   LENGTH bytes of fields, each a letter, its text and a zero byte
 *
 * It is sent over the standard input of the agent, so no shell reads it and no command line
 * shows the key. After the order, each byte is a signal for the rank; byte 0 only says that the
 * launcher lives. */
#ifndef SL_LAUNCH_ORDER_H
#define SL_LAUNCH_ORDER_H

#include "base/opt.h"

enum { SL_LAUNCH_ENV_MAX = 16, SL_LAUNCH_ORDER_BYTES_MAX = 4 << 20, SL_LAUNCH_ORDER_HEAD_MAX = 32 };

struct sl_launch_order {
    const char *directory, *program;
    int64_t silence_s; /* seconds without a byte from the launcher after which the rank is killed */
    const char *env[SL_LAUNCH_ENV_MAX + 1]; /* "NAME=VALUE"; ends with NULL */
    int env_count;
    const char *argv[SL_ARGS_MAX + 4]; /* ends with NULL */
    int argc;
};

void sl_launch_order_write(const struct sl_launch_order *order, struct sl_text *out);

/* Returns the length of the fields that follow a first line, which has no newline here.
 * SL_ERR_INPUT: it is no order. */
SL_MUST_CHECK sl_err sl_launch_order_read_head(const char *line, int64_t *length);
/* Reads the fields; the order points into `fields`. */
SL_MUST_CHECK sl_err sl_launch_order_read(const char *fields, int64_t length,
                                          struct sl_launch_order *out);

#endif
