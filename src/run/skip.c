/* Finds out why a step was skipped: repeats its passes and checks after every instruction. */
#include "run/train.h"

#include <stdlib.h>
#include <string.h>

static sl_err copy_state(struct sl_train *train, void *host, bool back) {
    struct sl_worker *w = train->worker;
    const struct sl_device_row *row = w->device->row;
    int64_t bytes = w->programs[SL_WORKER_FULL]->state_bytes;
    SL_TRY(back ? row->upload(w->device, SL_STREAM_COMPUTE, w->state, host, bytes)
                : row->download(w->device, SL_STREAM_COMPUTE, host, w->state, bytes));
    return row->sync(w->device, SL_STREAM_COMPUTE);
}

static sl_err look_at_micro(struct sl_train *train, const struct sl_feed *feed, uint64_t seed,
                            struct sl_bad *bad) {
    struct sl_worker_pass pass = {
        .program = feed->program,
        .accumulate = bad->micro > 0,
        .seed = seed,
        .first_sample = feed->first,
    };
    SL_TRY(sl_run_train_feed(train, feed));
    SL_TRY(sl_run_finite_inputs(train->worker, &pass, bad));
    if (!bad->kind)
        SL_TRY(sl_run_finite_pass(train->worker, &pass, bad));
    pass.phase = SL_PHASE_B;
    return bad->kind ? SL_OK : sl_run_finite_pass(train->worker, &pass, bad);
}

static sl_err look_at_step(struct sl_train *train, int64_t step, const struct sl_data_range *range,
                           struct sl_bad *bad) {
    uint64_t seed = sl_run_train_seed(train->config.seed, step);
    SL_TRY(sl_run_finite_weights(train->worker, 0, bad));
    for (int64_t j = 0; !bad->kind && j < train->config.micros; j++) {
        struct sl_feed feed = sl_run_train_micro(train, range, j);
        bad->micro = j;
        SL_TRY(look_at_micro(train, &feed, seed, bad));
    }
    return bad->kind ? SL_OK : sl_run_finite_sums(train->worker, 0, bad);
}

/* Repeats the passes of a step. The step itself may have damaged the running statistics; no forward
 * pass of training reads them, so the repetition starts from zeros and restores them afterwards. */
sl_err sl_run_train_find_bad(struct sl_train *train, int64_t step,
                             const struct sl_data_range *range, struct sl_bad *bad) {
    int64_t bytes = train->worker->programs[SL_WORKER_FULL]->state_bytes;
    char *kept = calloc(2, (size_t)bytes + 1);
    if (!kept)
        sl_out_of_memory((size_t)bytes);
    sl_err err = SL_OK;
    *bad = (struct sl_bad){0};
    SL_TRY_OUT(copy_state(train, kept, false));
    SL_TRY_OUT(copy_state(train, kept + bytes, true));
    err = look_at_step(train, step, range, bad);
    sl_err back = copy_state(train, kept, true);
    err = err == SL_OK ? back : err;
out:
    free(kept);
    return err;
}
