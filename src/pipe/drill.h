/* A drill injects a real fault before a chosen action of a pipeline: a process that is killed or
 * stopped, a worker that stalls, memory that runs out. */
#ifndef SL_PIPE_DRILL_H
#define SL_PIPE_DRILL_H

#include "base/err.h"

#include <stdint.h>

struct sl_pipe_drill {
    sl_err (*act)(void);
    int worker;
    /* the fault occurs before this action of the worker, counted over the whole process from 0 */
    int64_t action;
    int64_t seen; /* actions that the worker has begun */
};

/* Parses "stall:1:200": fault, worker, action. */
SL_MUST_CHECK sl_err sl_pipe_drill_parse(const char *text, int workers, struct sl_pipe_drill *out);
/* The value of sl_pipe_config.on_action; ctx is the struct sl_pipe_drill. */
sl_err sl_pipe_drill_on_action(void *ctx, int worker, int64_t action);

#endif
