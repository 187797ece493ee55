/* The sweep over downsets for one limit, and the bisection around it. */
#include "peers/sweep.h"

#include "base/clock.h"

#include <limits.h>

/* SLACK: tolerance, so that rounding of work sums does not exclude a plan. */
#define SLACK 1e-9
#define CLOSE 1e-9

enum { FIRST_TRIES = 24, TIGHT_MAX = 3, PAIR_STEPS = 32 };
#define EFFORT_MAX 2500000000ll /* a search of some seconds */
#define FIRST_STEP 1.05
#define GROWTH 1.18

void sl_peers_sweep_open(struct sl_sweep *sweep, struct sl_arena *arena) {
    sweep->head = SL_NEW(arena, int, sweep->ideals->count);
    sweep->need = SL_NEW(arena, int, sweep->ideals->count);
    sweep->corner = SL_NEW(arena, struct sl_sweep_corner, sweep->ideals->count);
    sweep->effort_max = sweep->effort_max ? sweep->effort_max : EFFORT_MAX;
    sweep->nested = true;
    for (int i = 1; i < sweep->ideals->count && sweep->nested; i++)
        sweep->nested = sl_subset(sl_ideal(sweep->ideals, i - 1), sl_ideal(sweep->ideals, i),
                                  sweep->ideals->words);
    if (sweep->border)
        sl_peers_sweep_border_open(sweep, arena);
    else
        sweep->need_tight = sweep->need_alone = sweep->need;
}

void sl_peers_sweep_close(struct sl_sweep *sweep) { SL_VEC_FREE(&sweep->states); }

static int devices_for(const struct sl_sweep *sweep, double work) {
    if (!(sweep->limit < INFINITY))
        return work > 0 && sweep->free_work == 0;
    double max = (work - sweep->free_work * sweep->limit) / sweep->limit - SLACK;
    return max > 0 ? max < 1e9 ? (int)ceil(max) : 1000000000 : 0;
}

static bool dominates(const struct sl_sweep_state *a, const struct sl_sweep_state *b) {
    return a->devices <= b->devices && a->replicas <= b->replicas;
}

void sl_peers_sweep_add(struct sl_sweep *sweep, struct sl_sweep_state state) {
    const int *need = state.replicas < sweep->replicas ? sweep->need_tight : sweep->need_alone;
    if (state.devices + need[state.ideal] > sweep->devices || state.replicas > sweep->replicas)
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
    sweep->corner[state.ideal] = (struct sl_sweep_corner){state.devices, state.replicas};
    state.next = sweep->head[state.ideal];
    sweep->head[state.ideal] = (int)sweep->states.count;
    SL_PUSH(&sweep->states, state);
}

/* Returns the component-wise minimum over the states of a downset. */
static struct sl_sweep_corner least(const struct sl_sweep *sweep, int i) {
    struct sl_sweep_corner corner = {INT_MAX, INT_MAX};
    for (int s = sweep->head[i]; s >= 0; s = sweep->states.at[s].next) {
        const struct sl_sweep_state *state = &sweep->states.at[s];
        corner.devices = state->devices < corner.devices ? state->devices : corner.devices;
        corner.replicas = state->replicas < corner.replicas ? state->replicas : corner.replicas;
    }
    return corner;
}

/* Returns how many of the first `end` downsets, which are sorted by work, need at most `left`
 * devices. */
static int count_within(const struct sl_sweep *sweep, int end, int left) {
    int low = 0;
    while (low < end) {
        int mid = low + (end - low) / 2;
        if (sweep->need[mid] <= left)
            low = mid + 1;
        else
            end = mid;
    }
    return low;
}

/* Do the work and the borders of the stage exceed the limit? */
static bool costs_more(const struct sl_sweep *sweep, int i, int j, double work, double unit) {
    return sweep->border && work >= sweep->border_from && work > unit * sweep->free_work &&
           work + sweep->border[i] + sweep->border[j] > unit;
}

/* Visits all stages that end at downset i and begin at a downset before `j`. */
static void visit_below(struct sl_sweep *sweep, int i, int j, struct sl_sweep_corner from,
                        double reach) {
    const struct sl_ideals *ideals = sweep->ideals;
    const uint64_t *set = sl_ideal(ideals, i);
    int left = sweep->left;
    double unit = sweep->limit * (1 + SLACK);
    int first = j;
    while (--j >= 0) {
        double work = sweep->work[i] - sweep->work[j];
        if (work > reach)
            break;
        if (sweep->holds && sweep->nested && !sweep->holds(sweep, i, j))
            break;
        /* true if every state that this stage could add is dominated */
        if (sweep->corner[j].devices <= from.devices + 1 &&
            sweep->corner[j].replicas <= from.replicas + sweep->step_replicas &&
            !(sweep->without && sweep->without(sweep, i, j)))
            continue;
        if (work > unit * (left - sweep->need_tight[j] + sweep->free_work) ||
            costs_more(sweep, i, j, work, unit) ||
            !sl_subset(sl_ideal(ideals, j), set, ideals->words))
            continue;
        sweep->pairs++;
        sweep->effort += PAIR_STEPS;
        sweep->pair(sweep, i, j);
    }
    sweep->effort += first - j;
}

/* Visits the stages that end at downset i: first stages without devices, then stages that leave
 * enough devices for the rest. */
static void visit(struct sl_sweep *sweep, int i) {
    struct sl_sweep_corner from = least(sweep, i);
    int left = sweep->left = sweep->devices - from.devices;
    int max = left < sweep->stage_devices ? left : sweep->stage_devices;
    double unit = sweep->limit * (1 + SLACK);
    int all = count_within(sweep, i, left), rest = count_within(sweep, i, left - 1);
    double last = rest > 0 ? sweep->work[i] - sweep->work[rest - 1] : INFINITY;
    double without = sweep->free_work > 0 ? unit * sweep->free_work : 0;
    if (last > without)
        visit_below(sweep, i, all, from, without);
    visit_below(sweep, i, last > without ? rest : all, from, unit * (max + sweep->free_work));
}

enum { NONE = -1, STOPPED = -2, HALF = 2, EIGHTH = 8 };

static bool is_over(struct sl_sweep *sweep) {
    sweep->timed_out |= sl_clock_past(sweep->until_ns);
    bool over = sweep->timed_out || (sweep->may_stop && sweep->effort > sweep->effort_now);
    sweep->stopped |= over;
    return over;
}

/* Is there a plan within the limit? Returns its state, or NONE, or STOPPED if its share of the
 * remaining effort did not suffice. */
static int run(struct sl_sweep *sweep, double limit, int share) {
    int count = sweep->ideals->count;
    sweep->limit = limit;
    sweep->states.count = 0;
    sweep->sweeps++;
    for (int i = 0; i < count; i++) {
        sweep->head[i] = -1;
        sweep->corner[i] = (struct sl_sweep_corner){INT_MAX, INT_MAX};
        sweep->need[i] = devices_for(sweep, sweep->work[i]);
    }
    if (sweep->border)
        sl_peers_sweep_border_needs(sweep);
    sl_peers_sweep_add(sweep, (struct sl_sweep_state){.ideal = count - 1, .from = -1});
    sweep->effort += count;
    sweep->effort_now = sweep->effort + (sweep->effort_max - sweep->effort) / share;
    for (int i = count - 1; i > 0; i--)
        if (sweep->head[i] >= 0) {
            visit(sweep, i);
            if (is_over(sweep))
                return sweep->head[0] >= 0 ? sweep->head[0] : STOPPED;
        }
    return sweep->head[0];
}

/* Is enough effort left for another sweep? */
static bool may_go_on(const struct sl_sweep *sweep) {
    enum { LEAST = 64 }; /* each sweep may use half of the rest, so six sweeps may be stopped */
    return !sweep->timed_out &&
           (!sweep->may_stop || sweep->effort_max - sweep->effort > sweep->effort_max / LEAST);
}

/* Finds a first plan, from tight limits (cheap sweeps) to loose ones. */
static bool start(struct sl_sweep *sweep, double *low, double *high) {
    double limit = *low * FIRST_STEP;
    int state = NONE;
    for (int i = 0; i < FIRST_TRIES && limit > 0 && state < 0; i++, limit *= GROWTH) {
        if (!may_go_on(sweep))
            return false;
        state = run(sweep, limit, HALF);
        if (state == NONE)
            *low = limit;
    }
    if (state < 0 && may_go_on(sweep)) {
        state = run(sweep, INFINITY, HALF);
        sweep->stopped &= state != NONE; /* NONE is a result, so the sweep was not stopped */
    }
    if (state >= 0)
        *high = sweep->accept(sweep, state);
    return state >= 0;
}

/* Finds the smallest limit by bisection. After several infeasible limits in a row it tries to prove
 * the best plan instead. Sweeps with limits from `dear` on would be too slow. */
bool sl_peers_sweep_search(struct sl_sweep *sweep, double *low, double *high) {
    int tight = *high < INFINITY ? TIGHT_MAX : 0;
    double dear = INFINITY;
    if (!tight && !start(sweep, low, high))
        return false;
    sweep->may_stop = true;
    while (fmin(*high, dear) - *low > CLOSE * *high && may_go_on(sweep)) {
        bool prove = tight >= TIGHT_MAX && *high < dear;
        double limit = prove ? *high * (1 - CLOSE) : *low + (fmin(*high, dear) - *low) / 2;
        int state = run(sweep, limit, prove ? EIGHTH : HALF);
        if (state >= 0) {
            double worst = sweep->accept(sweep, state);
            *high = fmin(*high, worst);
            tight = 0;
            /* rounding (1e40 next to 1) hides the rest of the gap, which stays open */
            if (worst > limit * (1 + SLACK))
                break;
        } else if (state == STOPPED) {
            dear = limit;
        } else if (prove) {
            *low = *high;
        } else {
            *low = limit;
            tight++;
        }
    }
    return true;
}
