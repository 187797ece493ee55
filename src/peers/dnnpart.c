/* dnn-max-load: the cost model of dnn-partitioning (Tarnawski et al., NeurIPS 2020), as in its
 * throughput-dp/dp.cpp, and a planner for it.
 *
 * Groups of layers (dnnpart_groups.c) are cut into contiguous sets, one per accelerator or CPU
 * core. The load of a set:
 *
 *   accelerator   sum of latencies + cost of every tensor that crosses its border, once each;
 *                 sizes add up to at most the memory
 *   CPU core      sum of CPU latencies; no communication, no memory limit
 *
 * A backward layer is in the set of its forward layer. Objective: the largest load, in the file's
 * unit.
 *
 * Let I' be in I and S = I \ I'. A net is a tensor with the groups that touch it. S pays a net
 * that crosses only one of the two borders. If a net crosses both, S pays it only if a member of
 * it lies in S:
 *   cost(S) = cross(I) + cross(I') - sum over nets crossing both of c (1 + [no member in S]) */
#include "peers/dnnpart.h"

#include "base/clock.h"

enum { IDEALS_MAX = 400000, WIDE = 4 };

struct cuts {
    struct sl_ideals ideals;
    const double *work, *time, *cpu, *size, *barred, *cross, *near;
    int net_words;
    const uint64_t *crossing;  /* [ideals][net_words] bits of the nets that cross the border */
    const int *list_at, *list; /* the same as lists: those of ideal i begin at list_at[i] */
};

struct search {
    struct sl_arena *arena;
    const struct sl_layers *layers;
    const struct sl_peers_query *query;
    struct sl_dnnpart_groups groups;
    const struct cuts *cuts;
    struct sl_peers_plan *plan;
    const double *spread; /* [net] bound of find_spread */
    double near;          /* nets with a smaller spread count at borders (sweep_border.c) */
    bool stopped;         /* the last sweeps stopped before they had examined all cuts */
};

static int members_in(const struct search *s, const struct sl_dnnpart_net *net,
                      const uint64_t *set) {
    int count = 0;
    for (int i = 0; i < net->count; i++)
        count += sl_bit(set, s->groups.spans[net->first + i]);
    return count;
}

/* Returns for each group the sum over it and its ancestors, or (behind) its descendants. */
static double *closure_sums(const struct search *s, bool behind) {
    const struct sl_dag *dag = &s->groups.dag;
    const int *at = behind ? dag->out_at : dag->in_at, *to = behind ? dag->out : dag->in;
    struct sl_arena arena = {0};
    int words = (dag->count + 63) / 64, *order = SL_NEW(&arena, int, dag->count + 1);
    uint64_t *sets = SL_NEW(&arena, uint64_t, (int64_t)dag->count * words + 1);
    double *sums = SL_NEW(s->arena, double, dag->count + 1);
    SL_ASSERT(sl_graph_dag_order(&arena, dag, order));
    for (int i = 0; i < dag->count; i++) {
        int g = order[behind ? dag->count - 1 - i : i];
        uint64_t *set = sets + (int64_t)g * words;
        set[g >> 6] |= 1ull << (g & 63);
        for (int e = at[g]; e < at[g + 1]; e++)
            for (int w = 0; w < words; w++)
                set[w] |= sets[(int64_t)to[e] * words + w];
        for (int w = 0; w < words; w++)
            for (uint64_t bits = set[w]; bits; bits &= bits - 1)
                sums[g] += s->groups.time[w * 64 + __builtin_ctzll(bits)];
    }
    sl_arena_free(&arena);
    return sums;
}

/* Computes an upper bound on the work between two borders that a net crosses: the inner border
 * includes a member and its ancestors; the outer one excludes a member and its descendants. */
static void find_spread(struct search *s) {
    const struct sl_dnnpart_groups *g = &s->groups;
    const double *before = closure_sums(s, false), *behind = closure_sums(s, true);
    double all = 0, *spread = SL_NEW(s->arena, double, g->net_count + 1);
    for (int i = 0; i < g->count; i++)
        all += g->time[i];
    for (int n = 0; n < g->net_count; n++) {
        double first = INFINITY, last = INFINITY;
        for (int i = 0; i < g->nets[n].count; i++) {
            int member = g->spans[g->nets[n].first + i];
            first = fmin(first, before[member]);
            last = fmin(last, behind[member]);
        }
        spread[n] = all - first - last;
    }
    s->spread = spread;
}

static void find_crossing(struct search *s, struct cuts *cuts) {
    int count = cuts->ideals.count;
    cuts->net_words = (s->groups.net_count + 63) / 64;
    uint64_t *crossing = SL_NEW(s->arena, uint64_t, (int64_t)count * cuts->net_words + 1);
    double *cross = SL_NEW(s->arena, double, count), *near = SL_NEW(s->arena, double, count);
    int *at = SL_NEW(s->arena, int, count + 1);
    SL_VEC(int) list = {0};
    for (int i = 0; i < count; i++) {
        const uint64_t *set = sl_ideal(&cuts->ideals, i);
        for (int n = 0; n < s->groups.net_count; n++) {
            const struct sl_dnnpart_net *net = &s->groups.nets[n];
            int in = members_in(s, net, set);
            if (in == 0 || in == net->count)
                continue;
            crossing[(int64_t)i * cuts->net_words + (n >> 6)] |= 1ull << (n & 63);
            cross[i] += net->cost;
            near[i] += s->spread[n] < s->near ? net->cost : 0;
            SL_PUSH(&list, n);
        }
        at[i + 1] = (int)list.count;
    }
    cuts->crossing = crossing;
    cuts->cross = cross;
    cuts->near = near;
    cuts->list_at = at;
    cuts->list = SL_VEC_FREEZE(&list, s->arena);
    SL_VEC_FREE(&list);
}

static void tabulate(struct search *s, struct cuts *cuts) {
    cuts->work = sl_graph_ideals_sort(s->arena, &cuts->ideals, s->groups.time);
    cuts->time = cuts->work;
    cuts->cpu = sl_graph_ideals_sum(s->arena, &cuts->ideals, s->groups.cpu);
    cuts->size = sl_graph_ideals_sum(s->arena, &cuts->ideals, s->groups.size);
    cuts->barred = sl_graph_ideals_sum(s->arena, &cuts->ideals, s->groups.barred);
    find_crossing(s, cuts);
}

/* Returns the discount of S for nets of the smaller downset that cross both borders. */
static double unpaid(const struct search *s, int larger, int smaller) {
    const struct cuts *cuts = s->cuts;
    const uint64_t *crossing = cuts->crossing + (int64_t)larger * cuts->net_words;
    const uint64_t *large = sl_ideal(&cuts->ideals, larger),
                   *small = sl_ideal(&cuts->ideals, smaller);
    double sum = 0;
    for (int x = cuts->list_at[smaller]; x < cuts->list_at[smaller + 1]; x++) {
        int n = cuts->list[x];
        if (!sl_bit(crossing, n))
            continue;
        const struct sl_dnnpart_net *net = &s->groups.nets[n];
        sum += net->cost;
        if (members_in(s, net, large) == members_in(s, net, small))
            sum += net->cost;
    }
    return sum;
}

static bool accelerator_fits(const struct search *s, int larger, int smaller, double limit) {
    const struct cuts *cuts = s->cuts;
    double time = cuts->time[larger] - cuts->time[smaller];
    if (time > limit || cuts->barred[larger] > cuts->barred[smaller])
        return false;
    if (cuts->size[larger] - cuts->size[smaller] > s->query->memory_bytes)
        return false;
    double paid = cuts->cross[larger] + cuts->cross[smaller];
    return time + paid <= limit || time + paid - unpaid(s, larger, smaller) <= limit;
}

static void add(struct sl_sweep *sweep, int from, int ideal, bool on_cpu) {
    struct sl_sweep_state state = sweep->states.at[from];
    sl_peers_sweep_add(sweep, (struct sl_sweep_state){.ideal = ideal,
                                                      .devices = state.devices + !on_cpu,
                                                      .replicas = state.replicas + on_cpu,
                                                      .from = from,
                                                      .t = on_cpu});
}

/* Can a CPU core take the stage, and is a core left? */
static bool cpu_fits(struct sl_sweep *sweep, int larger, int smaller) {
    const struct search *s = sweep->ctx;
    return sweep->replicas > 0 && s->cuts->cpu[larger] - s->cuts->cpu[smaller] <= sweep->limit;
}

static void pair(struct sl_sweep *sweep, int larger, int smaller) {
    const struct search *s = sweep->ctx;
    bool accelerator = accelerator_fits(s, larger, smaller, sweep->limit);
    bool cpu = cpu_fits(sweep, larger, smaller);
    for (int i = sweep->head[larger]; i >= 0; i = sweep->states.at[i].next) {
        if (accelerator)
            add(sweep, i, smaller, false);
        if (cpu && sweep->states.at[i].replicas < sweep->replicas)
            add(sweep, i, smaller, true);
    }
}

/* ---- plans ---- */

/* The exact load of one device that holds large \ small. */
static double load_of(const struct search *s, const uint64_t *large, const uint64_t *small,
                      bool on_cpu) {
    const struct sl_dnnpart_groups *groups = &s->groups;
    double load = 0;
    for (int g = 0; g < groups->count; g++)
        if (sl_bit(large, g) && !sl_bit(small, g))
            load += on_cpu ? groups->cpu[g] : groups->time[g];
    for (int n = 0; n < groups->net_count && !on_cpu; n++) {
        int here = members_in(s, &groups->nets[n], large) - members_in(s, &groups->nets[n], small);
        if (here && here < groups->nets[n].count)
            load += groups->nets[n].cost;
    }
    return load;
}

static struct sl_peers_stage make_stage(const struct search *s, const uint64_t *large,
                                        const uint64_t *small, bool on_cpu) {
    struct sl_peers_stage stage = {.d = 1, .t = 1, .on_cpu = on_cpu};
    int *layers = SL_NEW(s->arena, int, s->layers->count);
    for (int i = 0; i < s->layers->count; i++)
        if (sl_bit(large, s->groups.of[i]) && !sl_bit(small, s->groups.of[i]))
            layers[stage.count++] = i;
    stage.layers = layers;
    stage.time = load_of(s, large, small, on_cpu);
    return stage;
}

static void keep(struct search *s, const struct sl_peers_stage *stages, int count, double worst) {
    if (worst >= s->plan->objective)
        return;
    s->plan->objective = worst;
    s->plan->stages = stages;
    s->plan->stage_count = count;
}

static double accept(struct sl_sweep *sweep, int state) {
    struct search *s = sweep->ctx;
    const struct sl_sweep_state *states = sweep->states.at;
    double worst = 0;
    int count = 0;
    for (int i = state; states[i].from >= 0; i = states[i].from)
        count++;
    struct sl_peers_stage *stages = SL_NEW(s->arena, struct sl_peers_stage, count + 1);
    for (int i = state, n = 0; states[i].from >= 0; i = states[i].from, n++) {
        stages[n] = make_stage(s, sl_ideal(sweep->ideals, states[states[i].from].ideal),
                               sl_ideal(sweep->ideals, states[i].ideal), states[i].t);
        worst = fmax(worst, stages[n].time);
    }
    keep(s, stages, count, worst);
    return worst;
}

/* Returns the accelerator work per unit of time that the CPUs could do instead. */
static double cpu_work(const struct search *s) {
    double best = 0;
    for (int g = 0; g < s->groups.count; g++)
        if (s->groups.time[g] > 0)
            best =
                fmax(best, s->groups.cpu[g] > 0 ? s->groups.time[g] / s->groups.cpu[g] : INFINITY);
    return s->query->cpus > 0 ? best * (double)s->query->cpus : 0;
}

/* Returns a lower bound: all work, spread perfectly. */
static double low_bound(const struct search *s) {
    double power = (double)s->query->devices + cpu_work(s), all = 0;
    for (int g = 0; g < s->groups.count; g++)
        all += s->groups.time[g];
    return power > 0 ? all / power * (1 - 1e-12) : 0;
}

/* Finds the best plan over one list of downsets. `may_stop`: it gives up if that takes too long. */
static void search(struct search *s, struct cuts *cuts, bool may_stop, double *low) {
    tabulate(s, cuts);
    s->cuts = cuts;
    struct sl_sweep sweep = {.ideals = &cuts->ideals,
                             .work = cuts->work,
                             .devices = (int)s->query->devices,
                             .replicas = (int)s->query->cpus,
                             .free_work = cpu_work(s),
                             .stage_devices = 1,
                             .without = cpu_fits,
                             .border = cuts->near,
                             .border_from = s->near * (1 + 1e-9),
                             .effort_max = s->query->effort,
                             .until_ns = s->query->until_ns,
                             .may_stop = may_stop,
                             .pair = pair,
                             .accept = accept,
                             .ctx = s};
    sl_peers_sweep_open(&sweep, s->arena);
    double high = s->plan->objective;
    *low = fmax(*low, low_bound(s));
    sl_peers_sweep_search(&sweep, low, &high);
    s->stopped = sweep.stopped;
    s->plan->timed_out |= sweep.timed_out;
    s->plan->pairs += sweep.pairs;
    s->plan->ideals = cuts->ideals.count;
    sl_peers_sweep_close(&sweep);
}

static sl_err open_search(struct search *s) {
    const struct sl_peers_query *query = s->query;
    if (query->devices < 0 || query->devices > 1 << 20 || query->cpus < 0 || query->cpus > 1 << 20)
        return sl_fail(SL_ERR_USAGE, "dnn-partitioning: the number of devices is out of range");
    if (!(query->memory_bytes > 0))
        return sl_fail(SL_ERR_USAGE, "dnn-partitioning: needs a memory limit");
    sl_peers_dnnpart_group(s->arena, s->layers, &s->groups);
    find_spread(s);
    s->near = low_bound(s) / 2;
    *s->plan = (struct sl_peers_plan){.objective = INFINITY};
    return SL_OK;
}

/* Improves the best plan without the rule that sets are contiguous; one stage per used device. */
static void scatter(struct search *s) {
    int *device_of = SL_NEW(s->arena, int, s->groups.count), accelerators = 0, cpus = 0, count = 0;
    int devices = (int)(s->query->devices + s->query->cpus);
    for (int n = 0; n < s->plan->stage_count; n++) {
        const struct sl_peers_stage *stage = &s->plan->stages[n];
        int device = stage->on_cpu ? (int)s->query->devices + cpus++ : accelerators++;
        for (int i = 0; i < stage->count; i++)
            device_of[s->groups.of[stage->layers[i]]] = device;
    }
    sl_peers_dnnpart_scatter(s->arena, &s->groups, s->query, device_of);
    struct sl_peers_stage *stages = SL_NEW(s->arena, struct sl_peers_stage, devices + 1);
    int words = (s->groups.count + 63) / 64;
    uint64_t *none = SL_NEW(s->arena, uint64_t, words);
    double worst = 0;
    for (int d = 0; d < devices; d++) {
        uint64_t *set = SL_NEW(s->arena, uint64_t, words);
        for (int g = 0; g < s->groups.count; g++)
            if (device_of[g] == d)
                set[g >> 6] |= 1ull << (g & 63);
        stages[count] = make_stage(s, set, none, d >= s->query->devices);
        worst = fmax(worst, stages[count].time);
        count += stages[count].count > 0;
    }
    keep(s, stages, count, worst);
}

static sl_err plan(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peers_query *query, struct sl_peers_plan *out) {
    struct search s = {.arena = arena, .layers = layers, .query = query, .plan = out};
    struct cuts chain = {0}, all = {0};
    double low = 0, low_chain = 0;
    SL_TRY(open_search(&s));
    int *order = SL_NEW(arena, int, s.groups.count);
    SL_ASSERT(sl_graph_dag_order(arena, &s.groups.dag, order));
    sl_graph_ideals_chain(arena, s.groups.count, order, &chain.ideals);
    bool complete = sl_graph_ideals_build(arena, &s.groups.dag, IDEALS_MAX, &all.ideals);
    bool first = !complete || all.ideals.count > WIDE * chain.ideals.count;
    if (first)
        search(&s, &chain, false, &low_chain); /* its bound prunes the search over all downsets */
    if (complete)
        search(&s, &all, first, &low);
    if (!(out->objective < INFINITY))
        return sl_peers_no_plan(query, !complete || s.stopped);
    if (!complete)
        low = low_bound(&s);
    if (query->scattered) {
        scatter(&s);
        low = low_bound(&s);
        out->timed_out |= sl_clock_past(query->until_ns);
    }
    out->proven = (complete || query->scattered) && low >= out->objective * (1 - 1e-9);
    out->lower_bound = out->proven ? out->objective : low;
    return SL_OK;
}

static bool even_fits(const struct sl_layers *layers, const struct sl_peers_stage *stage,
                      double memory_bytes) {
    double size = 0;
    for (int l = 0; l < stage->count; l++) {
        size += layers->at[stage->layers[l]].size_bytes;
        if (layers->at[stage->layers[l]].cpu_only)
            return false;
    }
    return size <= memory_bytes;
}

static sl_err even(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peers_query *query, struct sl_peers_plan *out) {
    struct search s = {.arena = arena, .layers = layers, .query = query, .plan = out};
    struct sl_ideals chain;
    double worst = 0;
    SL_TRY(open_search(&s));
    int64_t groups = s.groups.count, count = query->devices < groups ? query->devices : groups;
    int *order = SL_NEW(arena, int, groups);
    SL_ASSERT(sl_graph_dag_order(arena, &s.groups.dag, order));
    sl_graph_ideals_chain(arena, s.groups.count, order, &chain);
    struct sl_peers_stage *stages = SL_NEW(arena, struct sl_peers_stage, count + 1);
    for (int64_t i = 0; i < count; i++) {
        stages[i] = make_stage(&s, sl_ideal(&chain, (int)((i + 1) * groups / count)),
                               sl_ideal(&chain, (int)(i * groups / count)), false);
        worst = fmax(worst, stages[i].time);
        if (!even_fits(layers, &stages[i], query->memory_bytes))
            return sl_peers_not_even();
    }
    keep(&s, stages, (int)count, worst);
    return count ? SL_OK : sl_peers_not_even();
}

const struct sl_peers_cost_model sl_peers_dnn_max_load = {
    .name = "dnn-max-load",
    .format = "dnn-partitioning",
    .unit = "largest load of a device",
    .brief = "max over devices of compute + tensors crossing its border (dnn-partitioning)",
    .plan = plan,
    .even = even,
};
