/* Lowering: where SEND and RECV go, and the driver.
 *
 *     worker A   ... x  [RECV*] [SEND x ->B] ...         after a pass: first post due receives,
 *     worker B   ... [RECV x] [SEND*]  z  ...  y         then send
 *
 * Let z be the last pass of B that ends before x ends in the reference simulation. RECV x is posted
 * in front of z. So a send finds its receive posted, opposite transfers in the same gap are posted
 * on both sides before either is sent, and the message travels while B runs z. The simulation has
 * no transfer times; posting behind z would be too late on a real link. This costs at most one more
 * buffer; a worker without memory for it posts behind z. */
#include "lower/lower.h"

#include "lower/parts.h"
#include "sched/order.h"

struct posted { /* a RECV, and the gap between passes where it is posted */
    int64_t gap;
    struct sl_action recv;
};

struct inbox {
    SL_VEC(struct posted) vec;
};

/* Number of passes of this worker and segment that have ended by `time`; that is the number of a
 * gap. */
static int64_t gap_at(const struct sl_items *items, int64_t time) {
    int64_t low = 0, high = items->timed;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (items->ends[mid] <= time)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Returns the gap where a worker posts the receive of a message that is sent at `time`. */
static int64_t post_at(const struct sl_low *low, int segment, int worker, int64_t time) {
    int64_t gap = gap_at(&low->items[segment][worker], time);
    return gap && !low->tight[worker] ? gap - 1 : gap;
}

/* A message of a pass to another worker. The walk below calls a function for each. */
struct message {
    int edge, peer;
    int32_t other;
    bool grad;
};

static int64_t messages_of(const struct sl_low *low, int worker, const struct sl_action *a,
                           struct message *out, int64_t max) {
    const struct sl_plan *plan = low->plan;
    const struct sl_stage *stage = &plan->stages[a->stage];
    bool grad = a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_INPUT;
    if ((!grad && a->kind != SL_FORWARD) || !sl_sched_deps_has(stage, a->kind))
        return 0;
    int64_t count = 0;
    for (int i = 0; i < (grad ? stage->in_count : stage->out_count); i++) {
        int edge = grad ? stage->in[i] : stage->out[i];
        int other = grad ? plan->edges[edge].from : plan->edges[edge].to;
        if (grad && !plan->edges[edge].grads)
            continue;
        struct sl_micro_range range = sl_sched_deps_overlap(&low->flat, a->stage, a->micro, other);
        for (int32_t x = range.low; x < range.high; x++) {
            int peer = plan->seats[sl_sched_deps_seat(&low->flat, other, x)].worker;
            if (peer == worker)
                continue;
            if (count < max)
                out[count] = (struct message){edge, peer, x, grad};
            count++;
        }
    }
    return count;
}

static void post_receives(struct sl_low *low, int segment, int worker, struct inbox *inboxes,
                          struct message *room, int64_t max) {
    const struct sl_plan *plan = low->plan;
    const struct sl_items *items = &low->items[segment][worker];
    int64_t timed = 0;
    for (int64_t i = 0; i < items->vec.count; i++) {
        const struct sl_action *a = &items->vec.at[i];
        if (!sl_is_timed(a))
            continue;
        int64_t end = items->ends[timed++];
        int64_t count = messages_of(low, worker, a, room, max);
        for (int64_t j = 0; j < count; j++) {
            const struct sl_edge *edge = &plan->edges[room[j].edge];
            struct posted posted = {
                .gap = post_at(low, segment, room[j].peer, end),
                .recv = {.kind = SL_RECV,
                         .flags = room[j].grad ? SL_GRAD : 0,
                         .stage = (uint16_t)(room[j].grad ? edge->from : edge->to),
                         .micro = room[j].other,
                         .other = a->micro,
                         .peer = (uint16_t)worker,
                         .edge = (uint16_t)room[j].edge},
            };
            SL_PUSH(&inboxes[room[j].peer].vec, posted);
        }
    }
}

/* Sorts the inbox by gap; stable counting sort. Returns where each gap ends, in an array whose
 * allocation begins one element earlier. */
static int64_t *sort_inbox(struct inbox *inbox, int64_t gaps, struct posted *sorted) {
    int64_t *start = sl_realloc(NULL, sizeof *start * (size_t)(gaps + 2));
    memset(start, 0, sizeof *start * (size_t)(gaps + 2));
    for (int64_t i = 0; i < inbox->vec.count; i++)
        start[inbox->vec.at[i].gap + 2]++;
    for (int64_t i = 2; i < gaps + 2; i++)
        start[i] += start[i - 1];
    for (int64_t i = 0; i < inbox->vec.count; i++)
        sorted[start[inbox->vec.at[i].gap + 1]++] = inbox->vec.at[i];
    return start + 1;
}

static struct sl_action *put_sends(struct sl_low *low, int worker, const struct sl_action *a,
                                   struct sl_action *at, struct message *room, int64_t max) {
    int64_t count = messages_of(low, worker, a, room, max);
    for (int64_t j = 0; j < count; j++)
        *at++ = (struct sl_action){.kind = SL_SEND,
                                   .flags = room[j].grad ? SL_GRAD : 0,
                                   .stage = a->stage,
                                   .micro = a->micro,
                                   .other = room[j].other,
                                   .peer = (uint16_t)room[j].peer,
                                   .edge = (uint16_t)room[j].edge};
    return at;
}

/* False for passes that their stage does not have: they are dropped here (expand.c). */
static bool is_kept(const struct sl_low *low, const struct sl_action *a) {
    return sl_sched_deps_has(&low->plan->stages[a->stage], (enum sl_kind)a->kind);
}

static void weave(struct sl_low *low, int segment, int worker, struct inbox *inbox,
                  struct message *room, int64_t max) {
    struct sl_items *items = &low->items[segment][worker];
    struct posted *sorted = sl_realloc(NULL, sizeof *sorted * (size_t)(inbox->vec.count + 1));
    int64_t *end = sort_inbox(inbox, items->timed + 1, sorted);
    int64_t sends = 0, gap = 0, from = 0, dropped = 0;
    for (int64_t i = 0; i < items->vec.count; i++) {
        sends += messages_of(low, worker, &items->vec.at[i], room, max);
        dropped += !is_kept(low, &items->vec.at[i]);
    }
    struct sl_actions *list = &low->out->lists[segment][worker];
    list->count = items->vec.count - dropped + inbox->vec.count + sends;
    list->at = SL_NEW(low->arena, struct sl_action, list->count);
    struct sl_action *at = list->at;
    for (; from < end[gap]; from++)
        *at++ = sorted[from].recv;
    for (int64_t i = 0; i < items->vec.count; i++) {
        const struct sl_action *a = &items->vec.at[i];
        if (is_kept(low, a))
            *at++ = *a;
        if (!sl_is_timed(a))
            continue;
        for (gap++; from < end[gap]; from++)
            *at++ = sorted[from].recv;
        at = put_sends(low, worker, a, at, room, max);
    }
    SL_ASSERT(at == list->at + list->count);
    free(end - 1);
    free(sorted);
    SL_VEC_FREE(&items->vec);
    SL_VEC_FREE(&inbox->vec);
}

/* Returns the most messages that a pass of any stage can send. */
static int64_t max_messages(const struct sl_plan *plan) {
    int64_t max = 1;
    for (int i = 0; i < plan->stage_count; i++) {
        const struct sl_stage *s = &plan->stages[i];
        int64_t ins = 0, outs = 0;
        for (int e = 0; e < s->in_count; e++)
            ins += s->micro_size / plan->stages[plan->edges[s->in[e]].from].micro_size + 2;
        for (int e = 0; e < s->out_count; e++)
            outs += s->micro_size / plan->stages[plan->edges[s->out[e]].to].micro_size + 2;
        max = ins > max ? ins : max;
        max = outs > max ? outs : max;
    }
    return max;
}

static void add_messages(struct sl_low *low) {
    int workers = low->plan->worker_count;
    int64_t max = max_messages(low->plan);
    struct message *room = SL_NEW(&low->scratch, struct message, max);
    struct inbox *inboxes = SL_NEW(&low->scratch, struct inbox, workers);
    for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
        for (int w = 0; w < workers; w++)
            post_receives(low, s, w, inboxes, room, max);
        for (int w = 0; w < workers; w++)
            weave(low, s, w, &inboxes[w], room, max);
    }
}

/* Numbers the epilogue as if there were no repetition. */
static void unturn_epilogue(struct sl_low *low) {
    if (!low->flat.reps)
        return;
    for (int w = 0; w < low->plan->worker_count; w++) {
        struct sl_actions *list = &low->out->lists[SL_EPILOGUE][w];
        for (int64_t i = 0; i < list->count; i++) {
            int seat = sl_sched_seat(low->plan, list->at[i].stage, w);
            list->at[i] = sl_sched_at(low->out, seat, &list->at[i], -low->flat.reps);
        }
    }
}

static sl_err lower(struct sl_low *low) {
    SL_TRY(sl_lower_check(&low->flat));
    low->paced = sl_lower_is_paced(&low->flat);
    SL_TRY(sl_lower_expand(low));
    SL_TRY(sl_lower_time(low));
    add_messages(low);
    SL_TRY(sl_lower_slots(low));
    unturn_epilogue(low);
    return SL_OK;
}

static sl_err lower_once(struct sl_arena *arena, const struct sl_sched *passes, const bool *tight,
                         struct sl_sched **out) {
    struct sl_low low = {
        .arena = arena, .plan = passes->plan, .flat = sl_sched_flat(passes), .tight = tight};
    low.out = SL_NEW(arena, struct sl_sched, 1);
    *low.out = *passes;
    for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
        low.out->lists[s] = SL_NEW(arena, struct sl_actions, low.plan->worker_count);
        low.items[s] = SL_NEW(&low.scratch, struct sl_items, low.plan->worker_count);
    }
    sl_err err = lower(&low);
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        for (int w = 0; w < low.plan->worker_count; w++)
            SL_VEC_FREE(&low.items[s][w].vec);
    sl_arena_free(&low.scratch);
    low.out->lowered = true;
    if (err == SL_OK)
        *out = low.out;
    return err;
}

/* Finds the workers that need more memory than they have. */
static bool find_tight(const struct sl_sched *sched, bool *tight) {
    const int64_t *limits = sched->plan->memory_bytes;
    bool any = false;
    for (int w = 0; limits && w < sched->plan->worker_count; w++) {
        tight[w] = limits[w] && sl_sched_worker_bytes(sched, w) > limits[w];
        any |= tight[w];
    }
    return any;
}

/* Lowers with early receives. Workers for which memory does not suffice post their receives
 * late. */
static sl_err lower_tightly(struct sl_arena *arena, const struct sl_sched *passes,
                            struct sl_sched **out) {
    struct sl_arena_mark mark = sl_arena_mark(arena);
    bool *tight = sl_realloc(NULL, (size_t)passes->plan->worker_count * sizeof *tight);
    memset(tight, 0, (size_t)passes->plan->worker_count * sizeof *tight);
    sl_err err = lower_once(arena, passes, tight, out);
    if (err == SL_OK && find_tight(*out, tight)) {
        sl_arena_release(arena, mark);
        err = lower_once(arena, passes, tight, out);
    }
    free(tight);
    return err;
}

static bool fits(const struct sl_sched *sched) {
    const int64_t *limits = sched->plan->memory_bytes;
    for (int w = 0; limits && w < sched->plan->worker_count; w++)
        if (limits[w] && sl_sched_worker_bytes(sched, w) > limits[w])
            return false;
    return true;
}

sl_err sl_lower_passes(struct sl_arena *arena, const struct sl_sched *passes,
                       struct sl_sched **out) {
    if (passes->lowered)
        return sl_fail(SL_ERR_REFUSED, "the schedule has been lowered already");
    struct sl_arena scratch = {0};
    struct sl_arena_mark mark = sl_arena_mark(arena);
    const struct sl_sched *ordered = sl_sched_order_restore(&scratch, passes);
    bool done = ordered && lower_tightly(arena, ordered, out) == SL_OK && fits(*out);
    sl_arena_free(&scratch);
    if (done)
        return SL_OK;
    if (ordered)
        sl_arena_release(arena, mark);
    return lower_tightly(arena, passes, out);
}
