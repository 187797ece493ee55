/* Measured timelines, and how busy each worker was. */
#include "run/pipe_state.h"

#include "base/clock.h"
#include "sched/deps.h"

#include <stdlib.h>

int64_t sl_pipe_clock(const struct sl_pipe_worker *w) { return sl_clock_ns() - w->pipe->start_ns; }

static int64_t lane_length(const struct sl_pipe *pipe, int worker) {
    const struct sl_sched *sched = pipe->sched;
    return sched->lists[SL_PROLOGUE][worker].count + sched->lists[SL_EPILOGUE][worker].count +
           sched->lists[SL_PERIOD][worker].count * sched->reps;
}

sl_err sl_pipe_open_trace(struct sl_pipe *pipe) {
    pipe->timeline.sched = pipe->sched;
    pipe->timeline.lane_count = pipe->config.plan->worker_count;
    pipe->timeline.measured = true;
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        struct sl_lane *lane = &pipe->workers[w].lane;
        pipe->workers[w].busy_ns = 0;
        free(lane->at);
        *lane = (struct sl_lane){0};
        if (!pipe->config.trace)
            continue;
        int64_t count = lane_length(pipe, w);
        lane->at = calloc((size_t)count + 1, sizeof *lane->at);
        if (!lane->at)
            return sl_fail(SL_ERR_SYSTEM, "cannot allocate a trace of %lld actions",
                           (long long)count);
    }
    return SL_OK;
}

/* A span is work: what an action waits for others comes before it. */
sl_err sl_pipe_act_traced(struct sl_pipe_worker *w, const struct sl_action *action) {
    int64_t start = sl_pipe_clock(w);
    w->waited_ns = 0;
    SL_TRY(sl_pipe_act(w, action));
    int64_t end = sl_pipe_clock(w);
    start += w->waited_ns;
    w->busy_ns += end - start;
    if (!w->pipe->config.trace)
        return SL_OK;
    struct sl_span *span = &w->lane.at[w->lane.count++];
    *span = (struct sl_span){.action = *action, .start_ns = start, .end_ns = end};
    for (int i = 0; i < w->seat_count; i++)
        span->live_bytes += w->seats[i].train.worker->bytes;
    return SL_OK;
}

/* A receive is posted long before its message comes: it ends when that has been sent. */
static void end_receives(struct sl_pipe *pipe) {
    struct sl_matches *matches = sl_matches_open(&pipe->timeline);
    for (int w = 0; w < pipe->config.plan->worker_count; w++)
        for (int64_t i = 0; i < pipe->timeline.lanes[w].count; i++) {
            struct sl_span *to = &pipe->timeline.lanes[w].at[i];
            struct sl_moment send, recv;
            if (to->action.kind != SL_RECV || !sl_matches_find(matches, &to->action, &send, &recv))
                continue;
            const struct sl_span *from = &pipe->timeline.lanes[send.lane].at[send.span];
            to->end_ns = from->end_ns > to->end_ns ? from->end_ns : to->end_ns;
        }
    sl_matches_close(matches);
}

/* Every rank gets the lanes of all. */
static sl_err share_lanes(struct sl_pipe *pipe) {
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        struct sl_lane *lane = &pipe->workers[w].lane;
        lane->count = lane_length(pipe, w);
        SL_TRY(sl_comm_merge(pipe->comm, lane->at, lane->count * (int64_t)sizeof *lane->at));
        pipe->timeline.lanes[w] = *lane;
    }
    return SL_OK;
}

sl_err sl_pipe_close_trace(struct sl_pipe *pipe) {
    int64_t end = sl_clock_ns() - pipe->start_ns;
    int count = pipe->config.plan->worker_count;
    pipe->run_ns = end;
    for (int w = 0; w < count; w++)
        pipe->busy_ns[w] = pipe->workers[w].busy_ns;
    SL_TRY(sl_comm_merge(pipe->comm, pipe->busy_ns, count * (int64_t)sizeof *pipe->busy_ns));
    if (!pipe->config.trace)
        return SL_OK;
    pipe->timeline.end_ns = end;
    SL_TRY(share_lanes(pipe));
    end_receives(pipe);
    return SL_OK;
}
