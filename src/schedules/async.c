/* Asynchronous rows: one stream of 1F1B over all iterations, no flush.
 *
 *     stage with window f:  F0 .. F(f-2) | F(f-1) B0  F(f) B1  F(f+1) B2 ...
 *
 * Forward k has key 2k - f, backward k has key 2k + f - 1. Windows fall along every edge, so keys
 * are an order of the whole run that respects every dependency, and every worker sorts by them.
 * The run is cut into prologue, period and epilogue where a worker has done b iterations of
 * backwards (key 2(bm-1) + f-1); the period is one iteration long.
 *
 * Windows: height + 1 (plus one per extra replica downstream); 2bw caps them at m+1, because the
 * version it reads must exist (Narayanan et al. 2021, PipeDream-2BW, sec. 3.1). The rows differ in the version rule:
 *     2bw   iteration t reads version max(t-1, 0)          2 versions, delay 1
 *     stash the newest in F, the same in B                 1 + ceil((f-1)/m) versions
 *     vsync the version that was newest at the entry        1 + ceil((f_max-1)/m) versions
 *     async, paci  the newest in F, the newest in B        1 version
 *
 * async and paci generate the same schedule. PACI keeps one copy of the weights and steps every a
 * backwards, so that F and B of a micro-batch are at most ceil((f-1)/a) versions apart. Here every
 * row steps after m backwards, so a = m, and the bound is the row's claim of delay. They are
 * meant for different uses: async with any m (m = 1: PipeDream without stashing), paci with an m
 * that keeps the bound low. Staleness policies correct for stale weights. */
#include "schedules/gen.h"

static int64_t window_of(const struct sl_gen *gen, int stage) {
    return gen->samples[stage] / gen->plan->stages[stage].micro_size;
}

static int64_t capped_window(const struct sl_gen *gen, int stage) {
    int64_t window = window_of(gen, stage), cap = (int64_t)gen->sched->micros[0] + 1;
    return window < cap ? window : cap;
}

/* Window under rule vsync. The entry (the first stage of full height) fixes the version, so no
 * stage may be behind it: its window is the largest, plus the number of steps that its replicas may
 * be early. */
static int64_t vsync_window(const struct sl_gen *gen, int stage) {
    int64_t max = window_of(gen, stage);
    int entry = 0;
    while (gen->plan->stages[entry].height + 1 < gen->plan->depth)
        entry++;
    for (int i = 0; stage == entry && i < gen->plan->stage_count; i++) {
        int64_t window = window_of(gen, i) + gen->plan->stages[entry].width - 1;
        if (i != entry && window > max)
            max = window;
    }
    return max;
}

static int64_t widest(const struct sl_gen *gen) {
    int64_t max = 1;
    for (int i = 0; i < gen->plan->stage_count; i++) {
        int64_t window = gen->row->window(gen, i);
        max = window > max ? window : max;
    }
    return max;
}

static sl_err check(const struct sl_gen *gen) {
    bool grouped = gen->plan->tie_count > 0;
    SL_TRY(sl_schedules_gen_check_equal(gen));
    for (int i = 0; i < gen->plan->stage_count; i++)
        grouped |= gen->plan->stages[i].width > 1;
    return grouped ? sl_schedules_gen_check_single(gen) : SL_OK;
}

/* Returns the next pass of a seat in the order of keys. Equal keys go down the graph in F and up in
 * B. */
struct cursor {
    int stage, replica, width, height;
    int64_t window, total;
    int64_t next[2]; /* next micro-batch for F [0] and for B [1] */
};

struct key {
    int64_t key, tie;
};

static struct key key_of(const struct cursor *c, int backward) {
    if (backward)
        return (struct key){2 * c->next[1] + c->window - 1, c->height};
    return (struct key){2 * c->next[0] - c->window, 2 * (int64_t)SL_STAGE_MAX - c->height};
}

static bool less(struct key a, struct key b) {
    return a.key < b.key || (a.key == b.key && a.tie < b.tie);
}

/* Returns the next micro-batch after `micro` that this replica runs. */
static int64_t advance(const struct cursor *c, int64_t micro, int64_t micros) {
    do
        micro++;
    while (micro < c->total && micro % micros % c->width != c->replica);
    return micro;
}

static struct cursor cursor_of(const struct sl_gen *gen, int seat) {
    const struct sl_seat *s = &gen->plan->seats[seat];
    const struct sl_stage *stage = &gen->plan->stages[s->stage];
    struct cursor c = {.stage = s->stage,
                       .replica = s->replica,
                       .width = stage->width,
                       .height = stage->height,
                       .window = gen->row->window(gen, s->stage),
                       .total = sl_sched_total(gen->sched, s->stage)};
    c.next[0] = c.next[1] = advance(&c, -1, gen->sched->micros[s->stage]);
    return c;
}

/* The keys where the segments of a worker end. */
struct borders {
    int64_t key[2];
};

static void stream_worker(struct sl_gen *gen, int worker, struct cursor *cursors,
                          struct borders border, int64_t ends[2]) {
    int count = gen->plan->worker_seat_count[worker];
    struct sl_passes *out = &gen->workers[worker];
    ends[0] = ends[1] = -1;
    for (int i = 0; i < count; i++)
        cursors[i] = cursor_of(gen, gen->plan->worker_seats[worker][i]);
    for (;;) {
        struct key best = {INT64_MAX, 0};
        int at = -1, backward = 0;
        for (int i = 0; i < count; i++)
            for (int b = 0; b < 2; b++)
                if (cursors[i].next[b] < cursors[i].total && less(key_of(&cursors[i], b), best)) {
                    best = key_of(&cursors[i], b);
                    at = i;
                    backward = b;
                }
        for (int e = 0; e < 2; e++)
            if (ends[e] < 0 && (at < 0 || best.key > border.key[e]))
                ends[e] = out->vec.count;
        if (at < 0)
            return;
        struct cursor *c = &cursors[at];
        sl_schedules_gen_put(out, backward ? SL_BACKWARD : SL_FORWARD, c->stage,
                             (int32_t)c->next[backward]);
        c->next[backward] = advance(c, c->next[backward], gen->sched->micros[c->stage]);
    }
}

static void cut(struct sl_gen *gen, int worker, const int64_t ends[2]) {
    struct sl_passes *all = &gen->workers[worker];
    int64_t low[] = {0, ends[0], ends[1], all->vec.count};
    for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
        struct sl_actions *list = &gen->sched->lists[s][worker];
        list->count = low[s + 1] - low[s];
        list->at = SL_NEW(gen->arena, struct sl_action, list->count);
        for (int64_t i = 0; i < list->count; i++) {
            list->at[i] = all->vec.at[low[s] + i];
            if (s == SL_EPILOGUE)
                list->at[i].micro -= gen->sched->reps * gen->sched->micros[list->at[i].stage];
        }
    }
    SL_VEC_FREE(&all->vec);
}

/* Fewest micro-batches of an iteration on a replica that has any. */
static int64_t least_share(const struct sl_gen *gen, int stage) {
    int64_t share = gen->sched->micros[stage] / gen->plan->stages[stage].width;
    return share ? share : 1;
}

/* Most iterations that a replica begins between its gradient and its step. */
static int64_t max_late(const struct sl_gen *gen) {
    int64_t max = 0;
    for (int i = 0; i < gen->plan->stage_count; i++) {
        int64_t late = sl_sched_step_delay(gen->sched, i) / (2 * least_share(gen, i));
        max = late > max ? late : max;
    }
    return max;
}

sl_err sl_schedules_gen_stream(struct sl_gen *gen) {
    struct sl_sched *sched = gen->sched;
    int64_t m = sched->micros[0], max = widest(gen);
    int64_t even = gen->iters - (sched->last_batch != sched->batch);
    int64_t lead = sl_schedules_gen_ceil(max - 1, m) > 1 ? sl_schedules_gen_ceil(max - 1, m) : 1;
    /* the first steps come late; the period must have one step per iteration */
    if (sched->global_step)
        lead += 1 + max_late(gen);
    int64_t reps = even * m < max ? 0 : (even * m - max) / m - lead;
    bool single = true;
    if (reps < 2)
        reps = 0;
    sched->reps = reps > 0;
    sched->iters = (int32_t)(gen->iters - (reps > 0 ? reps - 1 : 0));
    for (int i = 0; i < gen->plan->worker_count; i++)
        single &= gen->plan->worker_seat_count[i] <= 1;
    struct cursor *cursors = SL_NEW(gen->arena, struct cursor, gen->plan->seat_count);
    for (int w = 0; w < gen->plan->worker_count; w++) {
        int64_t f = max, ends[2];
        if (single && gen->plan->worker_seat_count[w])
            f = gen->row->window(gen, gen->plan->seats[gen->plan->worker_seats[w][0]].stage);
        struct borders border = {{2 * (lead * m - 1) + f - 1, 2 * ((lead + 1) * m - 1) + f - 1}};
        if (!reps)
            border.key[0] = border.key[1] = INT64_MAX - 1;
        stream_worker(gen, w, cursors, border, ends);
        cut(gen, w, ends);
    }
    sched->iters = (int32_t)gen->iters;
    sched->reps = (int32_t)reps;
    return SL_OK;
}

static void claim(const struct sl_gen *gen, int seat, struct sl_claim *out) {
    int stage = gen->plan->seats[seat].stage, width = gen->plan->stages[stage].width;
    int64_t m = gen->sched->micros[stage], window = gen->row->window(gen, stage);
    int64_t total = gen->iters * m, live = window < total ? window : total;
    bool global_step = gen->sched->global_step;
    int64_t more =
        global_step ? sl_schedules_gen_ceil(sl_sched_step_delay(gen->sched, stage), 2) : 0;
    int64_t late = width == 1 ? sl_schedules_gen_ceil(window - 1 + more, m)
                              : sl_schedules_gen_ceil(window - 1, m) +
                                    sl_schedules_gen_ceil(more, least_share(gen, stage));
    bool wide_entry = gen->plan->stages[sl_sched_entry(gen->plan)].width > 1;
    int64_t late_all = wide_entry ? sl_schedules_gen_ceil(widest(gen) - 1, m) + global_step
                                  : sl_schedules_gen_ceil(widest(gen) - 1 + global_step, m);
    const struct sl_policy *policy = gen->sched->policy.row;
    bool newest = gen->row->rule == SL_RULE_NEWEST && !(policy && policy->bellwether);
    *out = (struct sl_claim){.live = sl_schedules_gen_ceil(live, width)};
    /* if the width does not divide an iteration, neighbouring micro-batches may be on one
     * replica */
    if (width > 1)
        out->live += sl_schedules_gen_ceil(live, m);
    out->delay = gen->row->rule == SL_RULE_2BW     ? 1
                 : gen->row->rule == SL_RULE_VSYNC ? late_all
                                                   : late;
    out->versions = newest ? 1 : out->delay + 1;
}

#define ROW(c_name, text_name, text_brief, version_rule, window_function, ...)                     \
    const struct sl_schedule sl_schedules_row_##c_name = {                                         \
        .name = (text_name),                                                                       \
        .brief = (text_brief),                                                                     \
        .domain = "one micro-batch size for all stages; one stage per worker when there are "      \
                  "replicas or ties",                                                              \
        .rule = (version_rule),                                                                    \
        .check = check,                                                                            \
        .window = (window_function),                                                               \
        .claim = claim,                                                                            \
        __VA_ARGS__}

ROW(2bw, "2bw", "no flush, two weight versions, delay one (PipeDream-2BW)", SL_RULE_2BW,
    capped_window, .slack = 1, .windowed = true, .memory = SL_MEMORY_TWO_VERSIONS);
ROW(async, "async", "no flush: every pass reads the newest weights", SL_RULE_NEWEST, window_of,
    .memory = SL_MEMORY_WINDOW);
ROW(paci, "paci",
    "asynchronous: a step every m backward passes, so that F and B read versions close together "
    "(PACI)",
    SL_RULE_NEWEST, window_of, .memory = SL_MEMORY_WINDOW);
ROW(stash, "stash",
    "no flush: a backward pass reads the weights of its forward pass (weight stashing, PipeDream)",
    SL_RULE_STASH, window_of, .memory = SL_MEMORY_STASHED);
ROW(vsync, "vsync",
    "no flush: all stages use the same version for a micro-batch (PipeDream's vertical sync)",
    SL_RULE_VSYNC, vsync_window, .memory = SL_MEMORY_STASHED);
