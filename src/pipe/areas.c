/* Memory that the seats of a worker share: they run on one thread, one action at a time. Its
 * contents last for one action, except that a RECOMPUTE leaves values for the pass right after
 * it. The verifier counts the largest request, so there is one area of each kind. */
#include "pipe/state.h"

#include <stdlib.h>

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

sl_err sl_pipe_open_areas(struct sl_pipe_worker *w) {
    const struct sl_device_row *row = w->device->row;
    int64_t work = 0, staging = 64, scratch = 64;
    for (int i = 0; i < w->seat_count; i++) {
        const struct sl_worker *worker = w->seats[i].train.worker;
        const struct sl_program *p = worker->programs[SL_WORKER_FULL];
        work = larger(work, worker->work_bytes);
        staging = larger(staging, worker->staging_bytes);
        scratch = larger(scratch, sl_plan_optim_scratch(p, &w->pipe->train.optim));
    }
    w->areas.staging = sl_realloc(NULL, (size_t)staging);
    w->areas.bytes = work;
    SL_TRY(row->alloc(w->device, work ? work : 64, &w->areas.work));
    SL_TRY(row->alloc(w->device, scratch, &w->areas.scratch));
    for (int i = 0; i < w->seat_count; i++) {
        struct sl_train *train = &w->seats[i].train;
        sl_run_worker_lend(train->worker, w->areas.work, w->areas.staging);
        train->opt_scratch = w->areas.scratch;
        SL_TRY(sl_run_train_open_optimizer(train));
    }
    return SL_OK;
}

void sl_pipe_close_areas(struct sl_pipe_worker *w) {
    free(w->areas.staging);
    if (!w->device)
        return;
    w->device->row->free(w->device, w->areas.work);
    w->device->row->free(w->device, w->areas.scratch);
}

int64_t sl_pipe_worker_bytes(const struct sl_pipe_worker *w) {
    int64_t bytes = w->areas.bytes;
    for (int i = 0; i < w->seat_count; i++)
        bytes += w->seats[i].train.worker->bytes;
    return bytes;
}
