/* Expanding passes: RECOMPUTE before the backward, REDUCE and STEP behind the last gradient of an
 * iteration, and the weight version that each pass reads.
 *
 * A worker with one seat, or with seats in no group, steps a seat as soon as its gradient is
 * complete. A worker with several seats of which one is in a group waits for all of its seats, then
 * reduces in ascending order of groups. All workers use this order, so that reductions cannot
 * deadlock.
 *
 * A stage that trains nothing has B instead of I, and no W. A stage without any backward pass
 * keeps its B until messages are added: the B keeps the stage from running too many
 * micro-batches ahead of its readers, each of which would need a buffer. */
#include "lower/parts.h"

#include <string.h>

struct seat_state {
    int32_t steps; /* STEPs so far; the newest version */
    int32_t grads; /* gradients of the current iteration that have been added */
    /* iterations that are complete but not stepped, on workers that step all seats together */
    int32_t waiting;
    struct sl_foresight foresight;
    /* used with global_step: */
    int32_t complete;     /* iterations whose gradient is complete; steps up to this one are due */
    int64_t passes, *due; /* due: [version] number of passes after which the step is made */
};

/* One event of replica 0's gradients in a stage. Replicas without micro-batches repeat these
 * events. */
struct event {
    int8_t segment;
    bool step; /* true: a step; false: the gradient is complete */
};

struct expand {
    struct sl_low *low;
    struct seat_state *seats;
    int32_t **stashed; /* [stage][micro] version that the forward read (rules stash, vsync) */
    /* [stage][iter] segment in which replica 0 steps; used only for idle replicas */
    int8_t **step_segment;
    struct event **events; /* [stage][2 iter] in order; used for global_step with idle replicas */
    int64_t *event_count;  /* [stage] */
    int32_t (*latest)[SL_SEGMENT_COUNT]; /* [stage] see find_latest */
    int entry;                           /* rule vsync: the stage that fixes the version */
    int segment;                         /* the current segment */
};

/* Number of micro-batches that a seat has in an iteration. */
static int32_t share_of(const struct sl_sched *flat, int seat, int32_t iter) {
    const struct sl_seat *s = &flat->plan->seats[seat];
    return sl_sched_deps_share(sl_sched_micros(flat, s->stage, iter),
                               flat->plan->stages[s->stage].width, s->replica);
}

static void put(struct sl_items *items, struct sl_action action) { SL_PUSH(&items->vec, action); }

static void put_reduce(struct sl_items *items, int stage, int32_t version, int group) {
    put(items, (struct sl_action){
                   .kind = SL_REDUCE, .stage = (uint16_t)stage, .version = version, .slot = group});
}

static void note_event(struct expand *e, const struct seat_state *s, int stage, bool step) {
    const struct sl_plan *plan = e->low->plan;
    if (e->events[stage] && s == &e->seats[plan->stages[stage].seat])
        e->events[stage][e->event_count[stage]++] =
            (struct event){.segment = (int8_t)e->segment, .step = step};
}

static sl_err put_step(struct expand *e, struct sl_items *items, int stage, int32_t version) {
    put(items, (struct sl_action){.kind = SL_STEP, .stage = (uint16_t)stage, .version = version});
    return sl_lower_foresee_step(e->low, items, e->segment, stage, version);
}

/* Adds REDUCE in ascending order of groups, then STEP, for all seats of a worker. */
static sl_err step_worker(struct expand *e, struct sl_items *items, int worker) {
    const struct sl_plan *plan = e->low->plan;
    int last = -1;
    for (;;) {
        int next = INT32_MAX;
        for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
            int stage = plan->seats[plan->worker_seats[worker][i]].stage;
            for (int j = 0, g; (g = sl_sched_group_of(plan, stage, j)) >= 0; j++)
                if (g > last && g < next)
                    next = g;
        }
        if (next == INT32_MAX)
            break;
        for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
            int seat = plan->worker_seats[worker][i], stage = plan->seats[seat].stage;
            for (int j = 0, g; (g = sl_sched_group_of(plan, stage, j)) >= 0; j++)
                if (g == next)
                    put_reduce(items, stage, e->seats[seat].steps + 1, g);
        }
        last = next;
    }
    for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
        int seat = plan->worker_seats[worker][i];
        SL_TRY(put_step(e, items, plan->seats[seat].stage, ++e->seats[seat].steps));
        e->seats[seat].waiting = 0;
    }
    return SL_OK;
}

/* Is a seat of the worker in a group? Groups of replicas that sum nothing count too: some of these
 * replicas may have no micro-batch of their own to step after. */
static bool has_groups(const struct sl_plan *plan, int worker) {
    for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
        int stage = plan->seats[plan->worker_seats[worker][i]].stage;
        if (plan->stages[stage].width > 1 || sl_sched_group_of(plan, stage, 0) >= 0)
            return true;
    }
    return false;
}

/* Is the gradient of the next step complete on every seat of the worker? */
static bool all_complete(const struct expand *e, int worker) {
    const struct sl_plan *plan = e->low->plan;
    for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
        int seat = plan->worker_seats[worker][i];
        if (e->seats[seat].steps >= e->low->flat.iters)
            return false;
        if (!e->seats[seat].waiting && share_of(&e->low->flat, seat, e->seats[seat].steps))
            return false;
    }
    return true;
}

/* Steps by the global norm: the gradient of a seat is complete. Adds its REDUCE actions now and
 * notes when its STEP is due. */
static void complete_gradient(struct expand *e, struct sl_items *items, int seat) {
    const struct sl_plan *plan = e->low->plan;
    struct seat_state *s = &e->seats[seat];
    int stage = plan->seats[seat].stage;
    int32_t version = ++s->complete;
    note_event(e, s, stage, false);
    for (int i = 0, g; (g = sl_sched_group_of(plan, stage, i)) >= 0; i++)
        put_reduce(items, stage, version, g);
    put_reduce(items, stage, version, sl_sched_decision_group(plan));
    s->due[version] = s->passes + sl_sched_step_delay(&e->low->flat, stage);
}

/* Adds the steps that are due before a pass. Rule twobw steps as late as possible. Rule vsync steps
 * at the latest when the pass reads the version, which the entry has made by then. */
static sl_err step_due(struct expand *e, struct sl_items *items, struct seat_state *s,
                       const struct sl_action *pass) {
    int32_t iter = pass->micro / e->low->flat.micros[pass->stage];
    bool twobw = e->low->flat.rule == SL_RULE_2BW;
    bool vsync = e->low->flat.rule == SL_RULE_VSYNC && pass->stage != e->entry;
    int32_t read = vsync ? e->stashed[e->entry][pass->micro] : 0;
    while (s->steps < s->complete &&
           (twobw ? iter - 1 > s->steps : read > s->steps || s->due[s->steps + 1] <= s->passes)) {
        note_event(e, s, pass->stage, true);
        SL_TRY(put_step(e, items, pass->stage, ++s->steps));
    }
    return SL_OK;
}

static int32_t rep_of(const struct sl_sched *flat, int segment) {
    return segment == SL_EPILOGUE ? flat->reps : 0;
}

/* zero1 with 2bw by the global norm: replicas step together, so all step in the segment in which the
 * first one has to (see step_due). The others step at its end, which is late enough: their gradient
 * is complete, and no pass reads the version that the step overwrites. */
static sl_err step_together(struct expand *e, struct sl_items *items, int worker) {
    const struct sl_plan *plan = e->low->plan;
    for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
        int number = plan->worker_seats[worker][i], stage = plan->seats[number].stage;
        struct seat_state *s = &e->seats[number];
        if (!plan->stages[stage].zero1 || plan->stages[stage].width == 1)
            continue;
        while (s->steps < e->latest[stage][e->segment] && s->steps < s->complete) {
            note_event(e, s, stage, true);
            SL_TRY(put_step(e, items, stage, ++s->steps));
        }
    }
    return SL_OK;
}

/* [stage][segment] the newest version that a replica makes before a pass of the segment. */
static void find_latest(struct expand *e) {
    const struct sl_sched *flat = &e->low->flat;
    e->latest = sl_arena_alloc(&e->low->scratch,
                               (int64_t)sizeof *e->latest * (flat->plan->stage_count + 1));
    memset(e->latest, 0, sizeof *e->latest * (size_t)(flat->plan->stage_count + 1));
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        for (int w = 0; w < flat->plan->worker_count; w++)
            for (int64_t i = 0; i < flat->lists[s][w].count; i++) {
                struct sl_action a = flat->lists[s][w].at[i];
                a = sl_sched_at(flat, 0, &a, rep_of(flat, s));
                int32_t version = a.micro / flat->micros[a.stage] - 1;
                for (int k = s; k < SL_SEGMENT_COUNT && version > e->latest[a.stage][k]; k++)
                    e->latest[a.stage][k] = version;
            }
}

/* Adds the steps that are left after all passes of a worker, in order. */
static sl_err step_rest(struct expand *e, struct sl_items *items, int worker) {
    const struct sl_plan *plan = e->low->plan;
    for (int32_t v = 1; v <= e->low->flat.iters; v++)
        for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
            int seat = plan->worker_seats[worker][i];
            if (e->seats[seat].steps + 1 != v)
                continue;
            note_event(e, &e->seats[seat], plan->seats[seat].stage, true);
            SL_TRY(put_step(e, items, plan->seats[seat].stage, ++e->seats[seat].steps));
        }
    return SL_OK;
}

static sl_err add_gradient(struct expand *e, struct sl_items *items, int worker, int seat) {
    struct seat_state *s = &e->seats[seat];
    if (e->low->flat.global_step) {
        if (++s->grads < share_of(&e->low->flat, seat, s->complete))
            return SL_OK;
        s->grads = 0;
        complete_gradient(e, items, seat);
        return SL_OK;
    }
    if (++s->grads < share_of(&e->low->flat, seat, s->steps + s->waiting))
        return SL_OK;
    s->grads = 0;
    if (!has_groups(e->low->plan, worker))
        return put_step(e, items, e->low->plan->seats[seat].stage, ++s->steps);
    s->waiting++;
    return all_complete(e, worker) ? step_worker(e, items, worker) : SL_OK;
}

static int32_t version_of(struct expand *e, const struct sl_action *pass, int32_t newest) {
    int32_t iter = pass->micro / e->low->flat.micros[pass->stage];
    switch (e->low->flat.rule) {
    case SL_RULE_SYNC: return iter;
    case SL_RULE_2BW: return iter > 0 ? iter - 1 : 0;
    case SL_RULE_STASH:
        if (pass->kind == SL_FORWARD)
            e->stashed[pass->stage][pass->micro] = newest;
        return e->stashed[pass->stage][pass->micro];
    case SL_RULE_VSYNC: return e->stashed[e->entry][pass->micro];
    default: return newest;
    }
}

static sl_err expand_pass(struct expand *e, struct sl_items *items, int worker,
                          struct sl_action pass) {
    const struct sl_plan *plan = e->low->plan;
    int seat = sl_sched_seat(plan, pass.stage, worker);
    struct seat_state *s = &e->seats[seat];
    if (plan->stages[pass.stage].passes != SL_STAGE_TRAINS) {
        if (pass.kind == SL_BACKWARD_WEIGHT)
            return SL_OK;
        pass.kind = pass.kind == SL_FORWARD ? SL_FORWARD : SL_BACKWARD;
    }
    bool backward = pass.kind == SL_BACKWARD || pass.kind == SL_BACKWARD_INPUT;
    if (e->low->flat.global_step)
        SL_TRY(step_due(e, items, s, &pass));
    s->passes++;
    pass.version = version_of(e, &pass, s->steps);
    pass.version = sl_lower_bell(e->low, &s->foresight, &pass, s->steps, pass.version);
    SL_TRY(sl_lower_foresee(e->low, &s->foresight, items, &pass));
    if (backward && plan->stages[pass.stage].recompute) {
        struct sl_action recompute = pass;
        recompute.kind = SL_RECOMPUTE;
        put(items, recompute);
    }
    put(items, pass);
    bool last = plan->stages[pass.stage].passes == SL_STAGE_FORWARD && !e->low->paced &&
                e->low->flat.rule != SL_RULE_FORWARD;
    if (pass.kind == SL_BACKWARD || pass.kind == SL_BACKWARD_WEIGHT || last)
        return add_gradient(e, items, worker, seat);
    return SL_OK;
}

/* Fixes the version of every micro-batch under rule vsync: the newest one when the entry runs its
 * forward. */
static void fix_versions(struct expand *e) {
    const struct sl_sched *flat = &e->low->flat;
    const struct sl_stage *entry = &flat->plan->stages[e->entry];
    int64_t *due = SL_NEW(&e->low->scratch, int64_t, flat->iters + 2);
    for (int r = 0; r < entry->width; r++) {
        int32_t steps = 0, grads = 0, complete = 0;
        int64_t passes = 0, late = flat->global_step ? sl_sched_step_delay(flat, e->entry) : 0;
        for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
            const struct sl_actions *list = &flat->lists[s][entry->workers[r]];
            for (int64_t i = 0; i < list->count; i++) {
                struct sl_action a = list->at[i];
                if (a.stage != e->entry)
                    continue;
                a = sl_sched_at(flat, 0, &a, rep_of(flat, s));
                while (steps < complete && due[steps + 1] <= passes)
                    steps++;
                passes++;
                if (a.kind == SL_FORWARD)
                    e->stashed[e->entry][a.micro] = steps;
                else if (a.kind != SL_BACKWARD_INPUT &&
                         ++grads == share_of(flat, entry->seat + r, complete)) {
                    grads = 0;
                    due[++complete] = passes + late;
                }
            }
        }
    }
}

/* Finds for each step the segment in which replica 0 makes it. Replicas without a micro-batch in
 * that iteration step in the same segment. */
static void find_steps(struct expand *e) {
    const struct sl_sched *flat = &e->low->flat;
    for (int i = 0; i < flat->plan->stage_count; i++) {
        const struct sl_stage *stage = &flat->plan->stages[i];
        int32_t steps = 0, grads = 0;
        if (stage->width == 1)
            continue;
        e->step_segment[i] = SL_NEW(&e->low->scratch, int8_t, flat->iters);
        for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
            const struct sl_actions *list = &flat->lists[s][stage->workers[0]];
            for (int64_t j = 0; j < list->count; j++) {
                const struct sl_action *a = &list->at[j];
                if (a->stage != i || (a->kind != SL_BACKWARD && a->kind != SL_BACKWARD_WEIGHT))
                    continue;
                if (++grads == share_of(flat, stage->seat, steps)) {
                    e->step_segment[i][steps++] = (int8_t)s;
                    grads = 0;
                }
            }
        }
    }
}

static sl_err step_idle(struct expand *e, struct sl_items *items, int worker, int segment) {
    const struct sl_plan *plan = e->low->plan;
    if (!plan->worker_seat_count[worker] || e->low->flat.rule == SL_RULE_FORWARD)
        return SL_OK;
    int seat = plan->worker_seats[worker][0];
    const int8_t *where = e->step_segment[plan->seats[seat].stage];
    while (where && all_complete(e, worker) && where[e->seats[seat].steps] == segment)
        SL_TRY(step_worker(e, items, worker));
    return SL_OK;
}

/* Does this worker have a replica without a micro-batch in a full iteration? */
static bool is_idle(const struct expand *e, int worker) {
    const struct sl_plan *plan = e->low->plan;
    for (int i = 0; i < plan->worker_seat_count[worker]; i++)
        if (!share_of(&e->low->flat, plan->worker_seats[worker][i], 0))
            return true;
    return false;
}

/* With global_step, idle replicas contribute empty gradients and step where replica 0 does, in its
 * order. A replica that only a short last iteration leaves out contributes its empty gradient in
 * the segment where replica 0 contributes. */
static sl_err follow(struct expand *e, struct sl_items *items, int worker) {
    const struct sl_plan *plan = e->low->plan;
    for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
        int seat = plan->worker_seats[worker][i], stage = plan->seats[seat].stage;
        const struct seat_state *s = &e->seats[seat];
        const int8_t *where = e->step_segment[stage];
        if (share_of(&e->low->flat, seat, 0)) {
            if (s->complete == e->low->flat.iters - 1 && where &&
                where[s->complete] == e->segment && !share_of(&e->low->flat, seat, s->complete))
                complete_gradient(e, items, seat);
            continue;
        }
        for (int64_t j = 0; j < e->event_count[stage]; j++) {
            const struct event *event = &e->events[stage][j];
            if (event->segment != e->segment)
                continue;
            if (event->step)
                SL_TRY(put_step(e, items, stage, ++e->seats[seat].steps));
            else
                complete_gradient(e, items, seat);
        }
    }
    return SL_OK;
}

static sl_err expand_worker(struct expand *e, int worker) {
    const struct sl_sched *flat = &e->low->flat;
    const struct sl_plan *plan = e->low->plan;
    for (int i = 0; i < plan->worker_seat_count[worker]; i++)
        SL_TRY(sl_lower_foresee_step(e->low, &e->low->items[SL_PROLOGUE][worker], SL_PROLOGUE,
                                     plan->seats[plan->worker_seats[worker][i]].stage, 0));
    for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
        const struct sl_actions *list = &flat->lists[s][worker];
        struct sl_items *items = &e->low->items[s][worker];
        e->segment = s;
        SL_VEC_RESERVE(&items->vec, list->count + 2);
        for (int64_t i = 0; i < list->count; i++)
            SL_TRY(
                expand_pass(e, items, worker, sl_sched_at(flat, 0, &list->at[i], rep_of(flat, s))));
        if (!flat->global_step)
            SL_TRY(step_idle(e, items, worker, s));
        else
            SL_TRY(follow(e, items, worker));
        if (flat->global_step && flat->rule == SL_RULE_2BW)
            SL_TRY(step_together(e, items, worker));
        if (flat->global_step && s == SL_EPILOGUE)
            SL_TRY(step_rest(e, items, worker));
        for (int64_t i = 0; i < items->vec.count; i++)
            items->timed += sl_is_timed(&items->vec.at[i]);
    }
    return SL_OK;
}

sl_err sl_lower_expand(struct sl_low *low) {
    const struct sl_plan *plan = low->plan;
    struct expand e = {.low = low};
    e.seats = SL_NEW(&low->scratch, struct seat_state, plan->seat_count);
    e.stashed = SL_NEW(&low->scratch, int32_t *, plan->stage_count);
    e.step_segment = SL_NEW(&low->scratch, int8_t *, plan->stage_count);
    e.entry = sl_sched_entry(plan);
    e.events = SL_NEW(&low->scratch, struct event *, plan->stage_count);
    e.event_count = SL_NEW(&low->scratch, int64_t, plan->stage_count);
    for (int i = 0; low->flat.global_step && i < plan->stage_count; i++)
        if (plan->stages[i].width > low->flat.micros[i])
            e.events[i] = SL_NEW(&low->scratch, struct event, 2 * (int64_t)low->flat.iters);
    for (int i = 0; i < plan->stage_count; i++)
        if (low->flat.rule == SL_RULE_STASH || (low->flat.rule == SL_RULE_VSYNC && i == e.entry))
            e.stashed[i] = SL_NEW(&low->scratch, int32_t, sl_sched_total(&low->flat, i));
    if (low->flat.rule == SL_RULE_VSYNC) {
        for (int i = 1; i < plan->stage_count; i++)
            if (plan->stages[i].micro_size != plan->stages[0].micro_size)
                return sl_fail(SL_ERR_REFUSED,
                               "rule vsync needs one micro-batch size for all stages");
        fix_versions(&e);
    }
    find_steps(&e);
    find_latest(&e);
    for (int i = 0; i < plan->seat_count; i++)
        e.seats[i].due =
            SL_NEW(&low->scratch, int64_t, low->flat.global_step ? low->flat.iters + 2 : 0);
    for (int idle = 0; idle < 2; idle++) /* idle replicas second, because they follow the others */
        for (int w = 0; w < plan->worker_count; w++)
            if (is_idle(&e, w) == idle)
                SL_TRY(expand_worker(&e, w));
    return SL_OK;
}
