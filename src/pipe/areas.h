/* What the seats of a worker take turns with, as large as the neediest wants it. */
#ifndef SL_PIPE_AREAS_H
#define SL_PIPE_AREAS_H

#include "base/err.h"

#include <stdint.h>

struct sl_pipe_worker;

struct sl_areas {
    void *work, *staging, *scratch; /* of passes; of inputs, on the host; of optimizer steps */
    int64_t bytes;                  /* of work */
};

/* After the seats of a worker have been opened; before its device is closed. */
SL_MUST_CHECK sl_err sl_pipe_open_areas(struct sl_pipe_worker *worker);
void sl_pipe_close_areas(struct sl_pipe_worker *worker);
/* Device memory of a worker: its seats and what they share. */
int64_t sl_pipe_bytes_here(const struct sl_pipe_worker *worker);

#endif
