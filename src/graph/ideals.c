/* Lists downsets breadth first; a hash table of their members removes duplicates. */
#include "graph/ideals.h"

#include "base/sort.h"
#include "base/vec.h"

struct sl_dag sl_graph_dag_build(struct sl_arena *arena, int nodes, const struct sl_dag_edge *edges,
                                 int count) {
    int *in_at = SL_NEW(arena, int, nodes + 2), *out_at = SL_NEW(arena, int, nodes + 2);
    int *in = SL_NEW(arena, int, count + 1), *out = SL_NEW(arena, int, count + 1);
    for (int e = 0; e < count; e++) {
        in_at[edges[e].to + 2]++;
        out_at[edges[e].from + 2]++;
    }
    for (int i = 2; i < nodes + 2; i++) {
        in_at[i] += in_at[i - 1];
        out_at[i] += out_at[i - 1];
    }
    for (int e = 0; e < count; e++) {
        in[in_at[edges[e].to + 1]++] = edges[e].from;
        out[out_at[edges[e].from + 1]++] = edges[e].to;
    }
    return (struct sl_dag){nodes, in_at, in, out_at, out};
}

bool sl_graph_dag_order(struct sl_arena *arena, const struct sl_dag *dag, int *order) {
    int *waits = SL_NEW(arena, int, dag->count + 1), *stack = SL_NEW(arena, int, dag->count + 1);
    int depth = 0, done = 0;
    for (int i = dag->count - 1; i >= 0; i--) {
        waits[i] = dag->in_at[i + 1] - dag->in_at[i];
        if (!waits[i])
            stack[depth++] = i;
    }
    while (depth) {
        int i = stack[--depth];
        order[done++] = i;
        for (int o = dag->out_at[i + 1] - 1; o >= dag->out_at[i]; o--)
            if (--waits[dag->out[o]] == 0)
                stack[depth++] = dag->out[o];
    }
    return done == dag->count;
}

/* ---- listing ---- */

struct listing {
    const struct sl_dag *dag;
    int words, max;
    /* ready: the vertices outside a set whose predecessors are all members */
    SL_VEC(uint64_t) sets, ready;
    SL_VEC(uint64_t) hashes;
    int *slots; /* hash table with open addressing: number of the set + 1 */
    int64_t slot_room;
    uint64_t *next, *next_ready; /* the set that is being made, and its `ready` */
};

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void grow_slots(struct listing *list) {
    int64_t room = list->slot_room ? list->slot_room * 2 : 1024;
    free(list->slots);
    list->slots = sl_realloc(NULL, sizeof *list->slots * (size_t)room);
    memset(list->slots, 0, sizeof *list->slots * (size_t)room);
    list->slot_room = room;
    for (int64_t i = 0; i < list->hashes.count; i++) {
        int64_t at = (int64_t)(list->hashes.at[i] & (uint64_t)(room - 1));
        while (list->slots[at])
            at = (at + 1) & (room - 1);
        list->slots[at] = (int)i + 1;
    }
}

/* Adds list->next unless it is already in the table. */
static void add_set(struct listing *list, uint64_t hash) {
    int words = list->words;
    if (2 * (list->hashes.count + 1) > list->slot_room)
        grow_slots(list);
    int64_t at = (int64_t)(hash & (uint64_t)(list->slot_room - 1));
    for (; list->slots[at]; at = (at + 1) & (list->slot_room - 1)) {
        int64_t i = list->slots[at] - 1;
        if (list->hashes.at[i] == hash &&
            memcmp(list->sets.at + i * words, list->next, sizeof(uint64_t) * (size_t)words) == 0)
            return;
    }
    list->slots[at] = (int)list->hashes.count + 1;
    SL_PUSH(&list->hashes, hash);
    SL_VEC_RESERVE(&list->sets, words);
    SL_VEC_RESERVE(&list->ready, words);
    memcpy(list->sets.at + list->sets.count, list->next, sizeof(uint64_t) * (size_t)words);
    memcpy(list->ready.at + list->ready.count, list->next_ready, sizeof(uint64_t) * (size_t)words);
    list->sets.count += words;
    list->ready.count += words;
}

static bool all_in(const struct sl_dag *dag, int node, const uint64_t *set) {
    for (int i = dag->in_at[node]; i < dag->in_at[node + 1]; i++)
        if (!sl_bit(set, dag->in[i]))
            return false;
    return true;
}

/* Sets next to set number i with `node` added. */
static void extend(struct listing *list, int64_t i, int node) {
    const struct sl_dag *dag = list->dag;
    size_t bytes = sizeof(uint64_t) * (size_t)list->words;
    memcpy(list->next, list->sets.at + i * list->words, bytes);
    memcpy(list->next_ready, list->ready.at + i * list->words, bytes);
    list->next[node >> 6] |= 1ull << (node & 63);
    list->next_ready[node >> 6] &= ~(1ull << (node & 63));
    for (int o = dag->out_at[node]; o < dag->out_at[node + 1]; o++)
        if (all_in(dag, dag->out[o], list->next))
            list->next_ready[dag->out[o] >> 6] |= 1ull << (dag->out[o] & 63);
    add_set(list, list->hashes.at[i] ^ mix((uint64_t)node));
}

static void start(struct listing *list) {
    for (int i = 0; i < list->dag->count; i++)
        if (list->dag->in_at[i] == list->dag->in_at[i + 1])
            list->next_ready[i >> 6] |= 1ull << (i & 63);
    add_set(list, 0);
}

bool sl_graph_ideals_build(struct sl_arena *arena, const struct sl_dag *dag, int max,
                           struct sl_ideals *out) {
    struct listing list = {.dag = dag, .words = (dag->count + 63) / 64, .max = max};
    list.next = SL_NEW(arena, uint64_t, 2 * list.words + 1);
    list.next_ready = list.next + list.words;
    start(&list);
    for (int64_t i = 0; i < list.hashes.count && list.hashes.count <= max; i++)
        for (int w = 0; w < list.words; w++) {
            uint64_t bits = list.ready.at[i * list.words + w];
            for (; bits; bits &= bits - 1)
                extend(&list, i, w * 64 + __builtin_ctzll(bits));
        }
    bool complete = list.hashes.count <= max;
    if (complete)
        *out = (struct sl_ideals){dag->count, list.words, (int)list.hashes.count,
                                  SL_VEC_FREEZE(&list.sets, arena)};
    SL_VEC_FREE(&list.sets);
    SL_VEC_FREE(&list.ready);
    SL_VEC_FREE(&list.hashes);
    free(list.slots);
    return complete;
}

void sl_graph_ideals_chain(struct sl_arena *arena, int nodes, const int *order,
                           struct sl_ideals *out) {
    int words = (nodes + 63) / 64;
    *out = (struct sl_ideals){nodes, words, nodes + 1,
                              SL_NEW(arena, uint64_t, (int64_t)(nodes + 1) * words)};
    for (int i = 0; i < nodes; i++) {
        uint64_t *set = out->sets + (int64_t)(i + 1) * words;
        memcpy(set, set - words, sizeof *set * (size_t)words);
        set[order[i] >> 6] |= 1ull << (order[i] & 63);
    }
}

/* ---- sums and order ---- */

double *sl_graph_ideals_sum(struct sl_arena *arena, const struct sl_ideals *ideals,
                            const double *value) {
    double *sums = SL_NEW(arena, double, ideals->count);
    for (int i = 0; i < ideals->count; i++) {
        const uint64_t *set = sl_ideal(ideals, i);
        double sum = 0;
        for (int w = 0; w < ideals->words; w++)
            for (uint64_t bits = set[w]; bits; bits &= bits - 1)
                sum += value[w * 64 + __builtin_ctzll(bits)];
        sums[i] = sum;
    }
    return sums;
}

struct rank {
    double sum;
    int members, index;
};

static int compare_ranks(const void *a, const void *b) {
    const struct rank *x = a, *y = b;
    if (x->sum != y->sum)
        return x->sum < y->sum ? -1 : 1;
    if (x->members != y->members)
        return x->members < y->members ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

double *sl_graph_ideals_sort(struct sl_arena *arena, struct sl_ideals *ideals,
                             const double *value) {
    double *sums = sl_graph_ideals_sum(arena, ideals, value);
    struct rank *ranks = SL_NEW(arena, struct rank, ideals->count);
    int words = ideals->words;
    for (int i = 0; i < ideals->count; i++) {
        ranks[i] = (struct rank){sums[i], 0, i};
        for (int w = 0; w < words; w++)
            ranks[i].members += __builtin_popcountll(sl_ideal(ideals, i)[w]);
    }
    sl_sort(ranks, ideals->count, sizeof *ranks, compare_ranks);
    uint64_t *sets = SL_NEW(arena, uint64_t, (int64_t)ideals->count * words);
    for (int i = 0; i < ideals->count; i++) {
        memcpy(sets + (int64_t)i * words, sl_ideal(ideals, ranks[i].index),
               sizeof *sets * (size_t)words);
        sums[i] = ranks[i].sum;
    }
    ideals->sets = sets;
    return sums;
}
