/* Feeding a worker: inputs of a micro-batch from the data set, seeds of the losses. */
#include "run/train.h"

sl_err sl_run_train_count(const struct sl_train *train, enum sl_data_split split, int64_t first,
                          int64_t count, double *out) {
    const struct sl_graph *graph = train->config.graph;
    for (int64_t i = 0; i < graph->losses.count; i++) {
        int input = graph->losses.at[i].count_input;
        int64_t valid = count;
        if (input >= 0)
            SL_TRY(sl_data_count_valid(train->config.data, split, first, count, input, &valid));
        out[i] = (double)valid;
    }
    return SL_OK;
}

/* Writes the gradient of the total loss with respect to each loss of this micro-batch: its share of
 * the batch's counted items, times the loss scale. */
static sl_err put_seeds(struct sl_train *train, const struct sl_feed *feed,
                        const struct sl_program *program) {
    double share[SL_LOSS_MAX];
    const struct sl_graph *graph = train->config.graph;
    SL_ASSERT(graph->losses.count <= SL_LOSS_MAX);
    if (program->seeds.count == 0)
        return SL_OK;
    SL_TRY(sl_run_train_count(train, feed->split, feed->first, feed->count, share));
    for (int i = 0; i < program->seeds.count; i++) {
        int loss = program->seeds.at[i].index;
        double total = train->counts[loss];
        double weight = train->scale.value * graph->losses.at[loss].weight;
        float seed = total > 0 ? (float)(weight * share[loss] / total) : 0;
        SL_TRY(sl_run_worker_put(train->worker, feed->slot, &program->seeds.at[i], &seed));
    }
    return SL_OK;
}

static sl_err read_input(const struct sl_train *train, const struct sl_feed *feed, int input) {
    const struct sl_train_config *c = &train->config;
    const struct sl_data_range range = {feed->first, feed->count};
    return c->ahead
               ? sl_run_ahead_fill(c->ahead, feed->split, &range, input, train->worker->staging)
               : sl_data_fill(c->data, feed->split, feed->first, feed->count, input,
                              train->worker->staging);
}

sl_err sl_run_train_feed(struct sl_train *train, const struct sl_feed *feed) {
    struct sl_worker *worker = train->worker;
    const struct sl_program *program = worker->programs[feed->program];
    for (int i = 0; i < program->inputs.count; i++) {
        SL_TRY(read_input(train, feed, program->inputs.at[i].index));
        SL_TRY(sl_run_worker_put(worker, feed->slot, &program->inputs.at[i], worker->staging));
    }
    return put_seeds(train, feed, program);
}

struct sl_feed sl_run_train_micro(const struct sl_train *train, const struct sl_data_range *range,
                                  int64_t j) {
    int64_t full = sl_run_train_full_samples(train->config.batch, train->config.micros);
    int64_t left = range->count - j * full;
    struct sl_feed feed = {
        .split = SL_DATA_TRAIN,
        .first = range->first + j * full,
        .count = left < full ? left : full,
    };
    feed.program = sl_run_worker_program_for(train->worker, feed.count);
    return feed;
}
