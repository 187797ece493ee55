/* pipedream-stage-time: the cost model of PipeDream (Narayanan et al., SOSP 2019), as in its
 * optimizer_graph_hierarchical.py, and a planner for it.
 *
 * Cuts are the states of PipeDream (pipedream_states.c). A level has M units with bandwidth bw;
 * each unit is the whole level below. A stage S between cuts I' and I on m units costs
 *
 *   first stage   ( T(S) + 4 (m-1)/m P(S) / bw / units of the level below ) / m
 *   others        max( ( T(S) + 4 (m-1)/m P(S) / bw ) / m, 2 out(I') / (bw m), 2 out(I) / (bw m) )
 *                 the last term not at the end of the graph
 *
 * with T(S) = compute of S, or on an outer level the objective of S on the level below. If there
 * is a memory limit M: ceil(units after this stage / m) (activations + weights of S) <= M.
 * Objective: the largest stage cost. The published program uses every unit (all_devices); this
 * planner may leave units idle. */
#include "peers/pipedream.h"

#include "base/clock.h"
#include "base/vec.h"

#include <math.h>

enum { STATES_LIST = 300000, STATES_FEW = 2400, STATES_MANY = 1400, STATES_INNER = 450 };
enum { WHOLE_FEW = 7000, WHOLE_MANY = 3000 };

struct level {
    int units, inner; /* units: units of this level; inner: units of the level below */
    double bandwidth;
    double *base; /* [states + 1][states] T of (start, end); NULL: T is a difference of compute */
};

struct search {
    struct sl_arena *arena;
    const struct sl_peers_query *query;
    struct sl_pipedream_graph graph;
    struct sl_pipedream_states states;
    int count;
    bool *inside; /* [count][count] is state a strictly inside state b? */
    struct level level[SL_PEERS_LEVELS];
    /* tables of the level that is being solved: [count][units + 1] */
    double *best;
    int *split, *width;
    int64_t pairs;
    bool settled; /* the plan has been found: the deadline is ignored while its stages are built */
    bool timed_out;
};

static bool is_over(struct search *s) {
    s->timed_out |= !s->settled && sl_clock_past(s->query->until_ns);
    return s->timed_out;
}

static double base_time(const struct search *s, const struct level *level, int start, int end) {
    if (level->base)
        return level->base[(int64_t)(start + 1) * s->count + end];
    return s->states.compute[end] - (start < 0 ? 0 : s->states.compute[start]);
}

static double params_of(const struct search *s, int start, int end) {
    return s->states.params[end] - (start < 0 ? 0 : s->states.params[start]);
}

static bool memory_fits(const struct search *s, int start, int end, int after, int m) {
    if (!(s->query->memory_bytes > 0))
        return true;
    double bytes = s->states.activation[end] + s->states.params[end];
    if (start >= 0)
        bytes -= s->states.activation[start] + s->states.params[start];
    int stashed = (after + m - 1) / m;
    return bytes * stashed <= s->query->memory_bytes;
}

/* Returns the cost of the first stage of a level. */
static double first_time(const struct search *s, const struct level *level, int start, int end,
                         int m) {
    double sync = 4.0 * (m - 1) * params_of(s, start, end) / (level->bandwidth * m);
    return (base_time(s, level, start, end) + sync / level->inner) / m;
}

/* Returns the cost of a later stage, from cut k to cut j. */
static double later_time(const struct search *s, const struct level *level, int k, int j, int m) {
    double sync = 4.0 * (m - 1) * params_of(s, k, j) / (level->bandwidth * m);
    double time = (base_time(s, level, k, j) + sync) / m;
    if (s->query->free_links)
        return time;
    time = fmax(time, 2.0 * s->states.out[k] / (level->bandwidth * m));
    return j < s->count - 1 ? fmax(time, 2.0 * s->states.out[j] / (level->bandwidth * m)) : time;
}

/* Fills the table with a single stage on m units, for all m. */
static void fill_first(struct search *s, const struct level *level, int start, int j) {
    double *best = s->best + (int64_t)j * (level->units + 1);
    int64_t row = (int64_t)j * (level->units + 1);
    for (int m = 1; m <= level->units; m++) {
        best[m] = INFINITY;
        s->split[row + m] = -1;
        s->width[row + m] = m;
        if ((m == 1 || !s->query->straight) && memory_fits(s, start, j, level->units - m, m))
            best[m] = first_time(s, level, start, j, m);
        if (!s->query->all_devices && m > 1 && best[m - 1] <= best[m]) {
            best[m] = best[m - 1];
            s->width[row + m] = s->width[row + m - 1];
        }
    }
}

/* Tries a last stage from cut k to cut j on `m` units, with everything before it on the other
 * units. */
static void try_stage(struct search *s, const struct level *level, int k, int j, int m) {
    const double *before = s->best + (int64_t)k * (level->units + 1);
    int64_t row = (int64_t)j * (level->units + 1);
    double time = later_time(s, level, k, j, m);
    /* level_out makes the table monotone in the number of units, so larger m cannot improve it */
    if (!s->query->all_devices && time >= s->best[row + m + 1])
        return;
    for (int all = m + 1; all <= level->units; all++) {
        double both = fmax(time, before[all - m]);
        if (both >= s->best[row + all] || !memory_fits(s, k, j, level->units - all, m))
            continue;
        s->best[row + all] = both;
        s->split[row + all] = k;
        s->width[row + all] = m;
    }
}

/* Makes the best cost monotone in the number of units, because units may stay idle. */
static void level_out(struct search *s, const struct level *level, int j) {
    int64_t row = (int64_t)j * (level->units + 1);
    for (int m = 2; m <= level->units && !s->query->all_devices; m++)
        if (s->best[row + m - 1] < s->best[row + m]) {
            s->best[row + m] = s->best[row + m - 1];
            s->split[row + m] = s->split[row + m - 1];
            s->width[row + m] = s->width[row + m - 1];
        }
}

/* Fills the table of one level for everything after cut `start`, up to cut `end`. */
static void solve(struct search *s, const struct level *level, int start, int end) {
    int max = s->query->straight ? 1 : level->units - 1;
    for (int j = start + 1; j <= end && !is_over(s); j++) {
        if (start >= 0 && !s->inside[(int64_t)start * s->count + j])
            continue;
        fill_first(s, level, start, j);
        int64_t row = (int64_t)j * (level->units + 1);
        for (int k = j - 1; k > start; k--) {
            if (!s->inside[(int64_t)k * s->count + j] ||
                (start >= 0 && !s->inside[(int64_t)start * s->count + k]))
                continue;
            s->pairs++;
            /* even without communication this stage would be no better, and earlier cuts are
             * worse */
            double least = (s->states.compute[j] - s->states.compute[k]) /
                           ((double)max * (level->base ? level->inner * 1.0 : 1.0));
            if (!level->base && !s->query->all_devices && level->units > 1 &&
                least >= s->best[row + 2])
                break;
            for (int m = 1; m <= max; m++)
                try_stage(s, level, k, j, m);
        }
        level_out(s, level, j);
    }
}

/* Computes T of the next level: the objective of this level for every pair of cuts. */
static void fill_base(struct search *s, const struct level *level, struct level *above) {
    int64_t rows = s->count + 1;
    above->base = SL_NEW(s->arena, double, rows * s->count);
    for (int start = -1; start < s->count - 1; start++) {
        solve(s, level, start, s->count - 1);
        for (int j = 0; j < s->count; j++) {
            bool valid = j > start && (start < 0 || s->inside[(int64_t)start * s->count + j]);
            above->base[(int64_t)(start + 1) * s->count + j] =
                valid ? s->best[(int64_t)j * (level->units + 1) + level->units] : INFINITY;
        }
    }
}

/* ---- plans ---- */

static const int *stage_layers(const struct search *s, int start, int end, int *count) {
    const struct sl_layers *layers = s->graph.layers;
    int *list = SL_NEW(s->arena, int, layers->count);
    *count = 0;
    for (int i = 0; i < layers->count; i++) {
        bool in = sl_bit(sl_ideal(&s->states.ideals, end), i) &&
                  !(start >= 0 && sl_bit(sl_ideal(&s->states.ideals, start), i));
        if (in)
            list[(*count)++] = i;
    }
    return list;
}

/* Makes the stages of level `at` between two cuts, with their inner levels. Overwrites the
 * table. */
static const struct sl_peers_stage *make_stages(struct search *s, int at, int start, int end,
                                                int *count) {
    const struct level *level = &s->level[at];
    SL_VEC(int) cuts = {0};
    SL_VEC(int) widths = {0};
    solve(s, level, start, end);
    for (int j = end, m = level->units; j > start;) {
        int64_t row = (int64_t)j * (level->units + 1);
        int k = s->split[row + m], width = s->width[row + m];
        SL_PUSH(&cuts, j);
        SL_PUSH(&widths, width);
        j = k < 0 ? start : k;
        m -= width;
    }
    *count = (int)cuts.count;
    struct sl_peers_stage *stages = SL_NEW(s->arena, struct sl_peers_stage, *count);
    for (int i = 0; i < *count; i++) {
        int64_t back = cuts.count - 1 - i;
        int from = i ? cuts.at[back + 1] : start, to = cuts.at[back], d = widths.at[back];
        struct sl_peers_stage *stage = &stages[i];
        *stage = (struct sl_peers_stage){.d = d, .t = 1};
        stage->layers = stage_layers(s, from, to, &stage->count);
        stage->time = i ? later_time(s, level, from, to, d) : first_time(s, level, from, to, d);
        if (at > 0)
            stage->inner = make_stages(s, at - 1, from, to, &stage->inner_count);
    }
    SL_VEC_FREE(&cuts);
    SL_VEC_FREE(&widths);
    return stages;
}

/* ---- search ---- */

static void find_inside(struct search *s) {
    s->inside = SL_NEW(s->arena, bool, (int64_t)s->count * s->count);
    for (int a = 0; a < s->count; a++)
        for (int b = a + 1; b < s->count; b++)
            s->inside[(int64_t)a * s->count + b] = sl_subset(
                sl_ideal(&s->states.ideals, a), sl_ideal(&s->states.ideals, b), s->graph.words);
}

static void search_states(struct search *s, struct sl_peers_plan *out) {
    int units = 1, last = s->query->level_count - 1;
    s->count = s->states.ideals.count;
    for (int l = 0; l <= last; l++)
        units = s->level[l].units > units ? s->level[l].units : units;
    s->best = SL_NEW(s->arena, double, (int64_t)s->count *(units + 1));
    s->split = SL_NEW(s->arena, int, (int64_t)s->count *(units + 1));
    s->width = SL_NEW(s->arena, int, (int64_t)s->count *(units + 1));
    find_inside(s);
    for (int l = 0; l < last; l++)
        fill_base(s, &s->level[l], &s->level[l + 1]);
    const struct level *top = &s->level[last];
    solve(s, top, -1, s->count - 1);
    out->pairs = s->pairs;
    out->timed_out = s->timed_out;
    if (s->timed_out)
        return;
    double objective = s->best[(int64_t)(s->count - 1) * (top->units + 1) + top->units];
    if (objective < out->objective) {
        s->settled = true;
        out->objective = objective;
        out->stages = make_stages(s, last, -1, s->count - 1, &out->stage_count);
        s->settled = false;
    }
}

static sl_err open_search(struct search *s, const struct sl_layers *layers,
                          struct sl_peers_plan *out) {
    const struct sl_peers_query *query = s->query;
    if (query->level_count < 1 || query->level_count > SL_PEERS_LEVELS)
        return sl_fail(SL_ERR_USAGE, "pipedream: 1 to %d levels", SL_PEERS_LEVELS);
    for (int l = 0; l < query->level_count; l++) {
        if (query->level[l] < 1 || query->level[l] > 4096 || !(query->bandwidth[l] > 0))
            return sl_fail(SL_ERR_USAGE,
                           "pipedream: each level needs 1 to 4096 units and a bandwidth");
        s->level[l] = (struct level){.units = (int)query->level[l],
                                     .inner = l ? (int)query->level[l - 1] : 1,
                                     .bandwidth = query->bandwidth[l]};
    }
    *out = (struct sl_peers_plan){.objective = INFINITY};
    sl_peers_pipedream_open(s->arena, layers, &s->graph);
    if (s->graph.first < 0)
        return sl_fail(SL_ERR_INPUT,
                       "pipedream: the graph has inputs only; there is nothing to plan");
    return SL_OK;
}

/* Returns the most bytes that a cut can have in a plan that beats `objective`. */
static double dearest_cut(const struct search *s, double objective) {
    const struct level *top = &s->level[s->query->level_count - 1];
    double max = 0;
    if (s->query->free_links || !(objective < INFINITY))
        return INFINITY;
    for (int l = 0; l < s->query->level_count; l++)
        max = fmax(max, s->level[l].bandwidth * (s->level[l].units - 1));
    for (int l = 0; l + 1 < s->query->level_count; l++)
        max = INFINITY; /* inner stages run on replicas of their unit, so there is no simple
                         * bound */
    return objective * (1 + 1e-12) * fmax(max, top->bandwidth) / 2;
}

/* Returns the number of states that takes a few seconds; the work grows with its square (with
 * levels, its cube). Returns `count` if all states take only a little more, because thinning loses
 * plans. */
static int states_max(const struct sl_peers_query *query, int count) {
    if (query->level_count > 1)
        return STATES_INNER;
    bool few = query->devices <= 4;
    if (count <= (few ? WHOLE_FEW : WHOLE_MANY))
        return count;
    return few ? STATES_FEW : STATES_MANY;
}

/* Finds some plan, even after the deadline. */
static void search_quickly(struct search *s, struct sl_peers_plan *out) {
    enum { STATES_QUICK = 48 };
    sl_peers_pipedream_sketch(s->arena, &s->graph, STATES_QUICK, &s->states);
    for (int l = 0; l < s->query->level_count; l++)
        s->level[l].base = NULL;
    s->timed_out = false;
    s->settled = true;
    search_states(s, out);
    s->settled = false;
    out->timed_out = s->timed_out = true;
}

/* Searches the states of one order, thinned to `max`: for a first plan if not all states can be
 * searched. */
static void search_chain(struct search *s, bool more, int max, struct sl_peers_plan *out) {
    if (!sl_peers_pipedream_chain(s->arena, &s->graph, more, s->query->until_ns, &s->states))
        return;
    if (s->states.ideals.count > max)
        sl_peers_pipedream_thin(s->arena, &s->states, INFINITY, max);
    search_states(s, out);
}

static sl_err plan(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peers_query *query, struct sl_peers_plan *out) {
    struct search s = {.arena = arena, .query = query};
    SL_TRY(open_search(&s, layers, out));
    int dropped = 0;
    double low = 0;
    bool complete =
        sl_peers_pipedream_list(arena, &s.graph, STATES_LIST, query->until_ns, &s.states);
    int max = states_max(query, complete ? s.states.ideals.count : STATES_LIST);
    out->ideals = complete ? s.states.ideals.count : 0;
    if (!complete || s.states.ideals.count > max) {
        struct sl_pipedream_states all = s.states;
        search_chain(&s, !complete, max, out);
        out->ideals = complete ? out->ideals : s.states.ideals.count;
        low = sl_peers_pipedream_bound(&s.graph, complete ? &all : NULL, query, out->objective);
        s.states = all;
        for (int l = 0; l < query->level_count; l++)
            s.level[l].base = NULL;
        if (complete)
            dropped =
                sl_peers_pipedream_thin(arena, &s.states, dearest_cut(&s, out->objective), max);
    }
    if (complete && !s.timed_out)
        search_states(&s, out);
    if (!(out->objective < INFINITY) && sl_clock_past(query->until_ns))
        search_quickly(&s, out);
    if (!(out->objective < INFINITY))
        return sl_peers_no_plan(query, !complete || dropped);
    out->proven = (complete && !dropped && !out->timed_out) || low >= out->objective * (1 - 1e-9);
    out->lower_bound = out->proven ? out->objective : fmin(low, out->objective);
    out->timed_out |=
        !out->proven && sl_clock_past(query->until_ns); /* true if the deadline stopped the bound */
    return SL_OK;
}

/* Makes stages of equal numbers of states, one unit each, on one level. */
static sl_err even(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peers_query *query, struct sl_peers_plan *out) {
    struct search s = {.arena = arena, .query = query};
    SL_TRY(open_search(&s, layers, out));
    if (query->level_count != 1)
        return sl_fail(SL_ERR_USAGE, "pipedream: 'even' plans one level only");
    if (!sl_peers_pipedream_chain(arena, &s.graph, false, 0, &s.states))
        return sl_peers_not_even();
    int64_t states = s.count = s.states.ideals.count;
    int count = (int)(query->devices < states ? query->devices : states);
    struct sl_peers_stage *stages = SL_NEW(arena, struct sl_peers_stage, count);
    double worst = 0;
    if (query->all_devices && count < query->devices)
        return sl_peers_not_even();
    for (int i = 0; i < count; i++) {
        int from = (int)(i * states / count) - 1, to = (int)((i + 1) * states / count) - 1;
        if (!memory_fits(&s, from, to, (int)query->devices - i - 1, 1))
            return sl_peers_not_even();
        stages[i] = (struct sl_peers_stage){.d = 1, .t = 1};
        stages[i].layers = stage_layers(&s, from, to, &stages[i].count);
        stages[i].time =
            i ? later_time(&s, s.level, from, to, 1) : first_time(&s, s.level, from, to, 1);
        worst = fmax(worst, stages[i].time);
    }
    *out = (struct sl_peers_plan){.stages = stages, .stage_count = count, .objective = worst};
    return SL_OK;
}

const struct sl_peers_cost_model sl_peers_pipedream_stage_time = {
    .name = "pipedream-stage-time",
    .format = "pipedream",
    .unit = "seconds per mini-batch",
    .brief = "max over stages of compute + all-reduce and of transfers, by levels (PipeDream)",
    .plan = plan,
    .even = even,
};
