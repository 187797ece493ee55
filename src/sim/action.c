/* The effect of each action: its start, its duration, its memory. */
#include "sim/engine.h"

#include "sched/slots.h"

struct turn {
    struct sl_engine *e;
    int worker, seat;
    struct sl_worker_sim *w;
    struct sl_seat_sim *s;
    const struct sl_stage *stage;
    const struct sl_action *a; /* the action with its numbers in this repetition */
    int64_t high_bytes;        /* most bytes of the worker while it runs */
};

static int seat_of(const struct sl_engine *e, int stage, int worker) {
    const struct sl_stage *s = &e->plan->stages[stage];
    return s->width == 1 ? s->seat : sl_sched_seat(e->plan, stage, worker);
}

/* --- bytes --- */

static void take(struct turn *t, struct sl_seat_sim *seat, int64_t bytes) {
    seat->bytes += bytes;
    t->w->bytes += bytes;
    if (t->w->bytes > t->high_bytes)
        t->high_bytes = t->w->bytes;
    struct sl_sim_seat *out = &t->e->seat_out[seat - t->e->seats];
    if (seat->bytes > out->peak_bytes)
        out->peak_bytes = seat->bytes;
}

static void give(struct turn *t, struct sl_seat_sim *seat, int64_t bytes) {
    seat->bytes -= bytes;
    t->w->bytes -= bytes;
}

static int64_t pool_bytes(const struct turn *t, enum sl_pool_kind pool) {
    return t->e->view.pools[t->seat][pool].bytes;
}

/* Takes the slots of stash, recomputed and kept tensors at the start of an action, and frees them
 * at its end. */
static void hold(struct turn *t, bool start) {
    bool recompute = t->stage->recompute;
    bool keeps = sl_sched_keeps_slot(&t->e->view, t->seat); /* I keeps the slot that F took */
    switch ((enum sl_kind)t->a->kind) {
    case SL_FORWARD:
        if (start) {
            take(t, t->s, pool_bytes(t, SL_POOL_STASH));
            t->s->live++;
            struct sl_sim_seat *out = &t->e->seat_out[t->seat];
            out->live = t->s->live > out->live ? t->s->live : out->live;
        } else if (t->e->view.rule == SL_RULE_FORWARD || t->stage->passes == SL_STAGE_FORWARD) {
            give(t, t->s, pool_bytes(t, SL_POOL_STASH));
            t->s->live--;
        }
        return;
    case SL_RECOMPUTE:
        if (start)
            take(t, t->s, pool_bytes(t, SL_POOL_FULL));
        return;
    case SL_BACKWARD_WEIGHT:
        if (!start)
            give(t, t->s, pool_bytes(t, SL_POOL_KEPT));
        return;
    case SL_BACKWARD_INPUT:
        if (start && !keeps)
            take(t, t->s, pool_bytes(t, SL_POOL_KEPT)); /* fall through */
    case SL_BACKWARD:
        if (!start) {
            bool stays = keeps && t->a->kind == SL_BACKWARD_INPUT;
            give(t, t->s,
                 (stays ? 0 : pool_bytes(t, SL_POOL_STASH)) +
                     (recompute ? pool_bytes(t, SL_POOL_FULL) : 0));
            t->s->live--;
        }
        return;
    default: return;
    }
}

/* --- buffers --- */

static struct sl_in *find_input(const struct turn *t, const struct sl_pool_state *pool) {
    struct sl_in *ins = t->e->ins + pool->in;
    int32_t micro = t->a->micro;
    if (!pool->count)
        return NULL;
    struct sl_in *likely =
        &ins[sl_sched_deps_ordinal(&t->e->view, t->a->stage, micro) % pool->count];
    if (likely->micro == micro)
        return likely;
    for (int32_t i = 0; i < pool->count; i++)
        if (ins[i].micro == micro)
            return &ins[i];
    return NULL;
}

static void fill_input(struct turn *t, int seat, int pool_number, int32_t slot, int32_t micro) {
    struct sl_seat_sim *s = &t->e->seats[seat];
    const struct sl_pool_state *pool = &s->pools[pool_number - SL_POOL_EDGES];
    struct sl_in *in = &t->e->ins[pool->in + slot];
    if (in->micro == micro)
        return;
    *in = (struct sl_in){.micro = micro};
    take(t, s, pool->bytes);
}

static void hand_over(struct turn *t, const struct sl_edge *edge, bool grad, int32_t x) {
    int other = grad ? edge->from : edge->to;
    int seat = sl_sched_deps_seat(&t->e->view, other, x);
    int pool = sl_sched_pool_of_edge(t->e->plan, edge, grad, false);
    int32_t count = t->e->seats[seat].pools[pool - SL_POOL_EDGES].count;
    if (count)
        fill_input(t, seat, pool, sl_sched_deps_ordinal(&t->e->view, other, x) % count, x);
}

/* Have all inputs arrived? Raises *start to the time of the last arrival. */
static bool inputs_ready(struct turn *t, int64_t *start) {
    bool grad = t->a->kind != SL_FORWARD;
    int count = grad ? t->stage->out_count : t->stage->in_count;
    int first = grad ? 2 * t->stage->in_count + 1 : 0;
    for (int i = 0; i < count; i++) {
        const struct sl_pool_state *pool = &t->s->pools[first + 2 * i];
        if (!pool->used)
            continue;
        const struct sl_in *in = find_input(t, pool);
        if (!in)
            continue;
        if (in->got < in->posted)
            return false;
        if (in->arrival_ns > *start)
            *start = in->arrival_ns;
    }
    return true;
}

static void free_inputs(struct turn *t) {
    bool grad = t->a->kind != SL_FORWARD;
    int count = grad ? t->stage->out_count : t->stage->in_count;
    int first = grad ? 2 * t->stage->in_count + 1 : 0;
    for (int i = 0; i < count; i++) {
        const struct sl_pool_state *pool = &t->s->pools[first + 2 * i];
        struct sl_in *in = find_input(t, pool);
        if (!in)
            continue;
        in->micro = -1;
        give(t, t->s, pool->bytes);
    }
}

static struct sl_out_buffer *output_of(const struct turn *t, const struct sl_pool_state *pool) {
    int32_t ordinal = sl_sched_deps_ordinal(&t->e->view, t->a->stage, t->a->micro);
    return &t->e->outs[pool->in + ordinal % pool->count];
}

/* Counts the pieces for other workers; with `write`, passes the others to local stages. */
static int32_t pieces(struct turn *t, int edge_number, bool grad, bool write) {
    const struct sl_edge *edge = &t->e->plan->edges[edge_number];
    int other = grad ? edge->from : edge->to;
    if (t->e->plain[edge_number]) {
        if (t->e->plan->stages[other].workers[0] != t->worker)
            return 1;
        if (write)
            hand_over(t, edge, grad, t->a->micro);
        return 0;
    }
    struct sl_micro_range range =
        sl_sched_deps_overlap(&t->e->view, t->a->stage, t->a->micro, other);
    int32_t remote = 0;
    for (int32_t x = range.low; x < range.high; x++) {
        if (t->e->plan->seats[sl_sched_deps_seat(&t->e->view, other, x)].worker != t->worker)
            remote++;
        else if (write)
            hand_over(t, edge, grad, x);
    }
    return remote;
}

/* Are the output buffers free? Raises *start to the end of their last transfer. Local pieces need
 * no output buffer. */
static bool outputs_free(struct turn *t, int64_t *start) {
    bool grad = t->a->kind != SL_FORWARD;
    int count = grad ? t->stage->in_count : t->stage->out_count;
    int first = grad ? 1 : 2 * t->stage->in_count;
    for (int i = 0; i < count; i++) {
        const struct sl_pool_state *pool = &t->s->pools[first + 2 * i];
        int edge = grad ? t->stage->in[i] : t->stage->out[i];
        if (!pool->used || (!t->e->plain[edge] && !pieces(t, edge, grad, false)))
            continue;
        const struct sl_out_buffer *out = output_of(t, pool);
        if (out->pending)
            return false;
        if (out->free_ns > *start)
            *start = out->free_ns;
    }
    return true;
}

static void write_outputs(struct turn *t) {
    bool grad = t->a->kind != SL_FORWARD;
    int count = grad ? t->stage->in_count : t->stage->out_count;
    int first = grad ? 1 : 2 * t->stage->in_count;
    for (int i = 0; i < count; i++) {
        int32_t remote = pieces(t, grad ? t->stage->in[i] : t->stage->out[i], grad, true);
        const struct sl_pool_state *pool = &t->s->pools[first + 2 * i];
        if (!remote || !pool->count)
            continue;
        output_of(t, pool)->to_send = remote;
        take(t, t->s, pool->bytes);
    }
}

/* --- actions --- */

static void record(struct turn *t, int64_t start, int64_t end) {
    struct sl_sim_worker *out = &t->e->worker_out[t->worker];
    int64_t high = t->high_bytes + (t->a->kind <= SL_RECOMPUTE ? t->stage->bytes.work : 0);
    if (high > out->peak_bytes)
        out->peak_bytes = high;
    int64_t span = t->w->span++;
    if (t->e->lanes)
        t->e->lanes[t->worker].at[span] =
            (struct sl_span){.action = *t->a, .start_ns = start, .end_ns = end, .live_bytes = high};
}

static void spend(struct turn *t, int64_t start, int64_t dur) {
    struct sl_sim_worker *out = &t->e->worker_out[t->worker];
    t->w->now = start + dur;
    out->busy_ns += dur;
    if (out->first_ns < 0)
        out->first_ns = start;
    out->last_ns = t->w->now;
    if (t->w->now > t->e->end_ns)
        t->e->end_ns = t->w->now;
    record(t, start, t->w->now);
}

static int64_t pass_time(const struct turn *t) {
    int64_t dur = t->e->dur_ns[t->a->stage][t->a->kind];
    if (!t->e->uneven)
        return dur;
    int64_t samples = sl_sched_samples(&t->e->view, t->a->stage, t->a->micro);
    int64_t size = t->stage->micro_size;
    if (samples == size)
        return dur;
    return dur / size * samples + (dur % size * samples + size - 1) / size;
}

/* Returns the extra time of a pass after a wait. */
static int64_t cold_time(const struct turn *t, int64_t waited) {
    const struct sl_cold *cold = &t->e->opts->cold;
    int64_t all = t->a->kind == SL_FORWARD ? cold->f_ns : cold->b_ns;
    if (waited <= 0 || cold->after_ns == 0)
        return 0;
    return waited >= cold->after_ns ? all : all * waited / cold->after_ns;
}

/* Scales the duration by the worker's tempo. */
static int64_t at_tempo(const struct turn *t, int64_t dur) {
    const struct sl_tempo *tempo = &t->e->opts->tempo;
    if (!tempo->passes)
        return dur;
    int64_t pass = t->e->opts->first_pass + t->w->passes++;
    return (int64_t)((double)dur * sl_tempo_at(tempo, t->worker, pass) / SL_TEMPO_EVEN);
}

static bool do_pass(struct turn *t) {
    int64_t start = t->w->now;
    bool moves = t->a->kind <= SL_BACKWARD_INPUT;
    if (moves && (!inputs_ready(t, &start) || !outputs_free(t, &start)))
        return false;
    hold(t, true);
    if (moves)
        write_outputs(t);
    int64_t dur = at_tempo(t, pass_time(t)) + cold_time(t, start - t->w->now);
    int64_t high = t->s->bytes + t->stage->bytes.work;
    struct sl_sim_seat *out = &t->e->seat_out[t->seat];
    out->busy_ns += dur;
    if (high > out->peak_bytes)
        out->peak_bytes = high;
    spend(t, start, dur);
    hold(t, false);
    if (moves)
        free_inputs(t);
    return true;
}

static bool do_recv(struct turn *t) {
    const struct sl_edge *edge = &t->e->plan->edges[t->a->edge];
    int pool = sl_sched_pool_of_edge(t->e->plan, edge, t->a->flags & SL_GRAD, false);
    fill_input(t, t->seat, pool, t->a->slot, t->a->micro);
    int64_t buffer = t->s->pools[pool - SL_POOL_EDGES].in + t->a->slot;
    t->e->ins[buffer].posted++;
    int channel = sl_sim_channel_find(t->e, t->a->peer, t->worker);
    sl_sim_queue_push(
        &t->e->channels.at[channel].recvs,
        (struct sl_sim_post){.at_ns = t->w->now, .buffer = buffer, .span = t->w->span});
    record(t, t->w->now, t->w->now);
    sl_sim_channel_match(t->e, channel);
    return true;
}

static bool do_send(struct turn *t) {
    struct sl_worker_sim *w = t->w;
    if (!w->in_send) {
        const struct sl_edge *edge = &t->e->plan->edges[t->a->edge];
        int pool_number = sl_sched_pool_of_edge(t->e->plan, edge, t->a->flags & SL_GRAD, true);
        const struct sl_pool_state *pool = &t->s->pools[pool_number - SL_POOL_EDGES];
        struct sl_sim_post post = {.at_ns = w->now,
                                   .buffer = pool->in + t->a->slot,
                                   .span = w->span,
                                   .bytes = sl_sim_message_bytes(t->e, t->a)};
        struct sl_out_buffer *out = &t->e->outs[post.buffer];
        int channel = sl_sim_channel_find(t->e, t->worker, t->a->peer);
        out->pending++;
        record(t, w->now, w->now);
        if (--out->to_send == 0)
            give(t, t->s, pool->bytes);
        sl_sim_queue_push(&t->e->channels.at[channel].sends, post);
        w->in_send = t->e->opts->send != SL_SEND_OVERLAP;
        w->resume_ns = -1;
        sl_sim_channel_match(t->e, channel);
    }
    if (!w->in_send)
        return true;
    if (w->resume_ns < 0)
        return false;
    w->in_send = false;
    w->now = w->resume_ns > w->now ? w->resume_ns : w->now;
    return true;
}

/* --- global steps --- */

static struct sl_parts_sim *parts_of(struct turn *t, int group) {
    struct sl_parts_sim *parts = &t->e->parts[group][t->a->version % SL_PARTS_KEPT];
    if (parts->version != t->a->version)
        *parts = (struct sl_parts_sim){.version = t->a->version};
    return parts;
}

static bool in_group(const struct turn *t, int group) {
    const struct sl_plan *plan = t->e->plan;
    return group == sl_sched_decision_group(plan) ||
           (sl_sched_group_size(plan, group) > 1 && sl_sched_in_group(plan, group, t->a->stage));
}

/* Are all parts of these groups complete? Raises *ready to the time when they are. */
static bool all_given(struct turn *t, bool spoken_for, int64_t *ready) {
    const struct sl_plan *plan = t->e->plan;
    for (int g = 0; g < sl_sched_decision_group(plan) + !spoken_for; g++) {
        if (!in_group(t, g) || sl_sched_deps_meets(&t->e->view, g) ||
            (spoken_for && sl_sched_group_root(plan, g) != t->a->stage))
            continue;
        const struct sl_parts_sim *parts = parts_of(t, g);
        if (parts->given < t->e->group_size[g])
            return false;
        *ready = parts->done_ns > *ready ? parts->done_ns : *ready;
    }
    return true;
}

static bool give_part(struct turn *t) {
    int64_t ready = t->w->now;
    bool verdict = t->a->slot == sl_sched_decision_group(t->e->plan);
    if (verdict && !all_given(t, true, &ready))
        return false;
    struct sl_parts_sim *parts = parts_of(t, t->a->slot);
    /* REDUCE takes time for sums of gradients only; a decision is a few bytes */
    int64_t done = ready + (verdict ? 0 : t->e->dur_ns[t->a->stage][SL_REDUCE]);
    t->w->now = ready;
    parts->done_ns = done > parts->done_ns ? done : parts->done_ns;
    record(t, ready, ready);
    if (++parts->given == t->e->group_size[t->a->slot])
        for (int i = 0; i < t->e->plan->worker_count; i++)
            if (i != t->worker)
                sl_sim_engine_wake(t->e, i);
    return true;
}

/* The worker's last part of a group waits for the group; its earlier parts are only counted. */
static bool do_reduce(struct turn *t) {
    struct sl_meeting_sim *m = &t->e->meetings[t->a->slot];
    struct sl_group_part *part = t->w->parts;
    while (part->group != t->a->slot)
        part++;
    if (!t->w->in_meeting) {
        int64_t dur = t->e->dur_ns[t->a->stage][SL_REDUCE];
        m->latest_ns = t->w->now > m->latest_ns ? t->w->now : m->latest_ns;
        m->dur_ns = dur > m->dur_ns ? dur : m->dur_ns;
        part->arrived++;
        t->w->in_meeting = true;
        if (++m->arrived == t->e->group_size[t->a->slot]) {
            *m = (struct sl_meeting_sim){.version = t->a->version,
                                         .done_ns = m->latest_ns + m->dur_ns,
                                         .group_dur_ns = m->dur_ns};
            for (int i = 0; i < t->e->plan->worker_count; i++)
                if (t->e->workers[i].in_meeting && i != t->worker)
                    sl_sim_engine_wake(t->e, i);
        }
    }
    bool last = part->arrived == part->seats;
    if (last && m->version < t->a->version)
        return false;
    t->w->in_meeting = false;
    if (!last) {
        record(t, t->w->now, t->w->now);
        return true;
    }
    part->arrived = 0;
    spend(t, m->done_ns - m->group_dur_ns, m->group_dur_ns);
    return true;
}

static bool do_step(struct turn *t) {
    int64_t ready = t->w->now;
    if (t->e->view.global_step && t->a->kind == SL_STEP && !all_given(t, false, &ready))
        return false;
    spend(t, ready, t->e->dur_ns[t->a->stage][t->a->kind]);
    if (t->a->kind != SL_STEP)
        return true;
    if (t->a->version == 1 && t->w->now > t->e->first_step_ns)
        t->e->first_step_ns = t->w->now;
    bool newer = t->a->version > t->e->last_version;
    if (newer || (t->a->version == t->e->last_version && t->w->now > t->e->last_step_ns))
        t->e->last_step_ns = t->w->now;
    if (newer)
        t->e->last_version = t->a->version;
    return true;
}

bool sl_sim_engine_do(struct sl_engine *e, int worker, const struct sl_action *action) {
    struct sl_worker_sim *w = &e->workers[worker];
    int seat = seat_of(e, action->stage, worker);
    struct sl_action resolved;
    if (w->rep) {
        resolved = sl_sched_at(&e->view, seat, action, w->rep);
        action = &resolved;
    }
    struct turn t = {.e = e,
                     .worker = worker,
                     .seat = seat,
                     .w = w,
                     .s = &e->seats[seat],
                     .stage = &e->plan->stages[action->stage],
                     .a = action,
                     .high_bytes = w->bytes};
    switch ((enum sl_kind)action->kind) {
    case SL_RECV: return do_recv(&t);
    case SL_SEND: return do_send(&t);
    case SL_REDUCE:
        return sl_sched_deps_meets(&e->view, action->slot) ? do_reduce(&t) : give_part(&t);
    case SL_STEP:
    case SL_PREDICT: return do_step(&t);
    default: return do_pass(&t);
    }
}
