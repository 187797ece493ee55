/* Global steps without a flush: all stages clip and skip by one global norm, and tied weights get
 * one gradient, while the pipeline stays full.
 *
 *   gradient complete      REDUCE of replicas:    add their gradients (reduce.c)
 *                          REDUCE of a tie:       replica 0 sends own uses to the other holders
 *                          REDUCE of the norm:    send norms of own gradients to all workers
 *   passes of the next iteration, into another gradient buffer ...
 *   STEP                   receive the norms of all, add them in graph order, step or skip
 *
 * Only STEP waits; the schedule places it so late that all messages have arrived. Every holder of a
 * tied parameter adds the uses itself, in graph order. The root holder, whose gradients are complete
 * last, adds them before it sends its norms; the others add them before the step.
 */
#include "pipe/resume.h"
#include "pipe/scale.h"

#include "sched/deps.h"

#include <string.h>

struct decision {
    int64_t version; /* the decision is about this version; -1: unused */
    struct sl_norm_verdict verdict;
    /* counted: version whose norms are being collected; seats: how many seats of this worker have
     * added theirs */
    int64_t counted;
    int seats;
};

enum { DECISION_NUMBERS = 6 }; /* numbers that one decision takes in a checkpoint */

/* Decisions about the last versions. There are as many as the channels have places, because a stage
 * may send its norms for many steps before it makes the first of these steps. */
struct sl_pipe_decisions {
    int kept;
    struct decision *at;
    double *tables; /* [kept][graph params] norms that this worker sends */
    void *sum;      /* device memory for the sum of a tied parameter; as large as the largest one */
    void *landing;  /* device memory for received uses; NULL if the device reads host memory */
};

static int channel_at(const struct sl_pipe *pipe, int from, int to) {
    return from * pipe->config.plan->worker_count + to;
}

/* ---- opening ---- */

static const struct sl_tie *tie_of(const struct sl_pipe *pipe, int group) {
    return &pipe->config.plan->ties[group - pipe->config.plan->stage_count];
}

/* Number of uses of a tied parameter on a stage. */
static int count_uses(const struct sl_pipe *pipe, const struct sl_tie *tie, int stage) {
    const struct sl_graph *graph = pipe->train.graph;
    int count = 0;
    for (int64_t g = 0; g < graph->grads.count; g++)
        count += strcmp(graph->params.at[graph->grads.at[g].param].name, tie->name) == 0 &&
                 pipe->config.stage_of[graph->grads.at[g].node] == stage;
    return count;
}

static sl_err open_channel(struct sl_pipe *pipe, int from, int to, int64_t size_bytes, bool device,
                           struct sl_pipe_box *out) {
    const struct sl_plan *plan = pipe->config.plan;
    int count = plan->worker_count;
    struct sl_channel_spec spec = {
        .from = sl_comm_rank_of(pipe->comm, from, count),
        .to = sl_comm_rank_of(pipe->comm, to, count),
        .places = sl_sched_share_places(pipe->sched),
        .size_bytes = size_bytes,
        .device = device ? pipe->workers[to].device : NULL,
        .sender = device ? pipe->workers[from].device : NULL,
        .ipc = device && sl_pipe_is_ipc(pipe, from, to),
    };
    if (spec.device && spec.sender && spec.device->row != spec.sender->row)
        spec.device = spec.sender = NULL; /* both devices can read host memory */
    *out = (struct sl_pipe_box){.sender = plan->worker_seats[from][0],
                                .reader = plan->worker_seats[to][0]};
    SL_PUSH(&pipe->boxes, out);
    return sl_comm_channel_open(pipe->comm, &spec, &out->channel);
}

static sl_err open_shares(struct sl_pipe *pipe, int group) {
    const struct sl_plan *plan = pipe->config.plan;
    const struct sl_tie *tie = tie_of(pipe, group);
    int count = plan->worker_count;
    struct sl_pipe_box *channels = SL_NEW(&pipe->arena, struct sl_pipe_box, count * count);
    pipe->shares[group] = channels;
    for (int i = 0; i < tie->count; i++)
        for (int j = 0; j < tie->count; j++) {
            const struct sl_stage *reader = &plan->stages[tie->stages[j]];
            int from = plan->stages[tie->stages[i]].workers[0];
            int64_t bytes = tie->bytes * count_uses(pipe, tie, tie->stages[i]);
            for (int r = 0; i != j && r < reader->width; r++)
                if (from != reader->workers[r])
                    SL_TRY(open_channel(pipe, from, reader->workers[r], bytes, true,
                                        &channels[channel_at(pipe, from, reader->workers[r])]));
        }
    return SL_OK;
}

static void forget(struct sl_pipe_decisions *v) {
    for (int i = 0; i < v->kept; i++)
        v->at[i].version = v->at[i].counted = -1;
}

static sl_err open_decisions(struct sl_pipe_worker *w) {
    int64_t max = sl_sched_tied_max(w->pipe->sched, w->index);
    int64_t params = w->pipe->train.graph->params.count;
    w->decisions = SL_NEW(&w->pipe->arena, struct sl_pipe_decisions, 1);
    int kept = sl_sched_share_places(w->pipe->sched);
    w->decisions->kept = kept;
    w->decisions->at = SL_NEW(&w->pipe->arena, struct decision, kept);
    w->decisions->tables = SL_NEW(&w->pipe->arena, double, kept *(params + 1));
    forget(w->decisions);
    if (!max)
        return SL_OK;
    max = (max + 255) & ~255LL;
    bool apart = w->device->row->apart;
    SL_TRY(w->device->row->alloc(w->device, apart ? 2 * max : max, &w->decisions->sum));
    w->decisions->landing = apart ? (char *)w->decisions->sum + max : NULL;
    return SL_OK;
}

sl_err sl_pipe_global_step_open(struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    int count = plan->worker_count;
    if (!pipe->sched->global_step)
        return SL_OK;
    pipe->norms = SL_NEW(&pipe->arena, struct sl_pipe_box, count * count);
    pipe->shares = SL_NEW(&pipe->arena, struct sl_pipe_box *, sl_sched_group_count(plan) + 1);
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++)
            if (a != b)
                SL_TRY(open_channel(pipe, a, b, pipe->train.graph->params.count * 8, false,
                                    &pipe->norms[channel_at(pipe, a, b)]));
    for (int t = 0; t < plan->tie_count; t++)
        SL_TRY(open_shares(pipe, plan->stage_count + t));
    for (int w = 0; w < count; w++)
        if (sl_pipe_is_local(pipe, w))
            SL_TRY(open_decisions(&pipe->workers[w]));
    return SL_OK;
}

void sl_pipe_global_step_close(struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    int count = plan->worker_count;
    for (int i = 0; pipe->norms && i < count * count; i++) {
        sl_comm_channel_close(pipe->norms[i].channel);
        for (int t = 0; t < plan->tie_count; t++)
            if (pipe->shares[plan->stage_count + t])
                sl_comm_channel_close(pipe->shares[plan->stage_count + t][i].channel);
    }
    for (int w = 0; pipe->norms && w < count; w++)
        if (pipe->workers[w].decisions)
            pipe->workers[w].device->row->free(pipe->workers[w].device,
                                               pipe->workers[w].decisions->sum);
}

/* ---- tied gradients ---- */

static int64_t number_of(const struct sl_pipe *pipe, int64_t version) {
    return pipe->start_step + version - 1;
}

static sl_err receive_from(struct sl_pipe_worker *w, struct sl_pipe_box *box, int64_t n, int from,
                           struct sl_message *out) {
    int64_t before = sl_pipe_clock(w);
    sl_pipe_status_wait(w, (struct sl_pipe_wait){.wait = SL_WAIT_DECISION, .peer = from});
    SL_TRY(sl_pipe_mail_receive(box, n, out));
    sl_pipe_status_resume(w);
    w->waited_ns += sl_pipe_clock(w) - before;
    return SL_OK;
}

static sl_err reserve_for(struct sl_pipe_worker *w, struct sl_channel *channel, int64_t n, int to,
                          char **out) {
    sl_pipe_status_wait(w, (struct sl_pipe_wait){.wait = SL_WAIT_DECISION, .peer = to});
    SL_TRY(sl_comm_channel_reserve(channel, n, out));
    sl_pipe_status_resume(w);
    return SL_OK;
}

/* Sends this seat's uses, in graph order, to one other holder. */
static sl_err send_uses(struct sl_pipe_worker *w, const struct sl_pipe_seat *seat,
                        const struct sl_tie *tie, const struct sl_action *a, int to) {
    const struct sl_graph *graph = w->pipe->train.graph;
    struct sl_pipe_box *box = &w->pipe->shares[a->slot][channel_at(w->pipe, w->index, to)];
    int64_t n = number_of(w->pipe, a->version), at = 0;
    char *message;
    SL_TRY(reserve_for(w, box->channel, n, to, &message));
    for (int64_t g = 0; g < graph->grads.count; g++) {
        if (strcmp(graph->params.at[graph->grads.at[g].param].name, tie->name) != 0 ||
            w->pipe->config.stage_of[graph->grads.at[g].node] != seat->stage)
            continue;
        SL_TRY(w->device->row->copy(w->device, SL_STREAM_COMPUTE, message + at,
                                    sl_pipe_use(seat, g, a->grad_slot), tie->bytes));
        at += tie->bytes;
    }
    SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE));
    return sl_pipe_mail_send(box, n, at);
}

static sl_err send_all_uses(struct sl_pipe_worker *w, const struct sl_pipe_seat *seat,
                            const struct sl_action *a) {
    int count = w->pipe->config.plan->worker_count;
    for (int to = 0; to < count; to++) {
        if (w->pipe->shares[a->slot][channel_at(w->pipe, w->index, to)].channel)
            SL_TRY(send_uses(w, seat, tie_of(w->pipe, a->slot), a, to));
    }
    return SL_OK;
}

/* Copies a received use to device memory if the device cannot read host memory, where a message may
 * be. */
static sl_err land(struct sl_pipe_worker *w, const void **use, int64_t size_bytes) {
    void *landing = w->decisions->landing;
    if (!landing)
        return SL_OK;
    SL_TRY(w->device->row->copy(w->device, SL_STREAM_COMPUTE, landing, *use, size_bytes));
    *use = landing;
    return SL_OK;
}

/* Adds all uses in graph order. A message holds the uses of one stage in that order. */
static sl_err add_uses(struct sl_pipe_worker *w, const struct sl_pipe_seat *seat,
                       const struct sl_tie *tie, int grad_slot, const char **messages) {
    const struct sl_graph *graph = w->pipe->train.graph;
    const struct sl_plan *plan = w->pipe->config.plan;
    bool first = true;
    for (int64_t g = 0; g < graph->grads.count; g++) {
        if (strcmp(graph->params.at[graph->grads.at[g].param].name, tie->name) != 0)
            continue;
        int stage = w->pipe->config.stage_of[graph->grads.at[g].node];
        int from = plan->stages[stage].workers[0];
        const void *use = stage == seat->stage ? (const void *)sl_pipe_use(seat, g, grad_slot)
                                               : (const void *)messages[from];
        if (stage != seat->stage) {
            messages[from] += tie->bytes;
            SL_TRY(land(w, &use, tie->bytes));
        }
        SL_TRY(first ? w->device->row->copy(w->device, SL_STREAM_COMPUTE, w->decisions->sum, use,
                                            tie->bytes)
                     : w->device->row->add(w->device, w->decisions->sum, use, tie->bytes / 4));
        first = false;
    }
    return SL_OK;
}

/* Sums all uses of a tied parameter into this seat's gradient. */
static sl_err sum_uses(struct sl_pipe_worker *w, struct sl_pipe_seat *seat, int group,
                       const struct sl_action *a) {
    const struct sl_tie *tie = tie_of(w->pipe, group);
    struct sl_worker *worker = seat->train.worker;
    const struct sl_program *p = worker->programs[SL_WORKER_FULL];
    struct sl_pipe_box *boxes = w->pipe->shares[group];
    int count = w->pipe->config.plan->worker_count;
    int64_t n = number_of(w->pipe, a->version);
    for (int from = 0; from < count; from++) {
        struct sl_message message = {0};
        if (boxes[channel_at(w->pipe, from, w->index)].channel)
            SL_TRY(receive_from(w, &boxes[channel_at(w->pipe, from, w->index)], n, from, &message));
        w->messages[from] = message.at;
    }
    SL_TRY(add_uses(w, seat, tie, a->grad_slot, w->messages));
    for (int i = 0; i < p->param_count; i++)
        if (strcmp(p->graph->params.at[p->params[i].param].name, tie->name) == 0)
            SL_TRY(w->device->row->copy(w->device, SL_STREAM_COMPUTE,
                                        sl_run_worker_grad(worker, a->grad_slot, i),
                                        w->decisions->sum, tie->bytes));
    SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE));
    for (int from = 0; from < count; from++)
        if (boxes[channel_at(w->pipe, from, w->index)].channel)
            SL_TRY(sl_pipe_mail_release(&boxes[channel_at(w->pipe, from, w->index)], n));
    return SL_OK;
}

/* Sums the tied parameters of a stage: those whose root holder it is (is_root), or the others. */
static sl_err sum_ties(struct sl_pipe_worker *w, struct sl_pipe_seat *seat,
                       const struct sl_action *a, bool is_root) {
    const struct sl_plan *plan = w->pipe->config.plan;
    for (int g = plan->stage_count; g < sl_sched_group_count(plan); g++)
        if (sl_sched_in_group(plan, g, seat->stage) &&
            (sl_sched_group_root(plan, g) == seat->stage) == is_root)
            SL_TRY(sum_uses(w, seat, g, a));
    return SL_OK;
}

/* ---- the global norm ---- */

/* Does this seat send the norm of the parameter? Replicas have equal gradients, so replica 0 sends
 * it. */
static bool owns_norm(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat, int param) {
    const struct sl_plan *plan = pipe->config.plan;
    if (seat->replica || pipe->train.graph->params.at[param].echo)
        return false;
    for (int g = plan->stage_count; g < sl_sched_group_count(plan); g++)
        if (strcmp(tie_of(pipe, g)->name, pipe->train.graph->params.at[param].name) == 0)
            return sl_sched_group_root(plan, g) == seat->stage;
    return true;
}

static sl_err send_norms(struct sl_pipe_worker *w, int64_t version, const double *table) {
    int count = w->pipe->config.plan->worker_count;
    int64_t n = number_of(w->pipe, version), bytes = w->pipe->train.graph->params.count * 8;
    for (int to = 0; to < count; to++) {
        struct sl_pipe_box *box = &w->pipe->norms[channel_at(w->pipe, w->index, to)];
        char *message;
        if (!box->channel)
            continue;
        SL_TRY(reserve_for(w, box->channel, n, to, &message));
        memcpy(message, table, (size_t)bytes);
        SL_TRY(sl_pipe_mail_send(box, n, bytes));
    }
    return SL_OK;
}

static sl_err share_norms(struct sl_pipe_worker *w, struct sl_pipe_seat *seat,
                          const struct sl_action *a) {
    struct sl_pipe_decisions *v = w->decisions;
    const struct sl_program *p = seat->train.worker->programs[SL_WORKER_FULL];
    int64_t params = w->pipe->train.graph->params.count;
    int kept = (int)(a->version % v->kept);
    double *table = v->tables + kept * params;
    if (v->at[kept].counted != a->version) {
        v->at[kept].counted = a->version;
        v->at[kept].seats = 0;
        memset(table, 0, sizeof *table * (size_t)params);
    }
    SL_TRY(sum_ties(w, seat, a, true));
    SL_TRY(sl_run_worker_sum_uses(seat->train.worker, a->grad_slot));
    SL_TRY(sl_run_train_norms(&seat->train, a->grad_slot));
    for (int i = 0; i < p->param_count; i++)
        if (owns_norm(w->pipe, seat, p->params[i].param))
            table[p->params[i].param] = seat->train.norm_sums[i];
    if (++v->at[kept].seats < w->seat_count)
        return SL_OK;
    return send_norms(w, a->version, table);
}

sl_err sl_pipe_global_step_reduce(struct sl_pipe_worker *w, struct sl_pipe_seat *seat,
                                  const struct sl_action *a) {
    const struct sl_program *p = seat->train.worker->programs[SL_WORKER_FULL];
    if (a->slot == sl_sched_decision_group(w->pipe->config.plan))
        return share_norms(w, seat, a);
    for (int i = 0; i < p->param_count; i++) /* sums the uses of this parameter */
        if (strcmp(p->graph->params.at[p->params[i].param].name, tie_of(w->pipe, a->slot)->name) ==
            0)
            seat->train.worker->tied[i] = true;
    return send_all_uses(w, seat, a);
}

/* Merges the norms of all workers into a decision. Each norm comes from one worker. */
static sl_err decide(struct sl_pipe_worker *w, int64_t version) {
    const struct sl_pipe *pipe = w->pipe;
    int64_t params = pipe->train.graph->params.count, n = number_of(pipe, version);
    int count = pipe->config.plan->worker_count, kept = (int)(version % w->decisions->kept);
    double *table = w->decisions->tables + kept * params, sum = 0;
    for (int from = 0; from < count; from++) {
        struct sl_pipe_box *box = &pipe->norms[channel_at(pipe, from, w->index)];
        struct sl_message message;
        if (!box->channel)
            continue;
        SL_TRY(receive_from(w, box, n, from, &message));
        const double *theirs = (const double *)(const void *)message.at;
        for (int64_t i = 0; i < params; i++)
            table[i] = table[i] == 0 ? theirs[i] : table[i];
        SL_TRY(sl_pipe_mail_release(box, n));
    }
    for (int64_t i = 0; i < params; i++)
        sum += table[i];
    struct sl_norm_verdict verdict =
        sl_optim_norm_judge(sum, 1 / sl_pipe_scale_of(w, version - 1), pipe->train.clip);
    sl_pipe_scale_decided(w, version, verdict.finite);
    w->decisions->at[kept].verdict = verdict;
    w->decisions->at[kept].version = version;
    return SL_OK;
}

sl_err sl_pipe_global_step_decide(struct sl_pipe_worker *w, struct sl_pipe_seat *seat,
                                  const struct sl_action *a, struct sl_norm_verdict *out) {
    const struct decision *of = &w->decisions->at[a->version % w->decisions->kept];
    if (of->version != a->version)
        SL_TRY(decide(w, a->version));
    SL_TRY(sum_ties(w, seat, a, false));
    *out = of->verdict;
    return SL_OK;
}

/* How many numbers a worker adds to a checkpoint of a full pipeline: its decisions, then its tables
 * of norms. */
int64_t sl_pipe_global_step_count(const struct sl_pipe_worker *w) {
    int64_t params = w->pipe->train.graph->params.count;
    return w->decisions ? w->decisions->kept * (DECISION_NUMBERS + params) : 0;
}

void sl_pipe_global_step_put(const struct sl_pipe_worker *w, double *out) {
    const struct sl_pipe_decisions *v = w->decisions;
    for (int i = 0; v && i < v->kept; i++) {
        const struct decision *d = &v->at[i];
        const double numbers[DECISION_NUMBERS] = {(double)d->version,       d->verdict.finite,
                                                  (double)d->verdict.scale, d->verdict.norm,
                                                  (double)d->counted,       d->seats};
        memcpy(out, numbers, sizeof numbers);
        out += DECISION_NUMBERS;
    }
    if (v)
        memcpy(out, v->tables,
               sizeof *out * (size_t)(v->kept * w->pipe->train.graph->params.count));
}

void sl_pipe_global_step_get(struct sl_pipe_worker *w, const double *in) {
    struct sl_pipe_decisions *v = w->decisions;
    for (int i = 0; v && i < v->kept; i++, in += DECISION_NUMBERS)
        v->at[i] = (struct decision){
            .version = (int64_t)in[0],
            .verdict = {.finite = in[1] != 0, .scale = (float)in[2], .norm = in[3]},
            .counted = (int64_t)in[4],
            .seats = (int)in[5],
        };
    if (v)
        memcpy(v->tables, in, sizeof *in * (size_t)(v->kept * w->pipe->train.graph->params.count));
}

/* Forgets all decisions, because a new schedule counts its versions from 1. */
void sl_pipe_global_step_start(struct sl_pipe *pipe) {
    for (int w = 0; w < pipe->config.plan->worker_count; w++)
        if (pipe->workers[w].decisions)
            forget(pipe->workers[w].decisions);
}
