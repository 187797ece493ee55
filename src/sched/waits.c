/* Wait-for chains of a running pipeline. */
#include "sched/waits.h"

bool sl_sched_work_is_valid(const struct sl_plan *plan, const struct sl_work *w) {
    bool edge = w->wait == SL_WAIT_MESSAGE || w->wait == SL_WAIT_PLACE;
    int groups = sl_sched_group_count(plan);
    if (w->kind < 0 || w->kind >= SL_KIND_COUNT || w->stage < 0 || w->stage >= plan->stage_count ||
        w->wait < 0 || w->wait >= SL_WAIT_COUNT || w->peer < 0 || w->peer >= plan->worker_count ||
        w->starved_ns < 0)
        return false;
    if (edge)
        return w->of >= 0 && w->of < plan->edge_count;
    return w->wait != SL_WAIT_GROUP || w->of == SL_WAIT_ALL || (w->of >= 0 && w->of < groups);
}

/* ---- chains ---- */

static bool is_member(const struct sl_plan *plan, int group, int worker) {
    if (group == SL_WAIT_ALL)
        return true;
    for (int i = 0; i < plan->worker_seat_count[worker]; i++)
        if (sl_sched_in_group(plan, group, plan->seats[plan->worker_seats[worker][i]].stage))
            return true;
    return false;
}

/* Returns the first member of the group that has not arrived. */
static int missing_of(const struct sl_plan *plan, const struct sl_work *all, int worker) {
    int group = all[worker].of;
    for (int v = 0; v < plan->worker_count; v++) {
        bool there = all[v].wait == SL_WAIT_GROUP && all[v].of == group;
        if (v != worker && !there && is_member(plan, group, v))
            return v;
    }
    return worker;
}

int sl_sched_waits_next(const struct sl_plan *plan, const struct sl_work *all, int worker) {
    const struct sl_work *w = &all[worker];
    if (!w->known || !w->busy || w->wait == SL_WAIT_NONE)
        return worker;
    return w->wait == SL_WAIT_GROUP ? missing_of(plan, all, worker) : w->peer;
}

/* Number of waits from `worker` to `last`; -1: the chain does not lead there. */
static int distance(const struct sl_plan *plan, const struct sl_work *all, int worker, int last) {
    for (int steps = 0; steps <= plan->worker_count; steps++) {
        if (worker == last)
            return steps;
        int next = sl_sched_waits_next(plan, all, worker);
        if (next == worker)
            return -1;
        worker = next;
    }
    return -1;
}

int sl_sched_waits_chain(const struct sl_plan *plan, const struct sl_work *all, int last,
                         int *out) {
    int first = last, max = 0, count = 0;
    for (int w = 0; w < plan->worker_count; w++) {
        int steps = distance(plan, all, w, last);
        if (steps > max) {
            max = steps;
            first = w;
        }
    }
    for (int w = first; w != last; w = sl_sched_waits_next(plan, all, w))
        out[count++] = w;
    out[count++] = last;
    return count;
}

/* ---- text ---- */

static void put_group(struct sl_text *out, const struct sl_plan *plan, int group, int missing) {
    if (group == SL_WAIT_ALL)
        sl_text_printf(out, ", waits for worker %d at the step of all", missing);
    else if (group < plan->stage_count)
        sl_text_printf(out, ", waits for worker %d to add up the replicas of stage %s", missing,
                       plan->stages[group].name);
    else
        sl_text_printf(out, ", waits for worker %d to add up the tied %s", missing,
                       plan->ties[group - plan->stage_count].name);
}

static void put_wait(struct sl_text *out, const struct sl_plan *plan, const struct sl_work *all,
                     int worker) {
    const struct sl_work *w = &all[worker];
    const char *what = w->grad ? "gradient" : "activation";
    if (w->wait == SL_WAIT_GROUP) {
        put_group(out, plan, w->of, sl_sched_waits_next(plan, all, worker));
    } else if (w->wait == SL_WAIT_DECISION) {
        sl_text_printf(out, ", waits for the part of worker %d in the step of all", w->peer);
    } else if (w->wait == SL_WAIT_SHARDS) {
        sl_text_printf(out, ", waits for worker %d in a collective of the shards", w->peer);
    } else if (w->wait == SL_WAIT_MESSAGE) {
        const struct sl_edge *e = &plan->edges[w->of];
        sl_text_printf(out, ", waits for the %s of stage %s, micro-batch %d, from worker %d", what,
                       plan->stages[w->grad ? e->to : e->from].name, w->peer_micro, w->peer);
    } else if (w->wait == SL_WAIT_PLACE) {
        sl_text_printf(out, ", waits for worker %d to take an earlier %s", w->peer, what);
    }
}

void sl_sched_work_put(struct sl_text *out, const struct sl_plan *plan, const struct sl_work *all,
                       int worker) {
    const struct sl_work *w = &all[worker];
    if (!w->known)
        sl_text_put(out, "nothing is known");
    else if (!w->busy)
        sl_text_put(out, "in no action");
    else if (w->kind == SL_STEP || w->kind == SL_REDUCE || w->kind == SL_PREDICT)
        sl_text_printf(out, "%s of stage %s", sl_sched_kind_name((enum sl_kind)w->kind),
                       plan->stages[w->stage].name);
    else
        sl_text_printf(out, "%s of stage %s, micro-batch %d",
                       sl_sched_kind_name((enum sl_kind)w->kind), plan->stages[w->stage].name,
                       w->micro);
    if (w->known && w->busy)
        put_wait(out, plan, all, worker);
}

/* ---- stall detection ---- */

int64_t sl_sched_stall_limit_ns(int64_t floor_ns, int64_t expect_ns) {
    int64_t limit =
        expect_ns > INT64_MAX / SL_STALL_FACTOR ? INT64_MAX : expect_ns * SL_STALL_FACTOR;
    return limit > floor_ns ? limit : floor_ns;
}

static bool works(const struct sl_work *w) {
    return w->known && w->busy && w->wait == SL_WAIT_NONE;
}

enum sl_verdict sl_sched_stall_judge(const struct sl_plan *plan, const struct sl_work *all,
                                     const struct sl_stall_rule *rule, int *who) {
    bool somebody_works = false, somebody_waits = false;
    int64_t least_ns = INT64_MAX, longest_ns = -1;
    for (int w = 0; w < plan->worker_count; w++) {
        bool here = w >= rule->first && w <= rule->last_here;
        int64_t limit = sl_sched_stall_limit_ns(rule->floor_ns, all[w].expect_ns);
        if (works(&all[w]) && all[w].still_ns - (here ? 0 : rule->remote_ns) >= limit) {
            *who = w;
            return SL_STALLED;
        }
        somebody_works |= works(&all[w]);
        least_ns = all[w].still_ns < least_ns ? all[w].still_ns : least_ns;
        if (!all[w].known || !all[w].busy)
            continue;
        somebody_waits = true;
        if (all[w].still_ns > longest_ns) {
            longest_ns = all[w].still_ns;
            *who = w;
        }
    }
    return !somebody_works && somebody_waits && least_ns >= rule->circle_ns ? SL_CIRCLE : SL_MOVES;
}

bool sl_sched_stall_is_slow(const struct sl_work *w, int64_t floor_ns) {
    return works(w) && w->still_ns >= floor_ns / 5 && w->still_ns / SL_SLOW_FACTOR >= w->expect_ns;
}
