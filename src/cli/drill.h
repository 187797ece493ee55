/* Drills: a worker that does something bad at a chosen action, to see what a run makes of it. */
#ifndef SL_CLI_DRILL_H
#define SL_CLI_DRILL_H

#include "base/err.h"

#include <stdint.h>

struct sl_drill {
    sl_err (*act)(void);
    const char *what;
    int worker;
    int64_t action; /* of the worker, counted over the whole process, from 0 */
    int64_t seen;   /* the worker's own */
};

/* "stall:1:200" */
SL_MUST_CHECK sl_err sl_cli_drill_parse(const char *text, int workers, struct sl_drill *out);
/* For sl_pipe_config.on_action; ctx is the drill. */
sl_err sl_cli_drill_on_action(void *ctx, int worker, int64_t action);

#endif
