/* See slow_sim.h. Quadratic and worse on purpose: everything is looked for, nothing is indexed. */
#include "support/slow_sim.h"

#include <stdlib.h>
#include <string.h>

static const int64_t never = INT64_MAX / 2;

struct transfer {
    int from, to, send, recv; /* workers and positions */
    int64_t bytes, wire_ns, latency_ns;
    struct sl_sim_route route;
    bool granted;
    int64_t start, left, arrival;
};

struct slow {
    const struct sl_sched *sched;
    const struct sl_sim_opts *opts;
    struct slow_sim *out;
    struct transfer *transfers;
    int transfer_count;
};

/* --- the program, written out --- */

static void unroll(struct slow *s, struct sl_arena *arena, int worker) {
    const struct sl_sched *sched = s->sched;
    struct slow_worker *w = &s->out->workers[worker];
    int64_t max = sched->lists[0][worker].count + sched->lists[2][worker].count +
                  sched->reps * sched->lists[1][worker].count;
    w->at = SL_NEW(arena, struct slow_action, max + 1);
    for (int segment = 0; segment < 3; segment++)
        for (int32_t rep = segment == 2 ? sched->reps : 0; rep < (segment == 0   ? 1
                                                                  : segment == 1 ? sched->reps
                                                                                 : sched->reps + 1);
             rep++)
            for (int64_t i = 0; i < sched->lists[segment][worker].count; i++) {
                const struct sl_action *a = &sched->lists[segment][worker].at[i];
                int seat = sl_sched_seat(sched->plan, a->stage, worker);
                w->at[w->count++].a = sl_sched_at(sched, seat, a, rep);
            }
}

static int64_t share_of(const struct slow *s, const struct sl_action *a, int64_t ns) {
    int64_t size = s->sched->plan->stages[a->stage].micro_size;
    int64_t samples = sl_sched_samples(s->sched, a->stage, a->micro);
    return (ns * samples + size - 1) / size;
}

static int64_t message_bytes(const struct slow *s, const struct sl_action *a) {
    const struct sl_edge *edge = &s->sched->plan->edges[a->edge];
    int other = edge->from == a->stage ? edge->to : edge->from;
    int64_t count = 0, size = s->sched->plan->stages[a->stage].micro_size;
    int64_t size2 = s->sched->plan->stages[other].micro_size;
    int32_t m = s->sched->micros[a->stage], m2 = s->sched->micros[other];
    for (int64_t x = 0; x < sl_sched_samples(s->sched, a->stage, a->micro); x++) {
        int64_t sample = a->micro % m * size + x;
        count += sample / size2 == a->other % m2;
    }
    return count * edge->sample_bytes;
}

static bool same_message(const struct sl_action *send, const struct sl_action *recv) {
    return send->edge == recv->edge && send->flags == recv->flags && send->micro == recv->other &&
           send->other == recv->micro;
}

static void pair(struct slow *s, int worker, int i) {
    struct slow_action *send = &s->out->workers[worker].at[i];
    struct slow_worker *peer = &s->out->workers[send->a.peer];
    for (int j = 0; j < peer->count; j++) {
        struct slow_action *recv = &peer->at[j];
        if (recv->a.kind != SL_RECV || !same_message(&send->a, &recv->a))
            continue;
        struct transfer *t = &s->transfers[s->transfer_count];
        *t = (struct transfer){.from = worker, .to = send->a.peer, .send = i, .recv = j};
        t->bytes = message_bytes(s, &send->a);
        if (s->opts->net.route)
            s->opts->net.route(s->opts->net.ctx, worker, send->a.peer, &t->route);
        int64_t speed = 0;
        for (int k = 0; k < t->route.wire_count; k++)
            if (t->route.wires[k].bytes_per_s && (!speed || t->route.wires[k].bytes_per_s < speed))
                speed = t->route.wires[k].bytes_per_s;
        t->wire_ns = speed ? (t->bytes * 1000000000 + speed - 1) / speed : 0;
        t->latency_ns = t->route.latency_ns;
        send->partner = recv->partner = s->transfer_count++;
        return;
    }
    abort();
}

/* --- constraints --- */

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Transfers that a pass waits for: what it reads has arrived, and what it overwrites has left. The
 * slot that a pass fills is the one its SENDs name. */
static bool reads(const struct slow_worker *w, int i, int j) {
    const struct sl_action *a = &w->at[i].a, *b = &w->at[j].a;
    return j < i && b->kind == SL_RECV && b->stage == a->stage && b->micro == a->micro &&
           (b->flags & SL_GRAD) == (a->kind != SL_FORWARD);
}

static bool overwrites(const struct slow_worker *w, int i, int k) {
    const struct sl_action *a = &w->at[i].a, *c = &w->at[k].a;
    if (k > i || c->kind != SL_SEND || c->stage != a->stage)
        return false;
    for (int j = i + 1; j < w->count; j++) {
        const struct sl_action *b = &w->at[j].a;
        if (b->kind == SL_SEND && b->stage == a->stage && b->micro == a->micro &&
            (b->flags & SL_GRAD) == (a->kind != SL_FORWARD) && c->edge == b->edge &&
            c->flags == b->flags && c->slot == b->slot)
            return true;
    }
    return false;
}

static void list_waits(struct sl_arena *arena, struct slow_worker *w, int i) {
    struct slow_action *x = &w->at[i];
    if (x->a.kind > SL_BACKWARD_INPUT)
        return;
    for (int fill = 0; fill < 2; fill++) {
        int count = 0;
        for (int j = 0; j < w->count; j++)
            if (reads(w, i, j) || overwrites(w, i, j)) {
                if (fill)
                    x->waits[count] =
                        w->at[j].a.kind == SL_RECV ? w->at[j].partner : -1 - w->at[j].partner;
                count++;
            }
        if (!fill)
            x->waits = SL_NEW(arena, int, count);
        x->wait_count = count;
    }
}

static int64_t waits_of(const struct slow *s, const struct slow_action *x) {
    int64_t ready = 0;
    for (int i = 0; i < x->wait_count; i++) {
        const struct transfer *t = &s->transfers[x->waits[i] < 0 ? -1 - x->waits[i] : x->waits[i]];
        ready = later(ready, !t->granted ? never : x->waits[i] < 0 ? t->left : t->arrival);
    }
    return ready;
}

static bool last_of_group(const struct slow_worker *w, int i) {
    for (int j = i + 1; j < w->count; j++)
        if (w->at[j].a.kind == SL_REDUCE && w->at[j].a.slot == w->at[i].a.slot &&
            w->at[j].a.version == w->at[i].a.version)
            return false;
    return true;
}

static void relax_reduce(const struct slow *s, struct slow_action *x, bool last) {
    int64_t longest = 0;
    if (!last) {
        x->end = x->start;
        return;
    }
    for (int v = 0; v < s->sched->plan->worker_count; v++) {
        const struct slow_worker *o = &s->out->workers[v];
        for (int j = 0; j < o->count; j++)
            if (o->at[j].a.kind == SL_REDUCE && o->at[j].a.slot == x->a.slot &&
                o->at[j].a.version == x->a.version) {
                x->start = later(x->start, j ? o->at[j - 1].end : 0);
                longest = later(longest, s->opts->dur_ns[o->at[j].a.stage][SL_REDUCE]);
            }
    }
    x->end = x->start + longest;
}

/* Stepping together: REDUCE gives a part and goes on; the part is there dur later. When all parts
 * of group `slot` for this version are there; *highest is the stage that speaks for the group: the
 * one with the longest way down, the first of equals. */
static int64_t all_given(const struct slow *s, int slot, int32_t version, int *highest) {
    const struct sl_plan *plan = s->sched->plan;
    bool verdict = slot == plan->stage_count + plan->tie_count; /* a few bytes, no gradients */
    int64_t last = 0;
    *highest = -1;
    for (int v = 0; v < plan->worker_count; v++) {
        const struct slow_worker *o = &s->out->workers[v];
        for (int j = 0; j < o->count; j++) {
            const struct sl_action *b = &o->at[j].a;
            if (b->kind != SL_REDUCE || b->slot != slot || b->version != version)
                continue;
            int over =
                *highest < 0 ? 1 : plan->stages[b->stage].height - plan->stages[*highest].height;
            if (over > 0 || (over == 0 && b->stage < *highest))
                *highest = b->stage;
            int64_t takes = verdict ? 0 : s->opts->dur_ns[b->stage][SL_REDUCE];
            last = later(last, o->at[j].start + takes);
        }
    }
    return last;
}

/* What a stage waits for: a step for every group that it gives a part to, its word on the verdict
 * (the last group) for the sums that it speaks for. */
static int64_t global_step_ready(const struct slow *s, const struct slow_worker *w,
                                 const struct slow_action *x) {
    int verdict = s->sched->plan->stage_count + s->sched->plan->tie_count, highest;
    int64_t ready = 0;
    if (x->a.kind == SL_REDUCE && x->a.slot != verdict)
        return 0;
    for (int j = 0; j < w->count; j++) {
        const struct sl_action *b = &w->at[j].a;
        if (b->kind != SL_REDUCE || b->stage != x->a.stage || b->version != x->a.version)
            continue;
        int64_t given = all_given(s, b->slot, b->version, &highest);
        if (x->a.kind == SL_STEP || (b->slot != verdict && highest == x->a.stage))
            ready = later(ready, given);
    }
    return ready;
}

static int64_t cold_of(const struct slow *s, const struct sl_action *a, int64_t waited) {
    const struct sl_cold *cold = &s->opts->cold;
    int64_t share = waited < cold->after_ns ? waited : cold->after_ns;
    if (cold->after_ns == 0 ||
        (a->kind != SL_FORWARD && a->kind != SL_BACKWARD && a->kind != SL_BACKWARD_INPUT))
        return 0;
    return (a->kind == SL_FORWARD ? cold->f_ns : cold->b_ns) * share / cold->after_ns;
}

/* How many passes the worker began before this one says how fast it is now. */
static int64_t at_tempo(const struct slow *s, const struct slow_worker *w, int i, int64_t ns) {
    const struct sl_tempo *tempo = &s->opts->tempo;
    int64_t worker = w - s->out->workers, before = s->opts->first_pass;
    if (!tempo->passes || w->at[i].a.kind > SL_RECOMPUTE)
        return ns;
    for (int j = 0; j < i; j++)
        before += w->at[j].a.kind <= SL_RECOMPUTE;
    const int32_t *lane = tempo->millionths + worker % tempo->workers * tempo->passes;
    return (int64_t)((double)ns * lane[before % tempo->passes] / 1e6);
}

/* Anew each time, not only later: who waits less has a shorter pass. What depends on what has no
 * circles, so that it comes to rest all the same. */
static void relax(const struct slow *s, struct slow_worker *w, int i) {
    struct slow_action *x = &w->at[i];
    x->start = i ? w->at[i - 1].end : 0;
    if (s->sched->global_step && (x->a.kind == SL_REDUCE || x->a.kind == SL_STEP))
        x->start = later(x->start, global_step_ready(s, w, x));
    if (x->a.kind == SL_REDUCE && s->sched->global_step &&
        x->a.slot >= s->sched->plan->stage_count) {
        x->end = x->start;
    } else if (x->a.kind == SL_REDUCE) {
        relax_reduce(s, x, last_of_group(w, i));
    } else if (x->a.kind == SL_SEND) {
        const struct transfer *t = &s->transfers[x->partner];
        int64_t posted = s->out->workers[t->to].at[t->recv].start;
        x->end = x->start;
        if (s->opts->send == SL_SEND_RENDEZVOUS && !s->opts->net.early)
            x->end = later(x->start, posted);
        if (s->opts->send == SL_SEND_BLOCKING)
            x->end = t->granted ? later(x->start, t->left) : never;
    } else if (x->a.kind == SL_RECV) {
        x->end = x->start;
    } else {
        int64_t ns = s->opts->dur_ns[x->a.stage][x->a.kind], free = x->start;
        x->start = later(x->start, waits_of(s, x));
        ns = x->a.kind <= SL_RECOMPUTE ? share_of(s, &x->a, ns) : ns;
        x->end = x->start + at_tempo(s, w, i, ns) + cold_of(s, &x->a, x->start - free);
    }
    if (x->start >= never)
        x->start = never;
    if (x->end >= never || x->start >= never)
        x->end = never;
}

static void solve(const struct slow *s) {
    bool moved = true;
    for (int v = 0; v < s->sched->plan->worker_count; v++)
        for (int i = 0; i < s->out->workers[v].count; i++)
            s->out->workers[v].at[i].start = s->out->workers[v].at[i].end = 0;
    while (moved) {
        moved = false;
        for (int v = 0; v < s->sched->plan->worker_count; v++)
            for (int i = 0; i < s->out->workers[v].count; i++) {
                struct slow_action *x = &s->out->workers[v].at[i], old = *x;
                relax(s, &s->out->workers[v], i);
                moved |= x->start != old.start || x->end != old.end;
            }
    }
}

static bool share_wire(const struct transfer *a, const struct transfer *b) {
    for (int i = 0; i < a->route.wire_count; i++)
        for (int j = 0; j < b->route.wire_count; j++)
            if (a->route.wires[i].bytes_per_s && a->route.wires[i].name == b->route.wires[j].name)
                return true;
    return false;
}

/* Of those that are ready at the same time, the lowest sender's first, in its program order. */
static bool grant(struct slow *s) {
    int best = -1;
    int64_t first = never;
    for (int i = 0; i < s->transfer_count; i++) {
        const struct transfer *t = &s->transfers[i];
        if (t->granted)
            continue;
        int64_t ready = s->out->workers[t->from].at[t->send].start;
        if (!s->opts->net.early)
            ready = later(ready, s->out->workers[t->to].at[t->recv].start);
        if (ready >= never)
            continue;
        const struct transfer *b = best < 0 ? t : &s->transfers[best];
        bool tie = ready == first && (t->from != b->from ? t->from < b->from : t->send < b->send);
        if (best < 0 || ready < first || tie) {
            best = i;
            first = ready;
        }
    }
    if (best < 0)
        return false;
    struct transfer *t = &s->transfers[best];
    t->start = first;
    for (int i = 0; i < s->transfer_count; i++)
        if (s->transfers[i].granted && share_wire(t, &s->transfers[i]))
            t->start = later(t->start, s->transfers[i].left);
    t->left = t->start + t->wire_ns;
    t->arrival = t->left + t->latency_ns;
    t->granted = true;
    return true;
}

/* --- bytes: what is held, found by looking at the whole program each time --- */

static bool made_here(const struct slow_worker *w, int upto, int stage, int32_t micro, bool grad) {
    for (int j = 0; j <= upto; j++) {
        const struct sl_action *b = &w->at[j].a;
        if (b->stage == stage && b->micro == micro &&
            (grad ? b->kind == SL_BACKWARD || b->kind == SL_BACKWARD_INPUT : b->kind == SL_FORWARD))
            return true;
    }
    return false;
}

/* Is micro-batch `micro` of the stage held at action i as input over the edge? */
static bool holds_input(const struct slow *s, const struct slow_worker *w, int i,
                        const struct sl_edge *edge, bool grad, int32_t micro) {
    int own = grad ? edge->from : edge->to, other = grad ? edge->to : edge->from;
    int number = (int)(edge - s->sched->plan->edges);
    if (made_here(w, i - 1, own, micro, grad))
        return false;
    for (int j = 0; j <= i; j++) {
        const struct sl_action *b = &w->at[j].a;
        if (b->kind == SL_RECV && b->edge == number && (b->flags & SL_GRAD) == grad &&
            b->micro == micro)
            return true;
    }
    int64_t size = s->sched->plan->stages[own].micro_size;
    int64_t size2 = s->sched->plan->stages[other].micro_size;
    for (int64_t x = 0; x < sl_sched_samples(s->sched, own, micro); x++) {
        int64_t sample = micro % s->sched->micros[own] * size + x;
        int32_t piece =
            micro / s->sched->micros[own] * s->sched->micros[other] + (int32_t)(sample / size2);
        if (made_here(w, i, other, piece, grad))
            return true;
    }
    return false;
}

static bool holds_output(const struct slow_worker *w, int i, int stage, int edge, bool grad,
                         int32_t micro) {
    bool coming = false;
    if (!made_here(w, i, stage, micro, grad))
        return false;
    for (int j = i; j < w->count; j++) {
        const struct sl_action *b = &w->at[j].a;
        coming |= b->kind == SL_SEND && b->stage == stage && b->edge == edge &&
                  (b->flags & SL_GRAD) == grad && b->micro == micro;
    }
    return coming;
}

static int64_t bytes_at(const struct slow *s, int worker, int i) {
    const struct sl_plan *plan = s->sched->plan;
    const struct slow_worker *w = &s->out->workers[worker];
    bool passes = i >= 0 && w->at[i].a.kind <= SL_RECOMPUTE; /* -1: before the first action */
    int64_t sum = passes ? plan->stages[w->at[i].a.stage].bytes.work : 0;
    for (int j = 0; j < plan->worker_seat_count[worker]; j++) {
        int seat = plan->worker_seats[worker][j], stage = plan->seats[seat].stage;
        const struct sl_stage *st = &plan->stages[stage];
        const struct sl_slot_pool *pools = s->sched->pools[seat];
        sum += st->bytes.state + pools[SL_POOL_GRAD].count * st->bytes.grads +
               (pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count) * st->bytes.params;
        for (int32_t m = 0; m < sl_sched_total(s->sched, stage); m++) {
            if (m % s->sched->micros[stage] % st->width != plan->seats[seat].replica)
                continue;
            bool f = false, r = false, b = false, in = false, wd = false;
            for (int k = 0; k <= i; k++) {
                const struct sl_action *a = &w->at[k].a;
                if (a->stage != stage || a->micro != m || a->kind > SL_RECOMPUTE)
                    continue;
                f |= a->kind == SL_FORWARD;
                r |= a->kind == SL_RECOMPUTE;
                in |= a->kind == SL_BACKWARD_INPUT;
                b |= k < i && (a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_INPUT ||
                               s->sched->rule == SL_RULE_FORWARD);
                wd |= k < i && a->kind == SL_BACKWARD_WEIGHT;
            }
            if (f && !b)
                sum += st->recompute ? st->bytes.saved : st->bytes.stash;
            if (r && !b)
                sum += st->bytes.stash;
            bool same = st->bytes.kept == (st->recompute ? st->bytes.saved : st->bytes.stash);
            if (in && !wd && (b || !same)) /* as large as the stash: it is the same slot */
                sum += st->bytes.kept;
            for (int e = 0; e < plan->edge_count; e++)
                for (int grad = 0; grad < 2; grad++) {
                    const struct sl_edge *edge = &plan->edges[e];
                    int64_t bytes = edge->sample_bytes * st->micro_size;
                    if ((grad ? edge->from : edge->to) == stage &&
                        holds_input(s, w, i, edge, grad, m))
                        sum += bytes;
                    if ((grad ? edge->to : edge->from) == stage &&
                        holds_output(w, i, stage, e, grad, m))
                        sum += bytes;
                }
        }
    }
    return sum;
}

void slow_sim_run(struct sl_arena *arena, const struct sl_sched *sched,
                  const struct sl_sim_opts *opts, struct slow_sim *out) {
    struct slow s = {.sched = sched, .opts = opts, .out = out};
    int sends = 0, workers = sched->plan->worker_count;
    *out = (struct slow_sim){.workers = SL_NEW(arena, struct slow_worker, workers)};
    for (int w = 0; w < workers; w++)
        unroll(&s, arena, w);
    for (int w = 0; w < workers; w++)
        for (int i = 0; i < out->workers[w].count; i++)
            sends += out->workers[w].at[i].a.kind == SL_SEND;
    s.transfers = SL_NEW(arena, struct transfer, sends + 1);
    for (int w = 0; w < workers; w++)
        for (int i = 0; i < out->workers[w].count; i++)
            if (out->workers[w].at[i].a.kind == SL_SEND)
                pair(&s, w, i);
    for (int w = 0; w < workers; w++)
        for (int i = 0; i < out->workers[w].count; i++)
            list_waits(arena, &out->workers[w], i);
    do
        solve(&s);
    while (grant(&s));
    for (int w = 0; w < workers; w++)
        if (out->workers[w].count == 0)
            out->workers[w].peak_bytes = bytes_at(&s, w, -1);
    for (int w = 0; w < workers; w++)
        for (int i = 0; i < out->workers[w].count; i++) {
            struct slow_action *x = &out->workers[w].at[i];
            const struct transfer *t = &s.transfers[x->partner];
            if (x->a.kind == SL_SEND || x->a.kind == SL_RECV) {
                x->start = t->start;
                x->end = x->a.kind == SL_SEND ? t->left : t->arrival;
            }
            out->end_ns = later(out->end_ns, x->end);
            out->workers[w].peak_bytes =
                out->workers[w].count > SLOW_BYTES_MAX
                    ? -1
                    : later(out->workers[w].peak_bytes, bytes_at(&s, w, i));
        }
}
