/* Messages and the critical path of an imported trace (kineto.h). A trace has only times and
 * names: the rules of a pipeline tell which action needs which. */
#include "report/kineto.h"

#include "base/vec.h"

#include <stdlib.h>

struct key { /* sorted by direction of the pass, stage, micro-batch, time */
    int64_t start_ns;
    int64_t bar;
    int32_t micro;
    uint16_t stage;
    bool back;
};

struct links {
    struct sl_picture *picture;
    struct sl_bar *bars;
    int *lane_of;     /* [bars] lane of each */
    struct key *keys; /* keys of F, B and I */
    int64_t key_count;
    int64_t *needs; /* [bars] the action on another lane whose output it needs; -1: none */
    SL_VEC(struct sl_arrow) arrows;
    int64_t *arrow_of; /* [bars] arrow of `needs` */
};

static int compare(const struct key *x, const struct key *y) {
    if (x->back != y->back)
        return x->back ? 1 : -1;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return x->micro != y->micro ? (x->micro > y->micro) - (x->micro < y->micro) : 0;
}

static int compare_keys(const void *a, const void *b) {
    const struct key *x = a, *y = b;
    int order = compare(x, y);
    if (order)
        return order;
    return x->start_ns != y->start_ns ? (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns)
                                      : (x->bar > y->bar) - (x->bar < y->bar);
}

/* Returns the first key that is not before `want`; names repeat in every step. */
static int64_t first_of(const struct links *l, const struct key *want) {
    int64_t low = 0, high = l->key_count;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (compare(&l->keys[mid], want) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_back(int kind) { return kind == SL_BACKWARD || kind == SL_BACKWARD_INPUT; }

static void sort_passes(struct sl_arena *arena, struct links *l) {
    int64_t count = l->picture->lane_at[l->picture->lane_count];
    l->keys = SL_NEW(arena, struct key, count + 1);
    for (int64_t i = 0; i < count; i++) {
        const struct sl_bar *bar = &l->bars[i];
        if (bar->micro >= 0 && (bar->kind == SL_FORWARD || is_back(bar->kind)))
            l->keys[l->key_count++] =
                (struct key){bar->start_ns, i, bar->micro, bar->stage, is_back(bar->kind)};
    }
    if (l->key_count)
        qsort(l->keys, (size_t)l->key_count, sizeof *l->keys, compare_keys);
}

/* Finds needs: the n-th pass of a name needs the n-th pass of the name before it in the
 * pipeline. */
static void find_needs(struct links *l) {
    int last = l->picture->stage_count - 1;
    for (int64_t i = 0, group = 0; i < l->key_count; i++) {
        struct key want = l->keys[i];
        group = i && compare(&l->keys[i - 1], &want) == 0 ? group : i;
        if (want.back ? want.stage == last : want.stage == 0)
            continue;
        want.stage = (uint16_t)(want.back ? want.stage + 1 : want.stage - 1);
        int64_t at = first_of(l, &want) + (i - group);
        if (at < l->key_count && compare(&l->keys[at], &want) == 0 &&
            l->lane_of[l->keys[at].bar] != l->lane_of[l->keys[i].bar])
            l->needs[l->keys[i].bar] = l->keys[at].bar;
    }
}

/* Shortest range of each pass of a stage: [2 * stage + back]. */
static int64_t *shortest_of(struct sl_arena *arena, const struct links *l) {
    int count = 2 * l->picture->stage_count;
    int64_t *shortest = SL_NEW(arena, int64_t, count + 1);
    for (int i = 0; i < count; i++)
        shortest[i] = INT64_MAX;
    for (int64_t i = 0; i < l->key_count; i++) {
        const struct sl_bar *bar = &l->bars[l->keys[i].bar];
        int64_t *least = &shortest[2 * bar->stage + is_back(bar->kind)];
        int64_t ns = bar->end_ns - bar->start_ns;
        *least = ns < *least ? ns : *least;
    }
    return shortest;
}

/* Ranges of PyTorch include the wait for their input. The clocks of ranks differ by up to
 * milliseconds, so an input may seem to come when the pass that reads it has nearly ended, or later.
 * A pass keeps at least the time of the shortest range of its stage and direction. */
static void cut_waits(struct sl_arena *arena, struct links *l, int64_t count) {
    const int64_t *shortest = shortest_of(arena, l);
    for (int64_t i = 0; i < count; i++) {
        struct sl_bar *bar = &l->bars[i];
        if (l->needs[i] < 0)
            continue;
        int64_t latest = bar->end_ns - shortest[2 * bar->stage + is_back(bar->kind)];
        int64_t made = l->bars[l->needs[i]].end_ns;
        made = made < latest ? made : latest;
        bar->start_ns = made > bar->start_ns ? made : bar->start_ns;
    }
}

/* A message that seems to end before it begins takes no time. */
static void put_arrows(struct links *l, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const struct sl_bar *to = &l->bars[i];
        if (l->needs[i] < 0 || l->bars[l->needs[i]].start_ns > to->end_ns)
            continue;
        const struct sl_bar *from = &l->bars[l->needs[i]];
        int64_t sent = from->end_ns < to->start_ns ? from->end_ns : to->start_ns;
        l->arrow_of[i] = l->arrows.count;
        SL_PUSH(&l->arrows, ((struct sl_arrow){.start_ns = sent,
                                               .left_ns = to->start_ns,
                                               .end_ns = to->start_ns,
                                               .from = l->lane_of[l->needs[i]],
                                               .to = l->lane_of[i],
                                               .micro = from->micro,
                                               .from_stage = from->stage,
                                               .to_stage = to->stage,
                                               .grad = is_back(to->kind)}));
    }
}

/* ---- the critical path ---- */

/* Returns the last bar of a lane that ends by then; -1: none. */
static int64_t last_by(const struct links *l, int lane, int64_t ns) {
    int64_t low = l->picture->lane_at[lane], first = low, high = l->picture->lane_at[lane + 1];
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (l->bars[mid].end_ns <= ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low > first ? low - 1 : -1;
}

/* Returns the bar for whose end a bar waited: the action before it or, if its lane was idle for
 * longer than a switch between actions takes, its input. If stages are not known, it is whatever
 * ended last on any lane. Considers only bars that end earlier. */
enum { IDLE_NS = 50000 };

static int64_t cause_of(const struct links *l, int64_t at, bool numbered) {
    const struct sl_bar *bar = &l->bars[at];
    int64_t best = at > l->picture->lane_at[l->lane_of[at]] ? at - 1 : -1, other = -1;
    if (numbered && l->needs[at] >= 0 && l->arrow_of[at] >= 0)
        other = l->needs[at];
    if (other >= 0 && (best < 0 || l->bars[best].end_ns + IDLE_NS < bar->start_ns))
        best = other;
    for (int lane = 0; lane < l->picture->lane_count && !numbered; lane++) {
        other = last_by(l, lane, bar->start_ns);
        if (other >= 0 && other != at && (best < 0 || l->bars[other].end_ns > l->bars[best].end_ns))
            best = other;
    }
    return best;
}

static void walk(struct links *l, int64_t count, bool numbered) {
    struct sl_picture *p = l->picture;
    int64_t at = -1, until = p->end_ns;
    for (int64_t i = 0; i < count; i++)
        if (at < 0 || l->bars[i].end_ns > l->bars[at].end_ns)
            at = i;
    p->gap_ns = p->end_ns;
    for (int64_t steps = 0; at >= 0 && steps <= count; steps++) {
        struct sl_bar *bar = &l->bars[at];
        int64_t ns = (bar->end_ns < until ? bar->end_ns : until) - bar->start_ns;
        ns = ns > 0 ? ns : 0;
        bar->critical = true;
        *(bar->kind <= SL_RECOMPUTE ? &p->pass_ns : &p->weight_ns) += ns;
        p->gap_ns -= ns;
        until = bar->start_ns;
        int64_t next = cause_of(l, at, numbered);
        if (next >= 0 && next == l->needs[at] && l->arrow_of[at] >= 0) {
            int64_t made = l->bars[next].end_ns < until ? l->bars[next].end_ns : until;
            int64_t wire = until - made;
            l->arrows.at[l->arrow_of[at]].critical = true;
            p->transfer_ns += wire;
            p->gap_ns -= wire;
            until = made;
        }
        at = next;
    }
}

void sl_report_kineto_link(struct sl_arena *arena, struct sl_picture *p, struct sl_bar *bars,
                           bool numbered) {
    int64_t count = p->lane_at[p->lane_count];
    struct links l = {.picture = p,
                      .bars = bars,
                      .lane_of = SL_NEW(arena, int, count + 1),
                      .needs = SL_NEW(arena, int64_t, count + 1),
                      .arrow_of = SL_NEW(arena, int64_t, count + 1)};
    for (int lane = 0; lane < p->lane_count; lane++)
        for (int64_t i = p->lane_at[lane]; i < p->lane_at[lane + 1]; i++) {
            l.lane_of[i] = lane;
            l.needs[i] = l.arrow_of[i] = -1;
            p->end_ns = bars[i].end_ns > p->end_ns ? bars[i].end_ns : p->end_ns;
        }
    if (numbered) {
        sort_passes(arena, &l);
        find_needs(&l);
        cut_waits(arena, &l, count);
    }
    put_arrows(&l, count);
    walk(&l, count, numbered);
    p->arrow_count = l.arrows.count;
    p->arrows = SL_VEC_FREEZE(&l.arrows, arena);
    SL_VEC_FREE(&l.arrows);
}
