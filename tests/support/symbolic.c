/* The independent judge. Numbers are resolved, replicas found and samples overlapped by its own
 * arithmetic; workers are played round robin until nothing moves. */
#include "support/symbolic.h"

#include <stdlib.h>
#include <string.h>

enum { UNROLLED = 4 };

typedef uint64_t symbol; /* 0: nothing */

static symbol mix(symbol a, uint64_t b) {
    uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0x7F4A7C15u) * 0xC2B2AE3D27D4EB4Fu;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 32;
    return x ? x : 1;
}

struct message { /* what a RECV expects and a SEND brings */
    int edge, grad;
    int64_t reader, writer; /* micro-batches */
    int pool_slot;
};

struct fifo {
    struct message *at;
    int head, count, room;
};

struct input { /* what a micro-batch gets over an edge */
    int posted, arrived;
    int slot; /* where, -1: nowhere yet */
};

struct cell {       /* a message buffer */
    symbol *pieces; /* by position of the writer among those that overlap the reader */
    int64_t micro;
};

struct seat {
    symbol *stash, *kept, full;
    symbol *weights;
    int *tag, *tag_ahead;
    symbol *grad;                /* [slot] what has been added */
    int *grad_iter, *grad_count; /* [slot] iteration (from 1) and micro-batches in it */
    int steps, last_slot;
    int bell_iter[2], bell_version[2];   /* of forwards, of backwards; iterations from 1 */
    struct cell **in_cells, **out_cells; /* [place][slot]; in: acts then grads readers */
};

struct world {
    const struct sl_sched *s;
    const struct sl_plan *p;
    int iters, reps;
    struct seat *seats;
    struct fifo *fifos;       /* [from * workers + to] */
    struct input **inputs[2]; /* [grad][edge][reader micro] */
    uint8_t **count[5];       /* [kind][stage][micro] how often it ran */
    symbol **made;            /* [stage][micro] by its forward */
    int **read[2];            /* [0 F, 1 B/I][stage][micro] version read */
    int **far[2];             /* how far ahead of it */
    symbol ***parts;          /* [group][version][seat] */
    int **part_count;         /* [group][version] */
    int64_t *at;              /* [worker] position over all segments */
    bool *inside;             /* [worker] in a group */
    const char *broken;
    int most_overlap;
};

static void *zeros(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

/* --- numbers --- */

static int64_t batch_of(const struct world *w, int64_t iter) {
    return iter == w->iters - 1 ? w->s->last_batch : w->s->batch;
}

static int64_t micros_of(const struct world *w, int stage, int64_t iter) {
    int64_t size = w->p->stages[stage].micro_size, batch = batch_of(w, iter), n = 0;
    while (n * size < batch)
        n++;
    return n;
}

static int64_t per_iter(const struct world *w, int stage) {
    int64_t size = w->p->stages[stage].micro_size, n = w->s->batch / size;
    return n * size < w->s->batch ? n + 1 : n;
}

static int64_t total_of(const struct world *w, int stage) {
    return per_iter(w, stage) * (w->iters - 1) + micros_of(w, stage, w->iters - 1);
}

static int seat_of(const struct world *w, int stage, int64_t micro) {
    int64_t in_iter = micro % per_iter(w, stage);
    return w->p->stages[stage].seat + (int)(in_iter % w->p->stages[stage].width);
}

static int worker_of(const struct world *w, int stage, int64_t micro) {
    return w->p->seats[seat_of(w, stage, micro)].worker;
}

/* Which one of its seat, counted from the start. */
static int64_t nth_of_seat(const struct world *w, int stage, int64_t micro) {
    int64_t n = 0, per = per_iter(w, stage), width = w->p->stages[stage].width;
    int64_t replica = micro % per % width;
    int64_t of_replica = replica < per ? (per - 1 - replica) / width + 1 : 0;
    n = micro / per * of_replica;
    return n + micro % per / width;
}

static void samples_of(const struct world *w, int stage, int64_t micro, int64_t out[2]) {
    int64_t per = per_iter(w, stage), iter = micro / per, size = w->p->stages[stage].micro_size;
    out[0] = iter * w->s->batch + micro % per * size;
    out[1] = out[0] + size;
    int64_t end = iter * w->s->batch + batch_of(w, iter);
    out[1] = out[1] < end ? out[1] : end;
}

/* First and behind-last micro-batch of `other` that shares a sample. */
static void overlap(const struct world *w, int stage, int64_t micro, int other, int64_t out[2]) {
    int64_t mine[2], theirs[2], per = per_iter(w, other);
    samples_of(w, stage, micro, mine);
    int64_t iter = micro / per_iter(w, stage), first = iter * per;
    out[0] = out[1] = -1;
    for (int64_t x = first; x < first + per && x < total_of(w, other); x++) {
        samples_of(w, other, x, theirs);
        if (theirs[0] < mine[1] && mine[0] < theirs[1]) {
            out[0] = out[0] < 0 ? x : out[0];
            out[1] = x + 1;
        }
    }
}

static int pool_index(const struct world *w, int edge, bool at_to, bool grad) {
    const struct sl_edge *e = &w->p->edges[edge];
    if (at_to)
        return SL_POOL_EDGES + 2 * e->to_place + grad;
    return SL_POOL_EDGES + 2 * w->p->stages[e->from].in_count + 2 * e->from_place + grad;
}

static const struct sl_pool *pool_of(const struct world *w, int seat, int pool) {
    return &w->s->pools[seat][pool];
}

/* --- resolving repetitions, on its own --- */

static int64_t turn(int64_t slot, const struct sl_pool *pool, int rep) {
    if (slot < 0 || slot >= pool->count)
        return slot;
    return (slot + (int64_t)pool->turn * rep) % pool->count;
}

static struct sl_action resolve(const struct world *w, int seat, struct sl_action a, int rep) {
    const struct sl_pool *pools = w->s->pools[seat];
    bool message = a.kind == SL_SEND || a.kind == SL_RECV;
    if (a.kind <= SL_RECV)
        a.micro += (int32_t)(per_iter(w, a.stage) * rep);
    if (message) {
        const struct sl_edge *e = &w->p->edges[a.edge];
        bool at_to = (a.kind == SL_SEND) == !!(a.flags & SL_GRAD);
        a.other += (int32_t)(per_iter(w, e->from == a.stage ? e->to : e->from) * rep);
        a.slot =
            (int32_t)turn(a.slot, &pools[pool_index(w, a.edge, at_to, a.flags & SL_GRAD)], rep);
        return a;
    }
    a.version += rep;
    if (a.kind == SL_STEP || a.kind == SL_PREDICT)
        a.slot = (int32_t)turn(a.slot, &pools[SL_POOL_WEIGHT], rep);
    else if (a.kind != SL_REDUCE)
        a.slot = (int32_t)turn(a.slot, &pools[SL_POOL_STASH], rep);
    if (a.kind == SL_I || a.kind == SL_W)
        a.slot2 = (int32_t)turn(a.slot2, &pools[SL_POOL_KEPT], rep);
    if (a.kind == SL_B || a.kind == SL_W || a.kind == SL_REDUCE || a.kind == SL_STEP)
        a.grad_slot = (uint8_t)turn(a.grad_slot, &pools[SL_POOL_GRAD], rep);
    if (a.kind != SL_REDUCE && a.weight_slot < pools[SL_POOL_WEIGHT].count)
        a.weight_slot = (uint16_t)turn(a.weight_slot, &pools[SL_POOL_WEIGHT], rep);
    else if (a.kind != SL_REDUCE)
        a.weight_slot = (uint16_t)(pools[SL_POOL_WEIGHT].count +
                                   turn(a.weight_slot - pools[SL_POOL_WEIGHT].count,
                                        &pools[SL_POOL_PREDICT], rep));
    return a;
}

/* --- execution --- */

static int broken(struct world *w, const char *why) {
    w->broken = why;
    return 0;
}

/* Put a piece into a reader's buffer. */
static void put_piece(struct world *w, const struct message *m, symbol value) {
    const struct sl_edge *e = &w->p->edges[m->edge];
    int reader = m->grad ? e->from : e->to, writer = m->grad ? e->to : e->from;
    int64_t range[2];
    overlap(w, reader, m->reader, writer, range);
    int seat = seat_of(w, reader, m->reader);
    int pool = pool_index(w, m->edge, !m->grad, m->grad) - SL_POOL_EDGES;
    struct cell *cell = &w->seats[seat].in_cells[pool][m->pool_slot];
    if (cell->micro == m->reader)
        cell->pieces[m->writer - range[0]] = value;
    w->inputs[m->grad][m->edge][m->reader].arrived++;
}

/* Claim a buffer for a reader; what was in it is gone. */
static int claim(struct world *w, int edge, bool grad, int64_t reader, int64_t slot) {
    const struct sl_edge *e = &w->p->edges[edge];
    int stage = grad ? e->from : e->to, seat = seat_of(w, stage, reader);
    int pool = pool_index(w, edge, !grad, grad);
    struct input *in = &w->inputs[grad][edge][reader];
    if (slot < 0 || slot >= pool_of(w, seat, pool)->count)
        return broken(w, "message slot out of range");
    struct cell *cell = &w->seats[seat].in_cells[pool - SL_POOL_EDGES][slot];
    if (in->slot >= 0 && in->slot != slot)
        return broken(w, "pieces in two slots");
    if (cell->micro != reader) {
        memset(cell->pieces, 0, sizeof(symbol) * (size_t)w->most_overlap);
        cell->micro = reader;
    }
    in->slot = (int)slot;
    in->posted++;
    return 1;
}

static int do_recv(struct world *w, int worker, const struct sl_action *a) {
    bool grad = a->flags & SL_GRAD;
    const struct sl_edge *e = &w->p->edges[a->edge];
    int stage = grad ? e->from : e->to, other = grad ? e->to : e->from;
    int64_t range[2];
    if (stage != a->stage || a->other < 0 || a->other >= total_of(w, other))
        return broken(w, "receive of nothing");
    overlap(w, stage, a->micro, other, range);
    if (a->other < range[0] || a->other >= range[1] || worker_of(w, other, a->other) == worker)
        return broken(w, "receive of what nobody sends");
    if (worker_of(w, other, a->other) != a->peer)
        return broken(w, "receive from the wrong worker");
    if (!claim(w, a->edge, grad, a->micro, a->slot))
        return 0;
    struct fifo *f = &w->fifos[a->peer * w->p->worker_count + worker];
    if (f->count == f->room) {
        f->room = f->room ? 2 * f->room : 8;
        f->at = realloc(f->at, sizeof *f->at * (size_t)f->room);
        if (!f->at)
            abort();
    }
    f->at[f->count++] = (struct message){a->edge, grad, a->micro, a->other, a->slot};
    return 1;
}

static int do_send(struct world *w, int worker, int seat, const struct sl_action *a) {
    bool grad = a->flags & SL_GRAD;
    const struct sl_edge *e = &w->p->edges[a->edge];
    if ((grad ? e->to : e->from) != a->stage || a->peer >= w->p->worker_count)
        return broken(w, "send of nothing");
    int pool = pool_index(w, a->edge, grad, grad);
    if (a->slot < 0 || a->slot >= pool_of(w, seat, pool)->count)
        return broken(w, "message slot out of range");
    struct cell *cell = &w->seats[seat].out_cells[pool - SL_POOL_EDGES][a->slot];
    if (cell->micro != a->micro)
        return broken(w, "sends another micro-batch than it says");
    struct fifo *f = &w->fifos[worker * w->p->worker_count + a->peer];
    if (f->head == f->count)
        return 0; /* rendezvous */
    struct message m = f->at[f->head++];
    if (m.edge != a->edge || m.grad != grad || m.writer != a->micro || m.reader != a->other)
        return broken(w, "received as something else");
    put_piece(w, &m, cell->pieces[0]);
    return 1;
}

/* The hash of all inputs over edges; -1 wait, 0 broken, 1 fine. */
static int gather(struct world *w, int worker, int seat, const struct sl_action *a, symbol *out) {
    const struct sl_stage *s = &w->p->stages[a->stage];
    bool grad = a->kind != SL_F;
    for (int i = 0; i < (grad ? s->out_count : s->in_count); i++) {
        int edge = grad ? s->out[i] : s->in[i];
        int other = grad ? w->p->edges[edge].to : w->p->edges[edge].from;
        int64_t range[2];
        overlap(w, a->stage, a->micro, other, range);
        struct input *in = &w->inputs[grad][edge][a->micro];
        if (in->posted < range[1] - range[0])
            return broken(w, "an input has no receive, or is made later on this worker");
        if (in->arrived < range[1] - range[0])
            return -1;
        if (in->posted > range[1] - range[0])
            return broken(w, "an input comes twice");
        int pool = pool_index(w, edge, !grad, grad) - SL_POOL_EDGES;
        const struct cell *cell = &w->seats[seat].in_cells[pool][in->slot];
        if (cell->micro != a->micro)
            return broken(w, "an input was overwritten");
        for (int64_t x = 0; x < range[1] - range[0]; x++)
            *out = mix(*out, cell->pieces[x]);
    }
    (void)worker;
    return 1;
}

static int spread(struct world *w, int worker, int seat, const struct sl_action *a, symbol value) {
    const struct sl_stage *s = &w->p->stages[a->stage];
    bool grad = a->kind != SL_F;
    for (int i = 0; i < (grad ? s->in_count : s->out_count); i++) {
        int edge = grad ? s->in[i] : s->out[i], remote = 0;
        int other = grad ? w->p->edges[edge].from : w->p->edges[edge].to;
        int64_t range[2];
        overlap(w, a->stage, a->micro, other, range);
        for (int64_t x = range[0]; x < range[1]; x++) {
            if (worker_of(w, other, x) != worker) {
                remote++;
                continue;
            }
            int pool = pool_index(w, edge, !grad, grad), to = seat_of(w, other, x);
            int64_t n = pool_of(w, to, pool)->count;
            if (!n)
                return broken(w, "no buffer to hand over");
            struct message m = {edge, grad, x, a->micro, (int)(nth_of_seat(w, other, x) % n)};
            if (!claim(w, edge, grad, x, m.pool_slot))
                return 0;
            put_piece(w, &m, mix(value, (uint64_t)edge));
        }
        if (!remote)
            continue;
        int pool = pool_index(w, edge, grad, grad);
        int64_t n = pool_of(w, seat, pool)->count;
        if (!n)
            return broken(w, "no buffer to send from");
        struct cell *cell =
            &w->seats[seat].out_cells[pool - SL_POOL_EDGES][nth_of_seat(w, a->stage, a->micro) % n];
        cell->micro = a->micro;
        cell->pieces[0] = mix(value, (uint64_t)edge);
    }
    return 1;
}

/* --- policies: the formulas of papers.md once more, by name --- */

static bool has_policy(const struct world *w, const char *name) {
    return w->s->policy.row && strcmp(w->s->policy.row->name, name) == 0;
}

static int64_t want_ahead(const struct world *w, const struct sl_action *a) {
    int64_t h = w->p->stages[a->stage].height * (int64_t)(w->s->slack + 1);
    int64_t n = (w->p->depth - 1) * (int64_t)(w->s->slack + 1) + 1, k = n - 1 - h;
    int64_t t = per_iter(w, a->stage), v = a->version, iter = a->micro / t, s = 0;
    bool forward = a->kind == SL_F;
    if (has_policy(w, "spectrain"))
        s = (a->micro + (w->s->together ? 0 : k / 2)) / t - v;
    if (has_policy(w, "pipeoptim") && forward)
        s = iter - v;
    if (has_policy(w, "2bw-predict"))
        s = iter > 0;
    if (has_policy(w, "xpipe") && !forward)
        s = (t + k / 2 - 1) / t;
    if (has_policy(w, "xpipe") && forward) { /* round half to even of (T + N - k/2 - 2) / T */
        double exact = ((double)t + (double)n - (double)k / 2 - 2) / (double)t;
        s = (int64_t)exact;
        s += exact - (double)s > 0.5 || (exact - (double)s == 0.5 && s % 2 == 1);
    }
    if (has_policy(w, "pipemare") && !forward)
        s = 2 * h + 1;
    return s > 0 ? s : 0;
}

static symbol foreseen(symbol weights, int64_t ahead) {
    return ahead ? mix(mix(weights, 71), (uint64_t)ahead) : weights;
}

static int do_predict(struct world *w, int seat, const struct sl_action *a) {
    struct seat *s = &w->seats[seat];
    int slots = w->s->pools[seat][SL_POOL_WEIGHT].count;
    int all = slots + w->s->pools[seat][SL_POOL_PREDICT].count;
    if (a->slot < 0 || a->slot >= slots || a->weight_slot < slots || a->weight_slot >= all)
        return broken(w, "prediction out of range");
    if (s->tag[a->slot] != a->version || s->steps != a->version || !a->ahead)
        return broken(w, "prediction from another version");
    s->weights[a->weight_slot] = foreseen(s->weights[a->slot], a->ahead);
    s->tag[a->weight_slot] = a->version;
    s->tag_ahead[a->weight_slot] = a->ahead;
    return 1;
}

static int check_read(struct world *w, int seat, const struct sl_action *a) {
    struct seat *s = &w->seats[seat];
    const struct sl_pool *pools = w->s->pools[seat];
    int64_t iter = a->micro / per_iter(w, a->stage), want = s->steps;
    if (a->weight_slot >= pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count)
        return broken(w, "weight slot out of range");
    if (s->tag[a->weight_slot] != a->version || s->tag_ahead[a->weight_slot] != a->ahead)
        return broken(w, "other weights than it says");
    int *first = &w->read[0][a->stage][a->micro];
    if (w->s->rule == SL_RULE_SYNC)
        want = iter;
    if (w->s->rule == SL_RULE_2BW)
        want = iter >= 2 ? iter - 1 : 0;
    if (w->s->rule == SL_RULE_STASH && a->kind != SL_F)
        want = *first;
    if (w->s->rule == SL_RULE_VSYNC && a->kind != SL_F)
        want = *first;
    if (w->s->rule == SL_RULE_VSYNC && a->kind == SL_F) {
        int entry = 0; /* the first stage of full height */
        while (w->p->stages[entry].height + 1 < w->p->depth)
            entry++;
        want = a->stage == entry ? s->steps : a->version; /* compared in the end */
    }
    int d = a->kind != SL_F;
    if (has_policy(w, "xpipe")) {
        if (s->bell_iter[d] != iter + 1)
            s->bell_version[d] = s->steps;
        s->bell_iter[d] = (int)iter + 1;
        want = s->bell_version[d];
    }
    if (a->version != want)
        return broken(w, "a version against the rule");
    if (a->ahead != want_ahead(w, a))
        return broken(w, "a prediction against the policy");
    if (a->kind == SL_F)
        *first = a->version;
    if (a->kind == SL_B || a->kind == SL_I)
        w->read[1][a->stage][a->micro] = a->version;
    if (a->kind == SL_F || a->kind == SL_B || a->kind == SL_I)
        w->far[d][a->stage][a->micro] = a->ahead;
    return 1;
}

static symbol forward_symbol(int stage, int64_t micro, symbol weights, symbol inputs) {
    return mix(mix(mix(mix(11, (uint64_t)stage), (uint64_t)micro), weights), inputs);
}

static symbol backward_symbol(int64_t micro, symbol forward, symbol weights, symbol inputs) {
    return mix(mix(mix(mix(23, (uint64_t)micro), forward), weights), inputs);
}

static int do_pass(struct world *w, int worker, int seat, const struct sl_action *a) {
    struct seat *s = &w->seats[seat];
    const struct sl_pool *pools = w->s->pools[seat];
    bool recompute = w->p->stages[a->stage].recompute;
    symbol inputs = 1, value = 0;
    if (a->kind == SL_W) {
        if (a->slot2 < 0 || a->slot2 >= pools[SL_POOL_KEPT].count)
            return broken(w, "kept slot out of range");
        if (!check_read(w, seat, a))
            return 0;
        s->grad[a->grad_slot] =
            mix(mix(s->grad[a->grad_slot], s->kept[a->slot2]), (uint64_t)a->micro);
        s->kept[a->slot2] = 0;
        return 1;
    }
    if (a->slot < 0 || a->slot >= pools[SL_POOL_STASH].count)
        return broken(w, "stash slot out of range");
    if (a->kind != SL_RECOMPUTE) {
        int ready = gather(w, worker, seat, a, &inputs);
        if (ready <= 0)
            return 0;
    }
    if (!check_read(w, seat, a))
        return 0;
    symbol weights = s->weights[a->weight_slot];
    if (a->kind == SL_F) {
        value = forward_symbol(a->stage, a->micro, weights, inputs);
        s->stash[a->slot] = w->made[a->stage][a->micro] = value;
        return spread(w, worker, seat, a, value);
    }
    if (a->kind == SL_RECOMPUTE) { /* the same forward, on the weights it reads now */
        s->full = mix(mix(s->stash[a->slot], weights), (uint64_t)a->micro);
        return 1;
    }
    value = s->stash[a->slot]; /* saved inputs are read even beside recomputed activations */
    value = backward_symbol(a->micro, recompute ? mix(value, s->full) : value, weights, inputs);
    s->stash[a->slot] = s->full = 0;
    if (a->kind == SL_I && (a->slot2 < 0 || a->slot2 >= pools[SL_POOL_KEPT].count))
        return broken(w, "kept slot out of range");
    if (a->kind == SL_I)
        s->kept[a->slot2] = mix(value, 31);
    else
        s->grad[a->grad_slot] = mix(mix(s->grad[a->grad_slot], mix(value, 31)), (uint64_t)a->micro);
    return spread(w, worker, seat, a, value);
}

static int group_count(const struct world *w) {
    return w->p->stage_count + w->p->tie_count + w->s->together; /* the last one: everybody */
}

static bool member(const struct world *w, int group, int stage) {
    if (group == w->p->stage_count + w->p->tie_count)
        return true;
    if (group < w->p->stage_count)
        return group == stage && w->p->stages[stage].width > 1;
    const struct sl_tie *tie = &w->p->ties[group - w->p->stage_count];
    for (int i = 0; i < tie->count; i++)
        if (tie->stages[i] == stage)
            return true;
    return false;
}

static symbol group_symbol(const struct world *w, int group, int version) {
    symbol value = 41;
    for (int i = 0; i < w->p->seat_count; i++)
        if (member(w, group, w->p->seats[i].stage))
            value = mix(value, w->parts[group][version][i]);
    return value;
}

static int group_seats(const struct world *w, int group, int worker) {
    int n = 0;
    for (int i = 0; i < w->p->seat_count; i++)
        n += member(w, group, w->p->seats[i].stage) &&
             (worker < 0 || w->p->seats[i].worker == worker);
    return n;
}

static bool is_met(const struct world *w, int group, int version) {
    return w->part_count[group][version] == group_seats(w, group, -1);
}

/* Does the stage tell the group's part of the norm? The highest one does. */
static bool speaks(const struct world *w, int group, int stage) {
    for (int i = 0; i < w->p->stage_count; i++) {
        int above = w->p->stages[i].height - w->p->stages[stage].height;
        if (member(w, group, i) && (above > 0 || (above == 0 && i < stage)))
            return false;
    }
    return true;
}

/* Stepping together: a part is given as soon as the gradient is complete. */
static int give_part(struct world *w, int seat, const struct sl_action *a) {
    int all = w->p->stage_count + w->p->tie_count;
    const struct sl_seat *at = &w->p->seats[seat];
    struct seat *s = &w->seats[seat];
    if (a->version <= s->steps || (a->version > 1 && !w->parts[a->slot][a->version - 1][seat]))
        return broken(w, "gives another version");
    if (s->grad_iter[a->grad_slot] != a->version ||
        s->grad_count[a->grad_slot] != micros_of(w, at->stage, a->version - 1))
        return broken(w, "gives what is not complete");
    for (int g = 0; a->slot == all && g < all; g++) {
        if (!member(w, g, a->stage))
            continue;
        if (!w->parts[g][a->version][seat])
            return broken(w, "a verdict before its sums");
        if (speaks(w, g, a->stage) && !is_met(w, g, a->version))
            return 0;
    }
    if (w->parts[a->slot][a->version][seat])
        return broken(w, "twice into a group");
    w->parts[a->slot][a->version][seat] = mix(s->grad[a->grad_slot], 47);
    w->part_count[a->slot][a->version]++;
    return 1;
}

static int do_reduce(struct world *w, int worker, int seat, const struct sl_action *a) {
    struct seat *s = &w->seats[seat];
    if (a->slot < 0 || a->slot >= group_count(w) || !member(w, a->slot, a->stage))
        return broken(w, "not in this group");
    if (a->grad_slot >= w->s->pools[seat][SL_POOL_GRAD].count || a->version > w->iters ||
        a->version < 1)
        return broken(w, "reduces out of range");
    if (w->s->together)
        return give_part(w, seat, a);
    if (a->version != s->steps + 1)
        return broken(w, "reduces another version");
    if (!w->inside[worker]) {
        if (w->parts[a->slot][a->version][seat])
            return broken(w, "twice into a group");
        w->parts[a->slot][a->version][seat] = mix(s->grad[a->grad_slot], 47);
        w->part_count[a->slot][a->version]++;
        w->inside[worker] = true;
    }
    int here = 0;
    for (int i = 0; i < w->p->seat_count; i++)
        here += w->p->seats[i].worker == worker && w->parts[a->slot][a->version][i] != 0;
    if (here == group_seats(w, a->slot, worker) &&
        w->part_count[a->slot][a->version] < group_seats(w, a->slot, -1))
        return 0;
    w->inside[worker] = false;
    return 1;
}

static int do_step(struct world *w, int seat, const struct sl_action *a) {
    struct seat *s = &w->seats[seat];
    int slots = w->s->pools[seat][SL_POOL_WEIGHT].count;
    if (a->slot < 0 || a->slot >= slots || a->weight_slot >= slots ||
        a->grad_slot >= w->s->pools[seat][SL_POOL_GRAD].count)
        return broken(w, "step out of range");
    if (s->tag[a->slot] != a->version - 1 || s->steps != a->version - 1 || a->version > w->iters)
        return broken(w, "step from another version");
    symbol all = 0, own = mix(s->grad[a->grad_slot], 47);
    for (int g = 0; g < group_count(w); g++) {
        if (!member(w, g, a->stage))
            continue;
        bool waits = w->s->together && w->parts[g][a->version][seat];
        if (waits && !is_met(w, g, a->version))
            return 0;
        if (!w->parts[g][a->version][seat] || !is_met(w, g, a->version))
            return broken(w, "step without its reductions");
        if (w->parts[g][a->version][seat] != own)
            return broken(w, "gradient changed after it was reduced");
        if (g < w->p->stage_count + w->p->tie_count)
            all = mix(all, group_symbol(w, g, a->version));
    }
    if (!all)
        all = own;
    s->weights[a->weight_slot] = mix(s->weights[a->slot], all);
    s->tag[a->weight_slot] = a->version;
    s->tag_ahead[a->weight_slot] = 0;
    s->last_slot = a->weight_slot;
    s->steps = a->version;
    s->grad[a->grad_slot] = 3;
    s->grad_iter[a->grad_slot] = s->grad_count[a->grad_slot] = 0;
    return 1;
}

/* 1: done, 0: waits or broken. */
static int do_action(struct world *w, int worker, const struct sl_action *raw, int rep) {
    int seat = -1;
    if (raw->kind >= SL_KIND_COUNT || raw->stage >= w->p->stage_count)
        return broken(w, "no such action");
    for (int i = 0; i < w->p->stages[raw->stage].width; i++)
        if (w->p->stages[raw->stage].workers[i] == worker)
            seat = w->p->stages[raw->stage].seat + i;
    if (seat < 0)
        return broken(w, "stage is elsewhere");
    bool message = raw->kind == SL_SEND || raw->kind == SL_RECV;
    if (message && (raw->edge >= w->p->edge_count || raw->flags > 1))
        return broken(w, "no such edge");
    struct sl_action a = resolve(w, seat, *raw, rep);
    if (a.kind <= SL_RECV) {
        if (a.micro < 0 || a.micro >= total_of(w, a.stage) || seat_of(w, a.stage, a.micro) != seat)
            return broken(w, "no such micro-batch here");
    }
    if (a.kind == SL_SEND)
        return do_send(w, worker, seat, &a);
    if (a.kind == SL_RECV)
        return do_recv(w, worker, &a);
    if (a.kind == SL_REDUCE)
        return do_reduce(w, worker, seat, &a);
    if (a.kind == SL_STEP)
        return do_step(w, seat, &a);
    if (a.kind == SL_PREDICT)
        return do_predict(w, seat, &a);
    bool adds = a.kind == SL_B || a.kind == SL_W;
    if (adds && a.grad_slot >= w->s->pools[seat][SL_POOL_GRAD].count)
        return broken(w, "gradient slot out of range");
    if (!do_pass(w, worker, seat, &a))
        return 0;
    if (adds) {
        w->seats[seat].grad_iter[a.grad_slot] = (int)(a.micro / per_iter(w, a.stage)) + 1;
        w->seats[seat].grad_count[a.grad_slot]++;
    }
    w->count[a.kind][a.stage][a.micro]++;
    return 1;
}

static bool advance(struct world *w, int worker) {
    const struct sl_actions *lists[] = {&w->s->lists[0][worker], &w->s->lists[1][worker],
                                        &w->s->lists[2][worker]};
    int64_t pos = w->at[worker], rep = 0;
    const struct sl_actions *list = lists[0];
    if (pos >= list->count) {
        pos -= list->count;
        list = lists[1];
        rep = list->count ? pos / list->count : 0;
        if (list->count && rep < w->reps) {
            pos %= list->count;
        } else {
            pos -= (int64_t)list->count * w->reps;
            list = lists[2];
            rep = w->reps;
        }
    }
    if (pos >= list->count)
        return false;
    if (!do_action(w, worker, &list->at[pos], (int)rep))
        return false;
    w->at[worker]++;
    return true;
}

static bool all_at_end(const struct world *w) {
    for (int i = 0; i < w->p->worker_count; i++)
        if (w->at[i] <
            w->s->lists[0][i].count + w->s->lists[1][i].count * w->reps + w->s->lists[2][i].count)
            return false;
    return true;
}

/* --- what training means --- */

/* Weights after `iters` steps when every pass reads the version that was recorded for it. */
struct meaning {
    symbol **weights; /* [seat group: stage][version] -- replicas agree, so per stage */
    symbol **f, **b;  /* [stage][micro] */
};

static symbol meaning_inputs(const struct world *w, const struct meaning *m, int stage,
                             int64_t micro, bool grad) {
    const struct sl_stage *s = &w->p->stages[stage];
    symbol out = 1;
    for (int i = 0; i < (grad ? s->out_count : s->in_count); i++) {
        int edge = grad ? s->out[i] : s->in[i];
        int other = grad ? w->p->edges[edge].to : w->p->edges[edge].from;
        int64_t range[2];
        overlap(w, stage, micro, other, range);
        for (int64_t x = range[0]; x < range[1]; x++)
            out = mix(out, mix(grad ? m->b[other][x] : m->f[other][x], (uint64_t)edge));
    }
    return out;
}

static void meaning_passes(const struct world *w, struct meaning *m, int64_t iter) {
    for (int t = 0; t < w->p->stage_count; t++) {
        int s = w->p->topo[t];
        for (int64_t j = 0; j < micros_of(w, s, iter); j++) {
            int64_t k = iter * per_iter(w, s) + j;
            symbol weights = foreseen(m->weights[s][w->read[0][s][k]], w->far[0][s][k]);
            m->f[s][k] = forward_symbol(s, k, weights, meaning_inputs(w, m, s, k, false));
        }
    }
    for (int t = w->p->stage_count - 1; t >= 0; t--) {
        int s = w->p->topo[t];
        for (int64_t j = 0; j < micros_of(w, s, iter); j++) {
            int64_t k = iter * per_iter(w, s) + j;
            symbol forward = m->f[s][k];
            symbol weights = foreseen(m->weights[s][w->read[1][s][k]], w->far[1][s][k]);
            if (w->p->stages[s].recompute)
                forward = mix(forward, mix(mix(forward, weights), (uint64_t)k));
            m->b[s][k] = backward_symbol(k, forward, weights, meaning_inputs(w, m, s, k, true));
        }
    }
}

/* The gradient a replica has summed, in ascending order. */
static symbol meaning_sum(const struct world *w, const struct meaning *m, int seat, int64_t iter) {
    const struct sl_seat *at = &w->p->seats[seat];
    symbol sum = 3;
    for (int64_t j = at->replica; j < micros_of(w, at->stage, iter);
         j += w->p->stages[at->stage].width) {
        int64_t k = iter * per_iter(w, at->stage) + j;
        sum = mix(mix(sum, mix(m->b[at->stage][k], 31)), (uint64_t)k);
    }
    return sum;
}

static symbol meaning_group(const struct world *w, const struct meaning *m, int group,
                            int64_t iter) {
    symbol value = 41;
    for (int i = 0; i < w->p->seat_count; i++)
        if (member(w, group, w->p->seats[i].stage))
            value = mix(value, mix(meaning_sum(w, m, i, iter), 47));
    return value;
}

/* Versions are read before they are made only by a broken schedule: it would have been caught. */
static bool meaning_agrees(const struct world *w) {
    struct meaning m;
    bool same = true;
    size_t n = (size_t)w->p->stage_count;
    m.weights = zeros(n, sizeof *m.weights);
    m.f = zeros(n, sizeof *m.f);
    m.b = zeros(n, sizeof *m.b);
    for (int s = 0; s < w->p->stage_count; s++) {
        m.weights[s] = zeros((size_t)w->iters + 1, sizeof(symbol));
        m.weights[s][0] = mix(5, (uint64_t)s);
        m.f[s] = zeros((size_t)total_of(w, s), sizeof(symbol));
        m.b[s] = zeros((size_t)total_of(w, s), sizeof(symbol));
    }
    for (int64_t t = 0; t < w->iters; t++) {
        meaning_passes(w, &m, t);
        for (int s = 0; w->s->rule != SL_RULE_FORWARD && s < w->p->stage_count; s++) {
            int groups = 0;
            symbol all = 0;
            for (int g = 0; g < w->p->stage_count + w->p->tie_count; g++)
                groups += member(w, g, s);
            if (!groups)
                all = mix(meaning_sum(w, &m, w->p->stages[s].seat, t), 47);
            for (int g = 0; g < w->p->stage_count + w->p->tie_count; g++)
                if (member(w, g, s))
                    all = mix(all, meaning_group(w, &m, g, t));
            m.weights[s][t + 1] = mix(m.weights[s][t], all);
        }
    }
    for (int i = 0; i < w->p->seat_count; i++) {
        const struct seat *s = &w->seats[i];
        int64_t steps = w->s->rule == SL_RULE_FORWARD ? 0 : w->iters;
        same &=
            s->steps == steps && s->weights[s->last_slot] == m.weights[w->p->seats[i].stage][steps];
    }
    for (int s = 0; s < w->p->stage_count; s++)
        for (int64_t k = 0; k < total_of(w, s); k++)
            same &= w->made[s][k] == m.f[s][k];
    for (int s = 0; s < w->p->stage_count; s++) {
        free(m.weights[s]);
        free(m.f[s]);
        free(m.b[s]);
    }
    free(m.weights);
    free(m.f);
    free(m.b);
    return same;
}

/* Under VSYNC a micro-batch reads one version everywhere. */
static bool vsync_agrees(const struct world *w) {
    if (w->s->rule != SL_RULE_VSYNC)
        return true;
    for (int s = 1; s < w->p->stage_count; s++)
        for (int64_t i = 0; i < total_of(w, s); i++)
            if (w->read[0][s][i] != w->read[0][0][i] || w->read[1][s][i] != w->read[0][0][i])
                return false;
    return true;
}

static const char *verdict(struct world *w) {
    if (w->broken)
        return w->broken;
    if (!all_at_end(w))
        return "deadlock";
    for (int s = 0; s < w->p->stage_count; s++)
        for (int64_t i = 0; i < total_of(w, s); i++) {
            int b = w->count[SL_B][s][i], in = w->count[SL_I][s][i], we = w->count[SL_W][s][i];
            int back = w->s->rule != SL_RULE_FORWARD;
            if (w->count[SL_F][s][i] != 1 || b + in != back || b + we != back ||
                w->count[SL_RECOMPUTE][s][i] != (w->p->stages[s].recompute ? back : 0))
                return "a pass runs not exactly once";
        }
    for (int i = 0; i < w->p->worker_count * w->p->worker_count; i++)
        if (w->fifos[i].head != w->fifos[i].count)
            return "a receive is never sent";
    for (int i = 0; i < w->p->seat_count; i++)
        if (w->seats[i].steps != (w->s->rule == SL_RULE_FORWARD ? 0 : w->iters))
            return "a step is missing";
    if (!vsync_agrees(w))
        return "stages read different versions";
    return meaning_agrees(w) ? NULL : "the weights are wrong";
}

/* --- building and freeing the world --- */

static struct cell **new_cells(const struct world *w, int seat) {
    const struct sl_stage *s = &w->p->stages[w->p->seats[seat].stage];
    int pools = 2 * (s->in_count + s->out_count);
    struct cell **cells = zeros((size_t)pools, sizeof *cells);
    for (int i = 0; i < pools; i++) {
        int n = pool_of(w, seat, SL_POOL_EDGES + i)->count;
        cells[i] = zeros((size_t)n, sizeof **cells);
        for (int j = 0; j < n; j++) {
            cells[i][j].micro = -1;
            cells[i][j].pieces = zeros((size_t)w->most_overlap, sizeof(symbol));
        }
    }
    return cells;
}

static void free_cells(const struct world *w, int seat, struct cell **cells) {
    const struct sl_stage *s = &w->p->stages[w->p->seats[seat].stage];
    for (int i = 0; i < 2 * (s->in_count + s->out_count); i++) {
        for (int j = 0; j < pool_of(w, seat, SL_POOL_EDGES + i)->count; j++)
            free(cells[i][j].pieces);
        free(cells[i]);
    }
    free(cells);
}

static void open_seat(struct world *w, int i) {
    struct seat *s = &w->seats[i];
    const struct sl_pool *pools = w->s->pools[i];
    size_t weights = (size_t)(pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count);
    s->stash = zeros((size_t)pools[SL_POOL_STASH].count, sizeof(symbol));
    s->kept = zeros((size_t)pools[SL_POOL_KEPT].count, sizeof(symbol));
    s->weights = zeros(weights, sizeof(symbol));
    s->tag = zeros(weights, sizeof(int));
    s->tag_ahead = zeros(weights, sizeof(int));
    for (size_t j = 1; j < weights; j++)
        s->tag[j] = -1;
    s->weights[0] = mix(5, (uint64_t)w->p->seats[i].stage);
    size_t grads = (size_t)pools[SL_POOL_GRAD].count;
    s->grad = zeros(grads, sizeof(symbol));
    s->grad_iter = zeros(grads, sizeof(int));
    s->grad_count = zeros(grads, sizeof(int));
    for (size_t j = 0; j < grads; j++)
        s->grad[j] = 3;
    s->in_cells = new_cells(w, i);
    s->out_cells = new_cells(w, i);
}

static void open_world(struct world *w) {
    const struct sl_plan *p = w->p;
    size_t stages = (size_t)p->stage_count, workers = (size_t)p->worker_count;
    int groups = group_count(w);
    w->most_overlap = 2;
    for (int i = 0; i < p->stage_count; i++)
        for (int j = 0; j < p->stage_count; j++)
            if (p->stages[i].micro_size / p->stages[j].micro_size + 2 > w->most_overlap)
                w->most_overlap = (int)(p->stages[i].micro_size / p->stages[j].micro_size + 2);
    w->seats = zeros((size_t)p->seat_count, sizeof *w->seats);
    for (int i = 0; i < p->seat_count; i++)
        open_seat(w, i);
    w->fifos = zeros(workers * workers, sizeof *w->fifos);
    w->at = zeros(workers, sizeof *w->at);
    w->inside = zeros(workers, sizeof *w->inside);
    for (int g = 0; g < 2; g++) {
        w->inputs[g] = zeros((size_t)p->edge_count, sizeof **w->inputs);
        w->read[g] = zeros(stages, sizeof **w->read);
        w->far[g] = zeros(stages, sizeof **w->far);
        for (int e = 0; e < p->edge_count; e++) {
            int64_t n = total_of(w, g ? p->edges[e].from : p->edges[e].to);
            w->inputs[g][e] = zeros((size_t)n, sizeof(struct input));
            for (int64_t i = 0; i < n; i++)
                w->inputs[g][e][i].slot = -1;
        }
        for (int s = 0; s < p->stage_count; s++) {
            w->read[g][s] = zeros((size_t)total_of(w, s), sizeof(int));
            w->far[g][s] = zeros((size_t)total_of(w, s), sizeof(int));
        }
    }
    w->made = zeros(stages, sizeof *w->made);
    for (int s = 0; s < p->stage_count; s++)
        w->made[s] = zeros((size_t)total_of(w, s), sizeof **w->made);
    for (int k = 0; k < 5; k++) {
        w->count[k] = zeros(stages, sizeof **w->count);
        for (int s = 0; s < p->stage_count; s++)
            w->count[k][s] = zeros((size_t)total_of(w, s), 1);
    }
    w->parts = zeros((size_t)groups, sizeof *w->parts);
    w->part_count = zeros((size_t)groups, sizeof *w->part_count);
    for (int g = 0; g < groups; g++) {
        w->parts[g] = zeros((size_t)w->iters + 1, sizeof **w->parts);
        w->part_count[g] = zeros((size_t)w->iters + 1, sizeof **w->part_count);
        for (int v = 0; v <= w->iters; v++)
            w->parts[g][v] = zeros((size_t)p->seat_count, sizeof(symbol));
    }
}

static void close_world(struct world *w) {
    const struct sl_plan *p = w->p;
    int groups = group_count(w);
    for (int g = 0; g < groups; g++) {
        for (int v = 0; v <= w->iters; v++)
            free(w->parts[g][v]);
        free(w->parts[g]);
        free(w->part_count[g]);
    }
    for (int s = 0; s < p->stage_count; s++)
        free(w->made[s]);
    free(w->made);
    for (int k = 0; k < 5; k++) {
        for (int s = 0; s < p->stage_count; s++)
            free(w->count[k][s]);
        free(w->count[k]);
    }
    for (int g = 0; g < 2; g++) {
        for (int e = 0; e < p->edge_count; e++)
            free(w->inputs[g][e]);
        for (int s = 0; s < p->stage_count; s++) {
            free(w->read[g][s]);
            free(w->far[g][s]);
        }
        free(w->inputs[g]);
        free(w->read[g]);
        free(w->far[g]);
    }
    for (int i = 0; i < p->seat_count; i++) {
        struct seat *s = &w->seats[i];
        free_cells(w, i, s->in_cells);
        free_cells(w, i, s->out_cells);
        free(s->stash);
        free(s->kept);
        free(s->weights);
        free(s->tag);
        free(s->tag_ahead);
        free(s->grad);
        free(s->grad_iter);
        free(s->grad_count);
    }
    for (int i = 0; i < p->worker_count * p->worker_count; i++)
        free(w->fifos[i].at);
    free(w->parts);
    free(w->part_count);
    free(w->seats);
    free(w->fifos);
    free(w->at);
    free(w->inside);
}

const char *symbolic_judge(const struct sl_sched *sched) {
    struct world w = {.s = sched, .p = sched->plan, .iters = sched->iters, .reps = sched->reps};
    if (w.reps > UNROLLED) {
        w.iters -= w.reps - UNROLLED;
        w.reps = UNROLLED;
    }
    open_world(&w);
    for (bool moved = true; moved && !w.broken;) {
        moved = false;
        for (int i = 0; i < w.p->worker_count && !w.broken; i++)
            while (!w.broken && advance(&w, i))
                moved = true;
    }
    const char *why = verdict(&w);
    close_world(&w);
    return why;
}
