/* Lists the downsets (downsets.h): all of them, or the prefixes of two orders. */
#include "search/downsets.h"

#include "base/vec.h"

#include <string.h>

enum { LONG = 640 }; /* longer chains are thinned out */

/* Returns the same units with every edge reversed. */
static struct sl_dag reversed(struct sl_arena *arena, const struct sl_dag *dag) {
    SL_VEC(struct sl_dag_edge) edges = {0};
    for (int i = 0; i < dag->count; i++)
        for (int o = dag->out_at[i]; o < dag->out_at[i + 1]; o++)
            SL_PUSH(&edges, ((struct sl_dag_edge){dag->out[o], i}));
    struct sl_dag out = sl_graph_dag_build(arena, dag->count, edges.at, (int)edges.count);
    SL_VEC_FREE(&edges);
    return out;
}

/* Lists the prefixes of an order that is depth first from the sources, or the reverse of one from
 * the sinks. */
static void chain_of(struct sl_arena *arena, const struct sl_dag *dag, bool from_sinks,
                     struct sl_ideals *out) {
    int *order = SL_NEW(arena, int, dag->count + 1);
    if (from_sinks) {
        struct sl_dag back = reversed(arena, dag);
        SL_ASSERT(sl_graph_dag_order(arena, &back, order));
        for (int i = 0, j = dag->count - 1; i < j; i++, j--) {
            int swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
    } else {
        SL_ASSERT(sl_graph_dag_order(arena, dag, order));
    }
    sl_graph_ideals_chain(arena, dag->count, order, out);
}

static void append(struct sl_arena *arena, struct sl_ideals *all, const struct sl_ideals *more) {
    int64_t words = all->words;
    uint64_t *sets = SL_NEW(arena, uint64_t, (all->count + more->count) * words);
    memcpy(sets, all->sets, sizeof *sets * (size_t)(all->count * words));
    memcpy(sets + all->count * words, more->sets, sizeof *sets * (size_t)(more->count * words));
    all->sets = sets;
    all->count += more->count;
}

/* Drops duplicates. Equal sets are near each other, because sets are sorted by size. */
static void drop_duplicates(struct sl_ideals *ideals) {
    size_t bytes = sizeof(uint64_t) * (size_t)ideals->words;
    int kept = 0;
    for (int i = 0; i < ideals->count; i++) {
        bool known = false;
        for (int k = kept - 1; k >= 0 && k >= kept - 4 && !known; k--)
            known = memcmp(sl_ideal(ideals, k), sl_ideal(ideals, i), bytes) == 0;
        if (!known) {
            memmove(ideals->sets + (int64_t)kept * ideals->words, sl_ideal(ideals, i), bytes);
            kept++;
        }
    }
    ideals->count = kept;
}

static bool is_nested(const struct sl_ideals *ideals) {
    for (int i = 1; i < ideals->count; i++)
        if (!sl_subset(sl_ideal(ideals, i - 1), sl_ideal(ideals, i), ideals->words))
            return false;
    return true;
}

/* Divides the work into PLACES equal shares and keeps the cheapest cut in each. */
static void thin(struct sl_arena *arena, const struct sl_problem *p,
                 struct sl_search_downsets *out) {
    enum { PLACES = 512 };
    struct sl_ideals *all = &out->ideals;
    const struct sl_unit_time *t = sl_search_problem_times(p, 0, 0);
    double *work = SL_NEW(arena, double, p->unit_count + 1), total = 0;
    for (int u = 0; u < p->unit_count; u++) {
        work[u] = (double)(t[u].f + t[u].i + t[u].w);
        total += work[u];
    }
    double *sums = sl_graph_ideals_sum(arena, all, work);
    int kept = 0, share = -1;
    double cheapest = 0;
    for (int i = 0; i < all->count; i++) {
        bool end = i == 0 || i == all->count - 1;
        int now = end ? PLACES + i : (int)(sums[i] / (total > 0 ? total : 1) * PLACES);
        double bytes = 0;
        for (int k = out->live_at[i]; k < out->live_at[i + 1]; k++)
            bytes += (double)p->tensors[out->live[k]].sample_bytes;
        if (now == share && bytes >= cheapest)
            continue;
        kept -= now == share;
        memmove(all->sets + (int64_t)kept * all->words, sl_ideal(all, i),
                sizeof(uint64_t) * (size_t)all->words);
        kept++;
        share = now;
        cheapest = bytes;
    }
    all->count = kept;
}

static bool crosses(const struct sl_search_tensor *tensor, const uint64_t *set) {
    if (!sl_bit(set, tensor->from))
        return false;
    for (int i = 0; i < tensor->to_count; i++)
        if (!sl_bit(set, tensor->to[i]))
            return true;
    return false;
}

static void list_live(struct sl_arena *arena, const struct sl_problem *p,
                      struct sl_search_downsets *out) {
    SL_VEC(int) live = {0};
    int *at = SL_NEW(arena, int, out->ideals.count + 1);
    for (int i = 0; i < out->ideals.count; i++) {
        at[i] = (int)live.count;
        for (int t = 0; t < p->tensor_count; t++)
            if (crosses(&p->tensors[t], sl_ideal(&out->ideals, i)))
                SL_PUSH(&live, t);
    }
    at[out->ideals.count] = (int)live.count;
    out->live_at = at;
    out->live = SL_VEC_FREEZE(&live, arena);
    SL_VEC_FREE(&live);
}

void sl_search_downsets_build(struct sl_arena *arena, const struct sl_problem *p, int max,
                              struct sl_search_downsets *out) {
    double *ones = SL_NEW(arena, double, p->unit_count + 1);
    for (int u = 0; u < p->unit_count; u++)
        ones[u] = 1;
    *out = (struct sl_search_downsets){0};
    max = p->unit_count > LONG ? 0 : max;
    out->complete = max > 0 && sl_graph_ideals_build(arena, &p->dag, max, &out->ideals);
    if (!out->complete) {
        struct sl_ideals more;
        chain_of(arena, &p->dag, false, &out->ideals);
        if (max) {
            chain_of(arena, &p->dag, true, &more);
            append(arena, &out->ideals, &more);
        }
    }
    sl_graph_ideals_sort(arena, &out->ideals, ones);
    drop_duplicates(&out->ideals);
    out->nested = is_nested(&out->ideals);
    out->complete |= p->unit_count == 1;
    list_live(arena, p, out);
    if (out->nested && out->ideals.count > LONG) {
        thin(arena, p, out);
        out->complete = false;
        list_live(arena, p, out);
    }
}
