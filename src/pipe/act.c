/* The actions of a pipeline: passes and messages. Steps and reductions are in step.c. */
#include "pipe/reporter.h"
#include "pipe/resume.h"
#include "pipe/scale.h"
#include "pipe/shards.h"

#include "sched/deps.h"

static struct sl_pipe_seat *seat_of(struct sl_pipe_worker *w, int stage) {
    return w->pipe->seat_at[sl_sched_seat(w->pipe->config.plan, stage, w->index)];
}

struct where { /* one micro-batch on one seat */
    struct sl_pipe_seat *seat;
    const struct sl_program *program;
    enum sl_worker_program which;
    int64_t iteration;
    int32_t index;        /* micro-batch of the iteration */
    int64_t offset;       /* first sample, counted from the start of the iteration */
    int64_t first, count; /* first sample of the data set; number of samples */
    int slot;
};

static struct where locate(const struct sl_pipe *pipe, struct sl_pipe_seat *seat, int32_t micro) {
    const struct sl_sched *sched = pipe->sched;
    int32_t micros = sched->micros[seat->stage];
    struct where at = {.seat = seat, .iteration = micro / micros, .index = micro % micros};
    at.offset = at.index * sched->plan->stages[seat->stage].micro_size;
    at.first = pipe->start_sample + at.iteration * pipe->train.batch + at.offset;
    at.count = sl_sched_samples(sched, seat->stage, micro);
    at.which = sl_run_worker_program_for(seat->train.worker, at.count);
    at.slot = sl_sched_deps_ordinal(sched, seat->stage, micro) % seat->slots;
    /* evaluation reads validation samples and uses its own slot */
    if (sched->rule == SL_RULE_FORWARD) {
        at.first = at.offset;
        at.which = SL_WORKER_EVAL;
        at.slot = seat->train.worker->slots;
    }
    at.program = seat->train.worker->programs[at.which];
    return at;
}

/* One direction of an edge (activations or gradients), as one of its two stages sees it. */
struct way {
    const struct sl_ports *ports;
    int edge, peer; /* peer: the stage at the other end */
    struct sl_pipe_edge *link;
    bool grad;
};

static struct way way_of(const struct sl_pipe *pipe, const struct where *at, int edge, bool grad,
                         bool out) {
    const struct sl_edge *e = &pipe->config.plan->edges[edge];
    const struct sl_program *p = at->program;
    const struct sl_ports *ports =
        out ? (grad ? &p->send_grad : &p->send_act) : (grad ? &p->recv_grad : &p->recv_act);
    int peer = e->from == at->seat->stage ? e->to : e->from;
    return (struct way){ports, edge, peer, &pipe->links[edge], grad};
}

/* Copies the samples of a piece to or from a message, port by port; both ends use the same order of
 * ports. Waits for the copy: afterwards the source may be overwritten and the target read. */
static sl_err copy_piece(const struct where *at, const struct way *way,
                         const struct sl_pipe_piece *piece, char *message, bool out) {
    struct sl_device *device = at->seat->train.device;
    bool whole = piece->count == at->count;
    for (int i = 0; i < way->ports->count; i++) {
        const struct sl_operand *operand = &way->ports->at[i].operand;
        if (way->ports->at[i].peer != way->peer)
            continue;
        char *memory = (char *)at->seat->train.worker->slot[at->slot] + operand->offset;
        int64_t all = sl_pass_operand_bytes(operand), sample = all / at->count;
        int64_t bytes = whole ? all : sample * piece->count;
        memory += whole ? 0 : sample * (piece->first - at->offset);
        SL_TRY(device->row->copy(device, SL_STREAM_COMPUTE, out ? message : memory,
                                 out ? memory : message, bytes));
        message += bytes;
    }
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

static int64_t piece_bytes(const struct where *at, const struct way *way,
                           const struct sl_pipe_piece *piece) {
    int64_t bytes = 0;
    for (int i = 0; i < way->ports->count; i++)
        if (way->ports->at[i].peer == way->peer)
            bytes += sl_pass_operand_bytes(&way->ports->at[i].operand);
    return piece->count == at->count ? bytes : bytes / at->count * piece->count;
}

/* Publishes that this worker waits for the worker at the other end of a piece. */
static void publish_wait(struct sl_pipe_worker *w, const struct way *way,
                         const struct sl_pipe_piece *piece, enum sl_wait wait) {
    const struct sl_plan *plan = w->pipe->config.plan;
    const struct sl_edge *e = &plan->edges[way->edge];
    int width = plan->stages[e->to].width;
    bool to = way->peer == e->to;
    struct sl_pipe_wait note = {.wait = wait, .grad = way->grad, .of = way->edge};
    note.peer = plan->stages[way->peer].workers[to ? piece->pair % width : piece->pair / width];
    note.peer_micro = to ? piece->to : piece->from;
    sl_pipe_status_wait(w, note);
}

static sl_err receive_piece(struct sl_pipe_worker *w, const struct where *at, const struct way *way,
                            const struct sl_pipe_piece *piece) {
    struct sl_pipe_box *box = &(way->grad ? way->link->grads : way->link->acts)[piece->pair];
    int64_t n = at->iteration * way->link->per_iteration[piece->pair] + piece->number;
    struct sl_message message;
    int64_t before = sl_pipe_clock(w);
    publish_wait(w, way, piece, SL_WAIT_MESSAGE);
    SL_TRY(sl_pipe_mail_receive(box, n, &message));
    sl_pipe_status_resume(w);
    w->waited_ns += sl_pipe_clock(w) - before;
    sl_pipe_trace_arrival(w->pipe, way->link, way->grad,
                          at->iteration * way->link->piece_count + (piece - way->link->pieces),
                          message.arrived_ns);
    SL_TRY(copy_piece(at, way, piece, (char *)(uintptr_t)message.at, false));
    return sl_pipe_mail_release(box, n);
}

static sl_err send_piece(struct sl_pipe_worker *w, const struct where *at, const struct way *way,
                         const struct sl_pipe_piece *piece) {
    struct sl_pipe_box *box = &(way->grad ? way->link->grads : way->link->acts)[piece->pair];
    int64_t n = at->iteration * way->link->per_iteration[piece->pair] + piece->number;
    int64_t before = sl_pipe_clock(w);
    char *message;
    publish_wait(w, way, piece, SL_WAIT_PLACE);
    SL_TRY(sl_comm_channel_reserve(box->channel, n, &message));
    sl_pipe_status_resume(w);
    w->waited_ns += sl_pipe_clock(w) - before;
    SL_TRY(copy_piece(at, way, piece, message, true));
    return sl_pipe_mail_send(box, n, piece_bytes(at, way, piece));
}

/* Moves the messages of a pass as part of the pass; the schedule's SEND does nothing. Before the
 * pass (out false) it receives the inputs. After it (out true) it sends the outputs, because the slot
 * may be reused before the SEND. The channel has the buffers of both ends, so this waits no longer
 * than the SEND would. */
static sl_err move_messages(struct sl_pipe_worker *w, const struct where *at, bool grad, bool out) {
    const struct sl_stage *stage = &w->pipe->config.plan->stages[at->seat->stage];
    bool at_from = grad != out; /* activations leave from edge->from, gradients arrive there */
    int count = at_from ? stage->out_count : stage->in_count;
    for (int i = 0; i < count; i++) {
        int edge = at_from ? stage->out[i] : stage->in[i];
        if (grad && !w->pipe->config.plan->edges[edge].grads)
            continue;
        struct way way = way_of(w->pipe, at, edge, grad, out);
        const int32_t *begins = at_from ? way.link->of_from : way.link->of_to;
        for (int32_t p = begins[at->index]; p < begins[at->index + 1]; p++)
            SL_TRY(out ? send_piece(w, at, &way, &way.link->pieces[p])
                       : receive_piece(w, at, &way, &way.link->pieces[p]));
    }
    return SL_OK;
}

/* Counts the items (samples or tokens) of the iteration's batch, by which seeds and losses are
 * divided. */
static sl_err count_items(struct sl_pipe *pipe, const struct where *at) {
    struct sl_pipe_seat *seat = at->seat;
    if (seat->counted == at->iteration)
        return SL_OK;
    int64_t first = pipe->start_sample + at->iteration * pipe->train.batch;
    seat->counted = at->iteration;
    return sl_run_train_count(&seat->train, SL_DATA_TRAIN, first, pipe->train.batch,
                              seat->train.counts);
}

static struct sl_worker_pass pass_of(struct sl_pipe_worker *w, const struct where *at,
                                     const struct sl_action *action, enum sl_phase phase) {
    const struct sl_pipe *pipe = w->pipe;
    bool between = (pipe->comm->gate.poll || w->sums) && !w->device->row->whole;
    return (struct sl_worker_pass){
        .program = at->which,
        .phase = phase,
        .slot = at->slot,
        .version = action->weight_slot,
        .grad_slot = action->grad_slot,
        .accumulate = at->seat->filled >> action->grad_slot & 1,
        .seed = sl_run_train_seed(pipe->train.seed, pipe->start_step + at->iteration),
        .first_sample = at->first,
        .after = between ? sl_pipe_reduce_after_instr : NULL,
        .ctx = w,
    };
}

/* The place for the loss terms of a micro-batch. Several stages may have losses, so each loss has
 * its own element; sl_pipe_loss adds them at the end of the iteration. */
static double *loss_terms(const struct sl_pipe *pipe, const struct where *at) {
    int64_t micro = (at->iteration - pipe->terms_base) * pipe->max_micros + at->index;
    return pipe->loss_terms + micro * pipe->train.graph->losses.count;
}

static sl_err evaluate(struct sl_pipe_worker *w, const struct sl_action *action) {
    struct where at = locate(w->pipe, seat_of(w, action->stage), action->micro);
    SL_ASSERT(!w->has_recompute);
    struct sl_feed feed = {SL_DATA_VALID, at.which, at.first, at.count, at.slot};
    struct sl_worker_pass pass = pass_of(w, &at, action, SL_PHASE_F);
    pass.version = at.seat->newest;
    SL_TRY(sl_run_train_feed(&at.seat->train, &feed));
    SL_TRY(move_messages(w, &at, false, false));
    SL_TRY(sl_pipe_shards_pass(w, at.seat, &pass));
    if (at.program->losses.count)
        SL_TRY(sl_run_train_loss_terms(&at.seat->train, &feed, loss_terms(w->pipe, &at)));
    SL_TRY(sl_run_scores_count(&at.seat->train, &feed, &at.seat->scores));
    return move_messages(w, &at, false, true);
}

static sl_err add_loss_terms(struct sl_pipe *pipe, const struct where *at,
                             const struct sl_feed *feed) {
    SL_TRY(sl_run_train_loss_terms(&at->seat->train, feed, loss_terms(pipe, at)));
    sl_pipe_reporter_add_losses(pipe, at->iteration);
    return SL_OK;
}

static sl_err act_forward(struct sl_pipe_worker *w, const struct sl_action *action) {
    if (w->pipe->sched->rule == SL_RULE_FORWARD)
        return evaluate(w, action);
    struct where at = locate(w->pipe, seat_of(w, action->stage), action->micro);
    struct sl_feed feed = {SL_DATA_TRAIN, at.which, at.first, at.count, at.slot};
    struct sl_worker_pass pass = pass_of(w, &at, action, SL_PHASE_F);
    SL_ASSERT(!w->has_recompute);
    SL_TRY(count_items(w->pipe, &at));
    SL_TRY(sl_pipe_border_forward(at.seat, at.iteration));
    at.seat->train.scale.value = sl_pipe_scale_of(w, at.iteration);
    SL_TRY(sl_run_train_feed(&at.seat->train, &feed));
    SL_TRY(move_messages(w, &at, false, false));
    SL_TRY(sl_pipe_staleness_pass(w->pipe, at.seat, action));
    SL_TRY(sl_pipe_shards_pass(w, at.seat, &pass));
    if (at.program->losses.count)
        SL_TRY(add_loss_terms(w->pipe, &at, &feed));
    return move_messages(w, &at, false, true);
}

/* RECOMPUTE runs while the gradient is in transit. Devices that run phases as a whole, and audited
 * passes, recompute within the backward pass instead. */
static sl_err act_recompute(struct sl_pipe_worker *w, const struct sl_action *action) {
    struct where at = locate(w->pipe, seat_of(w, action->stage), action->micro);
    struct sl_worker_pass pass = pass_of(w, &at, action, SL_PHASE_R);
    if (w->device->row->whole || at.seat->train.worker->audit)
        return SL_OK;
    w->recompute = *action;
    w->has_recompute = true;
    return sl_pipe_shards_pass(w, at.seat, &pass);
}

/* Returns whether a RECOMPUTE has just run for this pass. Lowering puts RECOMPUTE right before
 * its pass: an action between them would overwrite WORK. A recompute cannot run twice: its
 * temporaries overwrite its inputs. */
static bool take_recompute(struct sl_pipe_worker *w, const struct sl_action *action) {
    const struct sl_action *recompute = &w->recompute;
    bool done = w->has_recompute;
    SL_ASSERT(!done || (recompute->stage == action->stage && recompute->micro == action->micro &&
                        action->kind != SL_BACKWARD_WEIGHT));
    w->has_recompute = false;
    return done;
}

static sl_err act_backward(struct sl_pipe_worker *w, const struct sl_action *action) {
    struct where at = locate(w->pipe, seat_of(w, action->stage), action->micro);
    enum sl_phase phase = action->kind == SL_BACKWARD         ? SL_PHASE_B
                          : action->kind == SL_BACKWARD_INPUT ? SL_PHASE_I
                                                              : SL_PHASE_W;
    struct sl_worker_pass pass = pass_of(w, &at, action, phase);
    pass.recompute_done = take_recompute(w, action);
    if (action->kind != SL_BACKWARD_WEIGHT)
        SL_TRY(move_messages(w, &at, true, false));
    SL_TRY(sl_pipe_staleness_pass(w->pipe, at.seat, action));
    if (action->kind != SL_BACKWARD_INPUT)
        sl_pipe_reduce_before_pass(w, at.seat, action, &pass);
    SL_TRY(sl_pipe_shards_pass(w, at.seat, &pass));
    if (action->kind != SL_BACKWARD_INPUT)
        at.seat->filled |= (uint64_t)1 << action->grad_slot;
    SL_TRY(sl_pipe_reduce_after_pass(w));
    return action->kind == SL_BACKWARD_WEIGHT ? SL_OK : move_messages(w, &at, true, true);
}

/* SEND and RECV do nothing: passes send their outputs, and a channel receives without a call. */
static sl_err act_nothing(struct sl_pipe_worker *w, const struct sl_action *action) {
    (void)w;
    (void)action;
    return SL_OK;
}

static sl_err (*const actions[SL_KIND_COUNT])(struct sl_pipe_worker *, const struct sl_action *) = {
    [SL_FORWARD] = act_forward,
    [SL_BACKWARD] = act_backward,
    [SL_BACKWARD_INPUT] = act_backward,
    [SL_BACKWARD_WEIGHT] = act_backward,
    [SL_RECOMPUTE] = act_recompute,
    [SL_SEND] = act_nothing,
    [SL_RECV] = act_nothing,
    [SL_REDUCE] = sl_pipe_reduce,
    [SL_STEP] = sl_pipe_step,
    [SL_PREDICT] = sl_pipe_predict,
};

sl_err sl_pipe_act(struct sl_pipe_worker *worker, const struct sl_action *action) {
    return sl_pipe_skips(worker->pipe, action) ? SL_OK : actions[action->kind](worker, action);
}
