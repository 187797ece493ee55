/* Computes lower bounds on the step (bound.h). */
#include "search/bound.h"

#include "search/chain.h"

#include <math.h>
#include <stdlib.h>

/* ---- the bounds Work and Way ---- */

/* Returns the time of the longest path through the units, forward and back. */
static int64_t longest_way(const struct sl_problem *p, int size) {
    struct sl_arena arena = {0};
    int *order = SL_NEW(&arena, int, p->unit_count + 1);
    int64_t *way = SL_NEW(&arena, int64_t, p->unit_count + 1), longest = 0;
    SL_ASSERT(sl_graph_dag_order(&arena, &p->dag, order));
    for (int i = 0; i < p->unit_count; i++) {
        int u = order[i];
        struct sl_unit_time t = sl_search_least_time(p, size, u);
        for (int e = p->dag.in_at[u]; e < p->dag.in_at[u + 1]; e++)
            way[u] = way[p->dag.in[e]] > way[u] ? way[p->dag.in[e]] : way[u];
        way[u] += t.f + t.i;
        longest = way[u] > longest ? way[u] : longest;
    }
    sl_arena_free(&arena);
    return longest;
}

/* The bound Work by linear programming duality. Give each kind of device a price such that one
 * second of all devices costs 1. Then no step is shorter than the price of the work, each part of
 * it on the kind where it is cheapest. Prices inverse to the time of a whole pass are exact if
 * kinds differ by a constant factor. `equal`: all prices are equal, which is also a valid bound. */
static double work_bound(const struct sl_problem *p, int size, bool equal) {
    const struct sl_machine *m = p->machine;
    double *price = sl_realloc(NULL, sizeof *price * (size_t)m->kind_count), all = 0, work = 0;
    for (int k = 0; k < m->kind_count; k++) {
        const struct sl_unit_time *t = sl_search_problem_times(p, size, k);
        int64_t pass = 0;
        for (int u = 0; u < p->unit_count; u++)
            pass += t[u].f + t[u].i + t[u].w;
        price[k] = equal || !pass ? 1 : 1 / (double)pass;
    }
    for (int d = 0; d < m->device_count; d++)
        all += price[m->kind_of[d]];
    for (int u = 0; u < p->unit_count; u++) {
        double least = INFINITY;
        for (int k = 0; k < m->kind_count; k++) {
            const struct sl_unit_time *t = &sl_search_problem_times(p, size, k)[u];
            least = fmin(least, price[k] * (double)(t->f + t->i + t->w));
        }
        work += least;
    }
    free(price);
    return work / all * (1 - 1e-12);
}

int64_t sl_search_size_bound(const struct sl_problem *p, int size, bool async) {
    int64_t micros = (p->batch + p->sizes[size] - 1) / p->sizes[size];
    double one = fmax(work_bound(p, size, false), work_bound(p, size, true));
    int64_t work = (int64_t)((double)micros * one);
    if (async)
        return sl_search_async_bound(work, micros, p->machine->device_count);
    int64_t way = longest_way(p, size);
    return work > way ? work : way;
}

/* ---- all sizes and schedules ---- */

/* Returns the time of all work, each unit at its fastest micro-batch size. */
static int64_t mixed_work(const struct sl_problem *p) {
    double work = 0;
    for (int u = 0; u < p->unit_count; u++) {
        double least = INFINITY;
        for (int size = 0; size < p->size_count; size++) {
            struct sl_unit_time t = sl_search_least_time(p, size, u);
            int64_t micros = (p->batch + p->sizes[size] - 1) / p->sizes[size];
            least = fmin(least, (double)micros * (double)(t.f + t.i + t.w));
        }
        work += least;
    }
    return (int64_t)(work / p->machine->device_count * (1 - 1e-12));
}

int64_t sl_search_space_bound(const struct sl_problem *p, const char *const *schedules,
                              bool mixed) {
    int64_t best = INT64_MAX;
    struct sl_arena arena = {0};
    struct sl_chain c;
    for (const char *const *s = schedules; *s; s++)
        for (int size = p->size_count - 1; size >= 0; size--) {
            if (sl_search_schedule_shares(
                    *s)) { /* on such schedules a worker may have stages from anywhere on the
                            * path */
                int64_t least = sl_search_size_bound(p, size, false);
                best = least < best ? least : best;
                continue;
            }
            sl_search_chain_open(&arena, p, *s, size, 1, &c);
            best = sl_search_chain_bound(&c, sl_search_size_bound(p, size, !c.sync), best);
        }
    if (mixed) {
        sl_search_chain_open(&arena, p, sl_search_mixed_schedule(), 0, p->size_count, &c);
        best = sl_search_chain_bound(&c, mixed_work(p), best);
    }
    sl_arena_free(&arena);
    return best;
}
