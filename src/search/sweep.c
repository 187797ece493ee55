/* The sweep over downsets for one limit, and the bisection around it. */
#include "search/sweep.h"

/* Rounding must not turn a plan down: work sums differ in their last bits. */
#define SLACK 1e-9
#define CLOSE 1e-9

enum { FIRST_TRIES = 12 };
#define FIRST_STEP 1.05
#define GROWTH 1.3

void sl_sweep_open(struct sl_sweep *sweep, struct sl_arena *arena) {
    sweep->head = SL_NEW(arena, int, sweep->ideals->count);
    sweep->need = SL_NEW(arena, int, sweep->ideals->count);
}

void sl_sweep_close(struct sl_sweep *sweep) { SL_VEC_FREE(&sweep->states); }

static int devices_for(const struct sl_sweep *sweep, double work) {
    if (!(sweep->limit < INFINITY))
        return work > 0 && sweep->free_work == 0;
    double most = (work - sweep->free_work * sweep->limit) / sweep->limit - SLACK;
    return most > 0 ? most < 1e9 ? (int)ceil(most) : 1000000000 : 0;
}

static bool dominates(const struct sl_sweep_state *a, const struct sl_sweep_state *b) {
    return a->devices <= b->devices && a->replicas <= b->replicas;
}

void sl_sweep_add(struct sl_sweep *sweep, struct sl_sweep_state state) {
    if (state.devices + sweep->need[state.ideal] > sweep->devices ||
        state.replicas > sweep->replicas)
        return;
    for (int i = sweep->head[state.ideal]; i >= 0; i = sweep->states.at[i].next)
        if (dominates(&sweep->states.at[i], &state))
            return;
    int *link = &sweep->head[state.ideal];
    while (*link >= 0) {
        struct sl_sweep_state *old = &sweep->states.at[*link];
        if (dominates(&state, old))
            *link = old->next;
        else
            link = &old->next;
    }
    state.next = sweep->head[state.ideal];
    sweep->head[state.ideal] = (int)sweep->states.count;
    SL_PUSH(&sweep->states, state);
}

/* All stages that end at downset i. */
static void visit(struct sl_sweep *sweep, int i) {
    const struct sl_ideals *ideals = sweep->ideals;
    const uint64_t *set = sl_ideal(ideals, i);
    int left = 0;
    for (int s = sweep->head[i]; s >= 0; s = sweep->states.at[s].next)
        if (sweep->devices - sweep->states.at[s].devices > left)
            left = sweep->devices - sweep->states.at[s].devices;
    double reach = sweep->limit * (left + sweep->free_work) * (1 + SLACK);
    for (int j = i - 1; j >= 0; j--) {
        double work = sweep->work[i] - sweep->work[j];
        if (work > reach)
            break;
        if (sweep->need[j] > left || devices_for(sweep, work) + sweep->need[j] > left)
            continue;
        if (!sl_subset(sl_ideal(ideals, j), set, ideals->words))
            continue;
        sweep->pairs++;
        sweep->pair(sweep, i, j);
    }
}

/* Is there a plan within the limit? Its state, or -1. */
static int run(struct sl_sweep *sweep, double limit) {
    int count = sweep->ideals->count;
    sweep->limit = limit;
    sweep->states.count = 0;
    sweep->sweeps++;
    for (int i = 0; i < count; i++) {
        sweep->head[i] = -1;
        sweep->need[i] = devices_for(sweep, sweep->work[i]);
    }
    sl_sweep_add(sweep, (struct sl_sweep_state){.ideal = count - 1, .from = -1});
    for (int i = count - 1; i > 0; i--)
        if (sweep->head[i] >= 0)
            visit(sweep, i);
    return sweep->head[0];
}

/* A first plan, from tight limits to loose ones: tight sweeps are the cheap ones. */
static bool start(struct sl_sweep *sweep, double *low, double *high) {
    double limit = *low * FIRST_STEP;
    int state = -1;
    for (int i = 0; i < FIRST_TRIES && limit > 0 && state < 0; i++, limit *= GROWTH) {
        state = run(sweep, limit);
        if (state < 0)
            *low = limit;
    }
    if (state < 0)
        state = run(sweep, INFINITY);
    if (state >= 0)
        *high = sweep->accept(sweep, state);
    return state >= 0;
}

bool sl_sweep_search(struct sl_sweep *sweep, double *low, double *high) {
    bool probe = *high < INFINITY;
    if (!probe && !start(sweep, low, high))
        return false;
    while (*high - *low > CLOSE * *high) {
        double limit = probe ? *high * (1 - CLOSE) : *low + (*high - *low) / 2;
        int state = run(sweep, limit);
        if (state >= 0) {
            *high = fmin(*high, sweep->accept(sweep, state));
            probe = false;
        } else {
            *low = limit;
            probe = !probe;
        }
    }
    return true;
}
