/* Detects that a period repeats an earlier one.
 *
 * At a border the future depends on the workers' clocks and on those times of buffers, wires and
 * reductions that lie after the earliest clock. The state is taken relative to that clock, with
 * slots rotated back to repetition 0. Equal states have equal futures, shifted in time. With the
 * event queue, workers are inside different repetitions; then the state also has the position and
 * the wait of each worker and the queue.
 */
#include "sim/engine.h"

#include "base/sort.h"

#include <string.h>

struct state {
    struct sl_engine *e;
    int64_t *at;
    int64_t count, base_ns;
};

static void put(struct state *s, int64_t value) { s->at[s->count++] = value; }

/* Puts a time. Times before the earliest clock no longer matter: all of them count as that
 * clock. */
static void put_time(struct state *s, int64_t time_ns) {
    put(s, time_ns > s->base_ns ? time_ns - s->base_ns : 0);
}

static void put_pool(struct state *s, int seat, int number, int32_t reps) {
    struct sl_engine *e = s->e;
    int stage = e->plan->seats[seat].stage;
    const struct sl_pool_state *pool = &e->seats[seat].pools[number];
    const struct sl_slot_pool *frozen = &e->view.pools[seat][SL_POOL_EDGES + number];
    bool output = (number % 2 == 1) == (number / 2 < e->plan->stages[stage].in_count);
    for (int32_t i = 0; i < pool->count; i++) {
        int64_t slot = pool->in + (i + (int64_t)reps * frozen->turn) % pool->count;
        if (output) {
            put_time(s, e->outs[slot].free_ns);
            put(s, e->outs[slot].pending * (int64_t)65536 + e->outs[slot].to_send);
            continue;
        }
        const struct sl_in *in = &e->ins[slot];
        bool live = in->micro >= 0;
        put(s, live ? in->micro - (int64_t)reps * e->view.micros[stage] : INT64_MIN);
        put(s, live ? in->posted * (int64_t)65536 + in->got : 0);
        put_time(s, live ? in->arrival_ns : 0);
    }
}

static void put_channel(struct state *s, const struct sl_channel_sim *c) {
    put_time(s, c->last_ns);
    put(s, c->sends.vec.count - c->sends.head);
    put(s, c->recvs.vec.count - c->recvs.head);
    put(s, c->landed.vec.count - c->landed.head);
    for (int64_t i = c->recvs.head; i < c->recvs.vec.count; i++)
        put_time(s, c->recvs.vec.at[i].at_ns);
    for (int64_t i = c->sends.head; i < c->sends.vec.count; i++)
        put_time(s, c->sends.vec.at[i].at_ns);
    for (int64_t i = c->landed.head; i < c->landed.vec.count; i++)
        put_time(s, c->landed.vec.at[i].at_ns);
}

/* ---- inside repetitions ---- */

static void put_worker(struct state *s, const struct sl_worker_sim *w, int32_t reps) {
    put(s, (int64_t)w->rep - reps);
    put(s, w->at);
    put(s, w->segment + 4 * w->waiting + 8 * w->queued + 16 * w->in_send + 32 * w->in_meeting);
    put(s, w->resume_ns < 0 ? -1 : 0);
    put_time(s, w->resume_ns);
    for (int i = 0; i < w->part_count; i++)
        put(s, w->parts[i].arrived);
}

static int compare_events(const void *a, const void *b) {
    const struct sl_event *x = a, *y = b;
    return sl_sim_event_before(x, y) ? -1 : sl_sim_event_before(y, x);
}

/* Puts the events in queue order; shifting all events keeps the order of equal times. */
static void put_events(struct state *s) {
    struct sl_engine *e = s->e;
    size_t bytes = sizeof(struct sl_event) * (size_t)e->events.count;
    struct sl_event *sorted = sl_realloc(NULL, bytes + 1);
    if (bytes)
        memcpy(sorted, e->events.at, bytes);
    sl_sort(sorted, e->events.count, sizeof *sorted, compare_events);
    put(s, e->events.count);
    for (int64_t i = 0; i < e->events.count; i++) {
        put_time(s, sorted[i].time_ns);
        put(s, sorted[i].channel);
        put(s, sorted[i].worker);
    }
    free(sorted);
}

static void put_queue(struct state *s, int32_t reps) {
    struct sl_engine *e = s->e;
    put_time(s, e->now);
    for (int w = 0; w < e->plan->worker_count; w++)
        put_worker(s, &e->workers[w], reps);
    for (int64_t i = 0; i < e->channels.count; i++)
        put(s, e->channels.at[i].in_queue);
    for (int i = 0; i < sl_sched_group_count(e->plan); i++) {
        const struct sl_meeting_sim *m = &e->meetings[i];
        /* version 0: it has never reduced */
        put(s, m->version ? (int64_t)m->version - reps : INT64_MIN);
        put_time(s, m->done_ns);
        put(s, m->group_dur_ns);
        put(s, m->dur_ns);
    }
    put_events(s);
}

static int64_t queue_room(const struct sl_engine *e) {
    int64_t room =
        2 + 3 * e->events.count + e->channels.count + 4 * (int64_t)sl_sched_group_count(e->plan);
    for (int w = 0; w < e->plan->worker_count; w++)
        room += 5 + e->workers[w].part_count;
    return room;
}

static int64_t room_of(const struct sl_engine *e) {
    int64_t room = e->plan->worker_count + 2 * e->out_count + 3 * e->in_count + e->wire_count +
                   2 * (int64_t)sl_sched_group_count(e->plan) +
                   2 * (int64_t)SL_PARTS_KEPT * (sl_sched_group_count(e->plan) + 1);
    for (int64_t i = 0; i < e->channels.count; i++) {
        const struct sl_channel_sim *c = &e->channels.at[i];
        room += 4 + c->recvs.vec.count - c->recvs.head + c->sends.vec.count - c->sends.head +
                c->landed.vec.count - c->landed.head;
    }
    return room + (e->shared ? queue_room(e) : 0);
}

int64_t *sl_sim_steady_state(struct sl_engine *e, int64_t *count, int64_t *base_ns) {
    const struct sl_plan *plan = e->plan;
    struct state s = {.e = e, .base_ns = INT64_MAX};
    int32_t reps = e->workers[0].rep;
    s.at = sl_realloc(NULL, sizeof *s.at * (size_t)room_of(e));
    for (int w = 0; w < plan->worker_count; w++)
        if (e->workers[w].now < s.base_ns)
            s.base_ns = e->workers[w].now;
    for (int w = 0; w < plan->worker_count; w++)
        put_time(&s, e->workers[w].now);
    for (int i = 0; i < plan->seat_count; i++)
        for (int j = 0;
             j < sl_sched_pool_count(&plan->stages[plan->seats[i].stage]) - SL_POOL_EDGES; j++)
            put_pool(&s, i, j, e->workers[plan->seats[i].worker].rep);
    for (int64_t i = 0; i < e->channels.count; i++)
        put_channel(&s, &e->channels.at[i]);
    for (int i = 0; i < e->wire_count; i++)
        put_time(&s, e->wire_free[i]);
    for (int i = 0; i < sl_sched_group_count(plan); i++) {
        put(&s, e->meetings[i].arrived);
        put_time(&s, e->meetings[i].latest_ns);
    }
    for (int g = 0; e->view.global_step && g <= sl_sched_group_count(plan); g++)
        for (int i = 0; i < SL_PARTS_KEPT; i++) {
            int32_t version = reps + i - (e->shared ? SL_PARTS_KEPT / 2 : 0);
            const struct sl_parts_sim *parts =
                &e->parts[g][(version + SL_PARTS_KEPT) % SL_PARTS_KEPT];
            put(&s, parts->version == version ? parts->given : 0);
            put_time(&s, parts->version == version ? parts->done_ns : 0);
        }
    if (e->shared)
        put_queue(&s, reps);
    *count = s.count;
    *base_ns = s.base_ns;
    return s.at;
}
