/* The judge's numbers, by its own arithmetic, and its world built and freed. */
#include "support/symbolic_world.h"

symbol sym_mix(symbol a, uint64_t b) {
    uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0x7F4A7C15u) * 0xC2B2AE3D27D4EB4Fu;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 32;
    return x ? x : 1;
}

void *sym_zeros(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

/* --- numbers --- */

static int64_t batch_of(const struct world *w, int64_t iter) {
    return iter == w->iters - 1 ? w->s->last_batch : w->s->batch;
}

int64_t sym_micros_of(const struct world *w, int stage, int64_t iter) {
    int64_t size = w->p->stages[stage].micro_size, batch = batch_of(w, iter), n = 0;
    while (n * size < batch)
        n++;
    return n;
}

int64_t sym_per_iter(const struct world *w, int stage) {
    int64_t size = w->p->stages[stage].micro_size, n = w->s->batch / size;
    return n * size < w->s->batch ? n + 1 : n;
}

int64_t sym_total_of(const struct world *w, int stage) {
    return sym_per_iter(w, stage) * (w->iters - 1) + sym_micros_of(w, stage, w->iters - 1);
}

int sym_seat_of(const struct world *w, int stage, int64_t micro) {
    int64_t in_iter = micro % sym_per_iter(w, stage);
    return w->p->stages[stage].seat + (int)(in_iter % w->p->stages[stage].width);
}

int sym_worker_of(const struct world *w, int stage, int64_t micro) {
    return w->p->seats[sym_seat_of(w, stage, micro)].worker;
}

/* Which one of its seat, counted from the start. */
int64_t sym_nth_of_seat(const struct world *w, int stage, int64_t micro) {
    int64_t n = 0, per = sym_per_iter(w, stage), width = w->p->stages[stage].width;
    int64_t replica = micro % per % width;
    int64_t of_replica = replica < per ? (per - 1 - replica) / width + 1 : 0;
    n = micro / per * of_replica;
    return n + micro % per / width;
}

static void samples_of(const struct world *w, int stage, int64_t micro, int64_t out[2]) {
    int64_t per = sym_per_iter(w, stage), iter = micro / per, size = w->p->stages[stage].micro_size;
    out[0] = iter * w->s->batch + micro % per * size;
    out[1] = out[0] + size;
    int64_t end = iter * w->s->batch + batch_of(w, iter);
    out[1] = out[1] < end ? out[1] : end;
}

/* First and behind-last micro-batch of `other` that shares a sample. */
void sym_overlap(const struct world *w, int stage, int64_t micro, int other, int64_t out[2]) {
    int64_t mine[2], theirs[2], per = sym_per_iter(w, other);
    samples_of(w, stage, micro, mine);
    int64_t iter = micro / sym_per_iter(w, stage), first = iter * per;
    out[0] = out[1] = -1;
    for (int64_t x = first; x < first + per && x < sym_total_of(w, other); x++) {
        samples_of(w, other, x, theirs);
        if (theirs[0] < mine[1] && mine[0] < theirs[1]) {
            out[0] = out[0] < 0 ? x : out[0];
            out[1] = x + 1;
        }
    }
}

int sym_pool_index(const struct world *w, int edge, bool at_to, bool grad) {
    const struct sl_edge *e = &w->p->edges[edge];
    if (at_to)
        return SL_POOL_EDGES + 2 * e->to_place + grad;
    return SL_POOL_EDGES + 2 * w->p->stages[e->from].in_count + 2 * e->from_place + grad;
}

const struct sl_slot_pool *sym_pool_of(const struct world *w, int seat, int pool) {
    return &w->s->pools[seat][pool];
}

/* --- resolving repetitions, on its own --- */

static int64_t turn(int64_t slot, const struct sl_slot_pool *pool, int rep) {
    if (slot < 0 || slot >= pool->count)
        return slot;
    return (slot + (int64_t)pool->turn * rep) % pool->count;
}

struct sl_action sym_resolve(const struct world *w, int seat, struct sl_action a, int rep) {
    const struct sl_slot_pool *pools = w->s->pools[seat];
    bool message = a.kind == SL_SEND || a.kind == SL_RECV;
    if (a.kind <= SL_RECV)
        a.micro += (int32_t)(sym_per_iter(w, a.stage) * rep);
    if (message) {
        const struct sl_edge *e = &w->p->edges[a.edge];
        bool at_to = (a.kind == SL_SEND) == !!(a.flags & SL_GRAD);
        a.other += (int32_t)(sym_per_iter(w, e->from == a.stage ? e->to : e->from) * rep);
        a.slot =
            (int32_t)turn(a.slot, &pools[sym_pool_index(w, a.edge, at_to, a.flags & SL_GRAD)], rep);
        return a;
    }
    a.version += rep;
    if (a.kind == SL_STEP || a.kind == SL_PREDICT)
        a.slot = (int32_t)turn(a.slot, &pools[SL_POOL_WEIGHT], rep);
    else if (a.kind != SL_REDUCE)
        a.slot = (int32_t)turn(a.slot, &pools[SL_POOL_STASH], rep);
    if (a.kind == SL_BACKWARD_INPUT || a.kind == SL_BACKWARD_WEIGHT)
        a.slot2 = (int32_t)turn(a.slot2, &pools[SL_POOL_KEPT], rep);
    if (a.kind == SL_BACKWARD || a.kind == SL_BACKWARD_WEIGHT || a.kind == SL_REDUCE ||
        a.kind == SL_STEP)
        a.grad_slot = (uint8_t)turn(a.grad_slot, &pools[SL_POOL_GRAD], rep);
    if (a.kind != SL_REDUCE && a.weight_slot < pools[SL_POOL_WEIGHT].count)
        a.weight_slot = (uint16_t)turn(a.weight_slot, &pools[SL_POOL_WEIGHT], rep);
    else if (a.kind != SL_REDUCE)
        a.weight_slot = (uint16_t)(pools[SL_POOL_WEIGHT].count +
                                   turn(a.weight_slot - pools[SL_POOL_WEIGHT].count,
                                        &pools[SL_POOL_PREDICT], rep));
    return a;
}

/* --- building and freeing the world --- */

static struct cell **new_cells(const struct world *w, int seat) {
    const struct sl_stage *s = &w->p->stages[w->p->seats[seat].stage];
    int pools = 2 * (s->in_count + s->out_count);
    struct cell **cells = sym_zeros((size_t)pools, sizeof *cells);
    for (int i = 0; i < pools; i++) {
        int n = sym_pool_of(w, seat, SL_POOL_EDGES + i)->count;
        cells[i] = sym_zeros((size_t)n, sizeof **cells);
        for (int j = 0; j < n; j++) {
            cells[i][j].micro = -1;
            cells[i][j].pieces = sym_zeros((size_t)w->max_overlap, sizeof(symbol));
        }
    }
    return cells;
}

static void free_cells(const struct world *w, int seat, struct cell **cells) {
    const struct sl_stage *s = &w->p->stages[w->p->seats[seat].stage];
    for (int i = 0; i < 2 * (s->in_count + s->out_count); i++) {
        for (int j = 0; j < sym_pool_of(w, seat, SL_POOL_EDGES + i)->count; j++)
            free(cells[i][j].pieces);
        free(cells[i]);
    }
    free(cells);
}

static void open_seat(struct world *w, int i) {
    struct seat *s = &w->seats[i];
    const struct sl_slot_pool *pools = w->s->pools[i];
    size_t weights = (size_t)(pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count);
    s->stash = sym_zeros((size_t)pools[SL_POOL_STASH].count, sizeof(symbol));
    s->kept = sym_zeros((size_t)pools[SL_POOL_KEPT].count, sizeof(symbol));
    s->weights = sym_zeros(weights, sizeof(symbol));
    s->tag = sym_zeros(weights, sizeof(int));
    s->tag_ahead = sym_zeros(weights, sizeof(int));
    for (size_t j = 1; j < weights; j++)
        s->tag[j] = -1;
    s->weights[0] = sym_mix(5, (uint64_t)w->p->seats[i].stage);
    size_t grads = (size_t)pools[SL_POOL_GRAD].count;
    s->grad = sym_zeros(grads, sizeof(symbol));
    s->grad_iter = sym_zeros(grads, sizeof(int));
    s->grad_count = sym_zeros(grads, sizeof(int));
    for (size_t j = 0; j < grads; j++)
        s->grad[j] = 3;
    s->in_cells = new_cells(w, i);
    s->out_cells = new_cells(w, i);
}

void sym_open_world(struct world *w) {
    const struct sl_plan *p = w->p;
    size_t stages = (size_t)p->stage_count, workers = (size_t)p->worker_count;
    int groups = sym_group_count(w);
    w->max_overlap = 2;
    for (int i = 0; i < p->stage_count; i++)
        for (int j = 0; j < p->stage_count; j++)
            if (p->stages[i].micro_size / p->stages[j].micro_size + 2 > w->max_overlap)
                w->max_overlap = (int)(p->stages[i].micro_size / p->stages[j].micro_size + 2);
    w->seats = sym_zeros((size_t)p->seat_count, sizeof *w->seats);
    for (int i = 0; i < p->seat_count; i++)
        open_seat(w, i);
    w->fifos = sym_zeros(workers * workers, sizeof *w->fifos);
    w->at = sym_zeros(workers, sizeof *w->at);
    w->inside = sym_zeros(workers, sizeof *w->inside);
    for (int g = 0; g < 2; g++) {
        w->inputs[g] = sym_zeros((size_t)p->edge_count, sizeof **w->inputs);
        w->read[g] = sym_zeros(stages, sizeof **w->read);
        w->far[g] = sym_zeros(stages, sizeof **w->far);
        for (int e = 0; e < p->edge_count; e++) {
            int64_t n = sym_total_of(w, g ? p->edges[e].from : p->edges[e].to);
            w->inputs[g][e] = sym_zeros((size_t)n, sizeof(struct input));
            for (int64_t i = 0; i < n; i++)
                w->inputs[g][e][i].slot = -1;
        }
        for (int s = 0; s < p->stage_count; s++) {
            w->read[g][s] = sym_zeros((size_t)sym_total_of(w, s), sizeof(int));
            w->far[g][s] = sym_zeros((size_t)sym_total_of(w, s), sizeof(int));
        }
    }
    w->made = sym_zeros(stages, sizeof *w->made);
    for (int s = 0; s < p->stage_count; s++)
        w->made[s] = sym_zeros((size_t)sym_total_of(w, s), sizeof **w->made);
    for (int k = 0; k < 5; k++) {
        w->count[k] = sym_zeros(stages, sizeof **w->count);
        for (int s = 0; s < p->stage_count; s++)
            w->count[k][s] = sym_zeros((size_t)sym_total_of(w, s), 1);
    }
    w->parts = sym_zeros((size_t)groups, sizeof *w->parts);
    w->part_count = sym_zeros((size_t)groups, sizeof *w->part_count);
    for (int g = 0; g < groups; g++) {
        w->parts[g] = sym_zeros((size_t)w->iters + 1, sizeof **w->parts);
        w->part_count[g] = sym_zeros((size_t)w->iters + 1, sizeof **w->part_count);
        for (int v = 0; v <= w->iters; v++)
            w->parts[g][v] = sym_zeros((size_t)p->seat_count, sizeof(symbol));
    }
}

void sym_close_world(struct world *w) {
    const struct sl_plan *p = w->p;
    int groups = sym_group_count(w);
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
        free(s->added);
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
