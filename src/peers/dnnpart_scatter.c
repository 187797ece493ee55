/* dnn-max-load with sets that need not be contiguous, as in the Scotch and local-search modes of
 * dnn-partitioning. A device then alternates between its parts, like an interleaved schedule; the
 * load of the busiest device still bounds the throughput.
 *
 * Simulated annealing from the best contiguous plan. There are two moves: a group goes to
 * another device, usually one that holds a tensor of it; or two groups are exchanged. A move
 * changes the loads of two devices. The energy is the logarithm of a sum of powers: close to the
 * largest load, but sensitive to the others. The number of moves is fixed and the random numbers
 * are counter-based, so the same input gives the same plan. */
#include "peers/dnnpart.h"

#include "base/clock.h"
#include "base/rng.h"

enum { POWER_LOG2 = 5, RUNS = 3, SEED = 1, DEVICES_MAX = 1024 };

struct scatter {
    const struct sl_dnnpart_groups *g;
    const struct sl_peers_query *query;
    int devices;         /* number of accelerators and CPU cores */
    int *at;             /* [group] its device */
    int *best;           /* [group] its device in the best plan */
    int *held;           /* [net][device] number of its members there */
    double *load, *size; /* [device] */
    int *nets_at, *nets; /* nets of group i: nets[nets_at[i]] .. nets[nets_at[i + 1] - 1] */
    double scale, best_load;
    uint64_t drawn;
};

static bool is_cpu(const struct scatter *s, int device) { return device >= s->query->devices; }

static double draw(struct scatter *s) { return sl_rng_uniform(SEED, 0, s->drawn++); }
static int below(struct scatter *s, int count) { return (int)(draw(s) * count); }

static void list_nets(struct sl_arena *arena, struct scatter *s) {
    const struct sl_dnnpart_groups *g = s->g;
    s->nets_at = SL_NEW(arena, int, g->count + 2);
    for (int n = 0; n < g->net_count; n++)
        for (int i = 0; i < g->nets[n].count; i++)
            s->nets_at[g->spans[g->nets[n].first + i] + 2]++;
    for (int i = 2; i < g->count + 2; i++)
        s->nets_at[i] += s->nets_at[i - 1];
    s->nets = SL_NEW(arena, int, s->nets_at[g->count + 1] + 1);
    for (int n = 0; n < g->net_count; n++)
        for (int i = 0; i < g->nets[n].count; i++)
            s->nets[s->nets_at[g->spans[g->nets[n].first + i] + 1]++] = n;
}

/* Returns the cost of a net on a device that holds `held` of its members. */
static double share(const struct scatter *s, const struct sl_dnnpart_net *net, int held,
                    int device) {
    return held > 0 && held < net->count && !is_cpu(s, device) ? net->cost : 0;
}

/* Removes the group from a device (by -1) or adds it (by 1). */
static void change(struct scatter *s, int group, int device, int by) {
    const struct sl_dnnpart_groups *g = s->g;
    for (int i = s->nets_at[group]; i < s->nets_at[group + 1]; i++) {
        int *held = &s->held[(int64_t)s->nets[i] * s->devices + device];
        const struct sl_dnnpart_net *net = &g->nets[s->nets[i]];
        s->load[device] += share(s, net, *held + by, device) - share(s, net, *held, device);
        *held += by;
    }
    s->load[device] += by * (is_cpu(s, device) ? g->cpu[group] : g->time[group]);
    s->size[device] += by * (is_cpu(s, device) ? 0 : g->size[group]);
}

static void move(struct scatter *s, int group, int device) {
    change(s, group, s->at[group], -1);
    change(s, group, device, 1);
    s->at[group] = device;
}

static double energy(const struct scatter *s) {
    double sum = 0;
    for (int d = 0; d < s->devices; d++) {
        double power = s->load[d] / s->scale;
        for (int i = 0; i < POWER_LOG2; i++)
            power *= power;
        sum += power;
    }
    return sum > 0 ? log(sum) / (1 << POWER_LOG2) : -INFINITY;
}

static bool allowed(const struct scatter *s, int group, int device) {
    return is_cpu(s, device) ||
           (!(s->g->barred[group] > 0) && s->size[device] <= s->query->memory_bytes);
}

static void keep_best(struct scatter *s) {
    double max = 0;
    for (int d = 0; d < s->devices; d++)
        max = fmax(max, s->load[d]);
    if (max >= s->best_load * (1 - 1e-12))
        return;
    s->best_load = max;
    memcpy(s->best, s->at, sizeof *s->at * (size_t)s->g->count);
}

/* Draws a device for the group: any one, or mostly one that touches a tensor of the group. */
static int target(struct scatter *s, int group) {
    int nets = s->nets_at[group + 1] - s->nets_at[group];
    if (!nets || draw(s) < 0.2)
        return below(s, s->devices);
    const struct sl_dnnpart_net *net = &s->g->nets[s->nets[s->nets_at[group] + below(s, nets)]];
    return s->at[s->g->spans[net->first + below(s, net->count)]];
}

static void anneal(struct scatter *s, int moves, double hot, double cold) {
    double now = energy(s);
    for (int m = 0; m < moves && (m % 1024 || !sl_clock_past(s->query->until_ns)); m++) {
        double heat = hot * pow(cold / hot, (double)m / moves);
        int a = below(s, s->g->count), to = target(s, a), from = s->at[a], b = -1;
        if (to == from)
            continue;
        if (draw(s) < 0.3) { /* exchanges two groups */
            b = below(s, s->g->count);
            b = s->at[b] == to ? b : -1;
        }
        move(s, a, to);
        if (b >= 0)
            move(s, b, from);
        double then = energy(s);
        bool fits = allowed(s, a, to) && (b < 0 || allowed(s, b, from));
        if (fits && (then <= now || draw(s) < exp((now - then) / heat))) {
            now = then;
            keep_best(s);
            continue;
        }
        if (b >= 0)
            move(s, b, to);
        move(s, a, from);
    }
}

/* Computes the loads from scratch, because sums of many small changes drift. */
static void settle(struct scatter *s, const int *at) {
    memset(s->held, 0, sizeof *s->held * (size_t)(s->g->net_count * s->devices));
    memset(s->load, 0, sizeof *s->load * (size_t)s->devices);
    memset(s->size, 0, sizeof *s->size * (size_t)s->devices);
    for (int i = 0; i < s->g->count; i++) {
        s->at[i] = at[i];
        change(s, i, at[i], 1);
    }
}

void sl_peers_dnnpart_scatter(struct sl_arena *arena, const struct sl_dnnpart_groups *groups,
                              const struct sl_peers_query *query, int *device_of) {
    struct scatter s = {.g = groups,
                        .query = query,
                        .devices = (int)(query->devices + query->cpus),
                        .best = device_of,
                        .best_load = INFINITY};
    if (s.devices < 2 || s.devices > DEVICES_MAX)
        return;
    int moves = groups->count < 2000 ? 1000 * groups->count : 2000000;
    moves = moves < 100000 ? 100000 : moves;
    s.at = SL_NEW(arena, int, groups->count);
    s.held = SL_NEW(arena, int, (int64_t)groups->net_count *s.devices + 1);
    s.load = SL_NEW(arena, double, s.devices);
    s.size = SL_NEW(arena, double, s.devices);
    list_nets(arena, &s);
    settle(&s, device_of);
    for (int d = 0; d < s.devices; d++)
        s.scale = fmax(s.scale, s.load[d]);
    if (!(s.scale > 0))
        return;
    keep_best(&s);
    for (int run = 0; run < RUNS; run++) {
        settle(&s, device_of);
        anneal(&s, moves, 0.03 / (1 + 4 * run), 1e-5);
    }
}
