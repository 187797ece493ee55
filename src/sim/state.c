/* Allocates the state of a simulation. Buffers exist per slot, not per micro-batch, so memory does
 * not depend on the number of repetitions. */
#include "sim/engine.h"

#include <stdlib.h>

static void open_pools(struct sl_engine *e, int seat) {
    const struct sl_plan *plan = e->plan;
    const struct sl_stage *stage = &plan->stages[plan->seats[seat].stage];
    const struct sl_slot_pool *pools = e->view.pools[seat];
    struct sl_seat_sim *s = &e->seats[seat];
    int edges = sl_sched_pool_count(stage) - SL_POOL_EDGES;
    s->pools = SL_NEW(&e->scratch, struct sl_pool_state, edges);
    for (int i = 0; i < edges; i++) {
        /* gradients of in-edges, activations of out-edges */
        bool output = (i % 2 == 1) == (i / 2 < stage->in_count);
        int64_t *next = output ? &e->out_count : &e->in_count;
        s->pools[i].in = *next;
        s->pools[i].count = pools[SL_POOL_EDGES + i].count;
        s->pools[i].bytes = pools[SL_POOL_EDGES + i].bytes;
        *next += s->pools[i].count;
    }
    s->bytes = stage->bytes.state + stage->bytes.fixed;
    static const enum sl_pool_kind fixed[] = {SL_POOL_WEIGHT, SL_POOL_PREDICT, SL_POOL_GRAD};
    for (int i = 0; i < SL_COUNT(fixed); i++)
        s->bytes += pools[fixed[i]].count * pools[fixed[i]].bytes;
    e->seat_out[seat].peak_bytes = s->bytes;
    e->workers[plan->seats[seat].worker].bytes += s->bytes;
}

static void open_parts(struct sl_engine *e, int worker) {
    const struct sl_plan *plan = e->plan;
    struct sl_worker_sim *w = &e->workers[worker];
    SL_VEC(struct sl_group_part) parts = {0};
    for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
        int stage = plan->seats[plan->worker_seats[worker][i]].stage;
        for (int j = -1; j < plan->tie_count; j++) {
            int group = j < 0 ? stage : plan->stage_count + j;
            if (!sl_sched_in_group(plan, group, stage))
                continue;
            int64_t at = 0;
            while (at < parts.count && parts.at[at].group != group)
                at++;
            if (at == parts.count)
                SL_PUSH(&parts, ((struct sl_group_part){.group = group}));
            parts.at[at].seats++;
        }
    }
    w->part_count = (int)parts.count;
    w->parts = SL_VEC_FREEZE(&parts, &e->scratch);
    SL_VEC_FREE(&parts);
}

/* Finds the channels and the pools that they use. */
static void scan(struct sl_engine *e, int worker, const struct sl_actions *list) {
    const struct sl_plan *plan = e->plan;
    for (int64_t i = 0; i < list->count; i++) {
        const struct sl_action *a = &list->at[i];
        if (a->kind != SL_SEND && a->kind != SL_RECV)
            continue;
        bool send = a->kind == SL_SEND;
        int pool = sl_sched_pool_of_edge(plan, &plan->edges[a->edge], a->flags & SL_GRAD, send);
        struct sl_pool_state *state =
            &e->seats[sl_sched_seat(plan, a->stage, worker)].pools[pool - SL_POOL_EDGES];
        if (state->used && plan->stages[a->stage].width == 1 && e->plain[a->edge])
            continue; /* a plain edge has one known channel per direction */
        state->used = true;
        sl_sim_channel_add(e, send ? worker : a->peer, send ? a->peer : worker);
    }
}

static void open_lanes(struct sl_engine *e, struct sl_arena *arena) {
    e->lanes = SL_NEW(arena, struct sl_lane, e->plan->worker_count);
    for (int w = 0; w < e->plan->worker_count; w++) {
        struct sl_lane *lane = &e->lanes[w];
        lane->count = e->view.lists[SL_PROLOGUE][w].count + e->view.lists[SL_EPILOGUE][w].count +
                      e->view.reps * e->view.lists[SL_PERIOD][w].count;
        lane->at = SL_NEW(arena, struct sl_span, lane->count);
    }
}

static bool is_uneven(const struct sl_sched *sched) {
    for (int i = 0; i < sched->plan->stage_count; i++)
        if (sched->batch % sched->plan->stages[i].micro_size)
            return true;
    return sched->last_batch != sched->batch;
}

void sl_sim_engine_open(struct sl_engine *e, struct sl_arena *arena) {
    const struct sl_plan *plan = e->plan;
    e->uneven = is_uneven(&e->view);
    e->plain = SL_NEW(&e->scratch, bool, plan->edge_count);
    for (int i = 0; i < plan->edge_count; i++) {
        const struct sl_stage *from = &plan->stages[plan->edges[i].from];
        const struct sl_stage *to = &plan->stages[plan->edges[i].to];
        e->plain[i] = from->width == 1 && to->width == 1 && from->micro_size == to->micro_size;
    }
    e->workers = SL_NEW(&e->scratch, struct sl_worker_sim, plan->worker_count);
    e->seats = SL_NEW(&e->scratch, struct sl_seat_sim, plan->seat_count);
    e->worker_out = SL_NEW(arena, struct sl_sim_worker, plan->worker_count);
    e->seat_out = SL_NEW(arena, struct sl_sim_seat, plan->seat_count);
    for (int i = 0; i < plan->seat_count; i++)
        open_pools(e, i);
    e->ins = SL_NEW(&e->scratch, struct sl_in, e->in_count);
    for (int64_t i = 0; i < e->in_count; i++)
        e->ins[i].micro = -1;
    e->outs = SL_NEW(&e->scratch, struct sl_out_buffer, e->out_count);
    e->meetings = SL_NEW(&e->scratch, struct sl_meeting_sim, sl_sched_group_count(plan));
    e->group_size = SL_NEW(&e->scratch, int, sl_sched_group_count(plan) + 1);
    for (int i = 0; i < sl_sched_group_count(plan); i++)
        e->group_size[i] = sl_sched_group_size(plan, i);
    int groups = sl_sched_group_count(plan) + 1;
    e->group_size[groups - 1] = plan->seat_count;
    e->parts = sl_arena_alloc(&e->scratch, (int64_t)sizeof *e->parts * groups);
    for (int w = 0; w < plan->worker_count; w++) {
        open_parts(e, w);
        e->worker_out[w].first_ns = -1;
        e->worker_out[w].peak_bytes = e->workers[w].bytes;
        for (int s = 0; s < SL_SEGMENT_COUNT; s++)
            scan(e, w, &e->view.lists[s][w]);
    }
    sl_sim_channel_wires(e);
    if (e->opts->timeline)
        open_lanes(e, arena);
}

void sl_sim_engine_close(struct sl_engine *e) {
    for (int64_t i = 0; i < e->channels.count; i++) {
        SL_VEC_FREE(&e->channels.at[i].sends.vec);
        SL_VEC_FREE(&e->channels.at[i].recvs.vec);
        SL_VEC_FREE(&e->channels.at[i].landed.vec);
    }
    SL_VEC_FREE(&e->channels);
    SL_VEC_FREE(&e->ready);
    SL_VEC_FREE(&e->events);
    free(e->channel_table);
    sl_arena_free(&e->scratch);
}
