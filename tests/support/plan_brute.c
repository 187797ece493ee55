/* Brute force over sets of layers as bit masks, without pruning and without `search`. */
#include "support/plan_brute.h"

#include "support/plan_eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct brute {
    const struct sl_layers *layers;
    const struct sl_peers_query *query;
    unsigned full;
};

/* Does the set hold every predecessor of its members? */
static bool closed(const struct sl_layers *layers, unsigned set) {
    for (int e = 0; e < layers->edge_count; e++)
        if (set >> layers->edges[e].to & 1 && !(set >> layers->edges[e].from & 1))
            return false;
    return true;
}

/* ---- piper ---- */

/* Cheapest choice of options for layers from i on; `cost` and `memory` are what is chosen so far.
 */
static double piper_choose(const struct brute *b, unsigned stage, int i, const int *dty,
                           const double *sofar) {
    const struct sl_layers *layers = b->layers;
    while (i < layers->count && !(stage >> i & 1))
        i++;
    if (i == layers->count)
        return sofar[1] <= b->query->memory_bytes ? sofar[0] : INFINITY;
    double best = INFINITY, d = dty[0], bandwidth = b->query->bandwidth[0];
    const struct sl_layer *layer = &layers->at[i];
    for (int o = 0; o < layer->option_count; o++) {
        const struct sl_layer_option *option = &layer->options[o];
        double bytes = 0;
        if (option->tensor != dty[1])
            continue;
        for (int e = 0; e < layer->in_count; e++)
            if (!(stage >> layers->edges[layer->in[e]].from & 1))
                bytes += layers->edges[layer->in[e]].cost + option->in_bytes[e];
        for (int e = 0; e < layer->out_count; e++)
            if (!(stage >> layers->edges[layer->out[e]].to & 1))
                bytes += layers->edges[layer->out[e]].cost + option->out_bytes[e];
        double next[2] = {sofar[0] + (option->time + 2 * bytes / bandwidth) / d +
                              4 * (d - 1) / d * option->params_bytes /
                                  ((double)b->query->micro * bandwidth),
                          sofar[1] + option->micro_bytes * dty[2] + option->fixed_bytes};
        best = fmin(best, piper_choose(b, stage, i + 1, dty, next));
    }
    return best;
}

/* `rest` is still to be placed before `replicas` replicas of later stages. */
static double piper_rest(const struct brute *b, unsigned rest, int devices, int replicas) {
    double best = INFINITY;
    if (!rest)
        return 0;
    for (unsigned stage = rest; stage; stage = (stage - 1) & rest) {
        if (!closed(b->layers, rest & ~stage))
            continue;
        for (int t = 1; t <= b->query->devices - devices; t++)
            for (int d = 1; d * t + devices <= b->query->devices; d++) {
                if (b->query->micro % d || replicas + d > b->query->micro)
                    continue;
                int dty[3] = {d, t, (replicas + d + d - 1) / d};
                double start[2] = {0, 0}, time = piper_choose(b, stage, 0, dty, start);
                if (time < best)
                    best = fmin(best, fmax(time, piper_rest(b, rest & ~stage, devices + d * t,
                                                            replicas + d)));
            }
    }
    return best;
}

double sl_brute_piper(const struct sl_layers *layers, const struct sl_peers_query *query) {
    struct brute b = {layers, query, (1u << layers->count) - 1};
    return piper_rest(&b, b.full, 0, 0);
}

/* ---- dnn-partitioning ---- */

/* Colours as bits: layers 2i, 2i + 1. */
static double dnnpart_load(const struct brute *b, unsigned colors, bool on_cpu) {
    const struct sl_layers *layers = b->layers;
    double load = 0, size = 0;
    for (int i = 0; i < layers->count; i++) {
        bool here = colors >> (i / 2) & 1, crosses = false;
        load += here ? on_cpu ? layers->at[i].cpu : layers->at[i].forward : 0;
        size += here ? layers->at[i].size_bytes : 0;
        if (here && !on_cpu && layers->at[i].cpu_only)
            return INFINITY;
        for (int o = 0; o < layers->at[i].out_count; o++) {
            int to = layers->edges[layers->at[i].out[o]].to;
            crosses |= (bool)(colors >> (to / 2) & 1) != here;
        }
        load += crosses && !on_cpu ? layers->edges[layers->at[i].out[0]].cost : 0;
    }
    return size > b->query->memory_bytes && !on_cpu ? INFINITY : load;
}

static bool dnnpart_closed(const struct sl_layers *layers, unsigned colors) {
    for (int e = 0; e < layers->edge_count; e++) {
        int from = layers->edges[e].from, to = layers->edges[e].to;
        if (from % 2 == 0 && to % 2 == 0 && colors >> (to / 2) & 1 && !(colors >> (from / 2) & 1))
            return false;
    }
    return true;
}

static double dnnpart_rest(const struct brute *b, unsigned rest, int devices, int cpus) {
    double best = INFINITY;
    if (!rest)
        return 0;
    for (unsigned stage = rest; stage; stage = (stage - 1) & rest) {
        if (!dnnpart_closed(b->layers, rest & ~stage))
            continue;
        double loads[2] = {dnnpart_load(b, stage, false), dnnpart_load(b, stage, true)};
        if (devices < b->query->devices && loads[0] < best)
            best = fmin(best, fmax(loads[0], dnnpart_rest(b, rest & ~stage, devices + 1, cpus)));
        if (cpus < b->query->cpus && loads[1] < best)
            best = fmin(best, fmax(loads[1], dnnpart_rest(b, rest & ~stage, devices, cpus + 1)));
    }
    return best;
}

double sl_brute_dnnpart(const struct sl_layers *layers, const struct sl_peers_query *query) {
    struct brute b = {layers, query, (1u << (layers->count / 2)) - 1};
    return dnnpart_rest(&b, b.full, 0, 0);
}

/* ---- pipedream ---- */

static double pipedream_out(const struct brute *b, unsigned set) {
    bool in[32] = {0};
    for (int i = 0; i < b->layers->count; i++)
        in[i] = set >> i & 1;
    return sl_eval_pipedream_out(b->layers, in);
}

static double pipedream_rest(const struct brute *b, unsigned from, unsigned to, int level,
                             int units);

/* Time of a stage on one unit of this level. */
static double pipedream_base(const struct brute *b, unsigned from, unsigned to, int level) {
    double time = 0;
    if (level > 0)
        return pipedream_rest(b, from, to, level - 1, (int)b->query->level[level - 1]);
    for (int i = 0; i < b->layers->count; i++)
        if (to >> i & 1 && !(from >> i & 1))
            time += (b->layers->at[i].forward + b->layers->at[i].backward) / 1000;
    return time;
}

static double pipedream_stage(const struct brute *b, unsigned from, unsigned to, const int *lmf) {
    int level = lmf[0];
    double m = lmf[1], params = 0, bandwidth = b->query->bandwidth[level];
    for (int i = 0; i < b->layers->count; i++)
        if (to >> i & 1 && !(from >> i & 1))
            params += b->layers->at[i].params_bytes;
    double sync = 4 * (m - 1) / m * params / bandwidth;
    if (lmf[2]) /* the first stage of its level */
        return (pipedream_base(b, from, to, level) +
                sync / (level ? (double)b->query->level[level - 1] : 1)) /
               m;
    double time = (pipedream_base(b, from, to, level) + sync) / m;
    time = fmax(time, 2 * pipedream_out(b, from) / (bandwidth * m));
    return to == b->full ? time : fmax(time, 2 * pipedream_out(b, to) / (bandwidth * m));
}

/* Best of everything between two cuts on at most `units` units: the last stage, then the rest. */
static double pipedream_rest(const struct brute *b, unsigned from, unsigned to, int level,
                             int units) {
    double best = INFINITY;
    unsigned between = to & ~from;
    for (int m = 1; m <= units; m++) {
        int whole[3] = {level, m, 1};
        best = fmin(best, pipedream_stage(b, from, to, whole));
        for (unsigned stage = (between - 1) & between; stage && m < units;
             stage = (stage - 1) & between) {
            unsigned cut = to & ~stage;
            int last[3] = {level, m, 0};
            if (!closed(b->layers, cut))
                continue;
            double time = pipedream_stage(b, cut, to, last);
            if (time < best)
                best = fmin(best, fmax(time, pipedream_rest(b, from, cut, level, units - m)));
        }
    }
    return best;
}

double sl_brute_pipedream(const struct sl_layers *layers, const struct sl_peers_query *query) {
    struct brute b = {layers, query, (1u << layers->count) - 1};
    int top = query->level_count - 1;
    return pipedream_rest(&b, 0, b.full, top, (int)query->level[top]);
}
