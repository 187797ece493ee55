/* brute: every way to put units into stages, every width, every choice of recomputation, played.
 * The oracle of the others on small problems; shares no code with their searches. */
#include "search/planner.h"

enum { BRUTE_UNITS = 10, BRUTE_DEVICES = 6 };

struct brute {
    struct sl_contest *contest;
    const struct sl_problem *p;
    const char *schedule;
    int size, stages;
    int block[BRUTE_UNITS]; /* of units, by first appearance */
    int stage_of[BRUTE_UNITS], width[BRUTE_DEVICES];
    bool recompute[BRUTE_DEVICES];
};

/* Blocks in an order in which no tensor goes back; false: two blocks need each other. */
static bool sort_blocks(struct brute *b) {
    bool before[BRUTE_UNITS][BRUTE_UNITS] = {0}, done[BRUTE_UNITS] = {0};
    int rank[BRUTE_UNITS] = {0};
    for (int t = 0; t < b->p->tensor_count; t++)
        for (int i = 0; i < b->p->tensors[t].to_count; i++)
            before[b->block[b->p->tensors[t].from]][b->block[b->p->tensors[t].to[i]]] = true;
    for (int at = 0; at < b->stages; at++) {
        int next = -1;
        for (int k = 0; k < b->stages && next < 0; k++) {
            bool ready = !done[k];
            for (int i = 0; i < b->stages; i++)
                ready &= i == k || done[i] || !before[i][k];
            next = ready ? k : -1;
        }
        if (next < 0)
            return false;
        done[next] = true;
        rank[next] = at;
    }
    for (int u = 0; u < b->p->unit_count; u++)
        b->stage_of[u] = rank[b->block[u]];
    return true;
}

static void try_recompute(struct brute *b) {
    for (int bits = 0; bits < 1 << b->stages; bits++) {
        struct sl_score score;
        for (int s = 0; s < b->stages; s++)
            b->recompute[s] = bits >> s & 1;
        struct sl_candidate c = {.stage_count = b->stages,
                                 .stage_of = b->stage_of,
                                 .width = b->width,
                                 .recompute = b->recompute,
                                 .size = b->size,
                                 .schedule = b->schedule};
        sl_contest_try(b->contest, &c, "brute", &score);
    }
}

static void try_widths(struct brute *b, int stage, int left) {
    if (stage == b->stages) {
        try_recompute(b);
        return;
    }
    int most = b->p->straight ? 1 : left - (b->stages - stage - 1);
    int64_t micros = b->p->batch / b->p->sizes[b->size];
    for (int w = 1; w <= most && (w == 1 || w <= micros); w++) {
        b->width[stage] = w;
        try_widths(b, stage + 1, left - w);
    }
}

static void try_blocks(struct brute *b, int unit) {
    if (unit == b->p->unit_count) {
        if (sort_blocks(b))
            try_widths(b, 0, b->p->machine->device_count);
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

static sl_err run(struct sl_arena *arena, const struct sl_query *query, struct sl_result *out) {
    const struct sl_problem *p = query->problem;
    const char *one[2];
    struct sl_contest contest = {.arena = arena, .query = query, .out = out};
    if (p->unit_count > BRUTE_UNITS || p->machine->device_count > BRUTE_DEVICES)
        return sl_fail(SL_ERR_NO, "brute takes at most %d units and %d devices, not %d and %d",
                       BRUTE_UNITS, BRUTE_DEVICES, p->unit_count, p->machine->device_count);
    for (const char *const *s = sl_query_schedules(query, one); *s; s++)
        for (int size = 0; size < p->size_count; size++) {
            struct brute b = {.contest = &contest, .p = p, .schedule = *s, .size = size};
            try_blocks(&b, 0);
        }
    out->proven = out->complete = true;
    if (out->found)
        out->lower_bound = out->best.score.step_ns;
    sl_contest_close(&contest);
    return SL_OK;
}

const struct sl_planner sl_planner_brute = {
    .name = "brute",
    .brief = "everything, for small graphs: the oracle of the others",
    .run = run,
};
