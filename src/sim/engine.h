/* State of a running simulation. Private to sim/.
 *
 *     engine.c   the loops: segment by segment, or by an event queue when wires are shared
 *     action.c   start, duration and memory of each action
 *     net.c      channels, transfers, wires
 *     state.c    allocation
 *     steady.c   detects that periods repeat
 *
 * Workers share only in-order channels and reductions, so one may be simulated ahead of the
 * others without changing any time. If two channels share a wire, the order matters; then an
 * event queue runs everything in order of time. */
#ifndef SL_SIM_ENGINE_H
#define SL_SIM_ENGINE_H

#include "base/map.h"
#include "base/vec.h"
#include "sched/deps.h"
#include "sim/sim.h"

struct sl_in {     /* an input buffer: pieces of one micro-batch on one edge */
    int32_t micro; /* -1: free */
    int32_t posted, got;
    int64_t arrival_ns; /* arrival of the latest piece */
};

struct sl_out_buffer {
    int32_t to_send; /* pieces that have not been sent yet */
    int32_t pending; /* sends whose transfer has no start time yet */
    int64_t free_ns; /* end of the last transfer out of it */
};

struct sl_pool_state {
    int64_t in; /* its buffers are in ins or outs, from this index on */
    int32_t count;
    bool used; /* a SEND or RECV uses it */
    int64_t bytes;
};

struct sl_seat_sim {
    struct sl_pool_state *pools; /* [pool - SL_POOL_EDGES] */
    int64_t live, bytes;
};

struct sl_group_part { /* the seats of a worker that are in a group */
    int group, seats, arrived;
};

struct sl_worker_sim {
    int64_t now;
    int64_t at; /* next action in the list of the segment */
    int32_t rep;
    int8_t segment;
    bool waiting; /* waiting: blocked; queued: in the list of workers to run */
    bool queued, in_send, in_meeting;
    int64_t resume_ns; /* when a blocked SEND continues; -1: not known yet */
    int64_t bytes;
    int64_t span;   /* index of its next span in the lane */
    int64_t passes; /* passes that it has started; counted only with a tempo */
    struct sl_group_part *parts;
    int part_count;
};

struct sl_meeting_sim {
    int32_t version; /* last complete version, which was complete at done_ns */
    int32_t arrived;
    int64_t done_ns, group_dur_ns; /* of that version */
    int64_t latest_ns, dur_ns;     /* of the next version */
};

/* With global steps: the parts of a group for one version. A ring keeps the last few versions. */
enum { SL_PARTS_KEPT = 16 };
struct sl_parts_sim {
    int32_t version, given;
    int64_t done_ns; /* time of the latest part plus the reduction */
};

struct sl_sim_post { /* one end of a message that waits for the other end */
    int64_t at_ns, buffer, span, bytes;
    int64_t start_ns; /* in `landed`: start of the transfer; at_ns is then its arrival */
};

struct sl_queue {
    SL_VEC(struct sl_sim_post) vec;
    int64_t head;
};

struct sl_channel_sim {
    int from, to;
    struct sl_queue sends, recvs;
    struct sl_queue landed; /* transfers whose times are known, waiting for their RECV */
    int64_t latency_ns, bytes_per_s;
    int wires[SL_SIM_WIRES];
    int wire_count;
    int64_t last_ns;  /* start of the previous transfer, because transfers are in order */
    int64_t in_queue; /* number of pairs that have an event */
};

/* at equal times workers come first, then transfers by sender in its program order */
struct sl_event {
    int64_t time_ns;
    int32_t channel; /* -1: a worker continues; else the oldest pair of this channel may start */
    int32_t worker;  /* the worker, or the sender */
    int64_t order;
};

struct sl_engine {
    struct sl_arena scratch;
    const struct sl_plan *plan;
    struct sl_sched view; /* the schedule with the number of simulated repetitions */
    const struct sl_sim_opts *opts;
    const int64_t (*dur_ns)[SL_KIND_COUNT];
    bool uneven; /* some micro-batches are short */
    bool *plain; /* [edge] widths are 1 and sizes equal, so a micro-batch is one piece */
    struct sl_worker_sim *workers;
    struct sl_seat_sim *seats;
    struct sl_in *ins;
    struct sl_out_buffer *outs;
    int64_t in_count, out_count;
    struct sl_meeting_sim *meetings; /* [group] */
    int *group_size;
    struct sl_parts_sim (*parts)[SL_PARTS_KEPT]; /* [group, last: global step][version % kept] */
    SL_VEC(struct sl_channel_sim) channels;
    int32_t *channel_table; /* hash table of (from, to) */
    int64_t channel_room;
    int64_t *wire_free; /* [wire] time when it is free */
    int wire_count;
    bool shared; /* two channels use one wire */
    SL_VEC(int) ready;
    SL_VEC(struct sl_event) events;
    int64_t now;           /* time of the event queue */
    int64_t skip_ns;       /* time of the skipped repetitions */
    struct sl_lane *lanes; /* NULL: no timeline is made */
    struct sl_sim_worker *worker_out;
    struct sl_sim_seat *seat_out;
    int32_t last_version; /* the highest version that a STEP has made */
    int64_t end_ns, first_step_ns, last_step_ns, transfers, moved_bytes, actions;
};

/* state.c */
void sl_sim_engine_open(struct sl_engine *e, struct sl_arena *arena);
void sl_sim_engine_close(struct sl_engine *e);

/* net.c */
int sl_sim_channel_find(const struct sl_engine *e, int from, int to);
void sl_sim_channel_add(struct sl_engine *e, int from, int to);
void sl_sim_channel_wires(struct sl_engine *e);
void sl_sim_channel_match(struct sl_engine *e, int channel);
/* computes the times of the oldest pair */
void sl_sim_channel_time(struct sl_engine *e, int channel);
void sl_sim_queue_push(struct sl_queue *queue, struct sl_sim_post post);
int64_t sl_sim_message_bytes(const struct sl_engine *e, const struct sl_action *a);

/* action.c. Runs an action; returns false if the worker is blocked. */
bool sl_sim_engine_do(struct sl_engine *e, int worker, const struct sl_action *action);

/* engine.c */
void sl_sim_engine_wake(struct sl_engine *e, int worker);
void sl_sim_engine_event(struct sl_engine *e, struct sl_event event);
bool sl_sim_event_before(const struct sl_event *a, const struct sl_event *b);

/* steady.c. Returns the state at a border, relative to the clock of its earliest worker, which
 * becomes *base_ns. */
int64_t *sl_sim_steady_state(struct sl_engine *e, int64_t *count, int64_t *base_ns);

#endif
