/* Running statistics at the border of an iteration. Asynchronous stages run forwards of iteration n
 * before step n is made; a checkpoint after step n must not hold what these have added. */
#include "pipe/resume.h"
#include "sched/lag.h"

#include <string.h>

static int64_t size_of(const struct sl_pipe_seat *seat) {
    return seat->train.worker->programs[SL_WORKER_FULL]->state_bytes;
}

/* At a cut after step n, the newest iteration that the stage has begun is n + lag at most. */
sl_err sl_pipe_border_open(const struct sl_pipe *pipe, struct sl_pipe_seat *seat) {
    struct sl_device *device = seat->train.device;
    if (pipe->sched->rule == SL_RULE_SYNC || !size_of(seat))
        return SL_OK;
    int count = sl_sched_decision_lag(pipe->sched) + 2;
    seat->border.slabs = SL_NEW(&seat->train.arena, void *, count);
    seat->border.iteration = SL_NEW(&seat->train.arena, int64_t, count);
    for (; seat->border.count < count; seat->border.count++)
        SL_TRY(device->row->alloc(device, size_of(seat), &seat->border.slabs[seat->border.count]));
    sl_pipe_border_start(seat);
    return SL_OK;
}

void sl_pipe_border_close(struct sl_pipe_seat *seat) {
    struct sl_device *device = seat->train.device;
    for (int i = 0; i < seat->border.count; i++)
        device->row->free(device, seat->border.slabs[i]);
}

void sl_pipe_border_start(struct sl_pipe_seat *seat) {
    for (int i = 0; i < seat->border.count; i++)
        seat->border.iteration[i] = -1;
}

sl_err sl_pipe_border_forward(struct sl_pipe_seat *seat, int64_t iteration) {
    struct sl_pipe_border *b = &seat->border;
    struct sl_device *device = seat->train.device;
    int64_t i = b->count ? iteration % b->count : 0;
    if (!b->count || b->iteration[i] == iteration)
        return SL_OK;
    b->iteration[i] = iteration;
    return device->row->copy(device, SL_STREAM_COMPUTE, b->slabs[i], seat->train.worker->state,
                             size_of(seat));
}

void *sl_pipe_border_state(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat) {
    const struct sl_pipe_border *b = &seat->border;
    int64_t i = b->count ? pipe->done % b->count : 0;
    bool begun = pipe->under_way && b->count && b->iteration[i] == pipe->done;
    return begun ? b->slabs[i] : seat->train.worker->state;
}
