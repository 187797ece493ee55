/* A drill injects a real fault before a chosen action of a pipeline: a process that is killed or
 * stopped, a worker that stalls, memory that runs out. */
#ifndef SL_PIPE_DRILL_H
#define SL_PIPE_DRILL_H

#include "base/err.h"

#include <stdint.h>

struct sl_pipe_drill {
    sl_err (*act)(void);
    int worker;
    int64_t action; /* of the worker, counted over the whole process, from 0 */
    int64_t seen;   /* actions of the worker so far */
};

/* Parses "stall:1:200": fault, worker, action. */
SL_MUST_CHECK sl_err sl_pipe_drill_parse(const char *text, int workers, struct sl_pipe_drill *out);
/* For sl_pipe_config.on_action; ctx is the drill. */
sl_err sl_pipe_drill_on_action(void *ctx, int worker, int64_t action);

#endif
