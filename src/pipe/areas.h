/* Memory that the seats of a worker share; its size is the largest request of any seat. */
#ifndef SL_PIPE_AREAS_H
#define SL_PIPE_AREAS_H

#include "base/err.h"

#include <stdint.h>

struct sl_pipe_worker;

struct sl_pipe_areas {
    /* work: for passes; staging: for inputs, on the host; scratch: for optimizer steps */
    void *work, *staging, *scratch;
    int64_t bytes; /* of work */
};

/* Call open after the seats of the worker are open, and close before its device is closed. */
SL_MUST_CHECK sl_err sl_pipe_open_areas(struct sl_pipe_worker *worker);
void sl_pipe_close_areas(struct sl_pipe_worker *worker);
/* Bytes of device memory that a worker holds: its seats and the areas they share. */
int64_t sl_pipe_worker_bytes(const struct sl_pipe_worker *worker);

#endif
