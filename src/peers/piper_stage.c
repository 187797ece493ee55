/* piper-tps: sums over downsets in constant time per pair, and the exact price of a stage. */
#include "peers/piper.h"

/* Returns the least extra traffic of an option of this degree on an edge; `out`: at the source of
 * the edge. */
static double sync_bytes(const struct sl_piper *piper, int ti, int layer, int position, bool out) {
    const struct sl_layer *at = &piper->layers->at[layer];
    double least = INFINITY;
    for (int o = 0; o < at->option_count; o++)
        if (at->options[o].tensor == piper->tensors[ti])
            least = fmin(least, out ? at->options[o].out_bytes[position]
                                    : at->options[o].in_bytes[position]);
    return least < INFINITY ? least : 0;
}

/* Returns the traffic of one end of each edge. `which`: 0 and 1 are source and target with fast
 * options, 2 and 3 with the lower bound. */
static double *edge_ends(struct sl_piper *piper, int ti, int which) {
    const struct sl_layers *layers = piper->layers;
    double *bytes = SL_NEW(piper->arena, double, layers->edge_count + 1);
    for (int i = 0; i < layers->count; i++) {
        const struct sl_layer *layer = &layers->at[i];
        bool out = which == 0 || which == 2;
        int fast = piper->fast[ti][i], count = out ? layer->out_count : layer->in_count;
        for (int e = 0; e < count; e++) {
            int edge = out ? layer->out[e] : layer->in[e];
            double sync = 0;
            if (which >= 2)
                sync = sync_bytes(piper, ti, i, e, out);
            else if (fast >= 0)
                sync = out ? layer->options[fast].out_bytes[e] : layer->options[fast].in_bytes[e];
            bytes[edge] = layers->edges[edge].cost + sync;
        }
    }
    return bytes;
}

static double *add_both(struct sl_piper *piper, const double *a, const double *b) {
    double *sum = SL_NEW(piper->arena, double, piper->layers->edge_count + 1);
    for (int e = 0; e < piper->layers->edge_count; e++)
        sum[e] = a[e] + b[e];
    return sum;
}

/* Sums values over the edges that cross each downset. */
static double *sum_cross(struct sl_piper *piper, const struct sl_piper_cuts *cuts,
                         const double *bytes) {
    double *sums = SL_NEW(piper->arena, double, cuts->ideals.count);
    for (int i = 0; i < cuts->ideals.count; i++)
        for (int x = cuts->cross_at[i]; x < cuts->cross_at[i + 1]; x++)
            sums[i] += bytes[cuts->cross[x]];
    return sums;
}

static void find_cross(struct sl_piper *piper, struct sl_piper_cuts *cuts) {
    const struct sl_layers *layers = piper->layers;
    SL_VEC(int) cross = {0};
    int *at = SL_NEW(piper->arena, int, cuts->ideals.count + 1);
    for (int i = 0; i < cuts->ideals.count; i++) {
        const uint64_t *set = sl_ideal(&cuts->ideals, i);
        for (int e = 0; e < layers->edge_count; e++)
            if (sl_bit(set, layers->edges[e].from) && !sl_bit(set, layers->edges[e].to))
                SL_PUSH(&cross, e);
        at[i + 1] = (int)cross.count;
    }
    cuts->cross_at = at;
    cuts->cross = SL_VEC_FREEZE(&cross, piper->arena);
    SL_VEC_FREE(&cross);
}

enum { MISSING, TIME, PARAMS, PARAMS_LOW, MICRO, MICRO_LOW, FIXED, FIXED_LOW, FIELDS };

/* Computes the values of one layer for one degree. */
static void layer_values(const struct sl_piper *piper, int ti, int i, double out[FIELDS]) {
    const struct sl_layer *layer = &piper->layers->at[i];
    int fast = piper->fast[ti][i];
    memset(out, 0, sizeof *out * FIELDS);
    if (fast < 0) {
        out[MISSING] = 1;
        return;
    }
    const struct sl_layer_option *option = &layer->options[fast];
    out[TIME] = option->time;
    out[PARAMS] = out[PARAMS_LOW] = option->params_bytes;
    out[MICRO] = out[MICRO_LOW] = option->micro_bytes;
    out[FIXED] = out[FIXED_LOW] = option->fixed_bytes;
    for (int o = 0; o < layer->option_count; o++) {
        option = &layer->options[o];
        if (option->tensor != piper->tensors[ti])
            continue;
        out[PARAMS_LOW] = fmin(out[PARAMS_LOW], option->params_bytes);
        out[MICRO_LOW] = fmin(out[MICRO_LOW], option->micro_bytes);
        out[FIXED_LOW] = fmin(out[FIXED_LOW], option->fixed_bytes);
    }
}

static void tabulate_tensor(struct sl_piper *piper, struct sl_piper_cuts *cuts, int ti) {
    struct sl_piper_table *table = &cuts->table[ti];
    double **fields[FIELDS] = {&table->missing,    &table->time,     &table->params,
                               &table->params_low, &table->micro,    &table->micro_low,
                               &table->fixed,      &table->fixed_low};
    double *value = SL_NEW(piper->arena, double, piper->layers->count);
    for (int f = 0; f < FIELDS; f++) {
        for (int i = 0; i < piper->layers->count; i++) {
            double all[FIELDS];
            layer_values(piper, ti, i, all);
            value[i] = all[f];
        }
        *fields[f] = sl_graph_ideals_sum(piper->arena, &cuts->ideals, value);
    }
    double *ends[4];
    for (int which = 0; which < 4; which++)
        ends[which] = edge_ends(piper, ti, which);
    table->out = sum_cross(piper, cuts, ends[0]);
    table->in = sum_cross(piper, cuts, ends[1]);
    table->out_low = sum_cross(piper, cuts, ends[2]);
    table->in_low = sum_cross(piper, cuts, ends[3]);
    table->both = add_both(piper, ends[0], ends[1]);
    table->both_low = add_both(piper, ends[2], ends[3]);
}

void sl_peers_piper_tabulate(struct sl_piper *piper, struct sl_piper_cuts *cuts) {
    double *work = SL_NEW(piper->arena, double, piper->layers->count);
    for (int i = 0; i < piper->layers->count; i++) {
        const struct sl_layer *layer = &piper->layers->at[i];
        work[i] = INFINITY;
        for (int o = 0; o < layer->option_count; o++)
            work[i] = fmin(work[i], layer->options[o].tensor * layer->options[o].time);
    }
    cuts->work = sl_graph_ideals_sort(piper->arena, &cuts->ideals, work);
    find_cross(piper, cuts);
    for (int ti = 0; ti < piper->tensor_count; ti++)
        tabulate_tensor(piper, cuts, ti);
}

/* Sums a stage S = I \ I' with I' in I. Its traffic is out(I) + in(I') - both(edges from I' to
 * layers after S). */
void sl_peers_piper_sum(const struct sl_piper *piper, int tensor, int larger, int smaller,
                        struct sl_piper_sums *out) {
    const struct sl_piper_cuts *cuts = piper->cuts;
    const struct sl_piper_table *table = &cuts->table[tensor];
    const uint64_t *small = sl_ideal(&cuts->ideals, smaller);
    out->time = table->time[larger] - table->time[smaller];
    out->params = table->params[larger] - table->params[smaller];
    out->params_low = table->params_low[larger] - table->params_low[smaller];
    out->micro = table->micro[larger] - table->micro[smaller];
    out->micro_low = table->micro_low[larger] - table->micro_low[smaller];
    out->fixed = table->fixed[larger] - table->fixed[smaller];
    out->fixed_low = table->fixed_low[larger] - table->fixed_low[smaller];
    out->bytes = table->out[larger] + table->in[smaller];
    out->bytes_low = table->out_low[larger] + table->in_low[smaller];
    for (int x = cuts->cross_at[larger]; x < cuts->cross_at[larger + 1]; x++) {
        int edge = cuts->cross[x];
        if (sl_bit(small, piper->layers->edges[edge].from)) {
            out->bytes -= table->both[edge];
            out->bytes_low -= table->both_low[edge];
        }
    }
}

static double find_rate(const struct sl_piper *piper, int tensor, int in_flight) {
    double best = INFINITY;
    for (int i = 0; i < piper->layers->count; i++) {
        const struct sl_layer_option *options = piper->layers->at[i].options;
        int fast = piper->fast[tensor][i];
        for (int o = 0; o < piper->layers->at[i].option_count && fast >= 0; o++) {
            double save = (options[fast].micro_bytes - options[o].micro_bytes) * in_flight +
                          options[fast].fixed_bytes - options[o].fixed_bytes;
            if (options[o].tensor == piper->tensors[tensor] && save > 0)
                best = fmin(best, (options[o].time - options[fast].time) / save);
        }
    }
    return best;
}

double sl_peers_piper_rate(struct sl_piper *piper, int tensor, int in_flight) {
    if (in_flight >= SL_PIPER_FLIGHT)
        return 0;
    if (!piper->rate[tensor])
        piper->rate[tensor] = SL_NEW(piper->arena, double, SL_PIPER_FLIGHT);
    double *rate = &piper->rate[tensor][in_flight];
    if (*rate == 0)
        *rate = find_rate(piper, tensor, in_flight);
    return *rate;
}

/* ---- the exact price ---- */

static bool inside(const struct sl_piper_stage *stage, int layer) {
    return sl_bit(stage->larger, layer) && !(stage->smaller && sl_bit(stage->smaller, layer));
}

/* Returns the bytes that cross the stage's border at this layer, with this option. */
static double border_bytes(const struct sl_piper *piper, const struct sl_piper_stage *stage,
                           const struct sl_layer *layer, const struct sl_layer_option *option) {
    const struct sl_layer_edge *edges = piper->layers->edges;
    double bytes = 0;
    for (int e = 0; e < layer->in_count; e++)
        if (!inside(stage, edges[layer->in[e]].from))
            bytes += edges[layer->in[e]].cost + option->in_bytes[e];
    for (int e = 0; e < layer->out_count; e++)
        if (!inside(stage, edges[layer->out[e]].to))
            bytes += edges[layer->out[e]].cost + option->out_bytes[e];
    return bytes;
}

double sl_peers_piper_price(struct sl_piper *piper, const struct sl_piper_stage *stage,
                            double enough) {
    double bandwidth = piper->query->bandwidth[0], micro = (double)piper->query->micro;
    double d = stage->d, sync = 4 * (d - 1) / d / (micro * bandwidth);
    sl_peers_knapsack_clear(&piper->sack);
    for (int i = 0; i < piper->layers->count; i++) {
        const struct sl_layer *layer = &piper->layers->at[i];
        bool offered = false;
        if (!inside(stage, i))
            continue;
        sl_peers_knapsack_item(&piper->sack);
        for (int o = 0; o < layer->option_count; o++) {
            const struct sl_layer_option *option = &layer->options[o];
            if (option->tensor != piper->tensors[stage->tensor])
                continue;
            double bytes = 2 * border_bytes(piper, stage, layer, option);
            double cost = (option->time + bytes / bandwidth) / d + sync * option->params_bytes;
            double size = option->micro_bytes * stage->in_flight + option->fixed_bytes;
            sl_peers_knapsack_option(&piper->sack, cost, size, o);
            offered = true;
        }
        if (!offered) {
            piper->sack.least = INFINITY;
            return INFINITY;
        }
    }
    return sl_peers_knapsack_solve(&piper->sack, piper->query->memory_bytes, enough);
}
