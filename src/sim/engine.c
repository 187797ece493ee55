/* The loops of a simulation: segment by segment if no wire is shared, else by a queue of events. */
#include "sim/engine.h"

#include <stdlib.h>
#include <string.h>

bool sl_sim_event_before(const struct sl_event *a, const struct sl_event *b) {
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns;
    if ((a->channel < 0) != (b->channel < 0)) /* workers come before transfers */
        return a->channel < 0;
    return a->worker != b->worker ? a->worker < b->worker : a->order < b->order;
}

void sl_sim_engine_event(struct sl_engine *e, struct sl_event event) {
    SL_PUSH(&e->events, event);
    struct sl_event *at = e->events.at;
    int64_t i = e->events.count - 1;
    for (; i && sl_sim_event_before(&event, &at[(i - 1) / 2]); i = (i - 1) / 2)
        at[i] = at[(i - 1) / 2];
    at[i] = event;
}

static struct sl_event next_event(struct sl_engine *e) {
    struct sl_event *at = e->events.at, top = at[0], item = at[--e->events.count];
    int64_t i = 0, count = e->events.count;
    for (int64_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && sl_sim_event_before(&at[child + 1], &at[child]))
            child++;
        if (!sl_sim_event_before(&at[child], &item))
            break;
        at[i] = at[child];
    }
    if (count)
        at[i] = item;
    return top;
}

/* Puts a blocked worker back into the list. */
void sl_sim_engine_wake(struct sl_engine *e, int worker) {
    struct sl_worker_sim *w = &e->workers[worker];
    if (w->queued || !w->waiting)
        return;
    w->queued = true;
    if (!e->shared) {
        SL_PUSH(&e->ready, worker);
        return;
    }
    int64_t time = w->now > e->now ? w->now : e->now;
    sl_sim_engine_event(e, (struct sl_event){time, -1, worker, 0});
}

/* --- without shared wires: every worker runs as far as it can, one segment after the other --- */

static void run_worker(struct sl_engine *e, int worker, int segment) {
    const struct sl_actions *list = &e->view.lists[segment][worker];
    struct sl_worker_sim *w = &e->workers[worker];
    w->waiting = false;
    for (; w->at < list->count; w->at++)
        if (!sl_sim_engine_do(e, worker, &list->at[w->at])) {
            w->waiting = true;
            return;
        }
}

static sl_err stuck(const struct sl_engine *e, int worker) {
    return sl_fail(
        SL_ERR_REFUSED,
        "the schedule stops: worker %d waits for ever in %s, action %lld; it has not been "
        "verified",
        worker, e->workers[worker].segment == SL_PERIOD ? "the period" : "prologue or epilogue",
        (long long)e->workers[worker].at);
}

static sl_err run_segment(struct sl_engine *e, int segment, int32_t rep) {
    e->ready.count = 0;
    for (int w = e->plan->worker_count - 1; w >= 0; w--) {
        e->workers[w].at = 0;
        e->workers[w].rep = rep;
        e->workers[w].segment = (int8_t)segment;
        e->workers[w].queued = true;
        SL_PUSH(&e->ready, w);
    }
    /* a stack, because the data of the last worker woken is in the cache */
    while (e->ready.count) {
        int w = e->ready.at[--e->ready.count];
        e->workers[w].queued = false;
        run_worker(e, w, segment);
    }
    for (int w = 0; w < e->plan->worker_count; w++) {
        e->actions += e->view.lists[segment][w].count;
        if (e->workers[w].at < e->view.lists[segment][w].count)
            return stuck(e, w);
    }
    return SL_OK;
}

/* --- with shared wires: all events in order of time --- */

static const struct sl_action *next_action(struct sl_engine *e, int worker) {
    struct sl_worker_sim *w = &e->workers[worker];
    while (w->at == e->view.lists[w->segment][worker].count) {
        bool again = w->segment == SL_PERIOD && w->rep + 1 < e->view.reps;
        if (w->segment == SL_EPILOGUE)
            return NULL;
        if (again) {
            w->rep++;
        } else {
            w->segment++;
            w->rep = w->segment == SL_EPILOGUE ? e->view.reps : 0;
        }
        w->at = 0;
        if (w->segment == SL_PERIOD && !e->view.reps) /* skips a period that is never run */
            w->at = e->view.lists[SL_PERIOD][worker].count;
    }
    return &e->view.lists[w->segment][worker].at[w->at];
}

static void go_on(struct sl_engine *e, int worker) {
    struct sl_worker_sim *w = &e->workers[worker];
    const struct sl_action *action;
    w->queued = w->waiting = false;
    while ((action = next_action(e, worker))) {
        if (w->now > e->now) { /* continues when the worker is free */
            w->queued = true;
            sl_sim_engine_event(e, (struct sl_event){w->now, -1, worker, 0});
            return;
        }
        if (!sl_sim_engine_do(e, worker, action)) {
            w->waiting = true;
            return;
        }
        w->at++;
        e->actions++;
    }
}

/* --- repetitions --- */

struct border {
    int64_t *state, count, base_ns;
    int64_t actions, transfers, moved_bytes, *busy_ns; /* [workers, then seats] busy times */
};

static struct border border_of(struct sl_engine *e) {
    struct border b = {
        .actions = e->actions, .transfers = e->transfers, .moved_bytes = e->moved_bytes};
    int workers = e->plan->worker_count, seats = e->plan->seat_count;
    b.state = sl_sim_steady_state(e, &b.count, &b.base_ns);
    b.busy_ns = sl_realloc(NULL, sizeof *b.busy_ns * (size_t)(workers + seats));
    for (int i = 0; i < workers; i++)
        b.busy_ns[i] = e->worker_out[i].busy_ns;
    for (int i = 0; i < seats; i++)
        b.busy_ns[workers + i] = e->seat_out[i].busy_ns;
    return b;
}

static void free_border(struct border *b) {
    free(b->state);
    free(b->busy_ns);
}

/* Adds `times` copies of the last period to all totals. */
static void repeat(struct sl_engine *e, const struct border *a, const struct border *b,
                   int64_t times) {
    int workers = e->plan->worker_count;
    e->actions += times * (b->actions - a->actions);
    e->transfers += times * (b->transfers - a->transfers);
    e->moved_bytes += times * (b->moved_bytes - a->moved_bytes);
    for (int i = 0; i < workers; i++)
        e->worker_out[i].busy_ns += times * (b->busy_ns[i] - a->busy_ns[i]);
    for (int i = 0; i < e->plan->seat_count; i++)
        e->seat_out[i].busy_ns += times * (b->busy_ns[workers + i] - a->busy_ns[workers + i]);
}

/* Removes `rest` repetitions: later actions come earlier by their time. */
static void skip(struct sl_engine *e, const struct border *a, const struct border *b, int32_t cycle,
                 int32_t rest) {
    int32_t times = rest / cycle;
    repeat(e, a, b, times);
    e->skip_ns += times * (b->base_ns - a->base_ns);
    e->view.reps -= times * cycle;
    e->view.iters -= times * cycle;
}

static bool alike(const struct border *a, const struct border *b) {
    return a->state && a->count == b->count &&
           memcmp(a->state, b->state, sizeof *b->state * (size_t)b->count) == 0;
}

/* States at the last period borders. A cycle may span several repetitions, for example if replicas
 * alternate on a wire. */
enum { BORDERS = 16 };
struct watch {
    struct border at[BORDERS];
    int32_t rep_of[BORDERS];
    int32_t rep; /* repetition of worker 0 */
    int next;
    bool over;
};

static void close_watch(struct watch *watch) {
    for (int i = 0; i < BORDERS; i++)
        free_border(&watch->at[i]);
}

/* If the state equals an earlier one, skips whole cycles of the `rest` repetitions that no worker
 * has begun yet. */
static void look_back(struct sl_engine *e, struct watch *watch, int32_t rest) {
    struct border now = border_of(e);
    for (int i = 0; i < BORDERS && !watch->over; i++)
        if (alike(&watch->at[i], &now)) {
            skip(e, &watch->at[i], &now, e->workers[0].rep - watch->rep_of[i], rest);
            watch->over = true;
        }
    free_border(&watch->at[watch->next]);
    watch->at[watch->next] = now;
    watch->rep_of[watch->next] = e->workers[0].rep;
    watch->next = (watch->next + 1) % BORDERS;
}

static sl_err run_periods(struct sl_engine *e) {
    struct watch watch = {.over = e->lanes || e->view.reps < 3 || e->opts->tempo.passes};
    sl_err err = SL_OK;
    for (int32_t rep = 0; rep < e->view.reps && err == SL_OK; rep++) {
        err = run_segment(e, SL_PERIOD, rep);
        if (err != SL_OK || watch.over)
            continue;
        for (int w = 0; w < e->plan->worker_count; w++)
            e->workers[w].rep = rep + 1;
        look_back(e, &watch, e->view.reps - 1 - rep);
    }
    close_watch(&watch);
    return err;
}

static sl_err run_segments(struct sl_engine *e) {
    SL_TRY(run_segment(e, SL_PROLOGUE, 0));
    SL_TRY(run_periods(e));
    return run_segment(e, SL_EPILOGUE, e->view.reps);
}

/* Has every worker finished a few repetitions? *latest becomes the latest repetition of any. */
static bool all_repeat(const struct sl_engine *e, int32_t *latest) {
    for (int w = 0; w < e->plan->worker_count; w++) {
        if (e->workers[w].segment != SL_PERIOD || e->workers[w].rep < 2)
            return false;
        *latest = e->workers[w].rep > *latest ? e->workers[w].rep : *latest;
    }
    return true;
}

static void run_events(struct sl_engine *e) {
    struct watch watch = {.over = e->lanes || e->view.reps < 4 || e->opts->tempo.passes};
    while (e->events.count) {
        struct sl_event event = next_event(e);
        int32_t latest = 0;
        e->now = event.time_ns;
        if (event.channel >= 0) {
            e->channels.at[event.channel].in_queue--;
            sl_sim_channel_time(e, event.channel);
            continue;
        }
        go_on(e, event.worker);
        if (watch.over || e->workers[0].rep == watch.rep)
            continue;
        watch.rep = e->workers[0].rep; /* worker 0 begins another repetition */
        if (all_repeat(e, &latest))
            look_back(e, &watch, e->view.reps - 1 - latest);
    }
    close_watch(&watch);
}

static sl_err run_queue(struct sl_engine *e) {
    for (int w = 0; w < e->plan->worker_count; w++) {
        e->workers[w].waiting = true;
        sl_sim_engine_wake(e, w);
    }
    run_events(e);
    for (int w = 0; w < e->plan->worker_count; w++)
        if (next_action(e, w))
            return stuck(e, w);
    return SL_OK;
}

/* Shifts all times after the skipped repetitions. */
static void shift(struct sl_engine *e) {
    e->end_ns += e->skip_ns;
    e->last_step_ns += e->skip_ns;
    for (int w = 0; w < e->plan->worker_count; w++)
        if (e->worker_out[w].first_ns >= 0)
            e->worker_out[w].last_ns += e->skip_ns;
}

/* Checks an upper bound on all times: every action and every transfer in sequence. */
static sl_err check_range(const struct sl_engine *e) {
    double longest = 0, slowest = 0, latency = 0, actions = 0, bytes = 0;
    for (int i = 0; i < e->plan->stage_count; i++)
        for (int k = 0; k < SL_KIND_COUNT; k++)
            longest = (double)e->dur_ns[i][k] > longest ? (double)e->dur_ns[i][k] : longest;
    for (int i = 0; i < e->plan->edge_count; i++) {
        const struct sl_edge *edge = &e->plan->edges[i];
        double size = (double)edge->sample_bytes * (double)e->plan->stages[edge->from].micro_size;
        bytes = size > bytes ? size : bytes;
    }
    for (int64_t i = 0; i < e->channels.count; i++) {
        const struct sl_channel_sim *c = &e->channels.at[i];
        double time = c->bytes_per_s ? bytes * 1e9 / (double)c->bytes_per_s : 0;
        slowest = time > slowest ? time : slowest;
        latency = (double)c->latency_ns > latency ? (double)c->latency_ns : latency;
    }
    for (int w = 0; w < e->plan->worker_count; w++)
        actions += (double)e->view.lists[SL_PROLOGUE][w].count +
                   (double)e->view.lists[SL_EPILOGUE][w].count +
                   (double)e->view.lists[SL_PERIOD][w].count * e->view.reps;
    if (e->opts->tempo.passes)
        longest *= (double)SL_TEMPO_MAX / SL_TEMPO_EVEN;
    if ((longest + slowest + latency + 1) * (actions + 1) > 4e18)
        return sl_fail(SL_ERR_REFUSED,
                       "times do not fit into 64-bit nanoseconds: %.3g actions of up to "
                       "%.3g ns",
                       actions, longest + slowest + latency);
    return SL_OK;
}

static int64_t step_time(const struct sl_engine *e, int32_t iters) {
    if (iters < 2)
        return e->end_ns;
    return (e->last_step_ns - e->first_step_ns + (iters - 1) / 2) / (iters - 1);
}

static sl_err play(struct sl_engine *e, struct sl_arena *arena) {
    sl_sim_engine_open(e, arena);
    SL_TRY(check_range(e));
    SL_TRY(e->shared ? run_queue(e) : run_segments(e));
    shift(e);
    return SL_OK;
}

static const struct sl_timeline *timeline_of(const struct sl_engine *e, struct sl_arena *arena,
                                             const struct sl_sched *sched) {
    if (!e->lanes)
        return NULL;
    struct sl_timeline *timeline = SL_NEW(arena, struct sl_timeline, 1);
    *timeline = (struct sl_timeline){.sched = sched,
                                     .lanes = e->lanes,
                                     .lane_count = e->plan->worker_count,
                                     .end_ns = e->end_ns};
    return timeline;
}

sl_err sl_sim_run(struct sl_arena *arena, const struct sl_sched *sched,
                  const struct sl_sim_opts *opts, const struct sl_sim **out) {
    SL_ASSERT(sched->lowered);
    struct sl_engine e = {.plan = sched->plan,
                          .view = *sched,
                          .opts = opts,
                          .dur_ns = opts->dur_ns ? opts->dur_ns : sched->dur_ns};
    sl_err err = play(&e, arena);
    if (err == SL_OK) {
        struct sl_sim *sim = SL_NEW(arena, struct sl_sim, 1);
        *sim = (struct sl_sim){.end_ns = e.end_ns,
                               .step_ns = step_time(&e, sched->iters),
                               .actions = e.actions,
                               .transfers = e.transfers,
                               .moved_bytes = e.moved_bytes,
                               .played_reps = e.view.reps,
                               .workers = e.worker_out,
                               .seats = e.seat_out,
                               .timeline = timeline_of(&e, arena, sched)};
        *out = sim;
    }
    sl_sim_engine_close(&e);
    return err;
}

int64_t sl_sim_bubble(const struct sl_sim *sim, int worker) {
    return sim->end_ns - sim->workers[worker].busy_ns;
}

int64_t sl_sim_shared_ns(const struct sl_sim *sim, int workers, int devices) {
    int64_t max = 0;
    for (int d = 0; d < devices; d++) {
        int64_t sum = 0;
        for (int w = d; w < workers; w += devices)
            sum += sim->workers[w].busy_ns;
        max = sum > max ? sum : max;
    }
    return max;
}
