/* Measured timelines and the busy time of each worker. */
#include "pipe/reporter.h"

#include "base/clock.h"
#include "sched/cut.h"

#include <stdlib.h>
#include <string.h>

int64_t sl_pipe_clock(const struct sl_pipe_worker *w) { return sl_clock_ns() - w->pipe->start_ns; }

/* A span covers the work of an action; its waits come before the span. */
sl_err sl_pipe_act_traced(struct sl_pipe_worker *w, const struct sl_action *action) {
    int64_t start = sl_pipe_clock(w);
    w->waited_ns = w->since_ns = 0;
    SL_TRY(sl_pipe_act(w, action));
    int64_t end = sl_pipe_clock(w);
    start += w->waited_ns;
    atomic_fetch_add_explicit(&w->busy_ns, end - start, memory_order_relaxed);
    if (w->index == 0 && action->kind <= SL_BACKWARD_WEIGHT)
        sl_pipe_reporter_pass(w->pipe);
    sl_pipe_status_done(w, (enum sl_kind)action->kind, end - start);
    if (!w->pipe->config.trace)
        return SL_OK;
    struct sl_span *span = &w->lane.at[w->lane.count++];
    *span = (struct sl_span){.action = *action,
                             .start_ns = start,
                             .end_ns = end,
                             .live_bytes = sl_pipe_worker_bytes(w),
                             .since_ns = w->since_ns};
    return SL_OK;
}

/* ---- messages: from the send to the arrival ---- */

static int64_t arrival_count(const struct sl_pipe *pipe, const struct sl_pipe_edge *link) {
    return (int64_t)link->piece_count * pipe->sched->iters;
}

static void open_arrivals(struct sl_pipe *pipe) {
    for (int e = 0; e < pipe->config.plan->edge_count; e++)
        for (int grad = 0; grad < 2; grad++) {
            struct sl_pipe_edge *link = &pipe->links[e];
            size_t bytes = (size_t)arrival_count(pipe, link) * sizeof(int64_t);
            link->arrived[grad] = sl_realloc(link->arrived[grad], bytes + 1);
            memset(link->arrived[grad], 0, bytes);
        }
}

void sl_pipe_trace_arrival(struct sl_pipe *pipe, struct sl_pipe_edge *link, bool grad,
                           int64_t place, int64_t ns) {
    if (pipe->config.trace)
        link->arrived[grad][place] = ns - pipe->start_ns;
}

/* Returns when the message of a RECV arrived. */
static int64_t arrival_of(const struct sl_pipe *pipe, const struct sl_action *recv) {
    const struct sl_pipe_edge *link = &pipe->links[recv->edge];
    bool grad = recv->flags & SL_GRAD;
    int64_t from = grad ? recv->micro : recv->other, to = grad ? recv->other : recv->micro;
    int32_t per_from = pipe->sched->micros[pipe->config.plan->edges[recv->edge].from];
    int32_t per_to = pipe->sched->micros[pipe->config.plan->edges[recv->edge].to];
    int64_t iteration = from / per_from;
    for (int32_t i = link->of_from[from % per_from]; i < link->of_from[from % per_from + 1]; i++)
        if (link->pieces[i].to == to % per_to)
            return link->arrived[grad][iteration * link->piece_count + i];
    return 0;
}

/* Ends each SEND and RECV of the timeline when the message arrived: a receive is posted long
 * before. */
static void end_messages(struct sl_pipe *pipe) {
    struct sl_matches *matches = sl_sched_matches_open(&pipe->timeline);
    for (int w = 0; w < pipe->config.plan->worker_count; w++)
        for (int64_t i = 0; i < pipe->timeline.lanes[w].count; i++) {
            struct sl_span *to = &pipe->timeline.lanes[w].at[i];
            struct sl_moment send, recv;
            if (to->action.kind != SL_RECV ||
                !sl_sched_matches_find(matches, &to->action, &send, &recv))
                continue;
            struct sl_span *from = &pipe->timeline.lanes[send.lane].at[send.span];
            int64_t end = arrival_of(pipe, &to->action);
            end = end > from->end_ns ? end : from->end_ns;
            from->end_ns = end;
            to->end_ns = end > to->end_ns ? end : to->end_ns;
        }
    sl_sched_matches_close(matches);
}

static sl_err share_arrivals(struct sl_pipe *pipe) {
    for (int e = 0; e < pipe->config.plan->edge_count; e++)
        for (int grad = 0; grad < 2; grad++) {
            struct sl_pipe_edge *link = &pipe->links[e];
            int64_t bytes = arrival_count(pipe, link) * (int64_t)sizeof(int64_t);
            SL_TRY(sl_comm_merge(pipe->comm, link->arrived[grad], bytes));
        }
    return SL_OK;
}

/* Adds actions that ran before the checkpoint to the lane, with duration 0. */
static void fill_lane(const struct sl_pipe *pipe, int worker, struct sl_lane *lane) {
    const struct sl_sched *sched = pipe->sched;
    for (; lane->count < pipe->at[worker]; lane->count++) {
        struct sl_spot spot = sl_sched_spot(sched, worker, lane->count);
        const struct sl_action *listed = &sched->lists[spot.segment][worker].at[spot.index];
        int seat = sl_sched_seat(sched->plan, listed->stage, worker);
        lane->at[lane->count].action = sl_sched_at(sched, seat, listed, spot.rep);
    }
}

sl_err sl_pipe_open_trace(struct sl_pipe *pipe) {
    pipe->traced = true;
    pipe->timeline.sched = pipe->sched;
    pipe->timeline.lane_count = pipe->config.plan->worker_count;
    pipe->timeline.measured = true;
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        struct sl_lane *lane = &pipe->workers[w].lane;
        free(lane->at);
        *lane = (struct sl_lane){0};
        if (!pipe->config.trace)
            continue;
        int64_t count = sl_sched_length(pipe->sched, w);
        lane->at = calloc((size_t)count + 1, sizeof *lane->at);
        if (!lane->at)
            return sl_fail(SL_ERR_SYSTEM, "cannot allocate a trace of %lld actions",
                           (long long)count);
        if (sl_pipe_is_local(pipe, w))
            fill_lane(pipe, w, lane);
    }
    if (pipe->config.trace)
        open_arrivals(pipe);
    return SL_OK;
}

/* Shares the lanes of all workers with every rank. */
static sl_err share_lanes(struct sl_pipe *pipe) {
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        struct sl_lane *lane = &pipe->workers[w].lane;
        lane->count = pipe->at[w];
        SL_TRY(sl_comm_merge(pipe->comm, lane->at, lane->count * (int64_t)sizeof *lane->at));
        pipe->timeline.lanes[w] = *lane;
    }
    return SL_OK;
}

sl_err sl_pipe_close_trace(struct sl_pipe *pipe) {
    int count = pipe->config.plan->worker_count;
    pipe->run_ns = sl_clock_ns() - pipe->begin_ns;
    for (int w = 0; w < count; w++)
        pipe->busy_ns[w] = pipe->workers[w].busy_ns;
    SL_TRY(sl_comm_merge(pipe->comm, pipe->busy_ns, count * (int64_t)sizeof *pipe->busy_ns));
    if (!pipe->config.trace)
        return SL_OK;
    pipe->timeline.end_ns = pipe->run_end_ns;
    SL_TRY(share_lanes(pipe));
    SL_TRY(share_arrivals(pipe));
    end_messages(pipe);
    return SL_OK;
}
