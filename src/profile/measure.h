/* Profiling: measures a model into a cost table (F, I, W of every unit, optimizer steps, copies).
 *
 * `busy` workers run at the same time, each with its own memory and its own slice of the model. A
 * slice runs as one program, so every op starts with the cache contents that the preceding ops
 * leave. Units of equal signature (repeated blocks, rounds, workers) share one median. */
#ifndef SL_PROFILE_MEASURE_H
#define SL_PROFILE_MEASURE_H

#include "cost/cost.h"
#include "device/device.h"

struct sl_profile_spec {
    const struct sl_graph *graph; /* the differentiated graph */
    const struct sl_device_row *device;
    const struct sl_optim *optim;
    int threads, busy;
    int rounds;           /* least rounds per micro-batch size */
    double seconds;       /* least seconds for all sizes together, estimated from the first round */
    enum sl_dtype dtype;  /* type of activations */
    bool tf32;            /* compute matrix products in TF32 */
    const int64_t *sizes; /* [size_count] micro-batch sizes */
    int size_count;
    void (*progress)(void *ctx, int done, int all); /* NULL: do not report progress */
    void *ctx;
    /* Writes `count` samples of an input from the training data; all workers call it concurrently.
     * NULL: use repeated artificial values. */
    sl_err (*fill)(const void *data, int64_t first, int64_t count, int input, void *out);
    const void *data;
};

SL_MUST_CHECK sl_err sl_profile_run(struct sl_arena *arena, const struct sl_profile_spec *spec,
                                    const struct sl_cost **out);
/* Returns the number of rounds per size if one round of the first size takes `round_ns`. */
int sl_profile_rounds(const struct sl_profile_spec *spec, int64_t round_ns);

#endif
