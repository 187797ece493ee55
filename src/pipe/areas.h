/* Memory that the seats of a worker share; its size is the largest request of any seat. */
#ifndef SL_PIPE_AREAS_H
#define SL_PIPE_AREAS_H

#include "base/err.h"

#include <stdint.h>

struct sl_pipe_worker;

struct sl_pipe_areas {
    void *work, *staging, *scratch; /* for passes; for inputs, on the host; for optimizer steps */
    int64_t bytes;                  /* of work */
};

/* open: after the seats of the worker; close: before its device. */
SL_MUST_CHECK sl_err sl_pipe_open_areas(struct sl_pipe_worker *worker);
void sl_pipe_close_areas(struct sl_pipe_worker *worker);
/* Device memory of a worker: its seats and what they share. */
int64_t sl_pipe_worker_bytes(const struct sl_pipe_worker *worker);

#endif
