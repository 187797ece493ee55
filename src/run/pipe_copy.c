/* Moving a run between a pipeline and one worker, tensor by tensor. */
#include "run/pipe_state.h"

struct copy {
    struct sl_worker *seat, *one;
    const struct sl_program_param *from, *to; /* of the seat, of the one */
    bool gather;
};

static sl_err copy_slab(const struct copy *c, void *seat_slab, void *one_slab) {
    char *seat = (char *)seat_slab + c->from->offset, *one = (char *)one_slab + c->to->offset;
    struct sl_device *device = (c->gather ? c->one : c->seat)->device;
    return device->row->copy(device, SL_STREAM_COMPUTE, c->gather ? one : seat,
                             c->gather ? seat : one, c->from->numel * 4);
}

static sl_err copy_seat(const struct sl_seat_state *state, struct sl_worker *one, bool gather) {
    struct sl_worker *seat = state->train.worker;
    const struct sl_program *p = seat->programs[SL_WORKER_FULL];
    const struct sl_program *whole = one->programs[SL_WORKER_FULL];
    for (int i = 0; i < p->param_count; i++) {
        struct copy c = {seat, one, &p->params[i], NULL, gather};
        c.to = sl_worker_find(whole->params, whole->param_count, p->params[i].param);
        SL_ASSERT(c.to);
        for (int v = 0; v < seat->versions; v++)
            if (!gather || v == state->newest)
                SL_TRY(copy_slab(&c, seat->param[v], one->param[0]));
        for (int s = 0; s < seat->state_count; s++)
            SL_TRY(copy_slab(&c, seat->opt[s], one->opt[s]));
    }
    for (int i = 0; i < p->state_count; i++) {
        struct copy c = {seat, one, &p->states[i], NULL, gather};
        c.to = sl_worker_find(whole->states, whole->state_count, p->states[i].param);
        SL_ASSERT(c.to);
        SL_TRY(copy_slab(&c, seat->state, one->state));
    }
    struct sl_device *device = (gather ? one : seat)->device;
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

static int64_t epoch_samples(const struct sl_pipe *pipe) {
    return sl_data_count(pipe->train.data, SL_DATA_TRAIN);
}

sl_err sl_pipe_gather(const struct sl_pipe *pipe, struct sl_train *train) {
    const struct sl_plan *plan = pipe->config.plan;
    for (int s = 0; s < plan->stage_count; s++) /* replicas are all the same */
        SL_TRY(copy_seat(pipe->seat_at[plan->stages[s].seat], train->worker, true));
    train->step = pipe->start_step;
    train->cursor.epoch = pipe->start_sample / epoch_samples(pipe);
    train->cursor.position = pipe->start_sample % epoch_samples(pipe);
    return SL_OK;
}

sl_err sl_pipe_scatter(struct sl_pipe *pipe, const struct sl_train *train) {
    for (int s = 0; s < pipe->config.plan->seat_count; s++)
        SL_TRY(copy_seat(pipe->seat_at[s], train->worker, false));
    pipe->start_step = train->step;
    pipe->start_sample = train->cursor.epoch * epoch_samples(pipe) + train->cursor.position;
    return SL_OK;
}
