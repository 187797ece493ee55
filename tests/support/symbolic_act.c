/* The judge's actions: what each needs, leaves behind, and must not touch. */
#include "support/symbolic_world.h"

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
    sym_overlap(w, reader, m->reader, writer, range);
    int seat = sym_seat_of(w, reader, m->reader);
    int pool = sym_pool_index(w, m->edge, !m->grad, m->grad) - SL_POOL_EDGES;
    struct cell *cell = &w->seats[seat].in_cells[pool][m->pool_slot];
    if (cell->micro == m->reader)
        cell->pieces[m->writer - range[0]] = value;
    w->inputs[m->grad][m->edge][m->reader].arrived++;
}

/* Claim a buffer for a reader; what was in it is gone. */
static int claim(struct world *w, int edge, bool grad, int64_t reader, int64_t slot) {
    const struct sl_edge *e = &w->p->edges[edge];
    int stage = grad ? e->from : e->to, seat = sym_seat_of(w, stage, reader);
    int pool = sym_pool_index(w, edge, !grad, grad);
    struct input *in = &w->inputs[grad][edge][reader];
    if (slot < 0 || slot >= sym_pool_of(w, seat, pool)->count)
        return broken(w, "message slot out of range");
    struct cell *cell = &w->seats[seat].in_cells[pool - SL_POOL_EDGES][slot];
    if (in->slot >= 0 && in->slot != slot)
        return broken(w, "pieces in two slots");
    if (cell->micro != reader) {
        memset(cell->pieces, 0, sizeof(symbol) * (size_t)w->max_overlap);
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
    if (stage != a->stage || a->other < 0 || a->other >= sym_total_of(w, other))
        return broken(w, "receive of nothing");
    sym_overlap(w, stage, a->micro, other, range);
    if (a->other < range[0] || a->other >= range[1] || sym_worker_of(w, other, a->other) == worker)
        return broken(w, "receive of what nobody sends");
    if (sym_worker_of(w, other, a->other) != a->peer)
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
    int pool = sym_pool_index(w, a->edge, grad, grad);
    if (a->slot < 0 || a->slot >= sym_pool_of(w, seat, pool)->count)
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
    bool grad = a->kind != SL_FORWARD;
    for (int i = 0; i < (grad ? s->out_count : s->in_count); i++) {
        int edge = grad ? s->out[i] : s->in[i];
        int other = grad ? w->p->edges[edge].to : w->p->edges[edge].from;
        int64_t range[2];
        sym_overlap(w, a->stage, a->micro, other, range);
        struct input *in = &w->inputs[grad][edge][a->micro];
        if (in->posted < range[1] - range[0])
            return broken(w, "an input has no receive, or is made later on this worker");
        if (in->arrived < range[1] - range[0])
            return -1;
        if (in->posted > range[1] - range[0])
            return broken(w, "an input comes twice");
        int pool = sym_pool_index(w, edge, !grad, grad) - SL_POOL_EDGES;
        const struct cell *cell = &w->seats[seat].in_cells[pool][in->slot];
        if (cell->micro != a->micro)
            return broken(w, "an input was overwritten");
        for (int64_t x = 0; x < range[1] - range[0]; x++)
            *out = sym_mix(*out, cell->pieces[x]);
    }
    (void)worker;
    return 1;
}

static int spread(struct world *w, int worker, int seat, const struct sl_action *a, symbol value) {
    const struct sl_stage *s = &w->p->stages[a->stage];
    bool grad = a->kind != SL_FORWARD;
    for (int i = 0; i < (grad ? s->in_count : s->out_count); i++) {
        int edge = grad ? s->in[i] : s->out[i], remote = 0;
        int other = grad ? w->p->edges[edge].from : w->p->edges[edge].to;
        int64_t range[2];
        sym_overlap(w, a->stage, a->micro, other, range);
        for (int64_t x = range[0]; x < range[1]; x++) {
            if (sym_worker_of(w, other, x) != worker) {
                remote++;
                continue;
            }
            int pool = sym_pool_index(w, edge, !grad, grad), to = sym_seat_of(w, other, x);
            int64_t n = sym_pool_of(w, to, pool)->count;
            if (!n)
                return broken(w, "no buffer to hand over");
            struct message m = {edge, grad, x, a->micro, (int)(sym_nth_of_seat(w, other, x) % n)};
            if (!claim(w, edge, grad, x, m.pool_slot))
                return 0;
            put_piece(w, &m, sym_mix(value, (uint64_t)edge));
        }
        if (!remote)
            continue;
        int pool = sym_pool_index(w, edge, grad, grad);
        int64_t n = sym_pool_of(w, seat, pool)->count;
        if (!n)
            return broken(w, "no buffer to send from");
        struct cell *cell =
            &w->seats[seat]
                 .out_cells[pool - SL_POOL_EDGES][sym_nth_of_seat(w, a->stage, a->micro) % n];
        cell->micro = a->micro;
        cell->pieces[0] = sym_mix(value, (uint64_t)edge);
    }
    return 1;
}

symbol sym_foreseen(symbol weights, int64_t ahead) {
    return ahead ? sym_mix(sym_mix(weights, 71), (uint64_t)ahead) : weights;
}

static int do_predict(struct world *w, int seat, const struct sl_action *a) {
    struct seat *s = &w->seats[seat];
    int slots = w->s->pools[seat][SL_POOL_WEIGHT].count;
    int all = slots + w->s->pools[seat][SL_POOL_PREDICT].count;
    if (a->slot < 0 || a->slot >= slots || a->weight_slot < slots || a->weight_slot >= all)
        return broken(w, "prediction out of range");
    if (s->tag[a->slot] != a->version || s->steps != a->version || !a->ahead)
        return broken(w, "prediction from another version");
    s->weights[a->weight_slot] = sym_foreseen(s->weights[a->slot], a->ahead);
    s->tag[a->weight_slot] = a->version;
    s->tag_ahead[a->weight_slot] = a->ahead;
    return 1;
}

static int check_read(struct world *w, int seat, const struct sl_action *a) {
    struct seat *s = &w->seats[seat];
    const struct sl_slot_pool *pools = w->s->pools[seat];
    int64_t iter = a->micro / sym_per_iter(w, a->stage), want = s->steps;
    if (a->weight_slot >= pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count)
        return broken(w, "weight slot out of range");
    if (s->tag[a->weight_slot] != a->version || s->tag_ahead[a->weight_slot] != a->ahead)
        return broken(w, "other weights than it says");
    int *first = &w->read[0][a->stage][a->micro];
    if (w->s->rule == SL_RULE_SYNC)
        want = iter;
    if (w->s->rule == SL_RULE_2BW)
        want = iter >= 2 ? iter - 1 : 0;
    if (w->s->rule == SL_RULE_STASH && a->kind != SL_FORWARD)
        want = *first;
    if (w->s->rule == SL_RULE_VSYNC && a->kind != SL_FORWARD)
        want = *first;
    if (w->s->rule == SL_RULE_VSYNC && a->kind == SL_FORWARD) {
        int entry = 0; /* the first stage of full height */
        while (w->p->stages[entry].height + 1 < w->p->depth)
            entry++;
        want = a->stage == entry ? s->steps : a->version; /* compared in the end */
    }
    int d = a->kind != SL_FORWARD;
    if (sym_has_policy(w, "xpipe")) {
        if (s->bell_iter[d] != iter + 1)
            s->bell_version[d] = s->steps;
        s->bell_iter[d] = (int)iter + 1;
        want = s->bell_version[d];
    }
    if (a->version != want)
        return broken(w, "a version against the rule");
    if (a->ahead != sym_want_ahead(w, a))
        return broken(w, "a prediction against the policy");
    if (a->kind == SL_FORWARD)
        *first = a->version;
    if (a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_INPUT)
        w->read[1][a->stage][a->micro] = a->version;
    if (a->kind == SL_FORWARD || a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_INPUT)
        w->far[d][a->stage][a->micro] = a->ahead;
    return 1;
}

symbol sym_forward_symbol(int stage, int64_t micro, symbol weights, symbol inputs) {
    return sym_mix(sym_mix(sym_mix(sym_mix(11, (uint64_t)stage), (uint64_t)micro), weights),
                   inputs);
}

symbol sym_backward_symbol(int64_t micro, symbol forward, symbol weights, symbol inputs) {
    return sym_mix(sym_mix(sym_mix(sym_mix(23, (uint64_t)micro), forward), weights), inputs);
}

static int do_pass(struct world *w, int worker, int seat, const struct sl_action *a) {
    struct seat *s = &w->seats[seat];
    const struct sl_slot_pool *pools = w->s->pools[seat];
    bool recompute = w->p->stages[a->stage].recompute;
    symbol inputs = 1, value = 0;
    if (a->kind == SL_BACKWARD_WEIGHT) {
        if (a->slot2 < 0 || a->slot2 >= pools[SL_POOL_KEPT].count)
            return broken(w, "kept slot out of range");
        if (!check_read(w, seat, a))
            return 0;
        s->grad[a->grad_slot] =
            sym_mix(sym_mix(s->grad[a->grad_slot], s->kept[a->slot2]), (uint64_t)a->micro);
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
    if (a->kind == SL_FORWARD) {
        value = sym_forward_symbol(a->stage, a->micro, weights, inputs);
        s->stash[a->slot] = w->made[a->stage][a->micro] = value;
        return spread(w, worker, seat, a, value);
    }
    if (a->kind == SL_RECOMPUTE) { /* the same forward, on the weights it reads now */
        s->full = sym_mix(sym_mix(s->stash[a->slot], weights), (uint64_t)a->micro);
        return 1;
    }
    value = s->stash[a->slot]; /* saved inputs are read even beside recomputed activations */
    value =
        sym_backward_symbol(a->micro, recompute ? sym_mix(value, s->full) : value, weights, inputs);
    s->stash[a->slot] = s->full = 0;
    if (a->kind == SL_BACKWARD_INPUT && (a->slot2 < 0 || a->slot2 >= pools[SL_POOL_KEPT].count))
        return broken(w, "kept slot out of range");
    if (a->kind == SL_BACKWARD_INPUT)
        s->kept[a->slot2] = sym_mix(value, 31);
    else
        s->grad[a->grad_slot] =
            sym_mix(sym_mix(s->grad[a->grad_slot], sym_mix(value, 31)), (uint64_t)a->micro);
    return spread(w, worker, seat, a, value);
}

int sym_group_count(const struct world *w) {
    return w->p->stage_count + w->p->tie_count + w->s->global_step; /* the last one: everybody */
}

bool sym_member(const struct world *w, int group, int stage) {
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
        if (sym_member(w, group, w->p->seats[i].stage))
            value = sym_mix(value, w->parts[group][version][i]);
    return value;
}

static int group_seats(const struct world *w, int group, int worker) {
    int n = 0;
    for (int i = 0; i < w->p->seat_count; i++)
        n += sym_member(w, group, w->p->seats[i].stage) &&
             (worker < 0 || w->p->seats[i].worker == worker);
    return n;
}

static bool is_met(const struct world *w, int group, int version) {
    return w->part_count[group][version] == group_seats(w, group, -1);
}

/* Does the stage tell the group's part of the norm? The highest one does. */
static bool is_root(const struct world *w, int group, int stage) {
    for (int i = 0; i < w->p->stage_count; i++) {
        int above = w->p->stages[i].height - w->p->stages[stage].height;
        if (sym_member(w, group, i) && (above > 0 || (above == 0 && i < stage)))
            return false;
    }
    return true;
}

/* Micro-batches of a seat in an iteration. */
static int64_t share_of(const struct world *w, int seat, int64_t iter) {
    int stage = w->p->seats[seat].stage;
    int64_t first = iter * sym_per_iter(w, stage), n = 0;
    for (int64_t j = 0; j < sym_micros_of(w, stage, iter); j++)
        n += sym_seat_of(w, stage, first + j) == seat;
    return n;
}

/* The sum over stages of a tied gradient takes what the replicas of a stage have agreed on. */
static bool before_replicas(const struct world *w, int seat, const struct sl_action *a) {
    bool tie = a->slot >= w->p->stage_count && a->slot < w->p->stage_count + w->p->tie_count;
    return tie && sym_member(w, a->stage, a->stage) &&
           (!w->parts[a->stage][a->version][seat] || !is_met(w, a->stage, a->version));
}

/* Stepping together: a part is given as soon as the gradient is complete. */
static int give_part(struct world *w, int seat, const struct sl_action *a) {
    int all = w->p->stage_count + w->p->tie_count;
    struct seat *s = &w->seats[seat];
    int64_t share = share_of(w, seat, a->version - 1);
    if (a->version <= s->steps || (a->version > 1 && !w->parts[a->slot][a->version - 1][seat]))
        return broken(w, "gives another version");
    if (s->grad_count[a->grad_slot] != share || (share && s->grad_iter[a->grad_slot] != a->version))
        return broken(w, "gives what is not complete");
    if (before_replicas(w, seat, a))
        return broken(w, "a tied gradient before its replicas");
    for (int g = 0; a->slot == all && g < all; g++) {
        if (!sym_member(w, g, a->stage))
            continue;
        if (!w->parts[g][a->version][seat])
            return broken(w, "a verdict before its sums");
        if (is_root(w, g, a->stage) && !is_met(w, g, a->version))
            return 0;
    }
    if (w->parts[a->slot][a->version][seat])
        return broken(w, "twice into a group");
    w->parts[a->slot][a->version][seat] = sym_mix(s->grad[a->grad_slot], 47);
    w->part_count[a->slot][a->version]++;
    return 1;
}

static int do_reduce(struct world *w, int worker, int seat, const struct sl_action *a) {
    struct seat *s = &w->seats[seat];
    if (a->slot < 0 || a->slot >= sym_group_count(w) || !sym_member(w, a->slot, a->stage))
        return broken(w, "not in this group");
    if (a->grad_slot >= w->s->pools[seat][SL_POOL_GRAD].count || a->version > w->iters ||
        a->version < 1)
        return broken(w, "reduces out of range");
    if (w->s->global_step && a->slot >= w->p->stage_count)
        return give_part(w, seat, a);
    if (a->version <= s->steps || (!w->s->global_step && a->version != s->steps + 1))
        return broken(w, "reduces another version");
    if (!w->inside[worker]) {
        if (w->parts[a->slot][a->version][seat])
            return broken(w, "twice into a group");
        if (before_replicas(w, seat, a))
            return broken(w, "a tied gradient before its replicas");
        w->parts[a->slot][a->version][seat] = sym_mix(s->grad[a->grad_slot], 47);
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
    symbol all = 0, own = sym_mix(s->grad[a->grad_slot], 47);
    for (int g = 0; g < sym_group_count(w); g++) {
        if (!sym_member(w, g, a->stage))
            continue;
        bool waits = w->s->global_step && w->parts[g][a->version][seat];
        if (waits && !is_met(w, g, a->version))
            return 0;
        if (!w->parts[g][a->version][seat] || !is_met(w, g, a->version))
            return broken(w, "step without its reductions");
        if (w->parts[g][a->version][seat] != own)
            return broken(w, "gradient changed after it was reduced");
        if (g < w->p->stage_count + w->p->tie_count)
            all = sym_mix(all, group_symbol(w, g, a->version));
    }
    if (!all)
        all = own;
    s->weights[a->weight_slot] = sym_mix(s->weights[a->slot], all);
    s->tag[a->weight_slot] = a->version;
    s->tag_ahead[a->weight_slot] = 0;
    s->last_slot = a->weight_slot;
    s->steps = a->version;
    s->grad[a->grad_slot] = 3;
    s->grad_iter[a->grad_slot] = s->grad_count[a->grad_slot] = 0;
    return 1;
}

static void remember(struct seat *s, int64_t micro) {
    if (s->added_count == s->added_room) {
        s->added_room = s->added_room ? 2 * s->added_room : 16;
        s->added = realloc(s->added, sizeof *s->added * (size_t)s->added_room);
        if (!s->added)
            abort();
    }
    s->added[s->added_count++] = micro;
}

/* 1: done, 0: waits or broken. */
int sym_do_action(struct world *w, int worker, const struct sl_action *raw, int rep) {
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
    struct sl_action a = sym_resolve(w, seat, *raw, rep);
    if (a.kind <= SL_RECV) {
        if (a.micro < 0 || a.micro >= sym_total_of(w, a.stage) ||
            sym_seat_of(w, a.stage, a.micro) != seat)
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
    bool adds = a.kind == SL_BACKWARD || a.kind == SL_BACKWARD_WEIGHT;
    if (adds && a.grad_slot >= w->s->pools[seat][SL_POOL_GRAD].count)
        return broken(w, "gradient slot out of range");
    if (!do_pass(w, worker, seat, &a))
        return 0;
    if (adds) {
        w->seats[seat].grad_iter[a.grad_slot] = (int)(a.micro / sym_per_iter(w, a.stage)) + 1;
        w->seats[seat].grad_count[a.grad_slot]++;
        remember(&w->seats[seat], a.micro);
    }
    w->count[a.kind][a.stage][a.micro]++;
    return 1;
}
