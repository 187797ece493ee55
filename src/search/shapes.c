/* Plain shapes: stages of nearly equal time in one topological order, all equally wide, with as
 * little recomputation as memory allows. They fold (score.c), so that many can be played even on
 * large machines, where the general search plays few. */
#include "search/planner.h"

struct shape {
    struct sl_contest *contest;
    int *order, *stage_of, *width;
    bool *recompute;
};

/* The same with recomputation only where it is needed. */
static void offer_eased(struct sl_contest *contest, const struct sl_candidate *c,
                        bool also_as_it_is) {
    const struct sl_problem *p = contest->query->problem;
    struct sl_arena arena = {0};
    struct sl_setup setup;
    struct sl_candidate eased = *c;
    bool *recompute = SL_NEW(&arena, bool, c->stage_count);
    sl_search_setup_build(&arena, p, c, &setup);
    bool changed = sl_search_setup_ease(&setup, sl_search_query_memory(contest->query), recompute);
    eased.recompute = recompute;
    if (changed || also_as_it_is)
        sl_search_contest_offer(contest, &eased, "sluice");
    sl_arena_free(&arena);
}

void sl_search_offer_eased(struct sl_contest *contest) {
    for (int64_t i = 0, count = contest->at.count; i < count; i++) {
        struct sl_candidate c = contest->at.at[i].c;
        for (int s = 0; s < c.stage_count; s++)
            if (c.recompute[s]) {
                offer_eased(contest, &c, false);
                break;
            }
    }
}

static void offer_width(struct shape *s, struct sl_candidate *c, int width) {
    for (int i = 0; i < c->stage_count; i++) {
        s->width[i] = width;
        s->recompute[i] = true;
    }
    for (int across = 0; across < (width > 1 && c->stage_count > 1 ? 2 : 1); across++) {
        c->across = across;
        offer_eased(s->contest, c, true);
    }
}

/* As wide as there are devices; the largest power of two; the largest that
 * shares out evenly. */
static void offer_depth(struct shape *s, struct sl_candidate *c, int depth) {
    const struct sl_problem *p = s->contest->query->problem;
    int64_t micros = (p->batch + p->sizes[c->size] - 1) / p->sizes[c->size];
    int max = p->straight ? 1 : p->machine->device_count / depth, power = 1, even = 1;
    max = max > micros ? (int)micros : max;
    c->stage_count = sl_search_even_cut(p, s->order, c->size, depth, s->stage_of);
    while (2 * power <= max)
        power *= 2;
    for (int w = 1; w <= max; w++)
        even = micros % w ? even : w;
    offer_width(s, c, max);
    if (power != max)
        offer_width(s, c, power);
    if (even != max && even != power)
        offer_width(s, c, even);
}

/* The longest stage of this many. */
static int64_t longest(struct shape *s, int size, int depth) {
    const struct sl_problem *p = s->contest->query->problem;
    const struct sl_unit_time *t = sl_problem_times(p, size, 0);
    int64_t sum = 0, max = 0;
    sl_search_even_cut(p, s->order, size, depth, s->stage_of);
    for (int i = 0; i < p->unit_count; i++) {
        int u = s->order[i];
        sum = i && s->stage_of[u] != s->stage_of[s->order[i - 1]] ? 0 : sum;
        sum += t[u].f + t[u].i + t[u].w;
        max = sum > max ? sum : max;
    }
    return max;
}

/* All depths of a small machine; of a large one 2^k and 3 2^k, and those from which on stages are
 * shorter: with 96 layers and a head, 97 stages beat 96. */
static bool takes(struct shape *s, int size, int depth, int64_t *shortest) {
    enum { SMALL = 16 };
    if (s->contest->query->problem->machine->device_count <= SMALL)
        return true;
    int odd = depth / (depth & -depth);
    int64_t max = longest(s, size, depth);
    bool shorter = max < *shortest - *shortest / 64;
    *shortest = shorter ? max : *shortest;
    return odd == 1 || odd == 3 || shorter;
}

void sl_search_offer_shapes(struct sl_contest *contest) {
    const struct sl_problem *p = contest->query->problem;
    struct sl_arena arena = {0};
    const char *one[SL_QUERY_SCHEDULES];
    int devices = p->machine->device_count;
    struct shape s = {contest, SL_NEW(&arena, int, p->unit_count + 1),
                      SL_NEW(&arena, int, p->unit_count + 1), SL_NEW(&arena, int, devices + 1),
                      SL_NEW(&arena, bool, devices + 1)};
    struct sl_candidate c = {.stage_of = s.stage_of, .width = s.width, .recompute = s.recompute};
    SL_ASSERT(sl_graph_dag_order(&arena, &p->dag, s.order));
    for (const char *const *row = sl_search_query_schedules(contest->query, one); *row; row++)
        for (c.size = 0; c.size < p->size_count; c.size++) {
            int64_t shortest = INT64_MAX;
            c.schedule = *row;
            if (sl_search_contest_hopeless(contest, *row, c.size))
                continue;
            for (int depth = 1; depth <= devices && depth <= p->unit_count; depth++)
                if (takes(&s, c.size, depth, &shortest))
                    offer_depth(&s, &c, depth);
        }
    sl_arena_free(&arena);
}
