/* Inputs that take long to make (pictures to decode) are made by threads before the step that reads
 * them.
 *
 *   a worker reads micro-batch j of a step -> threads make micro-batch j of the next step
 *
 * A sample is a pure function of its number, so the values do not depend on the threads; a micro-batch
 * that is not ready, or that nobody expected, is made at once, and the reader helps. At most one batch
 * and one micro-batch of an evaluation are held.
 */
#ifndef SL_RUN_AHEAD_H
#define SL_RUN_AHEAD_H

#include "data/data.h"

struct sl_ahead;

struct sl_ahead_config {
    const struct sl_data *data;
    const struct sl_data_input *inputs; /* inputs of the model */
    int input_count;
    /* for training: samples and micro-batches of a step; samples from `last` on are not made */
    int64_t batch, micros, last;
    int threads; /* 0: as many as there are cores, at most 8 */
};

/* Opens it. It starts no thread if no input takes long. */
SL_MUST_CHECK sl_err sl_run_ahead_open(const struct sl_ahead_config *config, struct sl_ahead **out);
void sl_run_ahead_close(struct sl_ahead *ahead);

/* Does what sl_data_fill does. Any number of threads may call it. */
SL_MUST_CHECK sl_err sl_run_ahead_fill(struct sl_ahead *ahead, enum sl_data_split split,
                                       const struct sl_data_range *range, int input, void *dst);

/* Returns the time spent in sl_run_ahead_fill since the last call, added over all threads. */
int64_t sl_run_ahead_take_ns(struct sl_ahead *ahead); /* NULL: returns 0 */
/* Returns the most bytes that samples made ahead can occupy. */
int64_t sl_run_ahead_bytes(const struct sl_ahead *ahead);

#endif
