/* piper-tps: the time per sample of Piper (Tarnawski, Narayanan, Phanishayee; NeurIPS 2021), as in
 * its algo.cpp, and a planner for it.
 *
 * A stage S runs on d replicas of t devices; each layer takes one option for degree t. N is the
 * number of micro-batches per batch, d divides N, and y = ceil(sum of d of this and all later
 * stages / d) micro-batches are in flight:
 *
 *   memory   sum (A y + B) <= M
 *   time     [ sum p + 2 sum over cut edges (c + sync at the layer's end) / bandwidth ] / d
 *            + 4 (d-1)/d sum w / (N bandwidth)
 *
 * Both stages pay for a cut edge. Objective: the largest stage time; sum of d t <= devices.
 * Piper chooses options greedily; this planner chooses them optimally (knapsack.h). */
#include "peers/piper.h"

#include "peers/sequence.h"

enum { IDEALS_MAX = 400000, MEMO_MAX = 1 << 21, WIDE = 4, PLACE_STEPS = 16, PRICE_STEPS = 150 };

/* ---- prices of stages that need a choice of options, cached over all sweeps ---- */

static uint64_t memo_key(int larger, int smaller, int tensor, int divisor, int in_flight) {
    if (larger >= 1 << 20 || divisor >= 256 || in_flight >= 4096)
        return 0;
    return (uint64_t)larger << 44 | (uint64_t)smaller << 24 | (uint64_t)tensor << 20 |
           (uint64_t)divisor << 12 | (uint64_t)in_flight;
}

static int64_t memo_slot(const struct sl_piper_memo *memo, uint64_t key) {
    int64_t at = (int64_t)((key * 0x9e3779b97f4a7c15u >> 20) & (uint64_t)(memo->room - 1));
    while (memo->keys[at] && memo->keys[at] != key)
        at = (at + 1) & (memo->room - 1);
    return at;
}

static void memo_grow(struct sl_piper_memo *memo) {
    struct sl_piper_memo old = *memo;
    memo->room = old.room ? old.room * 2 : 4096;
    memo->keys = sl_realloc(NULL, sizeof *memo->keys * (size_t)memo->room);
    memo->least = sl_realloc(NULL, sizeof *memo->least * (size_t)memo->room);
    memo->max = sl_realloc(NULL, sizeof *memo->max * (size_t)memo->room);
    memset(memo->keys, 0, sizeof *memo->keys * (size_t)memo->room);
    for (int64_t i = 0; i < old.room; i++)
        if (old.keys[i]) {
            int64_t at = memo_slot(memo, old.keys[i]);
            memo->keys[at] = old.keys[i];
            memo->least[at] = old.least[i];
            memo->max[at] = old.max[i];
        }
    free(old.keys);
    free(old.least);
    free(old.max);
}

static void memo_free(struct sl_piper_memo *memo) {
    free(memo->keys);
    free(memo->least);
    free(memo->max);
    *memo = (struct sl_piper_memo){0};
}

struct stage_at {
    int larger, smaller, tensor, divisor, in_flight;
};

/* Does the stage meet the limit with its best options? */
static bool price_within(struct sl_sweep *sweep, struct stage_at at) {
    struct sl_piper *piper = sweep->ctx;
    double limit = sweep->limit;
    struct sl_piper_memo *memo = &piper->memo;
    uint64_t key = memo_key(at.larger, at.smaller, at.tensor, at.divisor, at.in_flight);
    if (2 * (memo->count + 1) > memo->room && memo->count < MEMO_MAX)
        memo_grow(memo);
    int64_t slot = key ? memo_slot(memo, key) : 0;
    bool known = key && memo->keys[slot];
    if (known && memo->max[slot] <= limit)
        return true;
    if (known && memo->least[slot] >= limit)
        return false;
    struct sl_piper_stage stage = {.larger = sl_ideal(&piper->cuts->ideals, at.larger),
                                   .smaller = sl_ideal(&piper->cuts->ideals, at.smaller),
                                   .tensor = at.tensor,
                                   .d = piper->divisors[at.divisor],
                                   .in_flight = at.in_flight};
    double price = sl_peers_piper_price(piper, &stage, limit), least = piper->sack.least;
    sweep->effort += PRICE_STEPS * (piper->sack.items.count + 1);
    piper->exact = piper->exact && (price < INFINITY || least >= limit);
    if (known || (key && memo->count < MEMO_MAX)) {
        memo->max[slot] = known ? fmin(memo->max[slot], price) : price;
        memo->least[slot] = known ? fmax(memo->least[slot], least) : least;
        memo->keys[slot] = key;
        memo->count += !known;
    }
    return price < INFINITY;
}

/* ---- the sweep ---- */

static double time_of(const struct sl_piper *piper, double time, double bytes, double params,
                      double d) {
    double bandwidth = piper->query->bandwidth[0];
    return (time + 2 * bytes / bandwidth) / d +
           4 * (d - 1) / d * params / ((double)piper->query->micro * bandwidth);
}

/* Does the stage fit? Bounds decide this for most stages. */
static bool fits(struct sl_sweep *sweep, const struct sl_piper_sums *sums, struct stage_at at) {
    struct sl_piper *piper = sweep->ctx;
    double limit = sweep->limit, d = piper->divisors[at.divisor];
    double memory = piper->query->memory_bytes;
    double least = time_of(piper, sums->time, sums->bytes_low, sums->params_low, d);
    double over = sums->micro * at.in_flight + sums->fixed - memory;
    if (least > limit * (1 + 1e-12))
        return false;
    if (sums->micro_low * at.in_flight + sums->fixed_low > memory * (1 + 1e-12))
        return false;
    if (over <= 0 && time_of(piper, sums->time, sums->bytes, sums->params, d) <= limit)
        return true;
    if (over > 1e-9 * memory &&
        least + over * sl_peers_piper_rate(piper, at.tensor, at.in_flight) / d > limit * (1 + 1e-9))
        return false;
    return price_within(sweep, at);
}

/* Finds the smallest replication of the stage for one state of the larger downset. */
static void place(struct sl_sweep *sweep, const struct sl_piper_sums *sums, struct stage_at at,
                  int from) {
    struct sl_piper *piper = sweep->ctx;
    struct sl_sweep_state state = sweep->states.at[from];
    int tensor = piper->tensors[at.tensor];
    int max = (sweep->devices - state.devices - sweep->need[at.smaller]) / tensor;
    for (; at.divisor < piper->divisor_count; at.divisor++) {
        int d = piper->divisors[at.divisor];
        if (d > max)
            return;
        at.in_flight = 1 + (state.replicas + d - 1) / d;
        sweep->effort += PLACE_STEPS;
        if (!fits(sweep, sums, at))
            continue;
        sl_peers_sweep_add(sweep, (struct sl_sweep_state){.ideal = at.smaller,
                                                          .devices = state.devices + d * tensor,
                                                          .replicas = state.replicas + d,
                                                          .from = from,
                                                          .d = d,
                                                          .t = at.tensor});
        return;
    }
}

static void pair(struct sl_sweep *sweep, int larger, int smaller) {
    struct sl_piper *piper = sweep->ctx;
    for (int ti = 0; ti < piper->tensor_count; ti++) {
        const struct sl_piper_table *table = &piper->cuts->table[ti];
        struct sl_piper_sums sums;
        struct stage_at at = {.larger = larger, .smaller = smaller, .tensor = ti};
        double room = (double)(sweep->left - sweep->need[smaller]) / piper->tensors[ti];
        if (table->missing[larger] > table->missing[smaller] || room < 1 ||
            table->time[larger] - table->time[smaller] > sweep->limit * room * (1 + 1e-9))
            continue;
        sl_peers_piper_sum(piper, ti, larger, smaller, &sums);
        while (at.divisor < piper->divisor_count && piper->divisors[at.divisor] <= room &&
               time_of(piper, sums.time, sums.bytes_low, sums.params_low,
                       piper->divisors[at.divisor]) > sweep->limit * (1 + 1e-12))
            at.divisor++;
        if (at.divisor == piper->divisor_count || piper->divisors[at.divisor] > room)
            continue;
        for (int s = sweep->head[larger]; s >= 0; s = sweep->states.at[s].next)
            place(sweep, &sums, at, s);
    }
}

/* Does the stage fit with one micro-batch in flight and the smallest options? */
static bool holds(struct sl_sweep *sweep, int larger, int smaller) {
    const struct sl_piper *piper = sweep->ctx;
    for (int ti = 0; ti < piper->tensor_count; ti++) {
        const struct sl_piper_table *t = &piper->cuts->table[ti];
        double least = t->micro_low[larger] - t->micro_low[smaller] + t->fixed_low[larger] -
                       t->fixed_low[smaller];
        if (t->missing[larger] <= t->missing[smaller] &&
            least <= piper->query->memory_bytes * (1 + 1e-12))
            return true;
    }
    return false;
}

static struct sl_peers_stage make_stage(struct sl_piper *piper, const struct sl_piper_stage *stage,
                                        double enough) {
    struct sl_peers_stage out = {.d = stage->d, .t = piper->tensors[stage->tensor]};
    out.time = sl_peers_piper_price(piper, stage, enough);
    int count = (int)piper->sack.items.count, *layers = SL_NEW(piper->arena, int, count + 1),
        *options = SL_NEW(piper->arena, int, count + 1);
    for (int i = 0; i < piper->layers->count; i++)
        if (sl_bit(stage->larger, i) && !(stage->smaller && sl_bit(stage->smaller, i))) {
            layers[out.count] = i;
            options[out.count] = piper->sack.items.at[out.count].chosen;
            out.count++;
        }
    out.layers = layers;
    out.options = options;
    return out;
}

static double accept(struct sl_sweep *sweep, int state) {
    struct sl_piper *piper = sweep->ctx;
    const struct sl_sweep_state *states = sweep->states.at;
    double worst = 0;
    int count = 0;
    for (int s = state; states[s].from >= 0; s = states[s].from)
        count++;
    struct sl_peers_stage *stages = SL_NEW(piper->arena, struct sl_peers_stage, count + 1);
    for (int s = state, i = 0; states[s].from >= 0; s = states[s].from, i++) {
        const struct sl_sweep_state *after = &states[states[s].from];
        struct sl_piper_stage stage = {.larger = sl_ideal(sweep->ideals, after->ideal),
                                       .smaller = sl_ideal(sweep->ideals, states[s].ideal),
                                       .tensor = states[s].t,
                                       .d = states[s].d};
        stage.in_flight = 1 + (after->replicas + stage.d - 1) / stage.d;
        stages[i] = make_stage(piper, &stage, sweep->limit * (1 + 1e-11));
        worst = fmax(worst, stages[i].time);
    }
    if (worst < piper->plan->objective) {
        piper->plan->objective = worst;
        piper->plan->stages = stages;
        piper->plan->stage_count = count;
    }
    return worst;
}

/* Returns an upper bound on the total number of replicas. */
static int64_t replicas_max(const struct sl_piper *piper) {
    int64_t devices = piper->query->devices, micro = piper->query->micro;
    return micro < devices ? micro : devices;
}

/* Returns a lower bound: all work, spread perfectly. */
static double low_bound(const struct sl_piper *piper) {
    const struct sl_piper_cuts *cuts = piper->cuts;
    int tensor = 1;
    for (int t = 0; t < piper->tensor_count; t++)
        tensor = piper->tensors[t] > tensor ? piper->tensors[t] : tensor;
    double workers = fmin((double)piper->query->devices, (double)replicas_max(piper) * tensor);
    return cuts->work[cuts->ideals.count - 1] / workers;
}

/* Finds the best plan over one list of downsets. `may_stop`: it gives up if that takes too long. */
static void search(struct sl_piper *piper, struct sl_piper_cuts *cuts, bool may_stop, double *low) {
    sl_peers_piper_tabulate(piper, cuts);
    piper->cuts = cuts;
    struct sl_sweep sweep = {.ideals = &cuts->ideals,
                             .work = cuts->work,
                             .devices = (int)piper->query->devices,
                             .replicas = (int)replicas_max(piper),
                             .stage_devices = (int)piper->query->devices,
                             .step_replicas = 1,
                             .effort_max = piper->query->effort,
                             .until_ns = piper->query->until_ns,
                             .may_stop = may_stop,
                             .holds = holds,
                             .pair = pair,
                             .accept = accept,
                             .ctx = piper};
    sl_peers_sweep_open(&sweep, piper->arena);
    double high = piper->plan->objective;
    *low = fmax(*low, low_bound(piper));
    sl_peers_sweep_search(&sweep, low, &high);
    piper->stopped = sweep.stopped;
    piper->plan->timed_out |= sweep.timed_out;
    piper->plan->pairs += sweep.pairs;
    piper->plan->ideals = cuts->ideals.count;
    sl_peers_sweep_close(&sweep);
    memo_free(&piper->memo);
}

/* ---- set-up ---- */

static void find_tensors(struct sl_piper *piper) {
    const struct sl_layers *layers = piper->layers;
    for (int i = 0; i < layers->count; i++)
        for (int o = 0; o < layers->at[i].option_count; o++) {
            int tensor = layers->at[i].options[o].tensor, t = 0;
            while (t < piper->tensor_count && piper->tensors[t] != tensor)
                t++;
            if (t == piper->tensor_count && t < SL_PIPER_TENSORS && tensor <= piper->query->devices)
                piper->tensors[piper->tensor_count++] = tensor;
        }
    for (int t = 0; t < piper->tensor_count; t++) {
        piper->fast[t] = SL_NEW(piper->arena, int, layers->count);
        for (int i = 0; i < layers->count; i++) {
            const struct sl_layer_option *options = layers->at[i].options;
            int *fast = &piper->fast[t][i];
            *fast = -1;
            for (int o = 0; o < layers->at[i].option_count; o++)
                if (options[o].tensor == piper->tensors[t] &&
                    (*fast < 0 || options[o].time < options[*fast].time))
                    *fast = o;
        }
    }
}

static void find_divisors(struct sl_piper *piper) {
    int64_t micro = piper->query->micro;
    int64_t max = replicas_max(piper);
    piper->divisors = SL_NEW(piper->arena, int, max + 1);
    for (int64_t d = 1; d <= max; d++)
        if (micro % d == 0)
            piper->divisors[piper->divisor_count++] = (int)d;
}

static sl_err open_piper(struct sl_piper *piper) {
    const struct sl_peers_query *query = piper->query;
    if (query->devices < 1 || query->devices > 1 << 20 || query->micro < 1)
        return sl_fail(SL_ERR_USAGE, "piper: needs 1 to 2^20 devices and micro-batches per batch");
    if (!(query->bandwidth[0] > 0) || !(query->memory_bytes > 0))
        return sl_fail(SL_ERR_USAGE, "piper: needs a bandwidth and a memory limit");
    for (int i = 0; i < piper->layers->count; i++)
        if (!piper->layers->at[i].option_count)
            return sl_fail(SL_ERR_INPUT, "piper: layer %lld has no options",
                           (long long)piper->layers->at[i].id);
    find_tensors(piper);
    find_divisors(piper);
    piper->exact = true;
    *piper->plan = (struct sl_peers_plan){.objective = INFINITY};
    return SL_OK;
}

static sl_err plan(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peers_query *query, struct sl_peers_plan *out) {
    struct sl_piper piper = {.arena = arena, .layers = layers, .query = query, .plan = out};
    struct sl_piper_cuts chain = {0}, all = {0};
    SL_TRY(open_piper(&piper));
    struct sl_dag dag = sl_peers_dag(arena, layers);
    int *order = SL_NEW(arena, int, layers->count);
    double low = 0, low_chain = 0;
    SL_ASSERT(sl_graph_dag_order(arena, &dag, order));
    sl_graph_ideals_chain(arena, layers->count, order, &chain.ideals);
    bool complete = sl_graph_ideals_build(arena, &dag, IDEALS_MAX, &all.ideals);
    bool first = !complete || all.ideals.count > WIDE * chain.ideals.count;
    if (first)
        search(&piper, &chain, false, &low_chain); /* its bound prunes the search over all
                                                    * downsets */
    if (complete)
        search(&piper, &all, first, &low);
    sl_peers_knapsack_free(&piper.sack);
    if (!(out->objective < INFINITY))
        return sl_peers_no_plan(query, !complete || piper.stopped);
    if (!complete || !piper.exact) /* an undecided knapsack proves nothing */
        low = low_bound(&piper);
    out->proven = complete && piper.exact && low >= out->objective * (1 - 1e-9);
    out->lower_bound = out->proven ? out->objective : low;
    return SL_OK;
}

/* ---- even: equal numbers of layers, equal replication ---- */

static bool even_stages(struct sl_piper *piper, const struct sl_ideals *chain, int count, int d) {
    struct sl_peers_stage *stages = SL_NEW(piper->arena, struct sl_peers_stage, count);
    double worst = 0;
    for (int i = 0; i < count; i++) {
        int64_t layers = piper->layers->count;
        struct sl_piper_stage stage = {.larger = sl_ideal(chain, (int)((i + 1) * layers / count)),
                                       .smaller = sl_ideal(chain, (int)(i * layers / count)),
                                       .d = d,
                                       .in_flight = count - i};
        stages[i] = make_stage(piper, &stage, piper->plan->objective);
        worst = fmax(worst, stages[i].time);
        if (worst >= piper->plan->objective)
            return false;
    }
    piper->plan->objective = worst;
    piper->plan->stages = stages;
    piper->plan->stage_count = count;
    return true;
}

static sl_err even(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peers_query *query, struct sl_peers_plan *out) {
    struct sl_piper piper = {.arena = arena, .layers = layers, .query = query, .plan = out};
    struct sl_ideals chain;
    SL_TRY(open_piper(&piper));
    int64_t max = replicas_max(&piper);
    sl_graph_ideals_chain(arena, layers->count, layers->order, &chain);
    for (int count = 1; count <= layers->count && count <= query->devices; count++)
        for (int i = 0; i < piper.divisor_count; i++)
            if ((int64_t)count * piper.divisors[i] <= max && piper.tensors[0] == 1)
                even_stages(&piper, &chain, count, piper.divisors[i]);
    sl_peers_knapsack_free(&piper.sack);
    return out->objective < INFINITY ? SL_OK : sl_peers_not_even();
}

const struct sl_peers_cost_model sl_peers_piper_tps = {
    .name = "piper-tps",
    .format = "piper",
    .unit = "time per micro-batch",
    .brief = "max over stages of compute + communication + amortised all-reduce (Piper)",
    .plan = plan,
    .even = even,
};
