/* Measuring a model into a cost table: every unit's F, I and W, the optimizer, copies.
 *
 * The whole model runs as one program, so that every op finds the caches as the ops before it left
 * them; `busy` workers do so at the same time, each with memory of its own. Times of all units with
 * one signature (repeated blocks, rounds, workers) go into one median.
 */
#ifndef SL_PROFILE_MEASURE_H
#define SL_PROFILE_MEASURE_H

#include "cost/cost.h"
#include "device/device.h"

struct sl_profile_spec {
    const struct sl_graph *graph; /* differentiated */
    const struct sl_device_row *device;
    const struct sl_optim *optim;
    int threads, busy;
    int rounds;           /* of every size, at least */
    double seconds;       /* of all sizes together, at least, as far as a first look can tell */
    enum sl_dtype dtype;  /* of activations */
    bool tf32;            /* of products */
    const int64_t *sizes; /* [size_count] micro-batch sizes */
    int size_count;
    void (*progress)(void *ctx, int done, int all); /* NULL: none */
    void *ctx;
    /* `count` samples of an input of the graph from the training data; called by all workers at
     * once. NULL: the same made-up numbers again and again. */
    sl_err (*fill)(const void *data, int64_t first, int64_t count, int input, void *out);
    const void *data;
};

SL_MUST_CHECK sl_err sl_profile_run(struct sl_arena *arena, const struct sl_profile_spec *spec,
                                    const struct sl_cost **out);
/* Rounds of every size, where one of the first size takes so long. */
int sl_profile_rounds(const struct sl_profile_spec *spec, int64_t round_ns);

#endif
