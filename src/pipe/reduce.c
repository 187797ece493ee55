/* Gradients of replicas. Each replica adds up its own micro-batches; then replicas are added in
 * order, for every use, while the backward pass that completes the gradient still runs.
 *
 * The gradients of a seat lie in one slab, first layer first; a backward pass makes them from the
 * last layer to the first. The slab is cut into a few parts. Behind the instruction that completes
 * a part its sum begins; what can be done of it is done between the instructions and actions that
 * follow; REDUCE waits for all of them. Sums are by element, so parts change no bit.
 *
 *     B, last micro-batch | layer 3 | layer 2 | layer 1 | layer 0 | REDUCE | STEP
 *     sum of part 1                           |= = = = = = = =|
 *     sum of part 0                                               |= = =|
 *
 * Which pass completes a gradient is the schedule's word (sl_sched_deps_completes). A worker with other
 * seats goes on with their passes meanwhile, where the schedule has some before the REDUCE.
 */
#include "pipe/state.h"

#include "sched/deps.h"

enum { PART_LEAST = 1 << 14 }; /* floats: less is not worth a message */

/* ---- parts ---- */

static int64_t extent(const struct sl_operand *o) {
    return o->run ? (o->numel / o->run - 1) * o->row + o->run : o->numel;
}

/* The last instruction that adds to each part. */
static void find_ready(struct sl_parts *parts, const struct sl_program *p, int *ready) {
    for (int i = 0; i < p->instr_count; i++)
        for (int o = 0; o < p->instrs[i].out_count; o++) {
            const struct sl_operand *out = &p->instrs[i].out[o];
            int64_t first = out->offset / 4, end = first + extent(out);
            for (int k = 0; out->space == SL_SPACE_GRAD && k < parts->count; k++)
                if (first < parts->first[k + 1] && end > parts->first[k])
                    ready[k] = i;
        }
}

void sl_pipe_cut_parts(struct sl_pipe *pipe, struct sl_seat_state *seat) {
    const struct sl_worker *worker = seat->train.worker;
    struct sl_parts *parts = &seat->parts;
    enum { LINE = 16 }; /* floats */
    int64_t floats = worker->programs[SL_WORKER_FULL]->grad_bytes / 4;
    int64_t lines = (floats + LINE - 1) / LINE;
    *parts = (struct sl_parts){0};
    if (pipe->config.plan->stages[seat->stage].width == 1 || floats == 0)
        return;
    parts->count = floats / PART_LEAST < SL_PARTS ? (int)(floats / PART_LEAST) + 1 : SL_PARTS;
    for (int k = 1; k < parts->count; k++)
        parts->first[k] = lines * k / parts->count * LINE;
    parts->first[parts->count] = floats;
    for (int i = 0; i < SL_WORKER_EVAL; i++)
        if (worker->programs[i])
            find_ready(parts, worker->programs[i], parts->ready[i]);
}

/* ---- sums ---- */

static sl_err begin_part(struct sl_pipe_worker *w, struct sl_seat_state *seat, int part,
                         int grad_slot) {
    struct sl_parts *parts = &seat->parts;
    float *at = (float *)seat->train.worker->grad[grad_slot] + parts->first[part];
    const float *term = at;
    if (parts->begun >> part & 1)
        return SL_OK;
    parts->since_ns = parts->begun ? parts->since_ns : sl_pipe_clock(w);
    parts->begun |= 1U << part;
    w->sums++;
    return sl_comm_group_sum_begin(w->pipe->parts[seat->stage].at[part], w->member[seat->stage],
                                   &term, parts->first[part + 1] - parts->first[part], at);
}

void sl_pipe_complete(struct sl_pipe_worker *w, struct sl_seat_state *seat,
                      const struct sl_action *action, struct sl_pass *pass) {
    bool completes = seat->parts.count && !w->pipe->sched->global_step &&
                     sl_sched_deps_completes(w->pipe->sched, action->stage, action->micro);
    w->completing.seat = completes ? seat : NULL;
    w->completing.program = pass->program;
    w->completing.grad_slot = pass->grad_slot;
    /* What an audit does again must not be read before. */
    if (completes && !w->pipe->train.audit && !w->device->row->whole)
        pass->after = sl_pipe_between;
}

/* Behind the pass: what no instruction has begun. */
sl_err sl_pipe_completed(struct sl_pipe_worker *w) {
    struct sl_seat_state *seat = w->completing.seat;
    if (!seat)
        return SL_OK;
    w->completing.seat = NULL;
    SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE)); /* others read ours */
    for (int k = 0; k < seat->parts.count; k++)
        SL_TRY(begin_part(w, seat, k, w->completing.grad_slot));
    return SL_OK;
}

sl_err sl_pipe_poke(struct sl_pipe_worker *w) {
    for (int i = 0; w->sums && i < w->seat_count; i++) {
        struct sl_seat_state *seat = &w->seats[i];
        for (int k = 0; k < seat->parts.count; k++)
            if (seat->parts.begun >> k & 1)
                SL_TRY(sl_comm_group_sum_poke(w->pipe->parts[seat->stage].at[k],
                                              w->member[seat->stage]));
    }
    return SL_OK;
}

/* A transport that needs it moves messages between the instructions of a pass, too: MPI moves a
 * large one only while somebody calls it. */
sl_err sl_pipe_between(void *worker, int instr) {
    struct sl_pipe_worker *w = worker;
    struct sl_seat_state *seat = w->completing.seat;
    sl_comm_poll(w->pipe->comm);
    for (int k = 0; seat && k < seat->parts.count; k++)
        if (seat->parts.ready[w->completing.program][k] <= instr)
            SL_TRY(begin_part(w, seat, k, w->completing.grad_slot));
    return sl_pipe_poke(w);
}

/* ---- REDUCE ---- */

/* Running statistics: their mean over the replicas. */
static sl_err average_state(struct sl_pipe_worker *w, struct sl_seat_state *seat) {
    struct sl_worker *worker = seat->train.worker;
    int64_t floats = worker->programs[SL_WORKER_FULL]->state_bytes / 4;
    struct sl_group *group = w->pipe->groups[seat->stage];
    float *state = worker->state;
    const float *term = state;
    if (floats == 0)
        return SL_OK;
    SL_TRY(sl_comm_group_sum_begin(group, w->member[seat->stage], &term, floats, state));
    SL_TRY(sl_comm_group_sum_end(group, w->member[seat->stage]));
    int width = w->pipe->config.plan->stages[seat->stage].width;
    return sl_run_worker_scale_state(worker, 1.0F / (float)width);
}

/* A replica without a micro-batch in this iteration adds zeros, and its statistics as they were. */
sl_err sl_pipe_reduce_replicas(struct sl_pipe_worker *w, const struct sl_action *action) {
    const struct sl_plan *plan = w->pipe->config.plan;
    struct sl_seat_state *seat = w->pipe->seat_at[sl_sched_seat(plan, action->stage, w->index)];
    int64_t before = sl_pipe_clock(w);
    if (!(seat->filled >> action->grad_slot & 1))
        SL_TRY(sl_run_worker_clear_grads(seat->train.worker, action->grad_slot));
    SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE)); /* others read ours */
    for (int k = 0; k < seat->parts.count; k++)
        SL_TRY(begin_part(w, seat, k, action->grad_slot));
    sl_pipe_note_wait(w, (struct sl_wait_note){.wait = SL_WAIT_GROUP, .of = seat->stage});
    for (int k = seat->parts.count - 1; k >= 0; k--)
        SL_TRY(sl_comm_group_sum_end(w->pipe->parts[seat->stage].at[k], w->member[seat->stage]));
    w->sums -= seat->parts.count;
    w->since_ns = seat->parts.begun ? seat->parts.since_ns : 0;
    seat->parts.begun = 0;
    SL_TRY(average_state(w, seat));
    sl_pipe_note_go(w);
    w->waited_ns += sl_pipe_clock(w) - before;
    return SL_OK;
}
