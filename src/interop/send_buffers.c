/* Plays passes, sends and receives with channels of 0, 1, 2, ... buffers. */
#include "interop/send_buffers.h"

#include "sched/deps.h"

#include <string.h>

enum { WORKERS_MAX = 1024, DONE_F = 1, DONE_B = 2 };

struct play {
    struct sl_sched view; /* schedule with as few repetitions as show every behaviour */
    struct sl_arena arena;
    uint8_t **done;        /* [stage][micro] */
    int32_t **arrived[2];  /* [0: activations, 1: gradients][edge][micro-batch of the receiver] */
    int32_t *sent, *taken; /* [from * workers + to] messages sent; receives posted */
    struct {
        int segment;
        int32_t rep;
        int64_t action;
    } * at; /* [worker] */
    int32_t buffers;
};

/* Checks numbers of a file that was not verified. */
static bool is_sane(const struct play *p, int worker, const struct sl_action *a) {
    const struct sl_plan *plan = p->view.plan;
    if (a->kind > SL_RECV)
        return true;
    if (sl_sched_seat(plan, a->stage, worker) < 0 || a->micro < 0 ||
        a->micro >= sl_sched_total(&p->view, a->stage))
        return false;
    if (a->kind != SL_SEND && a->kind != SL_RECV)
        return true;
    if (a->peer >= plan->worker_count || a->edge >= plan->edge_count)
        return false;
    const struct sl_edge *e = &plan->edges[a->edge];
    int other = e->from == a->stage ? e->to : e->from;
    return (e->from == a->stage || e->to == a->stage) && a->other >= 0 &&
           a->other < sl_sched_total(&p->view, other);
}

static bool is_input_there(const struct play *p, const struct sl_action *a, int edge, bool grad) {
    const struct sl_edge *e = &p->view.plan->edges[edge];
    int other = grad ? e->to : e->from, own = sl_sched_deps_seat(&p->view, a->stage, a->micro);
    struct sl_micro_range range = sl_sched_deps_overlap(&p->view, a->stage, a->micro, other);
    int32_t messages = 0;
    for (int32_t x = range.low; x < range.high; x++) {
        int seat = sl_sched_deps_seat(&p->view, other, x);
        bool local = p->view.plan->seats[seat].worker == p->view.plan->seats[own].worker;
        if (local && !(p->done[other][x] & (grad ? DONE_B : DONE_F)))
            return false;
        messages += !local;
    }
    return (grad && !e->grads) || p->arrived[grad][edge][a->micro] >= messages;
}

static bool is_ready(const struct play *p, const struct sl_action *a) {
    struct sl_need need =
        sl_sched_deps_need(&p->view.plan->stages[a->stage], (enum sl_kind)a->kind);
    const struct sl_stage *stage = &p->view.plan->stages[a->stage];
    for (int i = 0; need.in_acts && i < stage->in_count; i++)
        if (!is_input_there(p, a, stage->in[i], false))
            return false;
    for (int i = 0; need.out_grads && i < stage->out_count; i++)
        if (!is_input_there(p, a, stage->out[i], true))
            return false;
    return a->kind == SL_FORWARD || (p->done[a->stage][a->micro] & DONE_F);
}

static bool act(struct play *p, int worker, const struct sl_action *a) {
    int workers = p->view.plan->worker_count;
    if (!is_sane(p, worker, a))
        return false;
    if (a->kind == SL_RECV) {
        p->taken[a->peer * workers + worker]++;
        return true;
    }
    if (a->kind == SL_SEND) {
        int channel = worker * workers + a->peer;
        if (p->sent[channel] >= p->taken[channel] + p->buffers)
            return false;
        p->sent[channel]++;
        p->arrived[a->flags & SL_GRAD][a->edge][a->other]++;
        return true;
    }
    if (a->kind > SL_BACKWARD_WEIGHT)
        return true;
    if (!is_ready(p, a))
        return false;
    p->done[a->stage][a->micro] |= a->kind == SL_FORWARD           ? DONE_F
                                   : a->kind == SL_BACKWARD_WEIGHT ? 0
                                                                   : DONE_B;
    return true;
}

/* Returns the next action of a worker; false: it has finished. */
static bool next(struct play *p, int worker, struct sl_action *out) {
    for (; p->at[worker].segment < SL_SEGMENT_COUNT; p->at[worker].segment++) {
        int segment = p->at[worker].segment;
        const struct sl_actions *list = &p->view.lists[segment][worker];
        int32_t reps = segment == SL_PERIOD ? p->view.reps : 1, rep = p->at[worker].rep;
        if (rep < reps && p->at[worker].action < list->count) {
            const struct sl_action *a = &list->at[p->at[worker].action];
            int seat = sl_sched_seat(p->view.plan, a->stage, worker);
            *out = *a;
            bool message = a->kind == SL_SEND || a->kind == SL_RECV;
            if (seat >= 0 && (!message || a->edge < p->view.plan->edge_count))
                *out = sl_sched_at(&p->view, seat, a, segment == SL_EPILOGUE ? p->view.reps : rep);
            return true;
        }
        p->at[worker].action = 0;
        p->at[worker].rep = 0;
        if (rep + 1 < reps) {
            p->at[worker].rep = rep + 1;
            p->at[worker].segment--; /* so that the loop returns to it */
        }
    }
    return false;
}

static void clear(struct play *p) {
    const struct sl_plan *plan = p->view.plan;
    size_t channels = (size_t)plan->worker_count * (size_t)plan->worker_count;
    for (int s = 0; s < plan->stage_count; s++)
        memset(p->done[s], 0, (size_t)sl_sched_total(&p->view, s));
    for (int e = 0; e < plan->edge_count; e++) {
        memset(p->arrived[0][e], 0, 4 * (size_t)sl_sched_total(&p->view, plan->edges[e].to));
        memset(p->arrived[1][e], 0, 4 * (size_t)sl_sched_total(&p->view, plan->edges[e].from));
    }
    memset(p->sent, 0, channels * sizeof *p->sent);
    memset(p->taken, 0, channels * sizeof *p->taken);
    memset(p->at, 0, sizeof *p->at * (size_t)plan->worker_count);
}

/* Does the program complete? *waits: a send had to wait. */
static bool completes(struct play *p, bool *waits) {
    int workers = p->view.plan->worker_count, finished = 0;
    struct sl_action a;
    clear(p);
    for (bool moved = true; moved && finished < workers;) {
        moved = *waits = false;
        finished = 0;
        for (int w = 0; w < workers; w++) {
            bool more;
            while ((more = next(p, w, &a)) && act(p, w, &a)) {
                p->at[w].action++;
                moved = true;
            }
            *waits |= more && a.kind == SL_SEND && is_sane(p, w, &a);
            finished += !more;
        }
    }
    return finished == workers;
}

static void open_play(struct play *p) {
    const struct sl_plan *plan = p->view.plan;
    p->done = SL_NEW(&p->arena, uint8_t *, plan->stage_count);
    for (int s = 0; s < plan->stage_count; s++)
        p->done[s] = SL_NEW(&p->arena, uint8_t, sl_sched_total(&p->view, s));
    for (int d = 0; d < 2; d++) {
        p->arrived[d] = SL_NEW(&p->arena, int32_t *, plan->edge_count);
        for (int e = 0; e < plan->edge_count; e++) {
            int to = d ? plan->edges[e].from : plan->edges[e].to;
            p->arrived[d][e] = SL_NEW(&p->arena, int32_t, sl_sched_total(&p->view, to));
        }
    }
    p->sent = SL_NEW(&p->arena, int32_t, (int64_t)plan->worker_count * plan->worker_count);
    p->taken = SL_NEW(&p->arena, int32_t, (int64_t)plan->worker_count * plan->worker_count);
    p->at = sl_arena_alloc(&p->arena, (int64_t)sizeof *p->at * plan->worker_count);
}

int32_t sl_interop_send_buffers(const struct sl_sched *program) {
    struct play p = {.view = sl_sched_shorten(program, SL_PLAYED_REPS)};
    bool waits = true, done = false;
    if (program->plan->worker_count > WORKERS_MAX)
        return 0;
    for (int s = 0; s < program->plan->stage_count; s++) /* a file may announce any number */
        if (sl_sched_total(&p.view, s) > SL_PLAYED_REPS * sl_sched_action_count(program))
            return -1;
    open_play(&p);
    for (p.buffers = 0; !done && waits; p.buffers += !done)
        done = completes(&p, &waits);
    sl_arena_free(&p.arena);
    return done ? p.buffers : -1;
}
