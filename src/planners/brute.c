/* brute: simulates every partition of the units into stages, every order of the stages, true edges
 * and chain, every width, every choice of recomputation, both orders of workers, every placement.
 * It is the oracle of the other planners on small problems, and shares no code with their
 * searches. */
#include "planners/parts.h"

#include <string.h>

enum { BRUTE_UNITS = 10, BRUTE_DEVICES = 6 };

struct brute {
    struct sl_search_pool *pool;
    const struct sl_problem *p;
    const char *schedule;
    int size, stages;
    int size_of[BRUTE_DEVICES]; /* [stage] index of its micro-batch size */
    bool mixed;                 /* stages may differ in micro-batch size */
    /* [unit] its block (a set of units that form a stage), numbered by first appearance */
    int block[BRUTE_UNITS];
    /* [from][to] does a tensor go from one block to the other? */
    bool before[BRUTE_UNITS][BRUTE_UNITS];
    int rank[BRUTE_UNITS]; /* [block] its stage; -1: not placed yet */
    bool is_chain;         /* every stage sends to the next one, so `sequential` changes nothing */
    int stage_of[BRUTE_UNITS], width[BRUTE_DEVICES];
    bool recompute[BRUTE_DEVICES];
};

/* Tries every placement; only one if all devices are equal. */
static void try_placements(struct brute *b, struct sl_candidate *c, int *order, int at) {
    const struct sl_machine *m = b->p->machine;
    struct sl_candidate_score score;
    int used = 0;
    for (int s = 0; s < b->stages; s++)
        used += b->width[s];
    if (at == used || at == BRUTE_DEVICES || (m->kind_count == 1 && m->hosts_in_all == 1)) {
        c->order = at == used ? order : NULL;
        sl_search_pool_try(b->pool, c, "brute", &score);
        return;
    }
    for (int d = 0; d < m->device_count; d++) {
        bool taken = false;
        for (int i = 0; i < at; i++)
            taken |= order[i] == d;
        order[at] = d;
        if (!taken)
            try_placements(b, c, order, at + 1);
    }
}

static void try_recompute(struct brute *b) {
    bool wide = false;
    for (int s = 0; s < b->stages; s++)
        wide |= b->stages > 1 && b->width[s] > 1;
    for (int bits = 0; bits < 1 << b->stages; bits++) {
        for (int s = 0; s < b->stages; s++)
            b->recompute[s] = bits >> s & 1;
        for (int kind = 0; kind < 4; kind++) {
            int order[BRUTE_DEVICES];
            struct sl_candidate c = {.stage_count = b->stages,
                                     .stage_of = b->stage_of,
                                     .width = b->width,
                                     .recompute = b->recompute,
                                     .size = b->size,
                                     .size_of = b->mixed ? b->size_of : NULL,
                                     .schedule = b->schedule,
                                     .sequential = kind & 1,
                                     .across = kind & 2};
            if (!(c.sequential && b->is_chain) && !(c.across && !wide) &&
                sl_search_candidate_check(b->p, &c))
                try_placements(b, &c, order, 0);
        }
    }
}

/* Tries every choice of micro-batch sizes whose smallest is b->size. */
static void try_sizes(struct brute *b, int stage, bool has_smallest) {
    if (stage == b->stages) {
        if (has_smallest)
            try_recompute(b);
        return;
    }
    for (int size = b->size; size < (b->mixed ? b->p->size_count : b->size + 1); size++) {
        b->size_of[stage] = size;
        if (b->width[stage] <= (b->p->batch + b->p->sizes[size] - 1) / b->p->sizes[size])
            try_sizes(b, stage + 1, has_smallest || size == b->size);
    }
}

static void try_widths(struct brute *b, int stage, int left) {
    if (stage == b->stages) {
        try_sizes(b, 0, false);
        return;
    }
    int max = b->p->straight ? 1 : left - (b->stages - stage - 1);
    int64_t micros = (b->p->batch + b->p->sizes[b->size] - 1) / b->p->sizes[b->size];
    for (int w = 1; w <= max && w <= micros; w++) {
        b->width[stage] = w;
        try_widths(b, stage + 1, left - w);
    }
}

/* Tries every topological order of the blocks; there is none if blocks form a cycle. */
static void try_orders(struct brute *b, int at, int last) {
    bool is_chain = b->is_chain;
    if (at == b->stages) {
        for (int u = 0; u < b->p->unit_count; u++)
            b->stage_of[u] = b->rank[b->block[u]];
        try_widths(b, 0, b->p->machine->device_count);
        return;
    }
    for (int k = 0; k < b->stages; k++) {
        bool ready = b->rank[k] < 0;
        for (int i = 0; i < b->stages; i++)
            ready &= i == k || b->rank[i] >= 0 || !b->before[i][k];
        if (!ready)
            continue;
        b->rank[k] = at;
        b->is_chain = is_chain && (last < 0 || b->before[last][k]);
        try_orders(b, at + 1, k);
        b->rank[k] = -1;
    }
    b->is_chain = is_chain;
}

static void order_blocks(struct brute *b) {
    memset(b->before, 0, sizeof b->before);
    for (int t = 0; t < b->p->tensor_count; t++)
        for (int i = 0; i < b->p->tensors[t].to_count; i++)
            b->before[b->block[b->p->tensors[t].from]][b->block[b->p->tensors[t].to[i]]] = true;
    for (int k = 0; k < b->stages; k++)
        b->rank[k] = -1;
    b->is_chain = true;
    try_orders(b, 0, -1);
}

static void try_blocks(struct brute *b, int unit) {
    if (unit == b->p->unit_count) {
        order_blocks(b);
        return;
    }
    int old = b->stages;
    for (int k = 0; k <= old && k < b->p->machine->device_count; k++) {
        b->block[unit] = k;
        b->stages = k == old ? old + 1 : old;
        try_blocks(b, unit + 1);
    }
    b->stages = old;
}

static sl_err run(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out) {
    const struct sl_problem *p = query->problem;
    const char *one[SL_QUERY_SCHEDULES];
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    if (p->unit_count > BRUTE_UNITS || p->machine->device_count > BRUTE_DEVICES)
        return sl_fail(SL_ERR_REFUSED, "brute takes at most %d units and %d devices, not %d and %d",
                       BRUTE_UNITS, BRUTE_DEVICES, p->unit_count, p->machine->device_count);
    for (const char *const *s = sl_search_query_schedules(query, one); *s; s++)
        for (int size = 0; size < p->size_count; size++) {
            struct brute b = {.pool = &pool, .p = p, .schedule = *s, .size = size};
            try_blocks(&b, 0);
        }
    for (int size = 0; size < p->size_count && sl_search_query_mixes_sizes(query); size++) {
        struct brute b = {.pool = &pool,
                          .p = p,
                          .schedule = sl_search_mixed_schedule(),
                          .size = size,
                          .mixed = true};
        try_blocks(&b, 0);
    }
    out->proven = out->complete = true;
    if (out->found)
        out->lower_bound = out->best.score.step_ns;
    sl_search_pool_close(&pool);
    return SL_OK;
}

const struct sl_planner sl_planners_brute = {
    .name = "brute",
    .brief = "exhaustive search for small graphs; the oracle of the other planners",
    .oracle = true,
    .run = run,
};
