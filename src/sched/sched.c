/* Queries on a schedule: actions in a repetition, seats, groups, micro-batches, bytes. */
#include "sched/sched.h"

#include "sched/deps.h"
#include "sched/slots.h"

static int32_t turned(int32_t slot, int32_t rep, const struct sl_slot_pool *pool) {
    if (pool->count <= 1 || slot < 0 || slot >= pool->count)
        return slot;
    int64_t at = (slot + (int64_t)rep * pool->turn) % pool->count;
    return (int32_t)(at < 0 ? at + pool->count : at);
}

static int message_pool(const struct sl_plan *plan, const struct sl_action *action) {
    if (action->edge >= plan->edge_count)
        return -1;
    const struct sl_edge *edge = &plan->edges[action->edge];
    bool grad = action->flags & SL_GRAD;
    return sl_sched_pool_of_edge(plan, edge, grad, action->kind == SL_SEND);
}

int sl_sched_pool_count(const struct sl_stage *stage) {
    return SL_POOL_EDGES + 2 * (stage->in_count + stage->out_count);
}

static uint16_t turned_weight(const struct sl_slot_pool *pools, uint16_t slot, int32_t rep) {
    const struct sl_slot_pool *weight = &pools[SL_POOL_WEIGHT], *predict = &pools[SL_POOL_PREDICT];
    if (slot < weight->count)
        return (uint16_t)turned(slot, rep, weight);
    return (uint16_t)(weight->count + turned(slot - weight->count, rep, predict));
}

static void turn_slots(const struct sl_sched *sched, const struct sl_slot_pool *pools, int32_t rep,
                       struct sl_action *a) {
    switch ((enum sl_kind)a->kind) {
    case SL_SEND:
    case SL_RECV: {
        int pool = message_pool(sched->plan, a);
        if (pool >= 0)
            a->slot = turned(a->slot, rep, &pools[pool]);
        return;
    }
    case SL_STEP:
    case SL_PREDICT: a->slot = turned(a->slot, rep, &pools[SL_POOL_WEIGHT]); break;
    case SL_BACKWARD_INPUT:
    case SL_BACKWARD_WEIGHT:
        a->slot2 = turned(a->slot2, rep, &pools[SL_POOL_KEPT]); /* fall through */
    case SL_FORWARD:
    case SL_BACKWARD:
    case SL_RECOMPUTE: a->slot = turned(a->slot, rep, &pools[SL_POOL_STASH]); break;
    default: break;
    }
    if (a->kind != SL_REDUCE)
        a->weight_slot = turned_weight(pools, a->weight_slot, rep);
    if (a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_WEIGHT || a->kind == SL_REDUCE ||
        a->kind == SL_STEP)
        a->grad_slot = (uint8_t)turned(a->grad_slot, rep, &pools[SL_POOL_GRAD]);
}

struct sl_action sl_sched_at(const struct sl_sched *sched, int seat, const struct sl_action *action,
                             int32_t rep) {
    struct sl_action a = *action;
    if (!rep)
        return a;
    if (a.kind != SL_REDUCE && a.kind != SL_STEP && a.kind != SL_PREDICT)
        a.micro += rep * sched->micros[a.stage];
    if (a.kind == SL_SEND || a.kind == SL_RECV) {
        const struct sl_edge *edge = &sched->plan->edges[a.edge];
        int other = edge->from == a.stage ? edge->to : edge->from;
        a.other += rep * sched->micros[other];
    } else {
        a.version += rep;
    }
    if (sched->pools)
        turn_slots(sched, sched->pools[seat], rep, &a);
    return a;
}

int sl_sched_seat_replica(const struct sl_plan *plan, int stage, int worker) {
    /* a linear search: a worker has few seats */
    for (int i = 0; i < plan->worker_seat_count[worker]; i++)
        if (plan->seats[plan->worker_seats[worker][i]].stage == stage)
            return plan->worker_seats[worker][i];
    return -1;
}

int sl_sched_group_count(const struct sl_plan *plan) { return plan->stage_count + plan->tie_count; }

bool sl_sched_in_group(const struct sl_plan *plan, int group, int stage) {
    if (group < plan->stage_count)
        return group == stage;
    const struct sl_tie *tie = &plan->ties[group - plan->stage_count];
    for (int i = 0; i < tie->count; i++)
        if (tie->stages[i] == stage)
            return true;
    return false;
}

int sl_sched_group_size(const struct sl_plan *plan, int group) {
    if (group < plan->stage_count)
        return sl_sched_deps_reduces(&plan->stages[group]) ? plan->stages[group].width : 1;
    const struct sl_tie *tie = &plan->ties[group - plan->stage_count];
    int size = 0;
    for (int i = 0; i < tie->count; i++)
        size += plan->stages[tie->stages[i]].width;
    return size;
}

int sl_sched_group_of(const struct sl_plan *plan, int stage, int i) {
    if (sl_sched_deps_reduces(&plan->stages[stage]) && i-- == 0)
        return stage;
    for (int t = 0; t < plan->tie_count; t++)
        if (sl_sched_in_group(plan, plan->stage_count + t, stage) && i-- == 0)
            return plan->stage_count + t;
    return -1;
}

int sl_sched_decision_group(const struct sl_plan *plan) { return sl_sched_group_count(plan); }

int sl_sched_group_root(const struct sl_plan *plan, int group) {
    int best = -1;
    for (int i = 0; i < plan->stage_count; i++)
        if (sl_sched_in_group(plan, group, i) &&
            (best < 0 || plan->stages[i].height > plan->stages[best].height))
            best = i;
    return best;
}

/* Passes of this stage between its last gradient and the step. The sink's last backward is d passes
 * after that of a stage d edges below; `below` is d. The sink's part of the decision arrives one
 * pass later if F and B take the same time. If B takes longer, it arrives up to half a pass later
 * per edge, because at the same pass lower stages are further in time. */
int sl_sched_step_delay(const struct sl_sched *sched, int stage) {
    int64_t below = sl_sched_half_times_below(sched, stage);
    return (int)(below + 1 + (below + 1) / 2);
}

int32_t sl_sched_micros(const struct sl_sched *sched, int stage, int32_t iter) {
    if (iter < sched->iters - 1 || sched->last_batch == sched->batch)
        return sched->micros[stage];
    int64_t size = sched->plan->stages[stage].micro_size;
    return (int32_t)((sched->last_batch + size - 1) / size);
}

int64_t sl_sched_total(const struct sl_sched *sched, int stage) {
    return (int64_t)(sched->iters - 1) * sched->micros[stage] +
           sl_sched_micros(sched, stage, sched->iters - 1);
}

int64_t sl_sched_samples(const struct sl_sched *sched, int stage, int32_t micro) {
    int64_t size = sched->plan->stages[stage].micro_size;
    int32_t iter = micro / sched->micros[stage], index = micro % sched->micros[stage];
    int64_t batch = iter == sched->iters - 1 ? sched->last_batch : sched->batch;
    int64_t left = batch - index * size;
    return left < size ? left : size;
}

int sl_sched_share_places(const struct sl_sched *sched) {
    int32_t max = 1;
    for (int i = 0; i < sched->plan->seat_count; i++)
        if (sched->pools[i][SL_POOL_GRAD].count > max)
            max = sched->pools[i][SL_POOL_GRAD].count;
    return 2 * max + 2;
}

static bool holds(const struct sl_plan *plan, const struct sl_tie *tie, int worker) {
    for (int i = 0; i < tie->count; i++)
        if (sl_sched_seat(plan, tie->stages[i], worker) >= 0)
            return true;
    return false;
}

/* Bytes of the message places for gradients of tied parameters, with global_step. */
static int64_t tied_bytes(const struct sl_sched *sched, int worker) {
    const struct sl_plan *plan = sched->plan;
    int64_t sum = 0;
    for (int t = 0; sched->global_step && t < plan->tie_count; t++) {
        const struct sl_tie *tie = &plan->ties[t];
        int others = 0;
        for (int i = 0; i < tie->count && holds(plan, tie, worker); i++)
            others += sl_sched_seat(plan, tie->stages[i], worker) < 0;
        if (tie->bytes > (INT64_MAX / 4 - sum) / (others * sl_sched_share_places(sched) + 1))
            return INT64_MAX / 4;
        sum += others * sl_sched_share_places(sched) * tie->bytes;
    }
    return sum;
}

int64_t sl_sched_tied_max(const struct sl_sched *sched, int worker) {
    int64_t max = 0;
    for (int t = 0; sched->global_step && t < sched->plan->tie_count; t++)
        if (sched->plan->ties[t].bytes > max && holds(sched->plan, &sched->plan->ties[t], worker))
            max = sched->plan->ties[t].bytes;
    return max < INT64_MAX / 4 ? max : INT64_MAX / 4;
}

int64_t sl_sched_ring_bytes(const struct sl_sched *sched, int seat) {
    const struct sl_plan *plan = sched->plan;
    const struct sl_stage *stage = &plan->stages[plan->seats[seat].stage];
    int64_t sum = 0;
    for (int i = 0; i < stage->in_count; i++) {
        const struct sl_edge *edge = &plan->edges[stage->in[i]];
        const struct sl_stage *from = &plan->stages[edge->from];
        if (edge->grads)
            continue;
        int64_t count = (from->width + stage->width - 1) / stage->width;
        int64_t bytes = edge->sample_bytes * from->micro_size;
        count *= sched->pools[from->seat][sl_sched_pool_of_edge(plan, edge, false, true)].count;
        if (bytes && count > (INT64_MAX / 4 - sum) / bytes)
            return INT64_MAX / 4;
        sum += count * bytes;
    }
    return sum;
}

int64_t sl_sched_message_bytes(const struct sl_sched *sched, int worker) {
    const struct sl_plan *plan = sched->plan;
    int64_t sum = tied_bytes(sched, worker);
    for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
        int seat = plan->worker_seats[worker][i];
        const struct sl_stage *stage = &plan->stages[plan->seats[seat].stage];
        sum += sl_sched_ring_bytes(sched, seat);
        for (int j = SL_POOL_EDGES; j < sl_sched_pool_count(stage); j++)
            sum += sched->pools[seat][j].count * sched->pools[seat][j].bytes;
    }
    return sum;
}

int64_t sl_sched_worker_bytes(const struct sl_sched *sched, int worker) {
    const struct sl_plan *plan = sched->plan;
    int64_t sum = tied_bytes(sched, worker) + sl_sched_tied_max(sched, worker), work = 0;
    for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
        int seat = plan->worker_seats[worker][i];
        const struct sl_stage *stage = &plan->stages[plan->seats[seat].stage];
        int64_t ring = sl_sched_ring_bytes(sched, seat);
        if (ring > INT64_MAX / 2 - sum)
            return INT64_MAX;
        sum += stage->bytes.state + stage->bytes.fixed + ring;
        for (int j = 0; j < sl_sched_pool_count(stage); j++) {
            int64_t bytes = sched->pools[seat][j].bytes;
            int32_t count = sl_sched_pool_slots(sched, seat, j);
            if (bytes && count > (INT64_MAX - sum) / bytes)
                return INT64_MAX;
            sum += count * bytes;
        }
        if (stage->bytes.work > work)
            work = stage->bytes.work;
    }
    return sum > INT64_MAX - work ? INT64_MAX : sum + work;
}

int64_t sl_sched_action_count(const struct sl_sched *sched) {
    int64_t count = 0;
    for (int i = 0; i < SL_SEGMENT_COUNT; i++)
        for (int j = 0; j < sched->plan->worker_count; j++)
            count += sched->lists[i][j].count;
    return count;
}

const char *sl_sched_kind_name(enum sl_kind kind) {
    static const char *const names[] = {"F",    "B",    "I",      "W",    "RECOMPUTE",
                                        "SEND", "RECV", "REDUCE", "STEP", "PREDICT"};
    return (unsigned)kind < (unsigned)SL_COUNT(names) ? names[kind] : "?";
}

const char *sl_sched_rule_name(enum sl_rule rule) {
    static const char *const names[] = {"sync", "twobw", "stash", "vsync", "newest", "forward"};
    return (unsigned)rule < (unsigned)SL_COUNT(names) ? names[rule] : "?";
}

static struct sl_sched with_reps(const struct sl_sched *sched, int32_t reps) {
    struct sl_sched fewer = *sched;
    if (reps < fewer.reps) {
        fewer.iters -= fewer.reps - reps;
        fewer.reps = reps;
    }
    return fewer;
}

struct sl_sched sl_sched_flat(const struct sl_sched *sched) {
    return with_reps(sched, 1);
}

struct sl_sched sl_sched_shorten(const struct sl_sched *sched, int32_t reps) {
    return with_reps(sched, reps > SL_PLAYED_REPS ? reps : SL_PLAYED_REPS);
}
