/* Gradients of replicas. Each replica adds its own micro-batches. Then replicas are added in order,
 * use by use, while the backward pass that completes the gradient still runs.
 *
 * The gradients of a seat are in one slab, first layer first; a backward pass computes them from the
 * last layer to the first. The slab is cut into a few parts. The sum of a part begins after the
 * instruction that completes the part, and proceeds between later instructions and actions. REDUCE
 * waits for all parts. Sums are elementwise, so cutting changes no bits.
 *
 *     B, last micro-batch | layer 3 | layer 2 | layer 1 | layer 0 | REDUCE | STEP
 *     sum of part 1                           |= = = = = = = =|
 *     sum of part 0                                               |= = =|
 *
 * The schedule states which pass completes a gradient (sl_sched_deps_completes); if it adds gradients
 * in another order, the sums begin at the REDUCE. Between the pass and the REDUCE the worker may
 * run passes of its other seats. */
#include "pipe/state.h"

#include "sched/deps.h"

enum { PART_LEAST = 1 << 14 }; /* floats; smaller parts cost more in messages than they gain */

/* ---- parts ---- */

static int64_t extent(const struct sl_operand *o) {
    return o->run ? (o->numel / o->run - 1) * o->row + o->run : o->numel;
}

/* Finds for each part the last instruction that adds to it. */
static void find_ready(struct sl_pipe_parts *parts, const struct sl_program *p, int *ready) {
    for (int i = 0; i < p->instr_count; i++)
        for (int o = 0; o < p->instrs[i].out_count; o++) {
            const struct sl_operand *out = &p->instrs[i].out[o];
            int64_t first = out->offset / 4, end = first + extent(out);
            for (int k = 0; out->space == SL_SPACE_GRAD && k < parts->count; k++)
                if (first < parts->first[k + 1] && end > parts->first[k])
                    ready[k] = i;
        }
}

void sl_pipe_reduce_cut(struct sl_pipe *pipe, struct sl_pipe_seat *seat) {
    const struct sl_worker *worker = seat->train.worker;
    struct sl_pipe_parts *parts = &seat->parts;
    enum { LINE = 16 }; /* floats per cache line */
    int64_t floats = worker->programs[SL_WORKER_FULL]->grad_bytes / 4;
    int64_t lines = (floats + LINE - 1) / LINE;
    *parts = (struct sl_pipe_parts){0};
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

static sl_err begin_part(struct sl_pipe_worker *w, struct sl_pipe_seat *seat, int part,
                         int grad_slot) {
    struct sl_pipe_parts *parts = &seat->parts;
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

void sl_pipe_reduce_before_pass(struct sl_pipe_worker *w, struct sl_pipe_seat *seat,
                                const struct sl_action *action, struct sl_worker_pass *pass) {
    bool completes = seat->parts.count && w->pipe->ordered &&
                     sl_sched_deps_completes(w->pipe->sched, action->stage, action->micro);
    w->completing.seat = completes ? seat : NULL;
    w->completing.program = pass->program;
    w->completing.grad_slot = pass->grad_slot;
    /* An audit repeats the pass, so its gradients may be read only at its end. */
    if (completes && !w->pipe->train.audit && !w->device->row->whole)
        pass->after = sl_pipe_reduce_after_instr;
}

/* Begins the sums of the parts that no instruction has begun. */
sl_err sl_pipe_reduce_after_pass(struct sl_pipe_worker *w) {
    struct sl_pipe_seat *seat = w->completing.seat;
    if (!seat)
        return SL_OK;
    w->completing.seat = NULL;
    SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE)); /* other workers read it */
    for (int k = 0; k < seat->parts.count; k++)
        SL_TRY(begin_part(w, seat, k, w->completing.grad_slot));
    return SL_OK;
}

sl_err sl_pipe_reduce_poll(struct sl_pipe_worker *w) {
    for (int i = 0; w->sums && i < w->seat_count; i++) {
        struct sl_pipe_seat *seat = &w->seats[i];
        for (int k = 0; k < seat->parts.count; k++)
            if (seat->parts.begun >> k & 1)
                SL_TRY(sl_comm_group_sum_poke(w->pipe->parts[seat->stage].at[k],
                                              w->member[seat->stage]));
    }
    return SL_OK;
}

/* Polls the transport between the instructions of a pass: MPI moves a large message only during
 * calls. */
sl_err sl_pipe_reduce_after_instr(void *worker, int instr) {
    struct sl_pipe_worker *w = worker;
    struct sl_pipe_seat *seat = w->completing.seat;
    sl_comm_poll(w->pipe->comm);
    for (int k = 0; seat && k < seat->parts.count; k++)
        if (seat->parts.ready[w->completing.program][k] <= instr)
            SL_TRY(begin_part(w, seat, k, w->completing.grad_slot));
    return sl_pipe_reduce_poll(w);
}

/* ---- REDUCE ---- */

/* Replaces the running statistics by their mean over the replicas. */
static sl_err average_state(struct sl_pipe_worker *w, struct sl_pipe_seat *seat) {
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

/* Completes the sums of the replicas. A replica without a micro-batch in this iteration adds zeros
 * and its unchanged statistics. */
sl_err sl_pipe_reduce_replicas(struct sl_pipe_worker *w, const struct sl_action *action) {
    const struct sl_plan *plan = w->pipe->config.plan;
    struct sl_pipe_seat *seat = w->pipe->seat_at[sl_sched_seat(plan, action->stage, w->index)];
    int64_t before = sl_pipe_clock(w);
    if (!(seat->filled >> action->grad_slot & 1))
        SL_TRY(sl_run_worker_clear_grads(seat->train.worker, action->grad_slot));
    SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE)); /* other workers read it */
    for (int k = 0; k < seat->parts.count; k++)
        SL_TRY(begin_part(w, seat, k, action->grad_slot));
    sl_pipe_status_wait(w, (struct sl_pipe_wait){.wait = SL_WAIT_GROUP, .of = seat->stage});
    for (int k = seat->parts.count - 1; k >= 0; k--)
        SL_TRY(sl_comm_group_sum_end(w->pipe->parts[seat->stage].at[k], w->member[seat->stage]));
    w->sums -= seat->parts.count;
    w->since_ns = seat->parts.begun ? seat->parts.since_ns : 0;
    seat->parts.begun = 0;
    SL_TRY(average_state(w, seat));
    sl_pipe_status_resume(w);
    w->waited_ns += sl_pipe_clock(w) - before;
    return SL_OK;
}
