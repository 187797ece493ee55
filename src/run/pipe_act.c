/* The actions of a pipeline: passes and messages. Steps and reductions are in pipe_step.c. */
#include "run/pipe_state.h"

#include "sched/deps.h"


static struct sl_seat_state *seat_of(struct sl_pipe_worker *w, int stage) {
    return w->pipe->seat_of[stage];
}

/* Ports of one edge, in the order both ends agree on. Waits until they are there: what is copied
 * from may be overwritten, and what is copied to may be read, by another worker. */
static sl_err copy_ports(const struct sl_seat_state *seat, const struct sl_ports *ports, int peer,
                         int slot, char *message, bool out) {
    struct sl_device *device = seat->train.device;
    int64_t at = 0;
    for (int i = 0; i < ports->count; i++) {
        if (ports->at[i].peer != peer)
            continue;
        const struct sl_operand *operand = &ports->at[i].operand;
        char *memory = (char *)seat->train.worker->slot[slot] + operand->offset;
        int64_t bytes = sl_operand_bytes(operand);
        SL_TRY(device->row->copy(device, SL_STREAM_COMPUTE, out ? message + at : memory,
                                 out ? memory : message + at, bytes));
        at += bytes;
    }
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

struct where { /* a micro-batch on a seat */
    struct sl_seat_state *seat;
    const struct sl_program *program;
    enum sl_worker_program which;
    int64_t iteration, index; /* of the run, and within the iteration */
    int64_t first, count;     /* samples */
    int slot;
};

static struct where locate(const struct sl_pipe *pipe, struct sl_seat_state *seat, int32_t micro) {
    int64_t micros = pipe->train.micros;
    int64_t full = sl_train_full_samples(pipe->train.batch, micros);
    struct where at = {.seat = seat, .iteration = micro / micros, .index = micro % micros};
    int64_t left = pipe->train.batch - at.index * full;
    at.count = left < full ? left : full;
    at.first = pipe->start_sample + at.iteration * pipe->train.batch + at.index * full;
    at.which = sl_worker_program_for(seat->train.worker, at.count);
    at.program = seat->train.worker->programs[at.which];
    at.slot = (int)(micro % seat->slots);
    return at;
}

/* Receive what a pass reads from its neighbours. */
static sl_err take_messages(struct sl_pipe_worker *w, const struct where *at, int32_t micro,
                            bool grad) {
    const struct sl_plan *plan = w->pipe->config.plan;
    const struct sl_stage *stage = &plan->stages[at->seat->stage];
    int count = grad ? stage->out_count : stage->in_count;
    for (int i = 0; i < count; i++) {
        int edge = grad ? stage->out[i] : stage->in[i];
        int peer = grad ? plan->edges[edge].to : plan->edges[edge].from;
        struct sl_box *box = grad ? &w->pipe->grads[edge] : &w->pipe->acts[edge];
        char *message;
        int64_t before = sl_pipe_clock(w);
        SL_TRY(sl_box_receive(box, micro, &message));
        w->waited_ns += sl_pipe_clock(w) - before;
        SL_TRY(copy_ports(at->seat, grad ? &at->program->recv_grad : &at->program->recv_act, peer,
                          at->slot, message, false));
        sl_box_release(box, micro);
    }
    return SL_OK;
}

static sl_err give_message(struct sl_pipe_worker *w, const struct where *at, int32_t micro,
                           int edge, bool grad) {
    const struct sl_edge *e = &w->pipe->config.plan->edges[edge];
    struct sl_box *box = grad ? &w->pipe->grads[edge] : &w->pipe->acts[edge];
    char *message;
    SL_TRY(sl_box_reserve(box, micro, &message));
    SL_TRY(copy_ports(at->seat, grad ? &at->program->send_grad : &at->program->send_act,
                      grad ? e->from : e->to, at->slot, message, true));
    sl_box_send(box, micro);
    return SL_OK;
}

/* A pass hands its results over when it ends, before its slot may be used again; a box has a place
 * for every micro-batch its sender can have in flight, so this never waits. The schedule's SEND is
 * then done already. */
static sl_err give_messages(struct sl_pipe_worker *w, const struct where *at, int32_t micro,
                            bool grad) {
    const struct sl_stage *stage = &w->pipe->config.plan->stages[at->seat->stage];
    int count = grad ? stage->in_count : stage->out_count;
    for (int i = 0; i < count; i++)
        SL_TRY(give_message(w, at, micro, grad ? stage->in[i] : stage->out[i], grad));
    return SL_OK;
}

/* How many items of the iteration's batch count, for seeds and losses. */
static sl_err count_items(struct sl_pipe *pipe, const struct where *at) {
    struct sl_seat_state *seat = at->seat;
    if (seat->counted == at->iteration)
        return SL_OK;
    int64_t first = pipe->start_sample + at->iteration * pipe->train.batch;
    seat->counted = at->iteration;
    return sl_train_count(&seat->train, SL_DATA_TRAIN, first, pipe->train.batch,
                          seat->train.counts);
}

static struct sl_pass pass_of(const struct sl_pipe *pipe, const struct where *at,
                              const struct sl_action *action, enum sl_phase phase) {
    return (struct sl_pass){
        .program = at->which,
        .phase = phase,
        .slot = at->slot,
        .version = action->weight_slot,
        .grad_slot = action->grad_slot,
        .accumulate = at->seat->grad_filled,
        .seed = sl_train_seed(pipe->train.seed, pipe->start_step + at->iteration),
        .first_sample = at->first,
    };
}

/* Stages may have losses of their own: each term has its place, and they are added at the end. */
static double *loss_terms(const struct sl_pipe *pipe, const struct where *at) {
    int64_t micro = at->iteration * pipe->train.micros + at->index;
    return pipe->loss_terms + micro * pipe->train.graph->losses.count;
}

static sl_err act_forward(struct sl_pipe_worker *w, const struct sl_action *action) {
    struct where at = locate(w->pipe, seat_of(w, action->stage), action->micro);
    struct sl_feed feed = {SL_DATA_TRAIN, at.which, at.first, at.count, at.slot};
    struct sl_pass pass = pass_of(w->pipe, &at, action, SL_PHASE_F);
    SL_TRY(count_items(w->pipe, &at));
    SL_TRY(sl_train_feed(&at.seat->train, &feed));
    SL_TRY(take_messages(w, &at, action->micro, false));
    SL_TRY(sl_worker_pass(at.seat->train.worker, &pass));
    if (at.program->losses.count)
        SL_TRY(sl_train_loss_terms(&at.seat->train, &feed, loss_terms(w->pipe, &at)));
    return give_messages(w, &at, action->micro, false);
}

static sl_err act_backward(struct sl_pipe_worker *w, const struct sl_action *action) {
    struct where at = locate(w->pipe, seat_of(w, action->stage), action->micro);
    enum sl_phase phase = action->kind == SL_B   ? SL_PHASE_B
                          : action->kind == SL_I ? SL_PHASE_I
                                                 : SL_PHASE_W;
    struct sl_pass pass = pass_of(w->pipe, &at, action, phase);
    if (action->kind != SL_W)
        SL_TRY(take_messages(w, &at, action->micro, true));
    SL_TRY(sl_worker_pass(at.seat->train.worker, &pass));
    if (action->kind != SL_I)
        at.seat->grad_filled = true;
    return action->kind == SL_W ? SL_OK : give_messages(w, &at, action->micro, true);
}

/* A box is posted by being empty and sent to by the pass; recomputation is part of the backward
 * program. */
static sl_err act_nothing(struct sl_pipe_worker *w, const struct sl_action *action) {
    (void)w;
    (void)action;
    return SL_OK;
}

static sl_err act_predict(struct sl_pipe_worker *w, const struct sl_action *action) {
    (void)w;
    return sl_fail(SL_ERR_NO, "stage %d: weight prediction is not run by this build",
                   action->stage);
}

static sl_err (*const actions[SL_KIND_COUNT])(struct sl_pipe_worker *, const struct sl_action *) = {
    [SL_F] = act_forward,       [SL_B] = act_backward,        [SL_I] = act_backward,
    [SL_W] = act_backward,      [SL_RECOMPUTE] = act_nothing, [SL_SEND] = act_nothing,
    [SL_RECV] = act_nothing,    [SL_REDUCE] = sl_pipe_reduce, [SL_STEP] = sl_pipe_step,
    [SL_PREDICT] = act_predict,
};

sl_err sl_pipe_act(struct sl_pipe_worker *worker, const struct sl_action *action) {
    return actions[action->kind](worker, action);
}
